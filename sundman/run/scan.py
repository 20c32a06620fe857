"""The compiled loops: a piece of burn-in, or a block of draws, of every chain in one call.

Draws are ``thin`` steps apart, or an interval of physical time: the chain rests at theta_n from
time t_n to t_n + dt, and the draw at time t is the position it rests at then. Positions with longer
steps are met more often, which is what the weights express, so such draws have equal weights.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from sundman._types import PyTree
from sundman.draws import online
from sundman.draws.online import RunningAverage
from sundman.run.chain_mapping import (
    draw_in_blocks,
    each_chain,
    map_sequentially,
    put_chain_axis,
    runs_sequentially,
)
from sundman.run.guard import RUNAWAY, Health, all_finite, of_records, rise_scale, size_of, worse
from sundman.run.state import Chain, Timed
from sundman.run.step import Plan, Record, step

_CHECK_POTENTIAL_EVERY = 32


@partial(jax.jit, static_argnames=("streamed",))
def advance(
    plan: Plan,
    chains: Chain,
    low: Array,
    steps: Array,
    batches: PyTree = None,
    *,
    streamed: bool = False,
) -> tuple[Chain, Health]:
    """Move every chain by ``steps`` steps and keep nothing; ``streamed``: a batch for each.

    ``low`` is the lowest potential of each chain so far. A posterior's whole potential is looked
    at every 32 steps, since the prior's part of it is a pass over the parameters.
    """
    if runs_sequentially(chains.position, plan.side_by_side):

        def one_of(plan: Plan, chains: Chain, low: Array) -> tuple[Chain, Health]:
            return advance(plan, chains, low, steps, batches, streamed=streamed)

        return put_chain_axis(map_sequentially(one_of, plan, chains, low))
    size = size_of(chains.position)
    every = _CHECK_POTENTIAL_EVERY if plan.gradient.parts_differ else 1

    def batch_of(index: Array) -> PyTree:
        if not streamed:
            return None
        return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, 0, False), batches)

    def alone(plan: Plan, chain: Chain, low: Array) -> tuple[Chain, Array, Array, Array]:
        # The loop is in here, not around it: with an axis of chains put on at every step, XLA would
        # copy the position of a single chain twice a step.
        def examined(index: Array, carry: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
            chain, low, worst, good = carry
            chain, _, _, stats = step(plan, chain, batch_of(index))
            value = stats["potential"].astype(low.dtype)
            low = jnp.minimum(low, value)
            scale = rise_scale(size, plan.sampler.temperature)
            worst = worse(worst, value, low, scale)
            return chain, low, worst, good + (worst < RUNAWAY)

        def lean(index: Array, carry: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
            chain, low, worst, good = carry
            chain, fine, _, _ = step(plan, chain, batch_of(index))
            worst = jnp.where(fine, worst, jnp.inf)
            return chain, low, worst, good + (worst < RUNAWAY)

        def some(number: Array, carry: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
            first = number * jnp.uint32(every)
            carry = examined(first, carry)
            if every == 1:
                return carry
            end = jnp.minimum(first + jnp.uint32(every), steps)
            return lax.fori_loop(first + jnp.uint32(1), end, lean, carry)

        rounds = (steps + jnp.uint32(every - 1)) // jnp.uint32(every)
        carry = (chain, low, jnp.zeros_like(low), jnp.zeros_like(low, jnp.uint32))
        return lax.fori_loop(jnp.uint32(0), rounds, some, carry)

    chains, low, worst, good = each_chain(alone, plan, chains, low)
    return chains, Health(low, worst, all_finite(chains.position), good)


@partial(jax.jit, static_argnames=("capacity", "thin"))
def block(
    plan: Plan,
    chains: Chain,
    averages: RunningAverage | None,
    low: Array,
    count: Array,
    batches: PyTree = None,
    *,
    capacity: int,
    thin: int,
) -> tuple[Chain, RunningAverage | None, Record, Health]:
    """``count`` draws of every chain, ``thin`` steps apart.

    The axes of the records are (draw, chain), or (chain, draw) if chains run one after the other:
    :meth:`sundman.run.devices.Layout.draws_first` makes them alike.

    The records have room for ``capacity`` draws, so that blocks of any length share one
    compilation. ``batches`` are given for a streamed gradient, one per step.
    """
    if batches is not None:
        batches = jax.tree.map(lambda leaf: leaf.reshape(capacity, thin, *leaf.shape[1:]), batches)

    def draw(
        index: Array, plan: Plan, chain: Chain, average: RunningAverage | None
    ) -> tuple[Chain, RunningAverage | None, Record]:
        batch = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, 0, False), batches)
        left, broke = chain.position, None
        values = plan.collect(left)
        first = jax.tree.map(lambda leaf: leaf[0], batch)
        chain, fine, weight, stats = step(plan, chain, first)
        if thin > 1:

            def lean(chain: Chain, batch: PyTree) -> tuple[Chain, Array]:
                return step(plan, chain, batch)[:2]

            others = jax.tree.map(lambda leaf: leaf[1:], batch)
            chain, rest = lax.scan(lean, chain, others, length=thin - 1)
            broke = jnp.sum(jnp.cumprod(jnp.append(fine, rest).astype(jnp.uint32)))
        if plan.online is not None and average is not None:
            average = online.add(average, plan.online(left), weight, stats)
        return chain, average, Record(values, weight, stats, broke)

    chains, averages, records = draw_in_blocks(
        draw, plan, count, capacity, chains.position, chains, averages
    )
    return chains, averages, records, _health(plan, records, count, low, chains.position, thin)


def _health(
    plan: Plan, records: Record, count: Array, low: Array, positions: PyTree, thin: int
) -> Health:
    """What the records of a block say about its chains."""
    draws = 1 if runs_sequentially(positions, plan.side_by_side) else 0
    return of_records(records, count, low, positions, plan.sampler.temperature, draws, thin)


@jax.jit
def begin_timed(plan: Plan, chains: Chain, interval: Array) -> Timed:
    """Chains that have an interval to go to their first draw."""

    def one(plan: Plan, chain: Chain) -> Timed:
        *_, stats = jax.eval_shape(step, plan, chain)
        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), stats)
        ahead = -interval.astype(chain.state.clock.dt.dtype)
        return Timed(chain, chain.position, empty, ahead, jnp.zeros_like(ahead), jnp.uint32(0))

    return each_chain(one, plan, chains)


def _to_next_draw(plan: Plan, timed: Timed) -> tuple[Timed, Array]:
    """A chain moved to its next draw, or as far as it is allowed to go; if all steps were fine."""

    def behind(carry: tuple[Timed, Array]) -> Array:
        timed, _ = carry
        return (timed.ahead <= 0) & (timed.allowed > 0)

    def move(carry: tuple[Timed, Array]) -> tuple[Timed, Array]:
        timed, sound = carry
        chain, fine, _, stats = step(plan, timed.chain)
        ahead, lost = online.compensated(timed.ahead, timed.lost, chain.state.clock.dt)
        allowed = timed.allowed - jnp.uint32(1)
        return Timed(chain, timed.chain.position, stats, ahead, lost, allowed), sound & fine

    return lax.while_loop(behind, move, (timed, jnp.bool_(True)))


def _allowed(timed: Timed, steps: Array) -> Timed:
    return timed._replace(allowed=jnp.full_like(timed.allowed, steps))


@jax.jit
def approach(plan: Plan, timed: Timed, steps: Array) -> Timed:
    """Chains moved to their next draw by at most ``steps`` steps; there, ``ahead`` is above 0."""
    timed = _allowed(timed, steps)
    if runs_sequentially(timed.chain.position, plan.side_by_side):
        every = partial(each_chain, _to_next_draw)
        return put_chain_axis(map_sequentially(every, plan, timed))[0]
    return each_chain(_to_next_draw, plan, timed)[0]


@partial(jax.jit, static_argnames=("capacity",))
def timed_block(
    plan: Plan,
    timed: Timed,
    averages: RunningAverage | None,
    low: Array,
    count: Array,
    interval: Array,
    steps: Array,
    *,
    capacity: int,
) -> tuple[Timed, RunningAverage | None, Record, Health]:
    """``count`` draws of every chain, ``interval`` of physical time apart, of equal weight.

    A chain makes at most ``steps`` steps. One that has none left in ``allowed`` after that did not
    come to all its draws, and what is returned is of no use.
    """
    timed = _allowed(timed, steps)

    def draw(
        _: Array, plan: Plan, timed: Timed, average: RunningAverage | None
    ) -> tuple[Timed, RunningAverage | None, Record]:
        timed, sound = _to_next_draw(plan, timed)
        weight = jnp.ones_like(timed.ahead)
        if plan.online is not None and average is not None:
            average = online.add(average, plan.online(timed.left), weight, timed.stats)
        record = Record(plan.collect(timed.left), weight, timed.stats, sound.astype(jnp.uint32))
        ahead, lost = online.compensated(timed.ahead, timed.lost, -interval.astype(weight.dtype))
        return timed._replace(ahead=ahead, lost=lost), average, record

    timed, averages, records = draw_in_blocks(
        draw, plan, count, capacity, timed.chain.position, timed, averages
    )
    return timed, averages, records, _health(plan, records, count, low, timed.chain.position, 1)
