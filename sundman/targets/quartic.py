"""The quartic well, with or without its quadratic term.

    U(x) = x^4 / 4 + quadratic x^2 / 2

The drift grows like x^3, faster than explicit Euler steps of any fixed length can follow.
"""

from __future__ import annotations

from typing import Any

from sundman import check
from sundman.targets.assemble import by_quadrature
from sundman.targets.base import Suggested, Target
from sundman.targets.quadrature import DEPTH
from sundman.value import Number, Value

_OBSERVABLES = {
    "x": lambda x: x[0],
    "x2": lambda x: x[0] ** 2,
    "x4": lambda x: x[0] ** 4,
    "abs_x": lambda x: abs(x[0]),
}


class QuarticPotential(Value):
    """U of one coordinate, in numpy and in jax."""

    quadratic: Number

    def __post_init__(self) -> None:
        self._settle(quadratic=check.not_negative)

    def __call__(self, x: Any) -> Any:
        """U(x)."""
        return x[0] ** 4 / 4.0 + self.quadratic * x[0] ** 2 / 2.0

    def gradient(self, x: Any) -> list[Any]:
        """The components of grad U."""
        return [x[0] ** 3 + self.quadratic * x[0]]


def quartic(quadratic: float = 1.0, *, temperature: float = 1.0) -> Target:
    """One well on a line; ``quadratic=0`` leaves the pure quartic.

    Observables: x, x2, x4, abs_x, U, grad2, virial.
    """
    potential = QuarticPotential(quadratic)
    check.positive(temperature=temperature)
    width = temperature**0.25
    reach = (4.0 * DEPTH) ** 0.25 * width
    if quadratic > 0:
        gaussian_width = (temperature / quadratic) ** 0.5
        width, reach = min(width, gaussian_width), min(reach, 10.0 * gaussian_width)

    return by_quadrature(
        "quartic",
        potential,
        potential.gradient,
        _OBSERVABLES,
        temperature=float(temperature),
        start=[0.0],
        box=[(-reach, reach)],
        cuts=[[0.0]],
        longest=width / 2,
        suggested=Suggested(overdamped=0.02, kinetic=0.1),
    )
