"""Draws at equal intervals of physical time: an unweighted sample of the target.

The chain rests at theta_n from time t_n to t_n + dt; the draw at time t is the position it rests
at then. Positions with longer steps are met more often, which is what the weights express.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from sundman.runner import health, online
from sundman.runner.loop import Chain, Plan, Record, room, step, write
from sundman.runner.turns import each_chain, in_turn, joined, takes_turns

PyTree = Any


class Timed(NamedTuple):
    """A chain, the position it left last with its statistics, and its time past the next draw."""

    chain: Chain
    left: PyTree
    stats: dict[str, Array]
    ahead: Array


@partial(jax.jit, static_argnames=("plan",))
def begin(chains: Chain, interval: Array, data: PyTree, *, plan: Plan) -> Timed:
    """Chains that have an interval to go to their first draw."""

    def one(chain: Chain) -> Timed:
        *_, stats = jax.eval_shape(lambda c: step(c, data, plan), chain)
        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), stats)
        return Timed(chain, chain.position, empty, -interval.astype(chain.state.clock.dt.dtype))

    return each_chain(one, chains)


@partial(jax.jit, static_argnames=("plan", "capacity"))
def block(
    timed: Timed,
    averages: online.Average | None,
    low: Array,
    count: Array,
    interval: Array,
    data: PyTree,
    *,
    plan: Plan,
    capacity: int,
) -> tuple[Timed, online.Average | None, Record, health.Health]:
    """``count`` draws of every chain, ``interval`` of physical time apart, of equal weight."""
    if takes_turns(timed.chain.position):
        rest = {"count": count, "interval": interval, "data": data}
        one_of = partial(block, **rest, plan=plan, capacity=capacity)
        timed, averages, records, found = in_turn(one_of, timed, averages, low)
        return *joined((timed, averages)), joined(records, axis=1), joined(found)

    def behind(timed: Timed) -> Array:
        return timed.ahead <= 0

    def move(timed: Timed) -> Timed:
        chain, _, _, stats = step(timed.chain, data, plan)
        return Timed(chain, timed.chain.position, stats, timed.ahead + chain.state.clock.dt)

    def draw(timed: Timed, average: Any) -> tuple[Timed, Any, Record]:
        timed = lax.while_loop(behind, move, timed)
        weight = jnp.ones_like(timed.ahead)
        if plan.online is not None:
            average = online.add(average, plan.online(timed.left), weight, timed.stats)
        record = Record(plan.collect(timed.left), weight, timed.stats)
        return timed._replace(ahead=timed.ahead - interval), average, record

    def body(index: Array, carry: tuple) -> tuple:
        timed, averages, records = carry
        timed, averages, record = each_chain(draw, timed, averages)
        return timed, averages, write(records, record, index)

    shape = jax.eval_shape(lambda t, a: each_chain(draw, t, a)[2], timed, averages)
    carry = (timed, averages, room(shape, capacity))
    timed, averages, records = lax.fori_loop(jnp.uint32(0), count, body, carry)
    return (
        timed,
        averages,
        records,
        health.of_records(
            records.weight,
            records.stats,
            count,
            low,
            timed.chain.position,
            plan.sampler.temperature,
        ),
    )
