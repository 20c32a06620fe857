"""Overdamped samplers: the position moves, nothing else."""

from __future__ import annotations

from typing import Unpack

from sundman import clocks, integrators
from sundman.clocks import SundmanSettings
from sundman.noise import Noise
from sundman.samplers import Sampler, compose


def sgld(h: float, temperature: float = 1.0, *, noise: str | Noise = "gaussian") -> Sampler:
    """SGLD: Euler-Maruyama at the fixed step h.

    theta <- theta - h G + sqrt(2 T h) eps.
    """
    return compose(integrators.euler_maruyama(temperature, noise=noise), clocks.constant(h))


def sa_sgld(
    dtau: float,
    *,
    temperature: float = 1.0,
    noise: str | Noise = "gaussian",
    **clock: Unpack[SundmanSettings],
) -> Sampler:
    """SA-SGLD: Euler-Maruyama on the Sundman clock; settings of :func:`sundman.clocks.sundman`.

    theta <- theta - dt G + sqrt(2 T dt) eps,   dt = psi(zeta) dtau.
    """
    return compose(
        integrators.euler_maruyama(temperature, noise=noise), clocks.sundman(dtau, **clock)
    )


def lm(h: float, temperature: float = 1.0) -> Sampler:
    """Leimkuhler-Matthews at the fixed step h: second order in h."""
    return compose(integrators.leimkuhler_matthews(temperature), clocks.constant(h))


def sa_lm(dtau: float, *, temperature: float = 1.0, **clock: Unpack[SundmanSettings]) -> Sampler:
    """Leimkuhler-Matthews on the Sundman clock; needs a lag or a long memory."""
    return compose(integrators.leimkuhler_matthews(temperature), clocks.sundman(dtau, **clock))
