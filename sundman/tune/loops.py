"""One step of the warm-up, and the compiled loop of a window of them.

The step is BAOAB in whitened coordinates, with both its half kicks: its error of energy,

    dE = U(x') - U(x) + [K after the first B - before] + [K after the last B - before],

says how much too long the step is. Where the gradient has noise that U does not have, (G + G')/2
times (x' - x) stands for U(x') - U(x), so that the noise cancels. U and the gradient are those of
one minibatch at both ends, so the gradient of the minibatch before is known at x, too: half the
squared difference of the two is the covariance of the gradient noise, their product the squared
gradient without noise.

Positions, gradients and momenta are vectors here, axes (chain, coordinate); all statistics are
pooled over the chains.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from sundman._types import PyTree
from sundman.gradients import GradientEstimator
from sundman.native.split_gradient import dense
from sundman.noise import Purpose, Stream, gaussian, substream
from sundman.value import Number, Value, array, static

SUB = 10  # steps between two corrections of h
MOST_SUB_WINDOWS = 128  # sub-windows of a window, at most
_CAP = 1.0  # what one energy error counts for at most: a single outlier does not decide
_REJECT = 1000.0  # in units of T: a step that gains more energy is not taken
_FAR_OUT = 8.0  # an energy error beyond T and so many times the usual one is a jump
_ROUNDING = 3.4  # in units of U's precision: an energy error below it says nothing
_TURN = 0.1  # the change of the gradient in a step to aim at where U is too large for dE
_FIXED = 2**31  # a step that no warm-up comes to
_LONGEST = 120  # doublings or halvings of the first step


class Dynamics(Value):
    """How the chains move in a window.

    Attributes:
      gradient: U and its gradient.
      example: a position, for its structure.
      scale: L, a vector or a matrix.
      temperature: T.
      gamma: the friction.
      aim: the mean of dE^2 / (d T^2) that h is corrected for.
      gain: how strongly.
      longest: h is at most this.
      pooled: 1 if all chains share h, 0 if each has its own, as in the descent.
      reference: the usual |L' G|^2, of the clock.
      bound: M of the clock; 1 is a constant step.
      memory, power: a and r of the clock.
      exact: whether the gradient has no noise.
      by_gradient: whether the change of U is the gradient's work by the trapezoidal rule.
    """

    gradient: GradientEstimator
    example: PyTree = array()
    scale: Array = array()
    temperature: Number
    gamma: Number
    aim: Number
    gain: Number
    longest: Number
    pooled: Number
    reference: Number
    bound: Number
    memory: Number
    power: Number
    exact: bool = static()
    by_gradient: bool = static(default=False)

    def inward(self, grads: Array) -> Array:
        """L' G."""
        return self.scale * grads if self.scale.ndim == 1 else grads @ self.scale

    def outward(self, step: Array) -> Array:
        """L v."""
        return self.scale * step if self.scale.ndim == 1 else step @ self.scale.T


class Walk(NamedTuple):
    """Where the chains are, axes (chain, ...); ``grads`` is of the minibatch of the step before.

    ``memory`` is the gradient estimator's, ``zeta`` the clock's (below 0: it has seen nothing).
    """

    position: Array
    momentum: Array
    value: Array
    grads: Array
    memory: PyTree
    zeta: Array
    key: Array
    step: Array


class Sums(NamedTuple):
    """Sums over the steps of a window; with axes (d, d) only where L is a matrix.

    ``origin`` is where each chain began: positions are summed from there.
    """

    n: Array
    origin: Array
    x: Array
    xx: Array
    g: Array
    gg: Array
    noise: Array


class Traces(NamedTuple):
    """What a window leaves behind, one row for each SUB steps; unused rows are zero.

    ``dt`` and ``dt2`` are the means of dt/h and of its square, ``jumps`` the share of steps whose
    energy error is far out. ``x``, ``g`` and ``change`` (of the gradient between two minibatches)
    are kept for some rows.
    """

    v: Array
    h: Array
    U: Array
    dt: Array
    dt2: Array
    jumps: Array
    x: Array
    g: Array
    change: Array


class _Step(NamedTuple):
    """One step of one chain, and what it tells."""

    walk: Walk
    error: Array
    rejected: Array
    jumped: Array
    value: Array
    grads: Array
    stretch: Array


def evaluate(dynamics: Dynamics, walk: Walk, at: Array) -> tuple[Array, Array, PyTree]:
    """U and its gradient on this step's minibatch, of one chain; and what to remember."""
    unravel = ravel_pytree(dynamics.example)[1]
    stream = Stream(walk.key, walk.step)
    here, memory = dynamics.gradient.evaluate(stream, unravel(at), walk.memory)
    return here.value, ravel_pytree(dense(here.grads))[0].astype(at.dtype), memory


def _tick(dynamics: Dynamics, h: Array, zeta: Array, grads: Array) -> tuple[Array, Array]:
    """The scale-free clock with a guarded lag: dt and the next zeta."""
    q = jnp.sum(grads * grads) / dynamics.reference
    zeta = jnp.where(zeta < 0, q, zeta)
    keep = jnp.exp(-dynamics.memory)
    power = jnp.maximum(jnp.maximum(zeta, 0.1 * q), 1e-12) ** dynamics.power
    M = dynamics.bound
    return h * (M + power) / (1.0 + M * power), jnp.minimum(keep * zeta + (1.0 - keep) * q, 1e12)


def _kinetic(p: Array) -> Array:
    return 0.5 * jnp.sum(p * p)


def _step(dynamics: Dynamics, walk: Walk, h: Array) -> _Step:
    """One step of one chain."""
    x, p, T, d = walk.position, walk.momentum, dynamics.temperature, walk.position.size
    if dynamics.exact:
        before, g, memory = walk.value, walk.grads, walk.memory
    else:
        before, g, memory = evaluate(dynamics, walk, x)
    inside = dynamics.inward(g)
    usual = h
    h, zeta = _tick(dynamics, usual, walk.zeta, inside)
    keep = jnp.exp(-dynamics.gamma * h)
    stream = substream(Stream(walk.key, walk.step), Purpose.WARM_UP)
    first = p - 0.5 * h * inside
    eps, fresh = (gaussian(s, p) for s in (stream, substream(stream, Purpose.FRESH_MOMENTUM)))
    mixed = keep * first + jnp.sqrt((1.0 - keep * keep) * T) * eps
    moved = x + dynamics.outward(0.5 * h * (first + mixed))
    after, g_after, _ = evaluate(dynamics, walk, moved)
    inside_after = dynamics.inward(g_after)
    last = mixed - 0.5 * h * inside_after
    change = after - before
    if dynamics.by_gradient:
        change = 0.5 * jnp.sum((g + g_after) * (moved - x))
    dE = change + _kinetic(first) - _kinetic(p) + _kinetic(last) - _kinetic(mixed)
    fine = jnp.isfinite(dE) & (dE < _REJECT * T + 1e-3 * jnp.abs(before))
    fine &= jnp.all(jnp.isfinite(g_after))
    size = jnp.abs(before) + jnp.abs(after) + _kinetic(first) + _kinetic(last)
    rounding = jnp.abs(dE) < _ROUNDING * jnp.finfo(x.dtype).eps * size
    error = jnp.where(rounding, 0.0, jnp.minimum(dE * dE / (d * T * T), _CAP))
    squares = jnp.sum(inside * inside) + jnp.sum(inside_after * inside_after) + 1e-30
    turn = jnp.sum(jnp.square(inside_after - inside)) / squares
    far = rounding & (dE * dE > 0.01 * d * T * T)  # rounding hides errors that would matter
    error = jnp.where(far, jnp.minimum(dynamics.aim * (turn / _TURN) ** 3, _CAP), error)
    there = walk._replace(
        position=jnp.where(fine, moved, x),
        momentum=jnp.where(fine, last, jnp.sqrt(T) * fresh),
        value=jnp.where(fine, after, before),
        grads=jnp.where(fine, g_after, g),
        memory=memory,
        zeta=zeta,
        step=walk.step + jnp.uint32(1),
    )
    large = jnp.abs(dE) > T * (1.0 + _FAR_OUT * jnp.sqrt(dynamics.aim * d))
    jumped = ~fine | (large & ~rounding)
    return _Step(there, jnp.where(fine, error, _CAP), ~fine, jumped, before, g, h / usual)


def _steps(dynamics: Dynamics, walk: Walk, h: Array) -> _Step:
    """One step of every chain."""
    own = jnp.broadcast_to(h, walk.zeta.shape)
    return jax.vmap(_step, in_axes=(None, 0, 0))(dynamics, walk, own)


def _nothing(walk: Walk, *, matrix: bool) -> Sums:
    chains, d = walk.position.shape
    square = jnp.zeros((d, d) if matrix else (d,), walk.position.dtype)
    each = jnp.zeros((chains, d), walk.position.dtype)
    return Sums(jnp.float32(0), walk.position, each, square, each, square, square)


def _added(sums: Sums, x: Array, before: Array, now: Array, *, matrix: bool) -> Sums:
    """With a step of every chain: where it began, and the gradients of two batches there."""
    moved, change = x - sums.origin, now - before
    chains = len(x)

    def outer(a: Array, b: Array) -> Array:
        return (a.T @ b if matrix else jnp.sum(a * b, axis=0)) / chains

    cross = outer(now, before)
    return sums._replace(
        n=sums.n + 1,
        x=sums.x + moved,
        xx=sums.xx + outer(moved, moved),
        g=sums.g + now,
        gg=sums.gg + (0.5 * (cross + cross.T) if matrix else cross),
        noise=sums.noise + 0.5 * outer(change, change),
    )


@partial(jax.jit, static_argnames=("rows",))
def window(
    dynamics: Dynamics, walk: Walk, h: Array, number: Array, *, rows: int
) -> tuple[Walk, Array, Array, Sums, Traces]:
    """``number`` times SUB steps; h is corrected after each SUB.

    Args:
      dynamics: how the chains move.
      walk: where they are.
      h: the step of every chain to begin with.
      number: of corrections, at most MOST_SUB_WINDOWS.
      rows: how many positions and gradients are kept.

    Returns:
      Where the chains are, h, how many steps were not taken, the sums and the traces.
    """
    matrix = dynamics.scale.ndim == 2
    chains, d = walk.position.shape
    number_of_rows = jnp.minimum(number, MOST_SUB_WINDOWS)

    def sub(i: Array, carry: tuple) -> tuple:
        walk, h, lost, sums, traces = carry

        def one(carry: tuple[Walk, Sums, Array], _: None) -> tuple[tuple[Walk, Sums, Array], Array]:
            walk, sums = carry[:2]
            out = _steps(dynamics, walk, h)
            sums = _added(sums, walk.position, walk.grads, out.grads, matrix=matrix)
            rejected, jumped = (a.astype(out.error.dtype) for a in (out.rejected, out.jumped))
            stretch = out.stretch
            recorded = [out.error, rejected, out.value, stretch, stretch**2, jumped]
            return (out.walk, sums, out.grads - walk.grads), jnp.stack(recorded)

        start = (walk, sums, jnp.zeros_like(walk.grads))
        (walk, sums, change), recorded = lax.scan(one, start, None, length=SUB)
        errors = recorded[:, 0].mean(0)
        v = jnp.where(dynamics.pooled > 0, errors.mean(), errors)
        factor = jnp.clip((dynamics.aim / (v + 1e-12)) ** (dynamics.gain / 6.0), 0.5, 2.0)
        row = jnp.where(number_of_rows > rows, i * rows // number_of_rows, i)
        traces = Traces(
            traces.v.at[i].set(errors.mean()),
            traces.h.at[i].set(jnp.exp(jnp.median(jnp.log(h)))),
            traces.U.at[i].set(recorded[:, 2].mean()),
            traces.dt.at[i].set(recorded[:, 3].mean()),
            traces.dt2.at[i].set(recorded[:, 4].mean()),
            traces.jumps.at[i].set(recorded[:, 5].mean()),
            traces.x.at[row].set(walk.position),
            traces.g.at[row].set(walk.grads),
            traces.change.at[row].set(change),
        )
        h = jnp.minimum(h * factor, dynamics.longest).astype(h.dtype)
        return walk, h, lost + recorded[:, 1].sum().astype(lost.dtype), sums, traces

    kept = jnp.zeros((rows, chains, d), walk.position.dtype)
    line = jnp.zeros(MOST_SUB_WINDOWS, jnp.float32)
    begin = (walk, h, jnp.int32(0), _nothing(walk, matrix=matrix))
    traces = Traces(line, line, line, line, line, line, kept, kept, kept)
    return lax.fori_loop(0, number, sub, (*begin, traces))


@partial(jax.jit, static_argnames=("number",))
def differences(dynamics: Dynamics, walk: Walk, *, number: int) -> Array:
    """Differences of the gradients of two minibatches where the chains are: (number, chain, d)."""

    def of_chain(walk: Walk) -> Array:
        return evaluate(dynamics, walk, walk.position)[1]

    def pair(_: None, trial: Array) -> tuple[None, Array]:
        one, other = (walk._replace(step=walk.step + 2 * trial + i) for i in jnp.uint32([0, 1]))
        return None, lax.map(of_chain, one) - lax.map(of_chain, other)

    return lax.scan(pair, None, jnp.arange(number, dtype=jnp.uint32))[1]


@partial(jax.jit, static_argnames=("number",))
def levels(dynamics: Dynamics, walk: Walk, *, number: int) -> Array:
    """U of every chain where it is, on ``number`` minibatches that are always the same.

    Differences of it tell whether U falls, where the noise of other minibatches would drown that.
    """

    def of_chain(walk: Walk) -> Array:
        return evaluate(dynamics, walk, walk.position)[0]

    def add(total: Array, trial: Array) -> tuple[Array, None]:
        step = jnp.full_like(walk.step, _FIXED) + trial
        return total + jax.vmap(of_chain)(walk._replace(step=step)), None

    nothing = jnp.zeros(len(walk.value), walk.value.dtype)
    return lax.scan(add, nothing, jnp.arange(number, dtype=jnp.uint32))[0] / number


@partial(jax.jit, static_argnames=("number",))
def mean_hessian(dynamics: Dynamics, walk: Walk, *, number: int) -> Array:
    """The mean of the Hessian of U over the chains, where they are, and ``number`` minibatches.

    In the stationary state that is Cov(G) / T, without the noise of the gradient.
    """

    def of_chain(walk: Walk) -> Array:
        return jax.jacfwd(lambda at: evaluate(dynamics, walk, at)[1])(walk.position)

    def add(total: Array, trial: Array) -> tuple[Array, None]:
        now = walk._replace(step=walk.step + trial)
        return total + jax.vmap(of_chain)(now).mean(0), None

    d = walk.position.shape[1]
    nothing = jnp.zeros((d, d), walk.position.dtype)
    total, _ = lax.scan(add, nothing, jnp.arange(1, number + 1, dtype=jnp.uint32))
    return total / number


@jax.jit
def bracket(dynamics: Dynamics, walk: Walk, h: Array) -> tuple[Array, Array]:
    """The step at which the energy error of one step crosses the aim, from any first h.

    Returns:
      h, and how many steps were tried; as many as _LONGEST if the error never crossed the aim.
    """

    def error(h: Array, trial: Array) -> Array:
        now = walk._replace(step=walk.step + trial)
        damped = dynamics.replace(gamma=0.1 / h)
        return _steps(damped, now, h).error.mean()

    up = error(h, jnp.uint32(0)) < dynamics.aim

    def undecided(carry: tuple[Array, Array, Array]) -> Array:
        _, trial, done = carry
        return ~done & (trial < _LONGEST)

    def again(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        h, trial, _ = carry
        other = jnp.where(up, 2.0 * h, 0.5 * h)
        small = error(other, trial) < dynamics.aim
        done = jnp.where(up, ~small, small)
        return jnp.where(up & ~small, h, other), trial + jnp.uint32(1), done

    h, trials, _ = lax.while_loop(undecided, again, (h, jnp.uint32(1), jnp.bool_(False)))
    return h, trials


def gave_up(trials: int) -> bool:
    """Whether :func:`bracket` found no step."""
    return trials >= _LONGEST
