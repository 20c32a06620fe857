"""The guard: chains that ran away are put back, flagged, and their draws weigh nothing.

A block computes on the device whether anything in it was not finite or out of proportion
(:mod:`sundman.runner.health`). If so, the guard finds the draw, gives weight 0 from there to the
end of the block and puts the chain back to where it was last known to be good.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman._types import PyTree
from sundman.runner import health
from sundman.runner.loop import Chain, Record
from sundman.runner.timed import Timed

POLICIES = ("freeze", "raise", "restart")
_FEW = 20


class Work(NamedTuple):
    """What a block changes: the chains and the online averages."""

    chain: Any
    averages: Any


class Loss(NamedTuple):
    """A chain that ran away: where, and its last good draw's statistics (empty in burn-in)."""

    chain: int
    step: int
    draw: int
    last: dict[str, float]


@dataclass
class Losses:
    """What is known of each chain; part of a checkpoint.

    Attributes:
      low: the lowest potential so far.
      frozen: chains that no longer move.
      step: the step at which the chain was first lost, or -1.
      draw: the first draw of weight 0, or -1.
      times: how often it was lost.
    """

    low: np.ndarray
    frozen: np.ndarray
    step: np.ndarray
    draw: np.ndarray
    times: np.ndarray

    @classmethod
    def none(cls, chains: int) -> Losses:
        """At the beginning of a run."""
        never = np.full(chains, -1, np.int64)
        low = np.full(chains, np.inf, np.float32)
        return cls(low, np.zeros(chains, bool), never, never.copy(), np.zeros(chains, np.int64))

    def arrays(self) -> dict[str, np.ndarray]:
        """By name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _onset(potential: np.ndarray, earlier: int) -> int:
    """Where a chain that is lost at the end began to run away: after its last ordinary draw.

    The last draws of a diverging chain are far out and would rule every average. Ordinary is
    up to ten times as far above the median as the 99th percentile is. Too few draws to say what
    is ordinary count for nothing, unless there are ``earlier`` ones from other blocks.
    """
    if len(potential) < _FEW:
        return len(potential) if earlier + len(potential) >= _FEW else 0
    middle, high = np.quantile(potential, (0.5, 0.99), method="lower")
    ordinary = np.flatnonzero(potential <= middle + 10.0 * (high - middle))
    return int(ordinary[-1]) + 1


def _first_bad(potential: np.ndarray, low: float, scale: float) -> int:
    """Index of the first draw that is not finite or out of proportion; the length if none is."""
    lowest = np.minimum.accumulate(np.fmin(potential, low))
    with np.errstate(invalid="ignore", over="ignore"):
        bad = ~(health.rise(potential, lowest, scale) < health.RUNAWAY)
    return int(np.argmax(bad)) if bad.any() else len(potential)


@jax.jit
def _put_back(lost: Array, now: Work, before: Work) -> Work:
    """The lost chains as they were before; the count of steps goes on, so that noise is new."""

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(lost.reshape(-1, *[1] * (new.ndim - 1)), old, new)

    mixed = jax.tree.map(choose, now, before)
    timed = isinstance(now.chain, Timed)
    chain: Chain = mixed.chain.chain if timed else mixed.chain
    step = (now.chain.chain if timed else now.chain).state.clock.step
    state = chain.state._replace(clock=chain.state.clock._replace(step=step))
    chain = chain._replace(state=state)
    return mixed._replace(chain=mixed.chain._replace(chain=chain) if timed else chain)


@jax.jit
def _set_position(chain: Chain, position: PyTree, index: Array) -> Chain:
    moved = jax.tree.map(lambda leaf, row: leaf.at[index].set(row), chain.position, position)
    return chain._replace(position=moved)


@dataclass
class Guard:
    """Watches the blocks of one run.

    Attributes:
      scale: d max(T, 1) of each chain.
      thin: steps between draws; None if they are a physical time apart.
      restart: whether a lost chain goes on from its last good state.
      keeps_position: whether the records hold positions.
      losses: what happened so far.
    """

    scale: np.ndarray
    thin: int | None
    restart: bool
    keeps_position: bool
    losses: Losses

    def after_burn_in(
        self, before: Work, now: Work, found: health.Health, first: tuple[int, int]
    ) -> tuple[Work, list[Loss]]:
        """The work with lost chains put back, after steps without draws; ``first`` as below."""
        worst, finite = np.asarray(found.worst), np.asarray(found.finite)
        lost = ~((worst < health.RUNAWAY) & finite) & ~self.losses.frozen
        events = [
            self._lose(chain, first[0] + int(np.asarray(found.steps)[chain]), first[1], {})
            for chain in np.flatnonzero(lost).tolist()
        ]
        self._remember_low(found, lost)
        return self._hold(lost, before, now), events

    def after_block(
        self, before: Work, now: Work, record: Record, found: health.Health, first: tuple[int, int]
    ) -> tuple[Work, Record, list[Loss]]:
        """The same after a block of draws; ``first`` is its first (step, draw)."""
        worst, finite = np.asarray(found.worst), np.asarray(found.finite)
        suspect = ~((worst < health.RUNAWAY) & finite) & ~self.losses.frozen
        if not suspect.any() and not self.losses.frozen.any():
            self._remember_low(found, suspect)
            return now, record, []
        record = jax.tree.map(np.array, record)
        lost, events, good = np.zeros_like(suspect), [], {}
        potential = health.sound_potential(record.weight, record.stats, np)
        for chain in np.flatnonzero(suspect).tolist():
            end = _first_bad(potential[:, chain], self.losses.low[chain], self.scale[chain])
            if end == len(potential) and finite[chain]:
                continue
            lost[chain] = True
            step = self._step_of(record, chain, end, first[0])
            end = _onset(potential[:end, chain].astype(np.float64), first[1])
            last = {k: float(v[max(end - 1, 0), chain]) for k, v in record.stats.items()}
            last.setdefault("dt", float(record.weight[max(end - 1, 0), chain]))
            events.append(self._lose(chain, step, first[1] + end, last))
            good[chain] = end
        self._remember_low(found, lost)
        for chain in np.flatnonzero(lost | self.losses.frozen).tolist():
            _cut(record, chain, good.get(chain, 0))
        now = self._hold(lost, before, now)
        if self.keeps_position and self.thin is not None:
            for chain, end in good.items():
                if end > 0:
                    row = jax.tree.map(lambda leaf, i=chain, k=end: leaf[k - 1, i], record.values)
                    now = now._replace(chain=_set_position(now.chain, row, jnp.uint32(chain)))
        return now, record, events

    def _step_of(self, record: Record, chain: int, end: int, first_step: int) -> int:
        if self.thin is None:
            return first_step
        if record.broke is not None and end > 0 and record.broke[end - 1, chain] < self.thin:
            return first_step + (end - 1) * self.thin + int(record.broke[end - 1, chain])
        return first_step + end * self.thin

    def _lose(self, chain: int, step: int, draw: int, last: dict[str, float]) -> Loss:
        losses = self.losses
        if losses.step[chain] < 0:
            losses.step[chain], losses.draw[chain] = step, draw
        losses.times[chain] += 1
        losses.frozen[chain] = not self.restart
        return Loss(chain, step, draw, last)

    def _remember_low(self, found: health.Health, lost: np.ndarray) -> None:
        keep = lost | self.losses.frozen
        self.losses.low = np.where(keep, self.losses.low, np.asarray(found.low))

    def _hold(self, lost: np.ndarray, before: Work, now: Work) -> Work:
        held = lost | self.losses.frozen
        return _put_back(jnp.asarray(held), now, before) if held.any() else now


def _cut(record: Record, chain: int, end: int) -> None:
    """No weight from draw ``end`` on, and the last good values and statistics repeated."""
    record.weight[end:, chain] = 0.0
    for leaf in jax.tree.leaves((record.values, record.stats)):
        leaf[end:, chain] = leaf[max(end - 1, 0), chain]
