"""One step of one chain: what it computes, and what it records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.stages import Traced

from sundman import native
from sundman._types import PyTree
from sundman.gradients import GradientEstimator
from sundman.native.split_gradient import inner_product, squared_norm
from sundman.noise import Stream
from sundman.run.state import Chain
from sundman.samplers import Sampler, SamplerState
from sundman.value import Value, static

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
      side_by_side: whether chains run as one vector; None: as suits their number, which on several
        devices is that of all of them.
    """

    gradient: GradientEstimator
    sampler: Sampler
    collect: Callable[[PyTree], PyTree] = static()
    weighting: str = static(default="leaving")
    stats: tuple[str, ...] = static(default=STATS)
    online: Callable[[PyTree], PyTree] | None = static(default=None)
    native: bool = static(default=False)
    stacked: bool = static(default=False)
    side_by_side: bool | None = static(default=None)


class Record(NamedTuple):
    """What a draw leaves behind; ``broke``: how many of its steps began at a finite potential.

    Of draws a physical time apart it is 1 if all did, else 0.
    """

    values: PyTree
    weight: Array
    stats: dict[str, Array]
    broke: Array | None = None


def coldest(tree: PyTree) -> PyTree:
    """The first copy, of a sampler that moves several copies of the position."""
    return jax.tree.map(lambda leaf: leaf[0], tree)


def _statistics(
    value: Array,
    grads: PyTree,
    position: PyTree,
    before: SamplerState,
    after: SamplerState,
    *,
    follows_work: bool,
) -> dict[str, Callable[[], Array]]:
    """How to compute each statistic of the position that a step leaves."""
    leaves, slopes = jax.tree.leaves(position), jax.tree.leaves(grads)
    size = sum(leaf.size for leaf in leaves)
    dtype = jnp.result_type(jnp.float32, *leaves)
    compute: dict[str, Callable[[], Array]] = {
        "potential": lambda: value,
        "time": lambda: before.clock.time,
        "grad_norm": lambda: jnp.sqrt(sum(squared_norm(grad, dtype) for grad in slopes)),
        "virial": lambda: jnp.asarray(sum(map(inner_product, slopes, leaves)) / size),
    }
    if follows_work:
        compute["work"] = lambda: value + after.motion.heat
    if after.clock.zeta is not None:
        compute["zeta"] = lambda: cast(Array, after.clock.zeta)
    if hasattr(after.motion, "momentum"):
        compute["kinetic_temperature"] = lambda: (
            optax.tree.norm(after.motion.momentum, squared=True) / size
        )
    return compute


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
        follows = plan.sampler.integrator.follows_work
        compute = _statistics(value, grads, position, state, after, follows_work=follows)
        names = ("potential", "work", *plan.stats)
        stats = {name: compute[name]() for name in names if name in compute}
    led_here = after._replace(clock=state.clock)  # the step before, this position's own factor
    leaving, arriving = plan.sampler.weight(after), plan.sampler.weight(led_here)
    weight = {
        "leaving": leaving,
        "arriving": arriving,
        "symmetric": 0.5 * (arriving + leaving),
        "equal": jnp.ones_like(after.clock.dt),
    }[plan.weighting]
    if plan.weighting != "leaving" or plan.sampler.integrator.has_weights:
        stats["dt"] = after.clock.dt
    return Chain(moved, after, memory), jnp.isfinite(loss), weight, stats


def traced_step(plan: Plan, chains: Chain, batch: PyTree) -> Traced:
    """The step of one of the chains, traced as the loops trace it, which they need not do again.

    Args:
      plan: of the loop; its sampler may be stacked.
      chains: with a leading axis.
      batch: an example, if data are streamed.

    Returns:
      Its ``jaxpr``, and ``out_info``, the shapes of what it returns.
    """
    if plan.stacked:
        plan = plan.replace(sampler=jax.tree.map(_of_one, plan.sampler), stacked=False)
    return step.trace(plan, jax.tree.map(_of_one, chains), batch)


def _of_one(leaf: Array) -> jax.ShapeDtypeStruct:
    weak = getattr(leaf, "weak_type", False)  # a numpy array has no such thing
    return jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype, weak_type=weak)
