"""A Sundman clock whose steps also decrease, as almost-sure convergence needs.

dt_n = psi(zeta_n) dtau (1 + n / offset)^(-power)
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

import sundman
from sundman import clocks, integrators
from sundman.clocks.base import advance


def decreasing_clock(
    dtau: float, *, offset: float, power: float, **settings: Any
) -> sundman.clocks.Clock:
    """The adaptive clock, each dt multiplied by (1 + n / offset)^(-power)."""
    inner = clocks.sundman(dtau, **settings)

    def tick(state: Any, grads: Any, params: Any) -> tuple[Any, Any]:
        dt, after = inner.tick(state, grads, params)
        shrunk = dt * (1.0 + state.step.astype(jnp.float32) / offset) ** -power
        after = advance(state, shrunk, after.zeta)
        return after.dt, after

    told = {**inner.settings, "clock": "decreasing", "offset": offset, "power": power}
    return clocks.Clock(inner.init, tick, told)


def decreasing_sa_sgld(dtau: float, **settings: Any) -> sundman.Sampler:
    """SA-SGLD on the decreasing clock."""
    return sundman.compose(integrators.euler_maruyama(), decreasing_clock(dtau, **settings))
