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
from sundman.gradients import GradientEstimator
from sundman.gradients.parts import has_parts, in_parts
from sundman.noise import Stream
from sundman.runner import health, online
from sundman.runner.replicas import coldest
from sundman.runner.turns import each_chain, in_turn, joined, takes_turns
from sundman.samplers import Sampler, SamplerState
from sundman.split import inner_product, squared_norm

PyTree = Any
_EXAMINED = 32
STATS = ("time", "grad_norm", "zeta", "virial", "kinetic_temperature")


class Plan(NamedTuple):
    """What a compiled loop is made of; equal plans share one compilation."""

    gradient: GradientEstimator
    sampler: Sampler
    collect: Callable[[PyTree], PyTree]
    weighting: str = "leaving"
    stats: tuple[str, ...] = STATS
    online: Callable[[PyTree], PyTree] | None = None
    native: bool = False


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


def step(chain: Chain, data: PyTree, plan: Plan) -> tuple[Chain, Array, Array, dict[str, Array]]:
    """One step: the chain after it; and of the position it left, whether it was finite as far as
    can be seen for nothing, its weight and its statistics. What is not used is not computed.
    """
    position, state, memory = chain
    with native.using(plan.native):
        stream = Stream(state.key, state.clock.step)
        part, value, grads, memory = in_parts(plan.gradient, stream, position, data, memory)
        moved, after = plan.sampler.step(grads, state, position, value)
        if plan.sampler.integrator.replicas > 1:
            part, value, grads, position = part.sum(), *coldest((value, grads, position))
        compute = _statistics(value, grads, position, state, after)
        stats = {name: compute[name]() for name in ("potential", *plan.stats) if name in compute}
    if plan.weighting == "leaving":
        weight = plan.sampler.weight(after)
    else:
        arriving = plan.weighting == "arriving"
        led_here = after._replace(clock=state.clock)  # the step before, this position's own factor
        weight = plan.sampler.weight(led_here) if arriving else jnp.ones_like(after.clock.dt)
    if plan.weighting != "leaving" or plan.sampler.integrator.weigh is not None:
        stats["dt"] = after.clock.dt
    return Chain(moved, after, memory), jnp.isfinite(part), weight, stats


@partial(jax.jit, static_argnames=("plan", "streamed"))
def advance(
    chains: Chain, low: Array, steps: Array, data: PyTree, *, plan: Plan, streamed: bool = False
) -> tuple[Chain, health.Health]:
    """Move every chain by ``steps`` steps and keep nothing; ``streamed``: a batch for each.

    ``low`` is the lowest potential of each chain so far. A posterior's whole potential is looked
    at every 32 steps, since the prior's part of it is a pass over the parameters.
    """
    if takes_turns(chains.position):
        one_of = partial(advance, steps=steps, data=data, plan=plan, streamed=streamed)
        return joined(in_turn(one_of, chains, low))
    scale = health.rise_scale(chains.position, plan.sampler.temperature)
    every = _EXAMINED if has_parts(plan.gradient) else 1

    def given(index: Array) -> PyTree:
        if not streamed:
            return data
        return jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, 0, False), data)

    def examined(index: Array, chain: Chain, low: Array, worst: Array, good: Array) -> tuple:
        chain, _, _, stats = step(chain, given(index), plan)
        value = stats["potential"].astype(low.dtype)
        low = jnp.minimum(low, value)
        worst = jnp.maximum(worst, health.rise(value, low, scale))
        return chain, low, worst, good + (worst < health.RUNAWAY)

    def lean(index: Array, chain: Chain, low: Array, worst: Array, good: Array) -> tuple:
        chain, fine, _, _ = step(chain, given(index), plan)
        worst = jnp.where(fine, worst, jnp.inf)
        return chain, low, worst, good + (worst < health.RUNAWAY)

    def some(number: Array, carry: tuple) -> tuple:
        first = number * jnp.uint32(every)
        carry = each_chain(partial(examined, first), *carry)
        if every == 1:
            return carry
        end = jnp.minimum(first + jnp.uint32(every), steps)
        return lax.fori_loop(
            first + jnp.uint32(1), end, lambda i, c: each_chain(partial(lean, i), *c), carry
        )

    carry = (chains, low, jnp.zeros_like(low), jnp.zeros(low.shape, jnp.uint32))
    rounds = (steps + jnp.uint32(every - 1)) // jnp.uint32(every)
    chains, low, worst, good = lax.fori_loop(jnp.uint32(0), rounds, some, carry)
    return chains, health.Health(low, worst, health.all_finite(chains.position), good)


def write(buffers: PyTree, record: PyTree, index: Array) -> PyTree:
    """``record`` put at ``index`` of the leading axis of ``buffers``."""
    return jax.tree.map(
        lambda to, leaf: lax.dynamic_update_index_in_dim(to, leaf, index, 0), buffers, record
    )


def room(record: PyTree, draws: int) -> PyTree:
    """Uninitialised buffers for ``draws`` records."""
    return jax.tree.map(lambda leaf: lax.empty((draws, *leaf.shape), leaf.dtype), record)


@partial(jax.jit, static_argnames=("plan", "capacity", "thin"))
def block(
    chains: Chain,
    averages: online.Average | None,
    low: Array,
    count: Array,
    data: PyTree,
    batches: PyTree,
    *,
    plan: Plan,
    capacity: int,
    thin: int,
) -> tuple[Chain, online.Average | None, Record, health.Health]:
    """``count`` draws of every chain, ``thin`` steps apart; records have axes (draw, chain).

    The records have room for ``capacity`` draws, so that blocks of any length share one
    compilation. ``batches`` are given for a streamed gradient, one per step, in place of ``data``.
    """
    if takes_turns(chains.position):
        rest = {"count": count, "data": data, "batches": batches}
        one_of = partial(block, **rest, plan=plan, capacity=capacity, thin=thin)
        chains, averages, records, found = in_turn(one_of, chains, averages, low)
        return *joined((chains, averages)), joined(records, axis=1), joined(found)
    if batches is not None:
        batches = jax.tree.map(lambda leaf: leaf.reshape(capacity, thin, *leaf.shape[1:]), batches)

    def one(chain: Chain, batch: PyTree) -> tuple[Chain, Array, Array, dict[str, Array]]:
        return step(chain, data if batch is None else batch, plan)

    def lean(chain: Chain, batch: PyTree) -> tuple[Chain, Array]:
        return one(chain, batch)[:2]

    def draw(batch: PyTree, chain: Chain, average: Any) -> tuple[Chain, Any, Record]:
        left, broke = chain.position, None
        values = plan.collect(left)
        chain, fine, weight, stats = one(chain, jax.tree.map(lambda leaf: leaf[0], batch))
        if thin > 1:
            others = jax.tree.map(lambda leaf: leaf[1:], batch)
            chain, rest = lax.scan(lean, chain, others, length=thin - 1)
            broke = jnp.sum(jnp.cumprod(jnp.append(fine, rest).astype(jnp.uint32)))
        if plan.online is not None:
            average = online.add(average, plan.online(left), weight, stats)
        return chain, average, Record(values, weight, stats, broke)

    def all_chains(index: Array, chains: Chain, averages: Any) -> tuple[Chain, Any, Record]:
        batch = jax.tree.map(lambda leaf: lax.dynamic_index_in_dim(leaf, index, 0, False), batches)
        return each_chain(partial(draw, batch), chains, averages)

    def body(index: Array, carry: tuple) -> tuple:
        chains, averages, records = carry
        chains, averages, record = all_chains(index, chains, averages)
        return chains, averages, write(records, record, index)

    records = room(jax.eval_shape(all_chains, jnp.uint32(0), chains, averages)[2], capacity)
    carry = (chains, averages, records)
    chains, averages, records = lax.fori_loop(jnp.uint32(0), count, body, carry)
    return (
        chains,
        averages,
        records,
        health.of_records(
            records.weight, records.stats, count, low, chains.position, plan.sampler.temperature
        ),
    )
