"""Numbers with their errors, and the rules by which they decide a claim.

Two rules. With a 95% interval of half-width e around a found difference d:

    equal   |d| <= e reproduces; |d| <= e + margin partly; else it does not; not tested if e is
            too large to say anything
    less    d < -e reproduces; d > e does not; between the two it does not reproduce if the
            interval excludes the difference that was claimed, and else it is not tested: the run
            was too short to tell
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sundman.report.model import Outcome


@dataclass(frozen=True)
class Measured:
    """A value, its standard error, and how many of these make half of a 95% interval."""

    value: float
    error: float
    quantile: float = 2.0

    @property
    def half(self) -> float:
        """Half of the 95% interval."""
        return self.quantile * self.error

    def __sub__(self, other: Measured | float) -> Measured:
        """The difference of independent numbers."""
        if isinstance(other, Measured):
            error = math.hypot(self.error, other.error)
            half = math.hypot(self.half, other.half)
            return Measured(self.value - other.value, error, half / error if error else 2.0)
        return Measured(self.value - other, self.error, self.quantile)

    def __truediv__(self, number: float) -> Measured:
        """The ratio to an exact number."""
        return Measured(self.value / number, abs(self.error / number), self.quantile)

    def text(self, digits: int = 2, *, percent: bool = False, sign: bool = False) -> str:
        """The value, written to as many places as its error has ``digits``."""
        factor, unit = (100.0, "%") if percent else (1.0, "")
        form = "+" if sign else ""
        value, error = factor * self.value, factor * self.error
        if math.isnan(value):
            return "no runs"
        if math.isinf(value):
            return "not finite"
        if not error > 0 or not math.isfinite(error):
            return f"{value:{form}.4g}{unit}"
        places = max(0, digits - 1 - math.floor(math.log10(error)))
        return f"{value:{form}.{min(places, 8)}f}{unit}"


def error_text(found: Measured) -> str:
    """Its standard error, or why there is none."""
    return f"{found.error:.2g}" if math.isfinite(found.error) else "unknown: fewer than two runs"


def over_seeds(values: Sequence[float]) -> Measured:
    """Mean of independent runs, with its error and Student's quantile; one run has no error."""
    from scipy import stats

    n = len(values)
    if n < 2:
        return Measured(float(np.mean(values)) if n else math.nan, math.inf, 1.0)
    error = float(np.std(values, ddof=1) / math.sqrt(n))
    return Measured(float(np.mean(values)), error, float(stats.t.ppf(0.975, n - 1)))


def equal(difference: Measured, margin: float = 0.0, *, resolution: float = math.inf) -> Outcome:
    """Is the difference none? Not tested if the interval is wider than ``resolution``."""
    if not math.isfinite(difference.half) or difference.half > resolution:
        return "not tested"
    if abs(difference.value) <= difference.half:
        return "reproduces"
    return "partly" if abs(difference.value) <= difference.half + margin else "does not reproduce"


def less(difference: Measured, claimed: float) -> Outcome:
    """Is the difference below zero? ``claimed`` is the (negative) difference in the paper."""
    if not math.isfinite(difference.half):
        return "not tested"
    if difference.value < -difference.half:
        return "reproduces"
    excluded = difference.value - difference.half > claimed
    return "does not reproduce" if difference.value > difference.half or excluded else "not tested"


def all_of(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of a claim with several parts."""
    tested = [outcome for outcome in outcomes if outcome != "not tested"]
    if not tested:
        return "not tested"
    if all(outcome == "reproduces" for outcome in tested):
        return "reproduces"
    return "does not reproduce" if set(tested) == {"does not reproduce"} else "partly"
