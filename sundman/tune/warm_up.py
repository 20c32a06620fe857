"""The warm-up: a descent, windows that learn the scale, a last one that settles the step.

    0 bracket   one step at the start, h doubled or halved until its energy error crosses the aim
    1 descent   blocks of 60 steps, damped; a diagonal scale and h after each, until the mean of U
                falls by less than 2 sqrt(d/2) T
    2 windows   h is corrected every 10 steps, h <- h clip((aim / v)^(1/6), 1/2, 2); at the end of
                each a new scale, momenta anew; the clock from the third; at last the friction
    3 last      all frozen but h, whose geometric mean over the last three quarters is kept. If U
                still fell, the last two windows come once more

The host is visited once a window. All of it is a :class:`WarmUp`, a value between two windows, so
that it can be saved and gone on with.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from sundman._types import PyTree
from sundman.gradients import GradientEstimator, RemembersGradients
from sundman.gradients.control_variates import is_sum_over_rows
from sundman.noise import Purpose, Stream, fold, gaussian, key_words, substream
from sundman.posterior import Batch, Posterior
from sundman.tune import rounds, windows
from sundman.tune.agreement import check_gradient
from sundman.tune.auto import Auto, Chosen, ControlVariateAt, Tuning
from sundman.tune.centre import Centre, estimator_at
from sundman.tune.loops import Dynamics, Walk, bracket, evaluate, gave_up
from sundman.tune.state import (
    Movers,
    Problem,
    TuningError,
    WarmUp,
    dynamics,
    rescaled,
)

_BIAS_SCALE = 0.35  # the bias of an average over its sd and sqrt(v): see docs/bias.md
_FEW_STIFF = 0.1  # a share of the directions so small is worth a word
_FIRST_STEP = 0.25  # in coordinates of unit size
_NOISE_VARIES = 0.05  # the covariance of the noise over the law, as a share of it


@jax.jit
def _start(
    gradient: GradientEstimator, positions: PyTree, key: Array, temperature: Array
) -> tuple[Walk, Array, Array]:
    """The chains at their first positions; whether two streams agree on the gradient and on U."""
    chains = len(jax.tree.leaves(positions)[0])
    words = fold(key_words(key), 0, Purpose.WARM_UP)
    keys = jax.vmap(lambda i: fold(words, i, Purpose.CHAIN))(jnp.arange(chains, dtype=jnp.uint32))

    def begin(position: PyTree, key: Array) -> tuple[Walk, Array, Array]:
        memory = gradient.begin(position) if isinstance(gradient, RemembersGradients) else ()
        flat, _ = ravel_pytree(position)
        dynamics = Dynamics(gradient, position, flat, *[1.0] * 10, exact=False)
        momentum = jnp.sqrt(temperature) * gaussian(
            substream(Stream(key, jnp.uint32(0)), Purpose.FRESH_MOMENTUM), flat
        )
        zero = jnp.zeros((), flat.dtype)
        walk = Walk(flat, momentum, zero, flat, memory, zero - 1.0, key, jnp.uint32(1))
        value, grads, _ = evaluate(dynamics, walk._replace(step=jnp.uint32(0)), flat)
        again, other, _ = evaluate(dynamics, walk, flat)
        return walk._replace(value=value, grads=grads), jnp.all(grads == other), value == again

    walks, same_gradient, same_value = jax.vmap(begin)(positions, keys)
    return walks, jnp.all(same_gradient), jnp.all(same_value)


def begin(
    auto: Auto,
    gradient: GradientEstimator,
    of_run: GradientEstimator,
    positions: PyTree,
    temperature: float,
    key: Array,
    *,
    independent: bool = True,
    most_burn_in: int = 10_000,
    native: bool = False,
    no_centre: str = "",
    centre: Centre | None = None,
    spot_rows: float = 0.0,
) -> tuple[Problem, WarmUp]:
    """The problem, and the warm-up before its first window; raises if nothing can start here.

    Args:
      auto: what was asked.
      gradient: U and its gradient, the noise of each step independent of the one before.
      of_run: the same as the run will have it.
      positions: the first position of every chain.
      temperature: T.
      key: of the run.
      independent: whether minibatches will be independent of each other in the run.
      most_burn_in: steps of burn-in at most, where the sampler itself burns in.
      native: whether rounds use the native kernels.
      no_centre: why there is no control variate, if one was looked for.
      centre: where the control variate of ``gradient`` is, if it has one.
      spot_rows: rows that may be looked at to see whether the warm-up has arrived.
    """
    walk, same_gradient, same_value = _start(gradient, positions, key, np.float32(temperature))
    exact = bool(same_gradient) and bool(same_value)
    by_gradient = not bool(same_gradient) and bool(same_value)
    d = walk.position.shape[1]
    if d == 0:
        raise TuningError("the position has no coordinate: there is nothing to sample")
    _check_finite(walk)
    example = jax.tree.map(lambda leaf: leaf[0], positions)
    matrix = d <= auto.dense_up_to and (exact or auto.method != "low_rank_baoab")
    matrix = matrix and centre is None
    problem = Problem(
        auto,
        gradient,
        of_run,
        example,
        temperature,
        exact,
        matrix,
        independent,
        most_burn_in,
        native=native,
        posterior=_rows_of(gradient),
        spot_rows=spot_rows,
        centre=centre,
        no_centre=no_centre,
    )
    # Rounds take no noise out, so there the kick of the noise must count as an error of the step.
    problem = problem._replace(by_gradient=by_gradient and not problem.by_rounds)
    unit = np.eye(d) if matrix else np.ones(d)
    left = windows.lengths(auto, exact=problem.exact)
    left = rounds.lengths() if problem.by_rounds else left
    warm = WarmUp(walk, auto.first_step, 1.0, unit, left=left)
    if centre is not None:
        warm = rescaled(warm, centre.scale)
        warm = dataclasses.replace(warm, anchor=np.stack([centre.position, centre.grads]))
    check_gradient(problem, warm)
    h, trials = bracket(dynamics(problem, warm), walk, np.float32(warm.h))
    if gave_up(int(trials)):
        _explain_no_step(float(h), warm.h)
    h = float(h)
    cost = problem.cost * (int(trials) + 1)
    return problem, dataclasses.replace(warm, h=h, gamma=0.3 / h, gradients=cost)


def _rows_of(gradient: GradientEstimator) -> Posterior | None:
    """The posterior of minibatches, if all of its rows can be looked at."""
    posterior = getattr(gradient, "posterior", None)
    if not isinstance(posterior, Posterior) or not isinstance(posterior.data, Batch):
        return None
    return posterior if is_sum_over_rows(posterior) else None


def _check_finite(walk: Walk) -> None:
    value, grads = np.asarray(walk.value), np.asarray(walk.grads)
    bad = np.flatnonzero(~(np.isfinite(value) & np.isfinite(grads).all(1)))
    if len(bad):
        norm = float(np.linalg.norm(grads[bad[0]]))
        raise TuningError(
            f"U and its gradient must be finite where a chain begins: at the first position of "
            f"chain {bad[0]} U = {value[bad[0]]:.6g} and |grad U| = {norm:.6g}; give another init"
        )


def begin_at_centre(
    auto: Auto,
    posterior: Posterior,
    centre: Centre,
    example: PyTree,
    chains: int,
    temperature: float,
    key: Array,
    *,
    spot_rows: float = 0.0,
) -> tuple[Problem, WarmUp]:
    """The problem and the warm-up of chains that begin around a centre, with a control variate.

    They begin at draws of the normal law that U has there, so that there is no descent.

    Args:
      auto: what was asked.
      posterior: with its data in memory.
      centre: of it.
      example: a position.
      chains: how many.
      temperature: T.
      key: of the run.
      spot_rows: rows that may be looked at to see whether the warm-up has arrived.
    """
    flat, unravel = ravel_pytree(example)
    anchor = np.stack([centre.position, centre.grads])
    rows = centre.batch_size
    gradient = estimator_at(posterior, example, centre.position, centre.grads, rows)
    words = np.asarray(fold(key_words(key), 1, Purpose.CENTRE), np.uint32).tolist()
    away = np.random.default_rng(words).normal(size=(chains, flat.size)) @ centre.scale.T
    first = (centre.position + math.sqrt(temperature) * away).astype(flat.dtype)
    positions = jax.vmap(unravel)(jnp.asarray(first))
    walk, *_ = _start(gradient, positions, key, np.float32(temperature))
    _check_finite(walk)
    problem = Problem(
        auto,
        gradient,
        gradient,
        example,
        temperature,
        exact=False,
        matrix=True,
        independent=True,
        most_burn_in=0,
        by_gradient=True,  # the rounding of terms that all rows share is N times as large in U
        posterior=posterior,
        spot_rows=spot_rows,
        centre=centre,
    )
    hessian = np.linalg.inv(centre.scale @ centre.scale.T)
    left = windows.lengths(auto, exact=False)
    warm = WarmUp(
        walk, _FIRST_STEP, 1.0, centre.scale, left=left, descending=False, gradients=problem.cost
    )
    return problem, dataclasses.replace(warm, anchor=anchor, hessian=hessian, hessians=1)


def _explain_no_step(h: float, first: float) -> None:
    if h > first:
        raise TuningError(
            f"U does not change: a step of {h:.2g} from the first position still has no energy "
            "error. A constant or flat potential has no law exp(-U/T)"
        )
    raise TuningError(
        f"no step is short enough: one of {h:.2g} from the first position still has a large energy "
        "error. U or its gradient is not continuous there, or they do not belong together"
    )


def advance(problem: Problem, warm: WarmUp) -> WarmUp:
    """The warm-up after its next block of descent, window or round."""
    if problem.by_rounds and not warm.descending:
        return rounds.advance(problem, warm)
    after = windows.advance(problem, warm)
    if warm.descending and not after.descending:
        check_gradient(problem, after)
    return after


class Start(NamedTuple):
    """Where a run begins after its warm-up.

    Attributes:
      positions: of every chain.
      momenta: in whitened coordinates.
      movers: all of the chains, where they were moved by the sampler itself.
    """

    positions: PyTree
    momenta: PyTree
    movers: Movers | None


def finish(problem: Problem, warm: WarmUp) -> tuple[Start, Tuning]:
    """Where the run begins, and what was chosen."""
    unravel = ravel_pytree(problem.example)[1]
    if problem.by_rounds:
        chosen, momentum = rounds.chosen(problem, warm), warm.walk.momentum
    else:
        chosen, momentum = _whitened_baoab(problem, warm)
    positions, momenta = (jax.vmap(unravel)(a) for a in (warm.walk.position, momentum))
    return Start(positions, momenta, warm.movers), _tuning(problem, warm, chosen)


def _whitened_baoab(problem: Problem, warm: WarmUp) -> tuple[Chosen, Array]:
    """The numbers of the sampler, and the momenta in its coordinates."""
    dtype, scale, sigma = warm.walk.position.dtype, warm.scale, np.zeros(0)
    momentum = warm.walk.momentum
    unravel = ravel_pytree(problem.example)[1]
    if problem.noise_taken_out:  # coordinates in which it is diagonal, too
        noise = warm.noise if warm.noise.size else np.zeros_like(scale)
        values, vectors = np.linalg.eigh(scale.T @ noise @ scale)
        scale, sigma = scale @ vectors, np.sqrt(np.maximum(values, 0.0))
        momentum = jax.device_put((np.asarray(momentum, np.float64) @ vectors).astype(dtype))
    numbers = jax.device_put(scale.astype(dtype))
    adaptive = problem.exact and warm.coordinates > 1  # in one dimension its own bias shows
    chosen = Chosen(
        method="baoab",
        temperature=problem.temperature,
        h=warm.h,
        gamma=warm.gamma,
        reference=warm.reference if adaptive else 0.0,
        rank=0,
        share=0.0,
        scale=numbers if scale.ndim == 2 else unravel(numbers),
        sigma=unravel(jax.device_put(sigma.astype(dtype))) if sigma.size else None,
        dense=scale.ndim == 2,
        exact=problem.exact,
    )
    return chosen, momentum


def _tuning(problem: Problem, warm: WarmUp, chosen: Chosen) -> Tuning:
    v = warm.records[-1].v if warm.records else 0.0
    allowed = warm.h
    if not problem.exact and v > 0:
        aim = problem.auto.aim(warm.chains)
        allowed = min(max(warm.h * (aim / v) ** (1 / 6), warm.h), max(warm.h, 0.5))
    limited = warm.h / allowed
    return Tuning(
        chosen=chosen,
        windows=warm.records,
        gradients=warm.gradients,
        converged=warm.converged,
        noise_limited=limited,
        bias=_bias(problem, warm, v) if warm.records else 0.0,
        why=_describe_choice(problem, warm, limited) if warm.records else "",
        control_variate=_control_variate(problem, warm),
    )


def _control_variate(problem: Problem, warm: WarmUp) -> ControlVariateAt | None:
    """Where the control variate is, and what it was measured to do."""
    centre = problem.centre
    if centre is None:
        return None
    flat, unravel = ravel_pytree(problem.example)
    where, slope = (unravel(jnp.asarray(each, flat.dtype)) for each in warm.anchor)
    noise = warm.records[-1].noise if warm.records else centre.noise
    return ControlVariateAt(
        where, slope, centre.batch_size, centre.potential, noise, centre.plain, centre.passes
    )


def _bias(problem: Problem, warm: WarmUp, v: float) -> float:
    """The scale of the bias in units of a standard deviation; 0 if it is not known.

    From the energy error; with noise also from the heat that it brings, as far as that is not taken
    out: the noise of a minibatch changes from place to place by some 5%.
    """
    if problem.by_rounds:
        return 0.0
    heat = warm.h * warm.records[-1].noise / (2.0 * warm.gamma * problem.temperature)
    left = _NOISE_VARIES if problem.noise_taken_out else 1.0
    return max(_BIAS_SCALE * math.sqrt(v / warm.stiff), left * heat)


def _describe_choice(problem: Problem, warm: WarmUp, limited: float) -> str:
    d = warm.coordinates
    shape = "a matrix" if warm.scale.ndim == 2 else "one number for each"
    gradients = "exact gradients" if problem.exact else "noisy gradients"
    if problem.by_rounds:
        text = (
            "BAOAB with more friction along the noisiest directions, one scale for each array of "
            f"the position ({d:,} coordinates): step h = {warm.h:.3g}, from the largest variance "
            f"of the gradient noise, {warm.records[-1].noise:.3g}; burnt in for {warm.made:,} steps"
        )
        text += _describe_centre(problem, warm)
        if not warm.converged:
            text += ", and U or the loss still drifted then: make the run longer"
        return f"{text}."
    text = (
        f"BAOAB with {gradients} in whitened coordinates ({d} of them, {shape}): step "
        f"h = {warm.h:.3g}, friction {warm.gamma:.3g}, energy error of a step "
        f"{warm.records[-1].v:.2g}, found with {warm.gradients:,} gradients a chain"
    )
    if warm.stiff < _FEW_STIFF:
        about = max(1, round(warm.stiff * d))
        text += f"; the step is set by the stiffest directions, about {about} of them"
    text += _describe_centre(problem, warm)
    if limited < 0.5:
        text += (
            f"; the noise of the minibatches limits the step, {1 / limited:.1f} times longer "
            "without it: larger batches or a control variate would gain"
        )
    if warm.moved:
        text += f"; {warm.moved} of {warm.chains} chains began hopelessly far away and were moved"
    if not warm.converged:
        text += "; U was still falling when the warm-up ended: start nearer, or make it longer"
    return f"{text}."


def _describe_centre(problem: Problem, warm: WarmUp) -> str:
    centre = problem.centre
    if centre is None:
        return f"; no control variate: {problem.no_centre}" if problem.no_centre else ""
    return (
        f"; minibatches of {centre.batch_size} rows with a control variate, whose noise is "
        f"{warm.records[-1].noise:.2g} where plain ones have {centre.plain:,.3g} (1 is the "
        f"posterior's own size), its centre found with about {centre.passes:.2g} passes over all "
        "rows"
    )


def warm_up(problem: Problem, warm: WarmUp) -> WarmUp:
    """All windows that are left."""
    while not warm.over:
        warm = advance(problem, warm)
    return warm
