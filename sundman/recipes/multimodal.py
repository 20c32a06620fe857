"""Samplers for targets of several modes: in cycles, with hot copies, over flattened energies."""

from __future__ import annotations

from collections.abc import Sequence

from sundman import check, clocks, integrators
from sundman.clocks import Clock
from sundman.integrators import Integrator
from sundman.noise import Noise
from sundman.samplers import Sampler, compose


def _in_cycles(integrator: Integrator, clock: Clock) -> Sampler:
    """An integrator that explores when the cyclical clock says so."""
    if clock.stages is None:
        raise ValueError("explore=None: give the steps or the fraction of a cycle that explores")
    return compose(integrators.staged(integrator, **clock.stages._asdict()), clock)


def cyclical_sgld(
    h: float,
    temperature: float = 1.0,
    *,
    cycle: int,
    explore: int | float = 0.8,
    noise: str | Noise = "gaussian",
) -> Sampler:
    """Cyclical SGLD: in each cycle gradient descent with long steps, then SGLD with short ones.

    dt_n = h/2 (cos(pi (n mod cycle) / cycle) + 1), T = 0 in the first ``explore`` steps of a cycle,
    or that fraction of it. :func:`sundman.sample` takes draws from the sampling stages only.
    """
    return _in_cycles(
        integrators.euler_maruyama(temperature, noise=noise),
        clocks.cyclical(h, cycle=cycle, explore=explore),
    )


def cyclical_sghmc(
    h: float,
    temperature: float = 1.0,
    *,
    cycle: int,
    explore: int | float = 0.8,
    gamma: float = 1.0,
    sigma: float = 0.0,
) -> Sampler:
    """Cyclical SGHMC: in each cycle descent with momentum, then SGHMC; as :func:`cyclical_sgld`."""
    return _in_cycles(
        integrators.sghmc(temperature, gamma=gamma, sigma=sigma),
        clocks.cyclical(h, cycle=cycle, explore=explore),
    )


def replica_exchange_sgld(
    h: float,
    temperature: float = 1.0,
    *,
    ratios: Sequence[float] = (1.0, 4.0),
    step_factors: Sequence[float] | None = None,
    swap_every: float = 10.0,
    energy_variance: float = 0.0,
) -> Sampler:
    """Replica exchange SGLD: copies at temperatures T ratios, at the fixed step h.

    A swap of neighbours is tried once in ``swap_every`` steps on average, at random. The draws are
    those of the first copy, at temperature T. ``energy_variance`` is the variance of one estimate
    of U on a minibatch; settings of :func:`sundman.integrators.replica_exchange`.
    """
    check.positive(h=h, swap_every=swap_every)
    if swap_every < 1:
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


def contour_sgld(
    h: float,
    temperature: float = 1.0,
    *,
    low: float,
    high: float,
    bins: int = 50,
    flatness: float = 0.75,
    gain: float = 0.1,
    gain_offset: float = 100.0,
    gain_power: float = 1.0,
    learn: int | None = None,
    least: float = 1e-6,
) -> Sampler:
    """Contour SGLD at the fixed step h: energies from low to high are flattened and reweighted.

    Settings of :func:`sundman.integrators.contour`. With ``learn`` equal to the burn-in of the run
    the landscape is fixed before the first draw, and averages are not biased by its changes.
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
        clocks.constant(h),
    )
