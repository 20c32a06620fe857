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

from sundman._types import PyTree
from sundman.runner import health, online
from sundman.runner.chain_mapping import draw_in_blocks, each_chain
from sundman.runner.loop import Chain, Plan, Record, step


class Timed(NamedTuple):
    """A chain, the position it left last with its statistics, and its time past the next draw."""

    chain: Chain
    left: PyTree
    stats: dict[str, Array]
    ahead: Array


@jax.jit
def begin(plan: Plan, chains: Chain, interval: Array) -> Timed:
    """Chains that have an interval to go to their first draw."""

    def one(plan: Plan, chain: Chain) -> Timed:
        *_, stats = jax.eval_shape(step, plan, chain)
        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), stats)
        return Timed(chain, chain.position, empty, -interval.astype(chain.state.clock.dt.dtype))

    return each_chain(one, plan, chains)


@partial(jax.jit, static_argnames=("capacity",))
def block(
    plan: Plan,
    timed: Timed,
    averages: online.Average | None,
    low: Array,
    count: Array,
    interval: Array,
    *,
    capacity: int,
) -> tuple[Timed, online.Average | None, Record, health.Health]:
    """``count`` draws of every chain, ``interval`` of physical time apart, of equal weight."""

    def behind(timed: Timed) -> Array:
        return timed.ahead <= 0

    def draw(_: Array, plan: Plan, timed: Timed, average: Any) -> tuple[Timed, Any, Record]:
        def move(timed: Timed) -> Timed:
            chain, _, _, stats = step(plan, timed.chain)
            return Timed(chain, timed.chain.position, stats, timed.ahead + chain.state.clock.dt)

        timed = lax.while_loop(behind, move, timed)
        weight = jnp.ones_like(timed.ahead)
        if plan.online is not None:
            average = online.add(average, plan.online(timed.left), weight, timed.stats)
        record = Record(plan.collect(timed.left), weight, timed.stats)
        return timed._replace(ahead=timed.ahead - interval), average, record

    timed, averages, records = draw_in_blocks(
        draw, plan, count, capacity, timed.chain.position, timed, averages
    )
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
