"""The quartic double well.

    U(x) = barrier (x^2 - 1)^2 + tilt x

Without tilt: minima at -1 and 1 with U = 0, U = barrier between them. A positive tilt makes the
left well the deeper one, by about 2 tilt. Slopes of the wells reach 8 barrier / sqrt(27): a tilt
beyond that leaves one well only.
"""

from __future__ import annotations

import math
from typing import Any

from sundman import check
from sundman.targets.assemble import by_quadrature
from sundman.targets.base import Suggested, Target, indicator
from sundman.targets.quadrature import DEPTH
from sundman.value import Number, Value

_OBSERVABLES = {
    "x": lambda x: x[0],
    "x2": lambda x: x[0] ** 2,
    "x4": lambda x: x[0] ** 4,
    "right": lambda x: indicator(x, x[0] > 0),
}


class DoubleWellPotential(Value):
    """U of one coordinate, in numpy and in jax."""

    barrier: Number
    tilt: Number

    def __post_init__(self) -> None:
        self._settle(barrier=check.positive, tilt=check.number)

    def __call__(self, x: Any) -> Any:
        """U(x)."""
        return self.barrier * (x[0] ** 2 - 1.0) ** 2 + self.tilt * x[0]

    def gradient(self, x: Any) -> list[Any]:
        """The components of grad U."""
        return [4.0 * self.barrier * x[0] * (x[0] ** 2 - 1.0) + self.tilt]


def double_well(barrier: float = 3.0, tilt: float = 0.0, *, temperature: float = 1.0) -> Target:
    """Two wells on a line; started in the left one.

    Observables: x, x2, x4, right (x > 0), U, grad2, virial.
    """
    potential = DoubleWellPotential(barrier, tilt)
    check.positive(temperature=temperature)
    if not abs(tilt) < (most := 8.0 * barrier / math.sqrt(27.0)):
        raise ValueError(
            f"tilt={tilt} leaves one well; with barrier={barrier} keep |tilt| < {most:.4g}"
        )
    heat, lean = temperature / barrier, abs(tilt) / barrier
    # |x| <= 1 + |x^2 - 1| bounds what the tilt can lower U by.
    reach = math.sqrt(1.0 + (lean + math.sqrt(lean**2 + 4.0 * DEPTH * heat)) / 2.0)

    return by_quadrature(
        "double-well",
        potential,
        potential.gradient,
        _OBSERVABLES,
        temperature=float(temperature),
        start=[-1.0],
        box=[(-reach, reach)],
        cuts=[[0.0]],
        longest=min(heat**0.5, heat**0.25) / 2,
        suggested=Suggested(overdamped=0.01, kinetic=0.05),
    )
