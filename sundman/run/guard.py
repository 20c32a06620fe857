"""The guard: chains that ran away are put back, flagged, and their draws weigh nothing.

A block computes on the device whether anything in it was not finite, or whether the potential has
risen out of all proportion above the lowest one its chain has met. If so, the guard finds the draw,
gives weight 0 from there to the end of the block and puts the chain back to where it was last known
to be good.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike

from sundman._types import PyTree
from sundman.draws.online import RunningAverage
from sundman.draws.trust import MARK, Divergence, Divergences
from sundman.run import hosts
from sundman.run.devices import Layout
from sundman.run.state import Chain, RunState, Timed
from sundman.run.step import Record

Number = TypeVar("Number", Array, np.ndarray)
Advanced: TypeAlias = tuple[Chain | Timed, RunningAverage | None]
_FEWEST_DRAWS = 20  # that say what is ordinary
RUNAWAY = 1e4


class Health(NamedTuple):
    """Of each chain over a block: its lowest potential so far, and the largest rise above it.

    ``worst`` is the largest :func:`rise`, infinite if anything was not finite; ``finite`` says
    whether the position at the end is, ``steps`` how many steps of a burn-in went well.
    """

    low: Array
    worst: Array
    finite: Array
    steps: Array


def rise(value: Number, low: Number, scale: Number | float) -> Number:
    """How far the potential is above its lowest: (U - U_low) / (d max(T, 1) + |U_low|).

    Below 1 or so in equilibrium, where U - U_low is about d T / 2.
    """
    return (value - low) / (scale + abs(low))


def worse(worst: Array, value: Array, low: Array, scale: Array) -> Array:
    """The largest rise so far, with one more potential; infinite if that is not finite.

    On some devices a maximum of many numbers drops NaN, so that what is not finite is looked for
    on its own, here and in :func:`of_records`.
    """
    return jnp.where(jnp.isfinite(value), jnp.maximum(worst, rise(value, low, scale)), jnp.inf)


def size_of(positions: PyTree) -> int:
    """d, for positions with a leading axis of chains."""
    return sum(math.prod(leaf.shape[1:]) for leaf in jax.tree.leaves(positions))


def rise_scale(size: int, temperature: ArrayLike, numpy: ModuleType = jnp) -> Array:
    """d max(T, 1); of a stacked sampler, for each chain."""
    return size * numpy.maximum(temperature, 1.0)


def all_finite(positions: PyTree) -> Array:
    """For each chain, whether every number of its position is finite."""
    leaves = jax.tree.leaves(positions)
    flat = [jnp.isfinite(leaf).reshape(len(leaf), -1).all(axis=1) for leaf in leaves]
    return jnp.stack(flat).all(axis=0)


def sound_potential(weight: Number, stats: Mapping[str, Number], numpy: ModuleType = jnp) -> Number:
    """The potential of each draw, NaN where its weight or gradient is not finite."""
    good = numpy.isfinite(weight)
    if "grad_norm" in stats:
        good = good & numpy.isfinite(stats["grad_norm"])
    return numpy.where(good, stats["potential"], numpy.nan)


def of_records(
    record: Record,
    count: Array,
    low: Array,
    positions: PyTree,
    temperature: ArrayLike,
    draws: int,
    thin: int,
) -> Health:
    """What the first ``count`` draws of a block's records say about its chains.

    ``draws`` is the axis of the draws, ``thin`` how many steps of a draw went well if all did. The
    order within the block is not looked at here: a potential that fell shows as a rise, too, and
    is for the guard to tell apart.
    """
    value = sound_potential(record.weight, record.stats)
    real = lax.broadcasted_iota(jnp.uint32, value.shape, draws) < count
    sound = jnp.isfinite(value)
    known = real & sound
    low = jnp.minimum(low, jnp.min(jnp.where(known, value, jnp.inf), axis=draws).astype(low.dtype))
    high = jnp.max(jnp.where(known, value, -jnp.inf), axis=draws).astype(low.dtype)
    if record.broke is not None:
        sound &= record.broke == thin
    worst = rise(high, low, rise_scale(size_of(positions), temperature))
    worst = jnp.where(jnp.all(sound | ~real, axis=draws), worst, jnp.inf)
    return Health(low, worst, all_finite(positions), jnp.zeros(low.shape, jnp.uint32))


def _onset(potential: np.ndarray, earlier: int) -> int:
    """Where a chain that is lost at the end began to run away: after its last ordinary draw.

    The last draws of a diverging chain are far out and would rule every average. Ordinary is
    up to ten times as far above the median as the 99th percentile is. Too few draws to say what
    is ordinary count for nothing, unless there are ``earlier`` ones from other blocks.
    """
    if len(potential) < _FEWEST_DRAWS:
        return len(potential) if earlier + len(potential) >= _FEWEST_DRAWS else 0
    middle, high = np.quantile(potential, (0.5, 0.99), method="lower")
    ordinary = np.flatnonzero(potential <= middle + 10.0 * (high - middle))
    return int(ordinary[-1]) + 1


def _first_bad(potential: np.ndarray, low: float, scale: float) -> int:
    """Index of the first draw that is not finite or out of proportion; the length if none is."""
    lowest = np.minimum.accumulate(np.fmin(potential, low))
    with np.errstate(invalid="ignore", over="ignore"):
        bad = ~(rise(potential, lowest, scale) < RUNAWAY)
    return int(np.argmax(bad)) if bad.any() else len(potential)


@jax.jit
def _put_back(lost: ArrayLike, now: Advanced, before: Advanced) -> Advanced:
    """The lost chains as they were before; the count of steps goes on, so that noise is new."""

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(jnp.asarray(lost).reshape(-1, *[1] * (new.ndim - 1)), old, new)

    chains, averages = jax.tree.map(choose, now, before)
    timed = isinstance(now[0], Timed)
    chain: Chain = chains.chain if timed else chains
    step = (now[0].chain if isinstance(now[0], Timed) else now[0]).state.clock.step
    state = chain.state._replace(clock=chain.state.clock._replace(step=step))
    chain = chain._replace(state=state)
    return chains._replace(chain=chain) if timed else chain, averages


@jax.jit
def _set_position(chain: Chain, position: PyTree, index: ArrayLike) -> Chain:
    moved = jax.tree.map(lambda leaf, row: leaf.at[index].set(row), chain.position, position)
    return chain._replace(position=moved)


@dataclass(frozen=True)
class Guard:
    """Looks after the chains at the end of each piece of a run.

    Attributes:
      scale: d max(T, 1) of each chain.
      thin: steps between draws; None if they are a physical time apart.
      restart: whether a chain that ran away goes on from its last good state.
      keeps_position: whether the records hold positions.
      layout: where the chains are; a record has the values of those of this process.
    """

    scale: np.ndarray
    thin: int | None
    restart: bool
    keeps_position: bool
    layout: Layout

    def after_burn_in(
        self, before: RunState, now: Advanced, health: Health
    ) -> tuple[RunState, list[Divergence]]:
        """The state after steps without draws, and the chains that ran away, put back.

        Args:
          before: the state before these steps.
          now: the chains and averages after them.
          health: what the device saw of them.
        """
        known, done = before.divergences, before.progress
        lost = self._runaways(health, known)
        good_steps = np.asarray(health.steps)
        events = [
            Divergence(chain, done.steps + int(good_steps[chain]), done.draws, {})
            for chain in np.flatnonzero(lost).tolist()
        ]
        return self._held(before, now, health, lost, events), events

    def after_block(
        self, before: RunState, now: Advanced, record: Record, health: Health
    ) -> tuple[RunState, Record, list[Divergence]]:
        """The same after a block of draws; the draws of a chain that ran away weigh nothing."""
        known, done = before.divergences, before.progress
        suspect = self._runaways(health, known)
        if not suspect.any() and not known.frozen.any():
            return self._held(before, now, health, suspect, []), record, []
        record = jax.tree.map(np.array, record)
        lost, events = np.zeros_like(suspect), []
        good: dict[int, int] = {}
        weight, stats = np.asarray(record.weight), jax.tree.map(np.asarray, record.stats)
        potential = sound_potential(weight, stats, np)
        for chain in np.flatnonzero(suspect).tolist():
            end = _first_bad(potential[:, chain], known.low[chain], self.scale[chain])
            end = min(end, self._first_broken(record, chain))
            if end == len(potential) and np.asarray(health.finite)[chain]:
                continue
            lost[chain] = True
            step = self._step_of(record, chain, end, done.steps)
            end = _onset(potential[:end, chain].astype(np.float64), done.draws)
            last = {k: float(v[max(end - 1, 0), chain]) for k, v in record.stats.items()}
            last.setdefault("dt", float(record.weight[max(end - 1, 0), chain]))
            events.append(Divergence(chain, step, done.draws + end, last))
            good[chain] = end
        state = self._held(before, now, health, lost, events)
        local = self.layout.local.tolist()
        for chain in np.flatnonzero(lost | state.divergences.frozen).tolist():
            _cut(record, chain, good.get(chain, 0), local)
            if self.restart:  # two in adjoining blocks can be told apart
                record.weight[good[chain] :, chain][:1] = MARK
        if self.keeps_position and self.thin is not None:
            for chain, end in good.items():
                if end > 0:
                    row = self._last_good(record, chain, end, local)
                    moved = _set_position(state.now, row, np.uint32(chain))
                    state = state._replace(chains=self.layout.place(moved))
        return state, record, events

    @staticmethod
    def _last_good(record: Record, chain: int, end: int, local: list[int]) -> PyTree:
        """The position of draw ``end - 1`` of a chain, from a process that has it."""
        place = local.index(chain) if chain in local else None
        row = jax.tree.map(lambda leaf: leaf[end - 1, place or 0], record.values)
        if not hosts.several():
            return row
        has = hosts.gather(np.asarray(place is not None))
        return jax.tree.map(lambda leaf: hosts.gather(leaf)[int(np.argmax(has))], row)

    @staticmethod
    def _runaways(health: Health, known: Divergences) -> np.ndarray:
        fine = (np.asarray(health.worst) < RUNAWAY) & np.asarray(health.finite)
        return ~fine & ~known.frozen

    def _first_broken(self, record: Record, chain: int) -> int:
        """Index of the draw after the first that led over a step that is not finite."""
        if record.broke is None:
            return len(record.weight)
        broken = record.broke[:, chain] < (self.thin or 1)
        return int(np.argmax(broken)) + 1 if broken.any() else len(broken)

    def _step_of(self, record: Record, chain: int, end: int, first_step: int) -> int:
        if self.thin is None:
            return first_step
        if record.broke is not None and end > 0 and record.broke[end - 1, chain] < self.thin:
            return first_step + (end - 1) * self.thin + int(record.broke[end - 1, chain])
        return first_step + end * self.thin

    def _held(
        self,
        before: RunState,
        now: Advanced,
        health: Health,
        lost: np.ndarray,
        events: list[Divergence],
    ) -> RunState:
        """The state with the lost chains, and the frozen ones, put back to where they were."""
        known = before.divergences.adding(events, freeze=not self.restart)
        held = lost | known.frozen
        low = np.where(held, known.low, np.asarray(health.low))
        if held.any():
            now = self.layout.place(_put_back(held, now, (before.chains, before.averages)))
        chains, averages = now
        return RunState(chains, averages, known._replace(low=low), before.progress)


def _cut(record: Record, chain: int, end: int, local: list[int]) -> None:
    """No weight from draw ``end`` on, and the last good values and statistics repeated."""
    record.weight[end:, chain] = 0.0
    columns = [(leaf, chain) for leaf in jax.tree.leaves(record.stats)]
    if chain in local:
        columns += [(leaf, local.index(chain)) for leaf in jax.tree.leaves(record.values)]
    for leaf, place in columns:
        leaf[end:, place] = leaf[max(end - 1, 0), place]
