"""The compiled loop: one ``lax.scan`` per block of draws, chains as the leading axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from sundman.gradients import GradientEstimator
from sundman.noise import Stream
from sundman.samplers import Sampler, SamplerState

PyTree = Any


class Chain(NamedTuple):
    """All there is to a chain between two steps."""

    position: PyTree
    state: SamplerState


class Record(NamedTuple):
    """What a draw leaves behind."""

    values: PyTree
    weight: Array
    stats: dict[str, Array]


def _step(
    chain: Chain, gradient: GradientEstimator, sampler: Sampler, weighting: str
) -> tuple[Chain, tuple[Array, dict[str, Array]]]:
    """One step: the chain after it, and the weight and statistics of the position it left."""
    position, state = chain
    value, grads = gradient(Stream(state.key, state.clock.step), position)
    updates, after = sampler.update(grads, state, position)
    clock = after.clock
    stats = {
        "time": state.clock.time,
        "potential": value,
        "grad_norm": optax.tree.norm(grads),
    }
    if clock.zeta is not None:
        stats["zeta"] = clock.zeta
    if weighting == "leaving":
        weight = clock.dt
    else:
        weight = state.clock.dt if weighting == "arriving" else jnp.ones_like(clock.dt)
        stats["dt"] = clock.dt
    return Chain(optax.apply_updates(position, updates), after), (weight, stats)


@partial(jax.jit, static_argnames=("gradient", "sampler"), donate_argnames=("chains",))
def advance(chains: Chain, steps: Array, *, gradient: GradientEstimator, sampler: Sampler) -> Chain:
    """Move every chain by ``steps`` steps and keep nothing."""

    def silent(_: Array, chain: Chain) -> Chain:
        return _step(chain, gradient, sampler, "leaving")[0]

    return jax.vmap(lambda chain: lax.fori_loop(jnp.uint32(0), steps, silent, chain))(chains)


@partial(
    jax.jit,
    static_argnames=("draws", "thin", "gradient", "sampler", "collect", "weighting"),
    donate_argnames=("chains",),
)
def block(
    chains: Chain,
    *,
    draws: int,
    thin: int,
    gradient: GradientEstimator,
    sampler: Sampler,
    collect: Callable[[PyTree], PyTree],
    weighting: str,
) -> tuple[Chain, Record]:
    """``draws`` draws of every chain, ``thin`` steps apart; records have axes (draw, chain)."""

    def step(chain: Chain, _: None) -> tuple[Chain, tuple[Array, dict[str, Array]]]:
        return _step(chain, gradient, sampler, weighting)

    def draw(chain: Chain, _: None) -> tuple[Chain, Record]:
        values = collect(chain.position)
        if thin == 1:
            chain, (weight, stats) = step(chain, None)
        else:
            chain, trace = lax.scan(step, chain, None, length=thin)
            weight, stats = jax.tree.map(lambda leaf: leaf[0], trace)
        return chain, Record(values, weight, stats)

    def run(chain: Chain) -> tuple[Chain, Record]:
        return lax.scan(draw, chain, None, length=draws)

    return jax.vmap(run, out_axes=(0, 1))(chains)
