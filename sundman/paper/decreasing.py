"""A Sundman clock whose steps also decrease, as almost-sure convergence needs.

dt_n = psi(zeta_n) dtau (1 + n / offset)^(-power)
"""

from __future__ import annotations

from typing import Any

from jax import Array

import sundman
from sundman import clocks, integrators
from sundman.value import Number, Value


class Falling(Value):
    """(1 + n / offset)^(-power), a schedule whose numbers are leaves."""

    offset: Number
    power: Number

    def __call__(self, step: Any) -> Array:
        """The factor of step number ``step``."""
        return (1.0 + step / self.offset) ** -self.power


def decreasing_sa_sgld(
    dtau: float, *, offset: float, power: float, **settings: Any
) -> sundman.Sampler:
    """SA-SGLD on the adaptive clock, each dt multiplied by (1 + n / offset)^(-power)."""
    clock = clocks.times(clocks.sundman(dtau, **settings), Falling(offset, power))
    return sundman.compose(integrators.euler_maruyama(), clock)
