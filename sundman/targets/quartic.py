"""The quartic well, with or without its quadratic term.

    U(x) = x^4 / 4 + quadratic x^2 / 2

The drift grows like x^3, faster than explicit Euler steps of any fixed length can follow.
"""

from __future__ import annotations

from typing import Any

from sundman import check
from sundman.targets.assemble import by_quadrature
from sundman.targets.base import Target
from sundman.targets.quadrature import DEPTH


def quartic(quadratic: float = 1.0, *, temperature: float = 1.0) -> Target:
    """One well on a line; ``quadratic=0`` leaves the pure quartic.

    Observables: x, x2, x4, abs_x, U, grad2, virial.
    """
    check.not_negative(quadratic=quadratic)
    check.positive(temperature=temperature)
    width = temperature**0.25
    reach = (4.0 * DEPTH) ** 0.25 * width
    if quadratic > 0:
        gaussian_width = (temperature / quadratic) ** 0.5
        width, reach = min(width, gaussian_width), min(reach, 10.0 * gaussian_width)

    def potential(x: Any) -> Any:
        return x[0] ** 4 / 4.0 + quadratic * x[0] ** 2 / 2.0

    return by_quadrature(
        "quartic",
        potential,
        lambda x: [x[0] ** 3 + quadratic * x[0]],
        {
            "x": lambda x: x[0],
            "x2": lambda x: x[0] ** 2,
            "x4": lambda x: x[0] ** 4,
            "abs_x": lambda x: abs(x[0]),
        },
        temperature=float(temperature),
        start=[0.0],
        box=[(-reach, reach)],
        cuts=[[0.0]],
        longest=width / 2,
    )
