"""Overdamped samplers: the position moves, nothing else."""

from __future__ import annotations

from typing import Unpack

from sundman import clocks, integrators
from sundman.clocks import SundmanSettings
from sundman.clocks.base import Step
from sundman.noise import Noise
from sundman.recipes.registry import StepOrClock, as_clock, recipe
from sundman.samplers import Sampler, compose
from sundman.value import Number


@recipe("SGLD", integrators.euler_maruyama, clocks.constant, for_networks=True)
def sgld(
    h: StepOrClock, temperature: Number | None = None, *, noise: str | Noise = "gaussian"
) -> Sampler:
    """SGLD: Euler-Maruyama at the fixed step h.

    theta <- theta - h G + sqrt(2 T h) eps.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.sgld(1e-3)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)

      The step may also be a learning rate h on the mean loss of N rows, dt = h / N, or a schedule:

      >>> sundman.sgld(sundman.LearningRate(0.1))
      sundman.compose(integrators.euler_maruyama(), clocks.constant(sundman.LearningRate(0.1)))
      >>> sampler = sundman.sgld(optax.cosine_decay_schedule(1e-3, 10_000))
    """
    return compose(integrators.euler_maruyama(temperature, noise=noise), as_clock(h))


@recipe("SA-SGLD", integrators.euler_maruyama, clocks.sundman, for_networks=True)
def sa_sgld(
    dtau: Step,
    *,
    temperature: Number | None = None,
    noise: str | Noise = "gaussian",
    **clock: Unpack[SundmanSettings],
) -> Sampler:
    """SA-SGLD: Euler-Maruyama on the Sundman clock.

    theta <- theta - dt G + sqrt(2 T dt) eps,   dt = psi(zeta) dtau.

    Args:
      dtau: the step of the transformed time, or a learning rate.
      temperature: T; None is that of the target, or 1.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
      clock: settings of :class:`sundman.clocks.sundman`.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.sa_sgld(1e-3, alpha=0.5, m=0.1, M=10.0, r=0.5, omega=100.0)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    return compose(
        integrators.euler_maruyama(temperature, noise=noise), clocks.sundman(dtau, **clock)
    )


@recipe("LM", integrators.leimkuhler_matthews, clocks.constant, for_networks=True)
def lm(h: StepOrClock, temperature: Number | None = None) -> Sampler:
    """Leimkuhler-Matthews at the fixed step h: second order in h.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.lm(1e-3)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    return compose(integrators.leimkuhler_matthews(temperature), as_clock(h))


@recipe("SA-LM", integrators.leimkuhler_matthews, clocks.sundman, for_networks=True)
def sa_lm(
    dtau: Step, *, temperature: Number | None = None, **clock: Unpack[SundmanSettings]
) -> Sampler:
    """Leimkuhler-Matthews on the Sundman clock; needs a lag or a long memory.

    Args:
      dtau: the step of the transformed time, or a learning rate.
      temperature: T; None is that of the target, or 1.
      clock: settings of :class:`sundman.clocks.sundman`.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.sa_lm(
      ...     6e-4, a=0.01, M=10.0, r=0.5, omega=520.0, psi="scale_free", lag="guarded"
      ... )
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    return compose(integrators.leimkuhler_matthews(temperature), clocks.sundman(dtau, **clock))
