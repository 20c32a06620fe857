"""The quartic double well.

    U(x) = barrier (x^2 - 1)^2

Minima at -1 and 1 with U = 0, U = barrier between them.
"""

from __future__ import annotations

import math
from typing import Any

from sundman import check
from sundman.targets.assemble import by_quadrature
from sundman.targets.base import Target, indicator
from sundman.targets.quadrature import DEPTH


def double_well(barrier: float = 3.0, *, temperature: float = 1.0) -> Target:
    """Two wells on a line; started in the left one.

    Observables: x, x2, x4, right (x > 0), U, grad2, virial.
    """
    check.positive(barrier=barrier, temperature=temperature)
    heat = temperature / barrier
    reach = math.sqrt(1.0 + math.sqrt(DEPTH * heat))

    def potential(x: Any) -> Any:
        return barrier * (x[0] ** 2 - 1.0) ** 2

    return by_quadrature(
        "double-well",
        potential,
        lambda x: [4.0 * barrier * x[0] * (x[0] ** 2 - 1.0)],
        {
            "x": lambda x: x[0],
            "x2": lambda x: x[0] ** 2,
            "x4": lambda x: x[0] ** 4,
            "right": lambda x: indicator(x, x[0] > 0),
        },
        temperature=float(temperature),
        start=[-1.0],
        box=[(-reach, reach)],
        cuts=[[0.0]],
        longest=min(heat**0.5, heat**0.25) / 2,
    )
