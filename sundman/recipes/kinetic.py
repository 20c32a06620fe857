"""Kinetic samplers: the position has a momentum."""

from __future__ import annotations

from typing import Unpack

from sundman import clocks, integrators
from sundman.clocks import SundmanSettings
from sundman.samplers import Sampler, compose


def sghmc(h: float, temperature: float = 1.0, *, gamma: float = 1.0, sigma: float = 0.0) -> Sampler:
    """SGHMC with friction gamma and gradient-noise estimate sigma, at the fixed step h."""
    return compose(integrators.sghmc(temperature, gamma=gamma, sigma=sigma), clocks.constant(h))


def sa_sghmc(
    dtau: float,
    *,
    temperature: float = 1.0,
    gamma: float = 1.0,
    sigma: float = 0.0,
    **clock: Unpack[SundmanSettings],
) -> Sampler:
    """SGHMC on the Sundman clock."""
    return compose(
        integrators.sghmc(temperature, gamma=gamma, sigma=sigma), clocks.sundman(dtau, **clock)
    )


def baoab(h: float, temperature: float = 1.0, *, gamma: float = 1.0, sigma: float = 0.0) -> Sampler:
    """BAOAB kinetic Langevin at the fixed step h."""
    return compose(integrators.baoab(temperature, gamma=gamma, sigma=sigma), clocks.constant(h))


def samadams(
    dtau: float,
    *,
    temperature: float = 1.0,
    gamma: float = 1.0,
    sigma: float = 0.0,
    **clock: Unpack[SundmanSettings],
) -> Sampler:
    """SamAdams, ZBAOABZ: BAOAB on the Sundman clock.

    The clock's settings default to alpha=1, m=0.1, M=10, r=0.25.
    """
    settings: SundmanSettings = {"alpha": 1.0, "m": 0.1, "M": 10.0, "r": 0.25, **clock}
    return compose(
        integrators.baoab(temperature, gamma=gamma, sigma=sigma), clocks.sundman(dtau, **settings)
    )


def sgnht(
    h: float,
    temperature: float = 1.0,
    *,
    gamma: float = 1.0,
    mass: float = 1.0,
    per_coordinate: bool = False,
) -> Sampler:
    """SGNHT (adaptive Langevin, BADODAB) at the fixed step h."""
    integrator = integrators.sgnht(
        temperature, gamma=gamma, mass=mass, per_coordinate=per_coordinate
    )
    return compose(integrator, clocks.constant(h))


def sa_sgnht(
    dtau: float,
    *,
    temperature: float = 1.0,
    gamma: float = 1.0,
    mass: float = 1.0,
    per_coordinate: bool = False,
    **clock: Unpack[SundmanSettings],
) -> Sampler:
    """SGNHT on the Sundman clock."""
    integrator = integrators.sgnht(
        temperature, gamma=gamma, mass=mass, per_coordinate=per_coordinate
    )
    return compose(integrator, clocks.sundman(dtau, **clock))


def obabo(h: float, temperature: float = 1.0, *, gamma: float = 1.0, sigma: float = 0.0) -> Sampler:
    """OBABO kinetic Langevin at the fixed step h."""
    return compose(integrators.obabo(temperature, gamma=gamma, sigma=sigma), clocks.constant(h))
