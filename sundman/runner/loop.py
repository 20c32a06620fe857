"""The compiled loop: one ``lax.scan`` per block of draws, chains as the leading axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from sundman.gradients import GradientEstimator
from sundman.noise import Stream
from sundman.runner import online
from sundman.samplers import Sampler, SamplerState

PyTree = Any
STATS = ("time", "grad_norm", "zeta")


class Plan(NamedTuple):
    """What a compiled loop is made of; equal plans share one compilation."""

    gradient: GradientEstimator
    sampler: Sampler
    collect: Callable[[PyTree], PyTree]
    weighting: str = "leaving"
    stats: tuple[str, ...] = STATS
    online: Callable[[PyTree], PyTree] | None = None


class Chain(NamedTuple):
    """All there is to a chain between two steps."""

    position: PyTree
    state: SamplerState


class Record(NamedTuple):
    """What a draw leaves behind."""

    values: PyTree
    weight: Array
    stats: dict[str, Array]


def step(chain: Chain, data: PyTree, plan: Plan) -> tuple[Chain, tuple[Array, dict[str, Array]]]:
    """One step: the chain after it, and the weight and statistics of the position it left."""
    position, state = chain
    value, grads = plan.gradient(Stream(state.key, state.clock.step), position, data)
    update = cast(Callable[..., tuple[PyTree, SamplerState]], plan.sampler.update)
    updates, after = update(grads, state, position)
    clock = after.clock
    stats = {"potential": value}
    if "time" in plan.stats:
        stats["time"] = state.clock.time
    if "grad_norm" in plan.stats:
        stats["grad_norm"] = optax.tree.norm(grads)
    if "zeta" in plan.stats and clock.zeta is not None:
        stats["zeta"] = clock.zeta
    if plan.weighting == "leaving":
        weight = clock.dt
    else:
        weight = state.clock.dt if plan.weighting == "arriving" else jnp.ones_like(clock.dt)
        stats["dt"] = clock.dt
    return Chain(optax.apply_updates(position, updates), after), (weight, stats)


def each_chain(run: Callable[..., Any], *chains: PyTree, out_axes: Any = 0) -> Any:
    """``run`` mapped over the leading axis; a single chain runs as it is, without a batch axis.

    A batched matrix product with a batch of one is several times slower than a plain one on CPU.
    """
    if len(jax.tree.leaves(chains)[0]) > 1:
        return jax.vmap(run, out_axes=out_axes)(*chains)
    alone = run(*jax.tree.map(lambda leaf: leaf[0], chains))
    axes = out_axes if isinstance(out_axes, tuple) else (out_axes,)
    parts = alone if isinstance(out_axes, tuple) else (alone,)
    grown = tuple(
        jax.tree.map(lambda leaf, axis=axis: jnp.expand_dims(leaf, axis), part)
        for part, axis in zip(parts, axes, strict=True)
    )
    return grown if isinstance(out_axes, tuple) else grown[0]


@partial(jax.jit, static_argnames=("plan",), donate_argnames=("chains",))
def advance(chains: Chain, steps: Array, data: PyTree, *, plan: Plan) -> Chain:
    """Move every chain by ``steps`` steps and keep nothing."""

    def run(chain: Chain) -> Chain:
        return lax.fori_loop(jnp.uint32(0), steps, lambda _, c: step(c, data, plan)[0], chain)

    return each_chain(run, chains)


@partial(jax.jit, static_argnames=("plan",), donate_argnames=("chains",))
def advance_streamed(chains: Chain, batches: PyTree, *, plan: Plan) -> Chain:
    """Move every chain by one step for each batch and keep nothing."""

    def run(chain: Chain) -> Chain:
        return lax.scan(lambda c, batch: (step(c, batch, plan)[0], None), chain, batches)[0]

    return each_chain(run, chains)


@partial(jax.jit, static_argnames=("plan", "draws", "thin"), donate_argnames=("chains", "averages"))
def block(
    chains: Chain,
    averages: online.Average | None,
    data: PyTree,
    batches: PyTree,
    *,
    plan: Plan,
    draws: int,
    thin: int,
) -> tuple[Chain, online.Average | None, Record]:
    """``draws`` draws of every chain, ``thin`` steps apart; records have axes (draw, chain).

    ``batches`` are given for a streamed gradient, one per step, and take the place of ``data``.
    """
    if batches is not None:
        batches = jax.tree.map(lambda leaf: leaf.reshape(draws, thin, *leaf.shape[1:]), batches)

    def one(chain: Chain, batch: PyTree) -> tuple[Chain, tuple[Array, dict[str, Array]]]:
        return step(chain, data if batch is None else batch, plan)

    def draw(carry: tuple, batch: PyTree) -> tuple[tuple, Record]:
        chain, average = carry
        left = chain.position
        values = plan.collect(left)
        if thin == 1:
            chain, (weight, stats) = one(chain, jax.tree.map(lambda leaf: leaf[0], batch))
        else:
            chain, trace = lax.scan(one, chain, batch, length=thin)
            weight, stats = jax.tree.map(lambda leaf: leaf[0], trace)
        if plan.online is not None:
            average = online.add(average, plan.online(left), weight, stats)
        return (chain, average), Record(values, weight, stats)

    def run(chain: Chain, average: Any) -> tuple[tuple, Record]:
        return lax.scan(draw, (chain, average), batches, length=draws)

    (chains, averages), record = each_chain(run, chains, averages, out_axes=(0, 1))
    return chains, averages, record
