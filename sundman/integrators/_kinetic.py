"""Kinetic Langevin: the position has a momentum p with friction gamma, one gradient a step.

    B: p <- p - dt/2 G    A: theta <- theta + dt/2 p    O: p <- c p + sqrt((1 - c^2) T) eps

with c = exp(-gamma dt). Four schemes, all of second order in dt.

BAOAB, in the order of its name: Leimkuhler, Matthews (2013). The last half kick needs the gradient
at the new position, so it is made when that gradient arrives, with the step it belongs to, and the
next step's first half kick follows with the same gradient. Given the adaptive clock this is
ZBAOABZ: the two half updates of zeta around that gradient are one.

OBABO, each O over dt/2 and both A together: Bussi, Parrinello (2007), "Accurate sampling using
Langevin dynamics". The trailing B and O are made when the next gradient arrives. That O and the O
which opens the next step are one, over (dt_before + dt)/2:

    p <- p - dt_before/2 G,   O((dt_before + dt)/2),   p <- p - dt/2 G,   theta <- theta + dt p

On a Gaussian of precision k the variance of the positions is too large by the factor
1 / (1 - k dt^2/4), for any gamma; that of BAOAB is exact.

SGHMC, half of the friction before and half after a whole kick:

    p <- c p - sqrt(c) dt G + sqrt((1 - c^2) T) eps,    theta <- theta + dt p

Chen, Fox, Guestrin (2014), "Stochastic gradient Hamiltonian Monte Carlo", with the friction and
its noise solved exactly instead of by Euler: that takes away a bias gamma dt / 2 of the positions.
At T = 0 it is gradient descent with momentum exp(-gamma dt).

UBU, where U moves position and momentum together, as they do exactly without a force:

    U: p' = c p + sqrt((1 - c^2) T) eps,
       theta' = theta + (p + p') tanh(gamma dt/2) / gamma
                + 2 sqrt((gamma dt/2 - tanh(gamma dt/2)) T) / gamma  eta

over dt/2 before and after a whole kick: Sanz-Serna, Zygalakis (2021), "Wasserstein distance
estimates for the distributions of numerical approximations to ergodic stochastic differential
equations". Its gradient is that of the middle of a step. A step here leads from one such middle to
the next: half of the kick of the step before and half of this one's, then U over dt. The positions
are those at which the gradient is taken, and for a fixed step they belong to the chain of the
published scheme. On a Gaussian of precision k, for small dt, their variance is too large by
the factor 1 + k dt^2/12; that of the ends of the steps, half a U later, is too small by
1 - k dt^2/6. So the middles are kept as they are.

With ``work=True`` BAOAB adds up what its kicks change of the kinetic energy. U plus that heat is
the work W that the finite step does on the chain: all of the energy that is neither exchanged with
the bath, in O, nor moved between U and the momentum. :func:`sundman.estimate.step_bias` makes of it
how far averages are off because the step is not short.

``sigma``, the standard deviation of the gradient noise in each coordinate if it is known, takes
the heat that this noise adds out of the variance of O, as far as there is any:

    BAOAB, SGHMC, UBU:  (1 - c^2) T - c dt^2 sigma^2      (the B-hat of SGHMC is dt sigma^2 / 2)
    OBABO:              (1 - c^2) T - sigma^2 (c dt_before + dt)^2/4,  c being that of the joined O
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.integrators.base import (
    Integrator,
    MomentumState,
    at_rest,
    cast_like,
    check_noise,
    per_leaf,
    zeros_per_leaf,
)
from sundman.noise import Noise, Purpose, Stream, gaussian, named, substream
from sundman.value import Number, array, static


def _is_one_number(sigma: Number | PyTree) -> bool:
    leaf = jax.tree_util.all_leaves([sigma])
    return leaf and not (isinstance(sigma, jax.Array | np.ndarray) and sigma.ndim > 0)


class KineticState(NamedTuple):
    """Momentum before the trailing half kick, and the step that kick belongs to."""

    momentum: PyTree
    dt: PyTree


class HeatedState(NamedTuple):
    """The same, with what the kicks have added to the kinetic energy.

    ``heat`` is that of all whole steps, up to the position that the last step left; ``begun`` that
    of the half kick with which it left.
    """

    momentum: PyTree
    dt: PyTree
    heat: Array
    begun: Array


class KineticLangevin(Integrator):
    """What the kinetic schemes share: the friction, the noise that goes with it, the start.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise, if it is known: one number for every
        coordinate, or a pytree like the position.
    """

    weak_order = 2
    kinetic = True

    _: KW_ONLY
    gamma: Number = 1.0
    sigma: Number | PyTree = array(default=0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(gamma=check.positive)
        if _is_one_number(self.sigma):
            self._settle(sigma=check.not_negative)
        else:
            self._set(sigma=jax.tree.map(jnp.asarray, self.sigma))
            check.finite(self.sigma, "sigma")

    def init(self, params: PyTree) -> PyTree:
        """Zero momentum: the friction brings it to temperature within a few 1/gamma."""
        return KineticState(jax.tree.map(jnp.zeros_like, params), zeros_per_leaf(params))

    def _sigmas(self, params: PyTree) -> PyTree:
        """sigma of every array of the position."""
        return per_leaf(self.sigma, params)

    def _keep(self, time: Array) -> Array:
        """c, what the friction leaves of the momentum after that time."""
        return jnp.exp(-self.gamma * time)

    def _noise_scale(self, time: Array, heat: Array) -> Array:
        """The noise of O over that time, less the heat that the gradient noise brings."""
        variance = -jnp.expm1(-2.0 * self.gamma * time) * self.T - heat
        return jnp.sqrt(jnp.maximum(variance, 0.0))


class Baoab(KineticLangevin):
    """Kinetic Langevin, second order in dt, exact for positions of a Gaussian target.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise, if it is known: one number for every
        coordinate, or a pytree like the position.
      work: whether to follow the work of the steps, for :func:`sundman.estimate.step_bias`; for
        exact gradients.
    """

    label = "BAOAB kinetic Langevin"
    references = ("leimkuhler2013robust", "leimkuhler2013rational")

    _: KW_ONLY
    work: bool = static(default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.flag(work=self.work)

    @property
    def follows_work(self) -> bool:  # type: ignore[override]  # others have it on the class
        """Whether ``work``."""
        return self.work

    def init(self, params: PyTree) -> KineticState | HeatedState:
        """Zero momentum, and no heat yet."""
        state = super().init(params)
        zero = jnp.zeros((), jnp.result_type(jnp.float32, *jax.tree.leaves(params)))
        return HeatedState(state.momentum, state.dt, zero, zero) if self.work else state

    def move(
        self,
        stream: Stream,
        grads: PyTree,
        state: KineticState | HeatedState,
        params: PyTree,
        dt: PyTree,
    ) -> tuple[PyTree, KineticState | HeatedState]:
        """The step before's last kick, and this step up to its own."""
        steps = per_leaf(dt, params)

        def step(
            h: Array, h_before: Array, grad: Array, momentum: Array, eps: Array, sigma: Array
        ) -> tuple[Array, Array]:
            before = momentum - 0.5 * (h_before + h) * grad
            keep = self._keep(h)
            after = keep * before + self._noise_scale(h, keep * (h * sigma) ** 2) * eps
            return 0.5 * h * (before + after), after

        eps = gaussian(stream, params)
        sigmas = self._sigmas(params)
        moved = jax.tree.map(step, steps, state.dt, grads, state.momentum, eps, sigmas)
        updates, momentum = jax.tree.transpose(
            jax.tree.structure(params), jax.tree.structure((0, 0)), moved
        )
        after = KineticState(cast_like(momentum, params), steps)
        if isinstance(state, HeatedState):
            heat, begun = _heat(state, grads, steps)
            after = HeatedState(after.momentum, after.dt, heat, begun)
        return cast_like(updates, params), after


def _heat(state: HeatedState, grads: PyTree, steps: PyTree) -> tuple[Array, Array]:
    """The heat after the last half kick of the step before, and that of the next half kick."""

    def gains(h_before: Array, h: Array, grad: Array, momentum: Array) -> Array:
        last, first = -0.5 * h_before * grad, -0.5 * h * grad
        between = momentum + last
        return jnp.stack(
            [jnp.sum(last * (momentum + 0.5 * last)), jnp.sum(first * (between + 0.5 * first))]
        )

    gained = jax.tree.map(gains, state.dt, steps, grads, state.momentum)
    ended, begun = jnp.sum(jnp.stack(jax.tree.leaves(gained)), axis=0).astype(state.heat.dtype)
    return state.heat + state.begun + ended, begun


class Obabo(KineticLangevin):
    """Kinetic Langevin, second order in dt, with the friction around a Verlet step.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise, if it is known: one number for every
        coordinate, or a pytree like the position.
    """

    label = "OBABO kinetic Langevin"
    references = ("bussi2007accurate",)

    def move(
        self, stream: Stream, grads: PyTree, state: KineticState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, KineticState]:
        """The step before's last B and O, and this step up to its own."""
        steps = per_leaf(dt, params)

        def kicked(
            h: Array, h_before: Array, grad: Array, momentum: Array, eps: Array, sigma: Array
        ) -> Array:
            between = 0.5 * (h_before + h)
            keep = self._keep(between)
            heat = 0.25 * jnp.square(sigma * (keep * h_before + h))
            completed = keep * (momentum - 0.5 * h_before * grad)
            return completed + self._noise_scale(between, heat) * eps - 0.5 * h * grad

        eps = gaussian(stream, params)
        sigmas = self._sigmas(params)
        momentum = jax.tree.map(kicked, steps, state.dt, grads, state.momentum, eps, sigmas)
        updates = jax.tree.map(lambda h, p: h * p, steps, momentum)
        return cast_like(updates, params), KineticState(cast_like(momentum, params), steps)


class Ubu(KineticLangevin):
    """Kinetic Langevin with friction, noise and motion solved together, kicks in between.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise, if it is known: one number for every
        coordinate, or a pytree like the position.
    """

    label = "UBU kinetic Langevin"
    references = ("sanzserna2021wasserstein", "paulin2024sampling")

    def move(
        self, stream: Stream, grads: PyTree, state: KineticState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, KineticState]:
        """The kick at this position, then motion, friction and noise up to the next."""
        steps = per_leaf(dt, params)

        def step(
            h: Array,
            h_before: Array,
            grad: Array,
            momentum: Array,
            eps: Array,
            eta: Array,
            sigma: Array,
        ) -> tuple[Array, Array]:
            before = momentum - 0.5 * (h_before + h) * grad
            keep, z = self._keep(h), 0.5 * self.gamma * h
            after = keep * before + self._noise_scale(h, keep * (h * sigma) ** 2) * eps
            own = 2.0 * jnp.sqrt(_less_tanh(z) * self.T) / self.gamma
            return jnp.tanh(z) / self.gamma * (before + after) + own * eta, after

        eps, eta = (
            gaussian(each, params) for each in (stream, substream(stream, Purpose.POSITION_NOISE))
        )
        sigmas = self._sigmas(params)
        moved = jax.tree.map(step, steps, state.dt, grads, state.momentum, eps, eta, sigmas)
        updates, momentum = jax.tree.transpose(
            jax.tree.structure(params), jax.tree.structure((0, 0)), moved
        )
        return cast_like(updates, params), KineticState(cast_like(momentum, params), steps)


def _less_tanh(z: Array) -> Array:
    """z - tanh z, by its series where the difference would lose its digits."""
    square = z * z
    series = 17.0 / 315.0 - square * (62.0 / 2835.0 - square * 1382.0 / 155925.0)
    series = z * square * (1.0 / 3.0 - square * (2.0 / 15.0 - square * series))
    return jnp.where(z < 0.3, series, z - jnp.tanh(z))


class Sghmc(KineticLangevin):
    """Kinetic Langevin by a semi-implicit step, with an optional gradient-noise estimate.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise, if it is known: one number for every
        coordinate, or a pytree like the position.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """

    label = "kinetic Langevin, kick inside the friction"
    references = ("chen2014sghmc",)

    _: KW_ONLY
    noise: str | Noise = static(default="gaussian")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.noise)

    def init(self, params: PyTree) -> MomentumState:
        """Zero momentum."""
        return at_rest(params)

    def move(
        self, stream: Stream, grads: PyTree, state: MomentumState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, MomentumState]:
        """The kick with its friction, then the position."""
        steps = per_leaf(dt, params)

        def kick(h: Array, grad: Array, momentum: Array, eps: Array, sigma: Array) -> Array:
            keep = self._keep(h)
            kicked = keep * momentum - jnp.sqrt(keep) * h * grad
            return kicked + self._noise_scale(h, keep * (h * sigma) ** 2) * eps

        eps = named(self.noise)(stream, params)
        momentum = jax.tree.map(kick, steps, grads, state.momentum, eps, self._sigmas(params))
        updates = jax.tree.map(lambda h, p: h * p, steps, momentum)
        return cast_like(updates, params), MomentumState(cast_like(momentum, params))
