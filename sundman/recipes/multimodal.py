"""Samplers for targets of several modes: in cycles, with hot copies, over flattened energies."""

from __future__ import annotations

from collections.abc import Sequence

from sundman import check, clocks, integrators
from sundman.clocks import Clock
from sundman.clocks.base import Step
from sundman.integrators import Integrator
from sundman.noise import Noise
from sundman.recipes.registry import StepOrClock, as_clock, recipe
from sundman.samplers import Sampler, compose
from sundman.value import Number


def _in_cycles(integrator: Integrator, clock: Clock) -> Sampler:
    """An integrator that explores when the cyclical clock says so."""
    if clock.stages is None:
        raise ValueError("explore=None: give the steps or the fraction of a cycle that explores")
    return compose(integrators.staged(integrator, **clock.stages._asdict()), clock)


@recipe(
    "cyclical SGLD",
    integrators.euler_maruyama,
    clocks.cyclical,
    in_cycles=True,
)
def cyclical_sgld(
    h: Step,
    temperature: Number | None = None,
    *,
    cycle: int,
    explore: int | float = 0.8,
    noise: str | Noise = "gaussian",
) -> Sampler:
    """Cyclical SGLD: in each cycle gradient descent with long steps, then SGLD with short ones.

    dt_n = h/2 (cos(pi (n mod cycle) / cycle) + 1), T = 0 in the first ``explore`` steps of a cycle,
    or that fraction of it. :func:`sundman.sample` takes draws from the sampling stages only.

    Args:
      h: the longest step, a physical time or a learning rate.
      temperature: T; None is that of the target, or 1.
      cycle: steps of a cycle.
      explore: steps of a cycle that explore, or a fraction of it below 1.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()

      Of every ten steps the last two sample:

      >>> sampler = sundman.cyclical_sgld(4e-3, cycle=10)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 4, 2)
    """
    return _in_cycles(
        integrators.euler_maruyama(temperature, noise=noise),
        clocks.cyclical(h, cycle=cycle, explore=explore),
    )


@recipe("cyclical SGHMC", integrators.sghmc, clocks.cyclical, in_cycles=True)
def cyclical_sghmc(
    h: Step,
    temperature: Number | None = None,
    *,
    cycle: int,
    explore: int | float = 0.8,
    gamma: Number = 1.0,
    sigma: Number = 0.0,
) -> Sampler:
    """Cyclical SGHMC: in each cycle descent with momentum, then SGHMC; as :func:`cyclical_sgld`.

    Args:
      h: the longest step, a physical time or a learning rate.
      temperature: T; None is that of the target, or 1.
      cycle: steps of a cycle.
      explore: steps of a cycle that explore, or a fraction of it below 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()

      Of every ten steps the last two sample:

      >>> sampler = sundman.cyclical_sghmc(0.02, cycle=10, gamma=5.0)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 4, 2)
    """
    return _in_cycles(
        integrators.sghmc(temperature, gamma=gamma, sigma=sigma),
        clocks.cyclical(h, cycle=cycle, explore=explore),
    )


@recipe("replica exchange SGLD", integrators.replica_exchange, clocks.constant)
def replica_exchange_sgld(
    h: Number,
    temperature: Number | None = None,
    *,
    ratios: Sequence[Number] = (1.0, 4.0),
    step_factors: Sequence[Number] | None = None,
    swap_every: Number = 10.0,
    energy_variance: Number = 0.0,
) -> Sampler:
    """Replica exchange SGLD: copies at temperatures T ratios, at the fixed step h.

    A swap of neighbours is tried once in ``swap_every`` steps on average, at random. The draws are
    those of the first copy, at temperature T.

    Args:
      h: the step, a physical time.
      temperature: T; None is that of the target, or 1.
      ratios: the temperatures of the copies over T, rising from 1.
      step_factors: what h is multiplied with for each copy.
      swap_every: steps between attempts, on average.
      energy_variance: the variance of one estimate of U on a minibatch.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.replica_exchange_sgld(1e-3, ratios=(1.0, 2.0, 4.0))
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    check.positive(h=h, swap_every=swap_every)
    if check.known(swap_every) and swap_every < 1:
        raise ValueError(f"there is at most one swap a step, got swap_every={swap_every!r}")
    return compose(
        integrators.replica_exchange(
            temperature,
            ratios=ratios,
            step_factors=step_factors,
            swap_rate=1.0 / (swap_every * h),
            energy_variance=energy_variance,
        ),
        clocks.constant(h),
    )


@recipe("contour SGLD", integrators.contour, clocks.constant)
def contour_sgld(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    low: Number,
    high: Number,
    bins: int = 50,
    flatness: Number = 0.75,
    gain: Number = 0.1,
    gain_offset: Number = 100.0,
    gain_power: Number = 1.0,
    learn: int | None = None,
    least: Number = 1e-6,
) -> Sampler:
    """Contour SGLD at the fixed step h: energies from low to high are flattened and reweighted.

    With ``learn`` equal to the burn-in of the run the landscape is fixed before the first draw, and
    averages are not biased by its changes.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      low, high: the range of U to flatten: from near its minimum to above the barriers.
      bins: how many bins it is cut into.
      flatness: 0 is SGLD, at 1 all bins are met equally often.
      gain, gain_offset, gain_power: how fast the landscape is learnt.
      learn: steps after which it is fixed; it never is if not given.
      least: what a bin has at least.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.contour_sgld(1e-3, low=0.0, high=25.0, learn=10)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    return compose(
        integrators.contour(
            temperature,
            low=low,
            high=high,
            bins=bins,
            flatness=flatness,
            gain=gain,
            gain_offset=gain_offset,
            gain_power=gain_power,
            learn=learn,
            least=least,
        ),
        as_clock(h),
    )
