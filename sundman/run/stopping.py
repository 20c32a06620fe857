"""Stop when done: rules that end a run before its steps are used up.

A rule looks at the run at ends of blocks, first after 100 draws and then whenever there are a tenth
more (:mod:`sundman.run.schedule`), so that its cost is bounded. It looks at U and at some
components of the kept values; of a network, whose weights move when its predictions have long
settled, at U and the loss on some training rows. All are taken at evenly spaced draws, a power of
two apart: what is seen after n draws is a function of these n draws, so that a run that is resumed
stops where it would have.

A run that is stopped when its numbers look good was also lucky: docs/runs.md says by how much.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from sundman import _chunks
from sundman._types import DrawsArray, PyTree
from sundman.draws.trust import Ended
from sundman.posterior import Posterior
from sundman.run import hosts
from sundman.run.devices import Layout
from sundman.run.inputs import posterior_of
from sundman.run.schedule import looks
from sundman.run.setup import RunSetup
from sundman.run.spec import RunSpec, Until
from sundman.run.state import RunState
from sundman.run.step import Record
from sundman.verdict.checks import are_weights
from sundman.verdict.summary import (
    components,
    effective_draws,
    losses_at,
    of_some_rows,
    split_rhat_of,
)
from sundman.watch.events import Look

_ROWS_PER_EFFECTIVE_DRAW = 16  # or half as many: then fast parts take at most an eighth of ESS
_FEWEST_ROWS, _FEWEST_ROWS_PER_CHAIN = 4096, 128
_NUMBERS = 2**19  # looked at, about
_COMPONENTS = 20
_FEWEST = 50  # rows of a chain from which anything can be told
_LOSS_ROWS, _SHARE_OF_TIME = 100, 0.02  # of the loss: training rows, and its share of the run
_FORWARD = 1 / 3  # of the time of a gradient
_POSITIONS_PER_CALL = 64


class StopRule:
    """Decides at the ends of pieces whether a run is done.

    Args:
      until: the rule.
      spec: what was asked.
      setup: made of it.

    Attributes:
      look: what it saw when it last looked.
      ended: how the run ended; None while it goes on.
    """

    def __init__(self, until: Until, spec: RunSpec, setup: RunSetup) -> None:
        self.look: Look | None = None
        self.ended: Ended | None = None
        self._until, self._most, self._layout = until, spec.draws, setup.layout
        self._looks = looks(setup.pieces) if until.looks else set[int]()
        self._trace = _Trace(spec, until.ess or 0.0)

    def recall(
        self, values: PyTree, weight: DrawsArray, potential: DrawsArray, state: RunState
    ) -> None:
        """Take in the draws of a run that is resumed, (chain, draw, ...), and decide anew."""
        draws = state.progress.draws
        if not draws:
            return
        self._trace.begin(values)
        self._trace.make_room(draws)
        for part in _chunks.draw_slices(draws, _chunks.draws_per_block(values)):
            some = jax.tree.map(lambda x, part=part: x[:, part], (values, weight, potential))
            self._trace.add(*some)
        self.after_piece(state)

    def add(self, record: Record) -> None:
        """Take in the draws of a block, axes (draw, chain)."""

        def chains_first(leaf: np.ndarray) -> np.ndarray:
            return np.swapaxes(leaf, 0, 1)

        values, weight, potential = jax.tree.map(
            chains_first, (record.values, record.weight, record.stats["potential"])
        )
        self._trace.add(values, weight, potential, self._layout)

    def after_piece(self, state: RunState, *, over: bool = False, lost: bool = False) -> None:
        """Look at the run, if it is time to, and decide.

        Args:
          state: after the piece.
          over: whether it ends here in any case,
          lost: because all chains are.
        """
        done = state.progress
        late = self._until.seconds is not None and done.seconds >= self._until.seconds
        late = bool(hosts.highest(int(late and done.draws > 0))[0])  # all processes do the same
        if over or late or done.draws in self._looks:
            self.look = self._trace.look(str(self._until), done.draws)
        met = done.draws in self._looks or over
        met &= self.look is not None and self._is_met(self.look)
        if not (met or late or over):
            return
        self.ended = Ended(
            by="divergence" if lost else "rule" if met else "seconds" if late else "steps",
            rule=str(self._until),
            draws=done.draws,
            most=self._most,
            seconds=done.seconds,
            look=self.look,
        )

    def _is_met(self, look: Look) -> bool:
        ess, rhat = self._until.ess, self._until.rhat
        enough = ess is None or look.ess >= ess
        return self._until.looks and enough and (rhat is None or look.rhat <= rhat)


class _Trace:
    """U and some other numbers at evenly spaced draws of every chain, a power of two apart."""

    def __init__(self, spec: RunSpec, ess: float) -> None:
        rows = max(_FEWEST_ROWS, _ROWS_PER_EFFECTIVE_DRAW * ess)
        self._most_rows = max(int(rows) // spec.chains, _FEWEST_ROWS_PER_CHAIN)
        self._components = min(_COMPONENTS, max(1, _NUMBERS // (self._most_rows * spec.chains)))
        self._spec = spec
        self._loss: _Loss | None = None
        self._labels: list[str] = []
        self._stride, self._draws = 1, 0
        self._values = np.zeros((spec.chains, 0, 0))
        self._weight = np.zeros((spec.chains, 0))

    def begin(self, values: PyTree) -> None:
        """Choose what to look at."""
        target = self._spec.target
        posterior = posterior_of(target)
        self._labels = ["U"]
        if posterior is not None and self._spec.collect is None and are_weights(values, target):
            if posterior.host is None:
                self._loss = _Loss(posterior, self._spec)
                self._stride = self._loss.stride
                self._labels.append("the training loss")
        else:
            self._labels += [each.label for each in components(values, self._components)]
        self._values = np.zeros((self._spec.chains, 0, len(self._labels)))

    def make_room(self, draws: int) -> None:
        """Take draws further apart, if of so many draws there would be too many rows."""
        while -(-draws // self._stride) > self._most_rows:
            self._stride *= 2
            self._values, self._weight = self._values[:, ::2], self._weight[:, ::2]

    def add(
        self,
        values: PyTree,
        weight: DrawsArray,
        potential: DrawsArray,
        layout: Layout | None = None,
    ) -> None:
        """Take in further draws, all with axes (chain, draw, ...).

        Args:
          values: what was kept of them.
          weight: theirs.
          potential: U.
          layout: which chains the values are of, if not of all.
        """
        if not self._labels:
            self.begin(values)
        before, self._draws = self._draws, self._draws + weight.shape[1]
        self.make_room(self._draws)
        some = slice(-before % self._stride, None, self._stride)
        if self._loss is not None:
            columns = [self._loss(values, some)]
        elif len(self._labels) > 1:
            columns = [each.at(some) for each in components(values, self._components)]
        else:
            columns = []
        if layout is not None:
            columns = layout.gather_local(columns, 0)
        U = np.asarray(potential[:, some])
        columns = [U.reshape(*U.shape[:2], -1)[..., 0], *columns]  # of several replicas, the first
        new = np.stack([np.asarray(each, np.float64) for each in columns], axis=2)
        self._values = np.concatenate([self._values, new], axis=1)
        added = np.asarray(weight[:, some], np.float64)
        self._weight = np.concatenate([self._weight, added], axis=1)

    def look(self, rule: str, draws: int) -> Look | None:
        """The fewest effective draws and the largest split R-hat; None if there are too few."""
        if self._weight.shape[1] < _FEWEST or not (self._weight > 0).any():
            return None
        with np.errstate(all="ignore"):  # runs may have numbers near the largest there are
            ess = effective_draws(self._values, self._weight)
            rhat = split_rhat_of(self._values, self._weight)
        least, largest = int(np.argmin(ess)), int(np.argmax(rhat))
        names = self._labels
        return Look(
            rule, draws, float(ess[least]), names[least], float(rhat[largest]), names[largest]
        )


class _Loss:
    """The mean loss on some training rows, at so few draws that it takes 2% of the time at most.

    Attributes:
      stride: how many draws they are apart at least, a power of two.
    """

    def __init__(self, posterior: Posterior, spec: RunSpec) -> None:
        self._posterior = of_some_rows(posterior, _LOSS_ROWS)
        batch = spec.batch_size or getattr(spec.target, "batch_size", None) or posterior.size
        cost = _FORWARD * self._posterior.size / (batch * spec.thin)
        self.stride = 2 ** max(0, math.ceil(math.log2(cost / _SHARE_OF_TIME)))

    def __call__(self, positions: PyTree, some: slice) -> np.ndarray:
        """At some draws of every chain, (chain, draw), by calls of one program."""
        chosen = jax.tree.map(lambda leaf: np.asarray(leaf[:, some]), positions)
        chains, count = jax.tree.leaves(chosen)[0].shape[:2]
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), chosen)
        losses = np.empty(chains * count)
        for begin in range(0, len(losses), _POSITIONS_PER_CALL):
            part = slice(begin, min(begin + _POSITIONS_PER_CALL, len(losses)))
            filled = np.minimum(begin + np.arange(_POSITIONS_PER_CALL), len(losses) - 1)
            at = jax.tree.map(lambda leaf, rows=filled: leaf[rows], flat)
            losses[part] = losses_at(self._posterior, at).mean(axis=1)[: part.stop - begin]
        return losses.reshape(chains, count)
