"""The compiled loop: one call per block of draws, chains as the leading axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from sundman import native
from sundman._types import PyTree
from sundman.gradients import GradientEstimator
from sundman.noise import Stream
from sundman.runner import health, online
from sundman.runner.chain_mapping import (
    draw_in_blocks,
    each_chain,
    map_sequentially,
    put_chain_axis,
    runs_sequentially,
)
from sundman.runner.replicas import coldest
from sundman.samplers import Sampler, SamplerState
from sundman.split import inner_product, squared_norm
from sundman.value import Value, static

_CHECK_POTENTIAL_EVERY = 32
STATS = ("time", "grad_norm", "zeta", "virial", "kinetic_temperature")


class Plan(Value):
    """What a compiled loop is made of, its numbers and data as leaves.

    Attributes:
      gradient: the estimator of U and its gradient.
      sampler: the sampler, at a temperature and in physical time.
      collect: what is kept of a position.
      weighting: which step's dt weighs a position.
      stats: what is recorded with a draw.
      online: what is averaged over the draws, if anything.
      native: whether the kernels are used.
      stacked: whether the sampler has settings of its own for each chain, along a leading axis.
    """

    gradient: GradientEstimator
    sampler: Sampler
    collect: Callable[[PyTree], PyTree] = static()
    weighting: str = static(default="leaving")
    stats: tuple[str, ...] = static(default=STATS)
    online: Callable[[PyTree], PyTree] | None = static(default=None)
    native: bool = static(default=False)
    stacked: bool = static(default=False)


class Chain(NamedTuple):
    """All there is to a chain between two steps; ``memory`` is the gradient estimator's."""

    position: PyTree
    state: SamplerState
    memory: PyTree = ()


class Record(NamedTuple):
    """What a draw leaves behind; ``broke``: how many of its steps began at a finite potential."""

    values: PyTree
    weight: Array
    stats: dict[str, Array]
    broke: Array | None = None


def _statistics(
    value: Array, grads: PyTree, position: PyTree, before: SamplerState, after: SamplerState
) -> dict[str, Callable[[], Any]]:
    """How to compute each statistic of the position that a step leaves."""
    leaves, slopes = jax.tree.leaves(position), jax.tree.leaves(grads)
    size = sum(leaf.size for leaf in leaves)
    dtype = jnp.result_type(jnp.float32, *leaves)
    found: dict[str, Callable[[], Any]] = {
        "potential": lambda: value,
        "time": lambda: before.clock.time,
        "grad_norm": lambda: jnp.sqrt(sum(squared_norm(grad, dtype) for grad in slopes)),
        "virial": lambda: sum(map(inner_product, slopes, leaves)) / size,
    }
    if after.clock.zeta is not None:
        found["zeta"] = lambda: cast(Array, after.clock.zeta)
    if hasattr(after.motion, "momentum"):
        found["kinetic_temperature"] = lambda: (
            optax.tree.norm(after.motion.momentum, squared=True) / size
        )
    return found


@partial(jax.jit, inline=True)  # traced once for all loops it is in
def step(
    plan: Plan, chain: Chain, batch: PyTree = None
) -> tuple[Chain, Array, Array, dict[str, Array]]:
    """One step of one chain.

    Args:
      plan: with a sampler that is not stacked.
      chain: where it is.
      batch: what this step's gradient is estimated on, if data are streamed.

    Returns:
      The chain after the step; and of the position it left, whether the cheap part of U was
      finite, its weight and its statistics. What is not used is not computed.
    """
    position, state, memory = chain
    with native.using(plan.native):
        stream = Stream(state.key, state.clock.step)
        here, memory = plan.gradient.evaluate(stream, position, memory, batch)
        loss, value, grads = here
        moved, after = plan.sampler.step(grads, state, position, value)
        if plan.sampler.integrator.replicas > 1:
            loss, value, grads, position = loss.sum(), *coldest((value, grads, position))
        compute = _statistics(value, grads, position, state, after)
        stats = {name: compute[name]() for name in ("potential", *plan.stats) if name in compute}
    if plan.weighting == "leaving":
        weight = plan.sampler.weight(after)
    else:
        arriving = plan.weighting == "arriving"
        led_here = after._replace(clock=state.clock)  # the step before, this position's own factor
        weight = plan.sampler.weight(led_here) if arriving else jnp.ones_like(after.clock.dt)
    if plan.weighting != "leaving" or plan.sampler.integrator.has_weights:
        stats["dt"] = after.clock.dt
    return Chain(moved, after, memory), jnp.isfinite(loss), weight, stats


@partial(jax.jit, static_argnames=("streamed",))
def advance(
    plan: Plan,
    chains: Chain,
    low: Array,
    steps: Array,
    batches: PyTree = None,
    *,
    streamed: bool = False,
) -> tuple[Chain, health.Health]:
    """Move every chain by ``steps`` steps and keep nothing; ``streamed``: a batch for each.

    ``low`` is the lowest potential of each chain so far. A posterior's whole potential is looked
    at every 32 steps, since the prior's part of it is a pass over the parameters.
    """
    if runs_sequentially(chains.position):

        def one_of(plan: Plan, chains: Chain, low: Array) -> tuple[Chain, health.Health]:
            return advance(plan, chains, low, steps, batches, streamed=streamed)

        return put_chain_axis(map_sequentially(one_of, plan, chains, low))
    size = health.size_of(chains.position)
    every = _CHECK_POTENTIAL_EVERY if plan.gradient.parts_differ else 1

    def batch_of(index: Array) -> PyTree:
        if not streamed:
            return None
        return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, 0, False), batches)

    def examined(
        index: Array, plan: Plan, chain: Chain, low: Array, worst: Array, good: Array
    ) -> tuple:
        chain, _, _, stats = step(plan, chain, batch_of(index))
        value = stats["potential"].astype(low.dtype)
        low = jnp.minimum(low, value)
        scale = health.rise_scale(size, plan.sampler.temperature)
        worst = jnp.maximum(worst, health.rise(value, low, scale))
        return chain, low, worst, good + (worst < health.RUNAWAY)

    def lean(
        index: Array, plan: Plan, chain: Chain, low: Array, worst: Array, good: Array
    ) -> tuple:
        chain, fine, _, _ = step(plan, chain, batch_of(index))
        worst = jnp.where(fine, worst, jnp.inf)
        return chain, low, worst, good + (worst < health.RUNAWAY)

    def some(number: Array, carry: tuple) -> tuple:
        first = number * jnp.uint32(every)
        carry = each_chain(partial(examined, first), plan, *carry)
        if every == 1:
            return carry
        end = jnp.minimum(first + jnp.uint32(every), steps)
        return lax.fori_loop(
            first + jnp.uint32(1), end, lambda i, c: each_chain(partial(lean, i), plan, *c), carry
        )

    carry = (chains, low, jnp.zeros_like(low), jnp.zeros(low.shape, jnp.uint32))
    rounds = (steps + jnp.uint32(every - 1)) // jnp.uint32(every)
    chains, low, worst, good = lax.fori_loop(jnp.uint32(0), rounds, some, carry)
    return chains, health.Health(low, worst, health.all_finite(chains.position), good)


@partial(jax.jit, static_argnames=("capacity", "thin"))
def block(
    plan: Plan,
    chains: Chain,
    averages: online.Average | None,
    low: Array,
    count: Array,
    batches: PyTree = None,
    *,
    capacity: int,
    thin: int,
) -> tuple[Chain, online.Average | None, Record, health.Health]:
    """``count`` draws of every chain, ``thin`` steps apart.

    The axes of the records are (draw, chain), or (chain, draw) if chains run one after the other:
    :func:`sundman.runner.chain_mapping.draws_first` makes them alike.

    The records have room for ``capacity`` draws, so that blocks of any length share one
    compilation. ``batches`` are given for a streamed gradient, one per step.
    """
    if batches is not None:
        batches = jax.tree.map(lambda leaf: leaf.reshape(capacity, thin, *leaf.shape[1:]), batches)

    def draw(index: Array, plan: Plan, chain: Chain, average: Any) -> tuple[Chain, Any, Record]:
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
        if plan.online is not None:
            average = online.add(average, plan.online(left), weight, stats)
        return chain, average, Record(values, weight, stats, broke)

    chains, averages, records = draw_in_blocks(
        draw, plan, count, capacity, chains.position, chains, averages
    )
    seen = health.of_records(
        records.weight, records.stats, count, low, chains.position, plan.sampler.temperature
    )
    return chains, averages, records, seen
