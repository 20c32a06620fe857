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

from sundman.runner import online
from sundman.runner.loop import Chain, Plan, Record, each_chain, step

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
        _, (_, stats) = jax.eval_shape(lambda c: step(c, data, plan), chain)
        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), stats)
        return Timed(chain, chain.position, empty, -interval.astype(chain.state.clock.dt.dtype))

    return each_chain(one, chains)


@partial(jax.jit, static_argnames=("plan", "draws"), donate_argnames=("timed", "averages"))
def block(
    timed: Timed,
    averages: online.Average | None,
    interval: Array,
    data: PyTree,
    *,
    plan: Plan,
    draws: int,
) -> tuple[Timed, online.Average | None, Record]:
    """``draws`` draws of every chain, ``interval`` of physical time apart, of equal weight."""

    def behind(timed: Timed) -> Array:
        return timed.ahead <= 0

    def move(timed: Timed) -> Timed:
        chain, (_, stats) = step(timed.chain, data, plan)
        return Timed(chain, timed.chain.position, stats, timed.ahead + chain.state.clock.dt)

    def draw(carry: tuple, _: None) -> tuple[tuple, Record]:
        timed, average = carry
        timed = lax.while_loop(behind, move, timed)
        weight = jnp.ones_like(timed.ahead)
        if plan.online is not None:
            average = online.add(average, plan.online(timed.left), weight, timed.stats)
        record = Record(plan.collect(timed.left), weight, timed.stats)
        return (timed._replace(ahead=timed.ahead - interval), average), record

    def run(timed: Timed, average: Any) -> tuple[tuple, Record]:
        return lax.scan(draw, (timed, average), None, length=draws)

    (timed, averages), record = each_chain(run, timed, averages, out_axes=(0, 1))
    return timed, averages, record
