"""Kinetic samplers: the position has a momentum.

A learning rate is that of SGD with momentum: dt = sqrt(h / N).
"""

from __future__ import annotations

from typing import Unpack

from sundman import clocks, integrators
from sundman.clocks import SundmanSettings
from sundman.clocks.base import Step
from sundman.recipes.registry import StepOrClock, as_clock, recipe
from sundman.samplers import Sampler, compose
from sundman.value import Number


@recipe("SGHMC", integrators.sghmc, clocks.constant, for_networks=True)
def sghmc(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    gamma: Number = 1.0,
    sigma: Number = 0.0,
) -> Sampler:
    """SGHMC with friction gamma and gradient-noise estimate sigma, at the fixed step h.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.sghmc(0.01, gamma=5.0)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.sghmc(temperature, gamma=gamma, sigma=sigma)
    return compose(integrator, as_clock(h))


@recipe("SA-SGHMC", integrators.sghmc, clocks.sundman, for_networks=True)
def sa_sghmc(
    dtau: Step,
    *,
    temperature: Number | None = None,
    gamma: Number = 1.0,
    sigma: Number = 0.0,
    **clock: Unpack[SundmanSettings],
) -> Sampler:
    """SGHMC on the Sundman clock.

    Args:
      dtau: the step of the transformed time, or a learning rate.
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.
      clock: settings of :class:`sundman.clocks.sundman`.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.sa_sghmc(0.01, gamma=5.0, alpha=1.0, m=0.1, M=10.0, r=0.25)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.sghmc(temperature, gamma=gamma, sigma=sigma)
    return compose(integrator, clocks.sundman(dtau, **clock))


@recipe("BAOAB", integrators.baoab, clocks.constant, for_networks=True)
def baoab(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    gamma: Number = 1.0,
    sigma: Number = 0.0,
) -> Sampler:
    """BAOAB kinetic Langevin at the fixed step h.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.baoab(0.01, gamma=5.0)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.baoab(temperature, gamma=gamma, sigma=sigma)
    return compose(integrator, as_clock(h))


@recipe("SamAdams", integrators.baoab, clocks.sundman, for_networks=True)
def samadams(
    dtau: Step,
    *,
    temperature: Number | None = None,
    gamma: Number = 1.0,
    sigma: Number = 0.0,
    **clock: Unpack[SundmanSettings],
) -> Sampler:
    """SamAdams, ZBAOABZ: BAOAB on the Sundman clock, by default alpha=1, m=0.1, M=10, r=0.25.

    Args:
      dtau: the step of the transformed time, or a learning rate.
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.
      clock: settings of :class:`sundman.clocks.sundman`.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.samadams(0.01, gamma=5.0)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    defaults: SundmanSettings = {"m": 0.1, "M": 10.0, "r": 0.25}
    if "a" not in clock:
        defaults["alpha"] = 1.0
    settings: SundmanSettings = {**defaults, **clock}
    integrator = integrators.baoab(temperature, gamma=gamma, sigma=sigma)
    return compose(integrator, clocks.sundman(dtau, **settings))


@recipe("SGNHT", integrators.sgnht, clocks.constant, for_networks=True)
def sgnht(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    gamma: Number = 1.0,
    mass: Number = 1.0,
    per_coordinate: bool = False,
) -> Sampler:
    """SGNHT (adaptive Langevin, BADODAB) at the fixed step h.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      mass: the inertia of the thermostat per degree of freedom.
      per_coordinate: a thermostat for each coordinate.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.sgnht(0.01, gamma=5.0)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.sgnht(
        temperature, gamma=gamma, mass=mass, per_coordinate=per_coordinate
    )
    return compose(integrator, as_clock(h))


@recipe("SA-SGNHT", integrators.sgnht, clocks.sundman, for_networks=True)
def sa_sgnht(
    dtau: Step,
    *,
    temperature: Number | None = None,
    gamma: Number = 1.0,
    mass: Number = 1.0,
    per_coordinate: bool = False,
    **clock: Unpack[SundmanSettings],
) -> Sampler:
    """SGNHT on the Sundman clock.

    Args:
      dtau: the step of the transformed time, or a learning rate.
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      mass: the inertia of the thermostat per degree of freedom.
      per_coordinate: a thermostat for each coordinate.
      clock: settings of :class:`sundman.clocks.sundman`.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.sa_sgnht(0.01, gamma=5.0, alpha=1.0, m=0.1, M=10.0, r=0.25)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.sgnht(
        temperature, gamma=gamma, mass=mass, per_coordinate=per_coordinate
    )
    return compose(integrator, clocks.sundman(dtau, **clock))


@recipe("OBABO", integrators.obabo, clocks.constant, for_networks=True)
def obabo(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    gamma: Number = 1.0,
    sigma: Number = 0.0,
) -> Sampler:
    """OBABO kinetic Langevin at the fixed step h.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.obabo(0.01, gamma=5.0)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.obabo(temperature, gamma=gamma, sigma=sigma)
    return compose(integrator, as_clock(h))


@recipe("UBU", integrators.ubu, clocks.constant, for_networks=True)
def ubu(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    gamma: Number = 1.0,
    sigma: Number = 0.0,
) -> Sampler:
    """UBU kinetic Langevin at the fixed step h; positions are those at which the gradient is taken.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.ubu(0.01, gamma=5.0)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.ubu(temperature, gamma=gamma, sigma=sigma)
    return compose(integrator, as_clock(h))
