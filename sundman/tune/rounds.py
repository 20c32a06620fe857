"""The warm-up of noisy gradients in many dimensions: rounds with the sampler itself.

The step is set by the noise, not by the energy error, and one scale for each array is enough. After
the descent come rounds with :class:`sundman.integrators.low_rank_baoab`, whose directions are those
of the noise:

    scale   1 / sqrt(mean diagonal of the Hessian) of each array of the position, by random signs
    step    h = 2 sqrt(0.1 T / s), s the largest variance of the noise in these coordinates
    end     when neither U nor the likelihood's part of it drifts any more beyond its error

Scale and step are settled anew before each round, since both change as the network learns: in a
regression the noise grows like the inverse square of the level of noise that is learned. After the
first three, each round is half as long as all before it, so that no run begins before it has
arrived, or says that it has not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from sundman import native
from sundman.gradients import GradientEstimator
from sundman.noise import Purpose, Stream, substream, two_point
from sundman.samplers import Sampler, SamplerState
from sundman.tune import scales
from sundman.tune.auto import Chosen, WarmUpWindow
from sundman.tune.loops import Dynamics, Walk, differences, evaluate
from sundman.tune.state import Movers, Problem, TuningError, WarmUp, dynamics, matters, rescaled

_RANK = 20
_SHARE = 0.2
_FRICTION = 0.5
_FIRST = (1000, 1000, 2000)
_PARTS = 20  # of a round, that it is judged by
_PAIRS = 32  # of minibatches, all chains together, for the first step
_LOSS_MATTERS = 0.02  # a fall of the likelihood's part, as a share of it
_KICK = 0.1  # (h/2)^2 s / T: what one step's noise adds to the energy along the loudest direction
_PROBES = 16  # of the curvature, all chains together


def lengths() -> tuple[int, ...]:
    """The lengths of the first rounds."""
    return _FIRST


def chosen(problem: Problem, warm: WarmUp) -> Chosen:
    """The sampler of the rounds and of the run: one number of the scale for each array."""
    unravel = ravel_pytree(problem.example)[1]
    scale = unravel(jnp.asarray(warm.scale, warm.walk.position.dtype))
    return Chosen(
        method="low_rank_baoab",
        temperature=problem.temperature,
        h=warm.h,
        gamma=_FRICTION,
        reference=0.0,
        rank=min(_RANK, max(1, warm.coordinates // 4)),
        share=_SHARE,
        scale=jax.tree.map(lambda leaf: leaf.ravel()[0], scale),
        sigma=None,
        dense=False,
    )


def at_rest(problem: Problem, warm: WarmUp) -> Movers:
    """The chains where they are, at rest."""
    positions = jax.vmap(ravel_pytree(problem.example)[1])(warm.walk.position)
    init = cast(Callable[..., SamplerState], chosen(problem, warm).sampler().init)
    return Movers(positions, jax.vmap(init)(positions, warm.walk.key), warm.walk.memory)


def _step_for(loudest: float, temperature: float) -> float:
    """The step that the loudest direction of the noise allows."""
    return float(2.0 * np.sqrt(_KICK * temperature / loudest)) if loudest > 0 else np.inf


@partial(jax.jit, static_argnames=("number",))
def _curvature_by_array(dynamics: Dynamics, walk: Walk, *, number: int) -> Array:
    """The mean diagonal of the Hessian of U, for each array of the position.

    By v . H v with random signs v, averaged over the chains and ``number`` minibatches.
    """

    def of_chain(walk: Walk) -> Array:
        signs = two_point(substream(Stream(walk.key, walk.step), Purpose.CURVATURE), walk.position)
        _, turned = jax.jvp(lambda at: evaluate(dynamics, walk, at)[1], (walk.position,), (signs,))
        unravel = ravel_pytree(dynamics.example)[1]
        return jnp.stack([jnp.mean(leaf) for leaf in jax.tree.leaves(unravel(signs * turned))])

    def add(total: Array, trial: Array) -> tuple[Array, None]:
        now = walk._replace(step=walk.step + trial)
        return total + lax.map(of_chain, now).mean(0), None

    leaves = len(jax.tree.leaves(dynamics.example))
    trials = jnp.arange(1, number + 1, dtype=jnp.uint32)
    total, _ = lax.scan(add, jnp.zeros(leaves, walk.position.dtype), trials)
    return total / number


@partial(jax.jit, static_argnames=("rows", "kernels"))
def _move(
    gradient: GradientEstimator,
    moves: Sampler,
    movers: Movers,
    steps: Array,
    *,
    rows: int,
    kernels: bool,
) -> tuple[Movers, Array, Array]:
    """Move every chain; and the means of U and of the likelihood's part over ``rows`` equal parts.

    Args:
      gradient: U and its gradient.
      moves: the sampler.
      movers: the chains.
      steps: of each part.
      rows: how many parts.
      kernels: whether the native ones are used.

    Returns:
      The chains, and U and its part with axes (chain, row).
    """

    def one(_: Array, carry: tuple[Movers, Array]) -> tuple[Movers, Array]:
        (position, state, memory), total = carry
        here, memory = gradient.evaluate(Stream(state.key, state.clock.step), position, memory)
        position, state = moves.step(here.grads, state, position, here.value)
        return Movers(position, state, memory), total + jnp.stack([here.value, here.loss])

    def part(mover: Movers, _: None) -> tuple[Movers, Array]:
        mover, total = lax.fori_loop(0, steps, one, (mover, jnp.zeros(2)))
        return mover, total / steps

    def of_chain(mover: Movers) -> tuple[Movers, Array]:
        return lax.scan(part, mover, None, length=rows)

    with native.using(kernels):
        movers, means = lax.map(of_chain, movers)
    return movers, means[..., 0], means[..., 1]


def _drifts(means: np.ndarray, before: float | None, trifle: float) -> bool:
    """Whether the second half of ``means`` (chain, row) differs from what was, beyond chance.

    Args:
      means: of U, in the order of time.
      before: the mean at the end of the round before, if there was one.
      trifle: what does not matter.
    """
    mean = np.asarray(means, np.float64).mean(0)
    half = len(mean) // 2
    first, second = mean[:half], mean[-half:]
    error = np.sqrt((first.var() + second.var()) / half)
    was = (first.mean(),) if before is None else (first.mean(), before)
    return any(abs(each - second.mean()) > max(trifle, 3.0 * error) for each in was)


def advance(problem: Problem, warm: WarmUp) -> WarmUp:
    """The warm-up after its next round."""
    warm = _begun_anew(problem, warm)
    assert warm.movers is not None
    length = warm.left[0]
    movers, U, loss = _move(
        problem.of_run,
        chosen(problem, warm).sampler(),
        warm.movers,
        jnp.int32(length // _PARTS),
        rows=_PARTS,
        kernels=problem.native,
    )
    U, loss = np.asarray(U, np.float64), np.asarray(loss, np.float64)
    if not np.isfinite(U).all():
        raise TuningError(
            f"U is not finite in the warm-up, with the step {warm.h:.3g}: give another init, or a "
            "sampler"
        )
    variances = np.asarray(movers.state.motion.variances)
    loudest = float(variances.max(axis=tuple(range(1, variances.ndim))).mean())
    level = tuple(float(means[:, _PARTS // 2 :].mean()) for means in (U, loss))
    trifles = (matters(problem, warm), _LOSS_MATTERS * abs(level[1]))
    drifts = any(
        _drifts(means, before, trifle)
        for means, before, trifle in zip(
            (U, loss), warm.level or (None, None), trifles, strict=True
        )
    )
    made, left = warm.made + length, warm.left[1:]
    if not left and drifts and made < problem.most_burn_in:
        left = (max(_FIRST[0], made // 2 // _PARTS * _PARTS),)
    record = WarmUpWindow(
        "round", length, warm.h, 0.0, _FRICTION, 0.0, loudest, float(U[:, -1].mean()), 0
    )
    flat = jax.vmap(lambda tree: ravel_pytree(tree)[0])(movers.position)
    return dataclasses.replace(
        warm,
        walk=warm.walk._replace(position=flat),
        movers=movers,
        left=left,
        made=made,
        level=level,
        gradients=warm.gradients + length,
        records=(*warm.records, record),
        converged=not drifts,
    )


def _begun_anew(problem: Problem, warm: WarmUp) -> WarmUp:
    """With scale and step from where the chains are, which begin anew there.

    They keep their momenta, whose law is the same in all coordinates: at rest they would cool down,
    and lose what they have gained along the soft directions.
    """
    probes, pairs = max(1, _PROBES // warm.chains), max(2, _PAIRS // warm.chains)
    here = dynamics(problem, warm)
    curvature = np.asarray(_curvature_by_array(here, warm.walk, number=probes), np.float64)
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(problem.example)]
    known = np.isfinite(curvature) & (curvature > 0)
    usual = float(np.exp(np.mean(np.log(curvature[known])))) if known.any() else 1.0
    rows = np.asarray(differences(here, warm.walk, number=pairs), np.float64)
    rows = rows.reshape(-1, warm.coordinates)
    was = scales.inward(warm.scale, rows)
    warm = rescaled(warm, np.repeat(1.0 / np.sqrt(np.where(known, curvature, usual)), sizes))
    inside = scales.inward(warm.scale, rows)
    if warm.movers is None:
        longest = warm.h  # what the energy error allowed
        loudest = scales.widest(inside / np.sqrt(2.0))
    else:  # as the sampler found it in the round before, in the new coordinates
        longest = warm.longest
        loudest = warm.records[-1].noise * float(np.mean(inside**2) / np.mean(was**2))
    warm = dataclasses.replace(
        warm,
        h=min(_step_for(loudest, problem.temperature), longest),
        longest=longest,
        gradients=warm.gradients + 2 * (probes + pairs),
    )
    movers = at_rest(problem, warm)
    step = jnp.full(warm.chains, warm.made, jnp.uint32)
    state = movers.state._replace(clock=movers.state.clock._replace(step=step))
    if warm.movers is not None:
        before = warm.movers.state.motion
        motion = state.motion._replace(momentum=before.momentum, dt=before.dt)
        state = state._replace(motion=motion)
    return dataclasses.replace(warm, movers=movers._replace(state=state))
