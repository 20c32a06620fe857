"""The paper's condition for bounded moments, and for which steps it can hold.

    gamma(h) = 2 a m h - C1 M^2 h^2 - 2 sigma M h > 0

Two of its terms are linear in h, so gamma(h)/h = 2 (a m - sigma M) - C1 M^2 h: some h > 0 fulfils
it only if a m > sigma M, and then those below 2 (a m - sigma M) / (C1 M^2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sundman import check


@dataclass(frozen=True)
class MomentCondition:
    """Whether some step fulfils the condition, and the bound on those that do.

    Attributes:
      possible: whether a m > sigma M.
      largest: steps 0 < h < largest fulfil it; 0 if none does.
      needed: what a must exceed, sigma M / m.
    """

    possible: bool
    largest: float
    needed: float

    def holds(self, h: float) -> bool:
        """Whether gamma(h) > 0."""
        return 0.0 < h < self.largest


def moment_condition(*, a: float, m: float, M: float, C1: float, sigma: float) -> MomentCondition:
    """For which h is gamma(h) = 2 a m h - C1 M^2 h^2 - 2 sigma M h > 0?

    Args:
      a: dissipativity, x . grad U(x) >= a |x|^2 - b.
      m, M: bounds of psi, so that m h <= dt <= M h.
      C1: growth of the squared gradient, |G|^2 <= C1 (1 + |x|^2).
      sigma: size of the gradient noise relative to |x|.
    """
    check.positive(a=a, C1=C1)
    check.bounds(m, M)
    check.not_negative(sigma=sigma)
    room = a * m - sigma * M
    largest = 2.0 * room / (C1 * M**2) if room > 0 else 0.0
    return MomentCondition(room > 0, largest, sigma * M / m)


def gamma(h: float, *, a: float, m: float, M: float, C1: float, sigma: float) -> float:
    """gamma(h) itself."""
    if not math.isfinite(h):
        raise ValueError(f"h must be finite, got h={h!r}")
    return 2.0 * a * m * h - C1 * M**2 * h**2 - 2.0 * sigma * M * h
