"""Numbers with their errors, and the rules by which they decide a claim.

Three rules. With a 95% interval of half-width e around a measured difference d:

    equivalent  |d| + e <= margin reproduces: the whole interval is within what counts as none;
            |d| - e > margin does not; between the two the run was too short to tell, not tested
    equal   |d| <= e reproduces; |d| <= e + margin partly; else it does not; not tested if e is
            too large to say anything
    less    d < -e reproduces; d > e does not; between the two it does not reproduce if the
            interval excludes the difference that was claimed, and else it is not tested: the run
            was too short to tell

And two fits through points with errors: a slope on logarithmic axes, and a limit as h goes to 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from sundman.report.model import Outcome


@dataclass(frozen=True)
class Measurement:
    """A value, its standard error, and how many of these make half of a 95% interval."""

    value: float
    error: float
    quantile: float = 2.0

    @property
    def half(self) -> float:
        """Half of the 95% interval."""
        return self.quantile * self.error

    def __sub__(self, other: Measurement | float) -> Measurement:
        """The difference of independent numbers."""
        if isinstance(other, Measurement):
            error = math.hypot(self.error, other.error)
            half = math.hypot(self.half, other.half)
            return Measurement(self.value - other.value, error, half / error if error else 2.0)
        return Measurement(self.value - other, self.error, self.quantile)

    def __truediv__(self, number: float) -> Measurement:
        """The ratio to an exact number."""
        return Measurement(self.value / number, abs(self.error / number), self.quantile)

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


def error_text(measured: Measurement) -> str:
    """Its standard error, or why there is none."""
    return (
        f"{measured.error:.2g}" if math.isfinite(measured.error) else "unknown: fewer than two runs"
    )


def over_seeds(values: Sequence[float]) -> Measurement:
    """Mean of independent runs, with its error and Student's quantile; one run has no error."""
    n = len(values)
    if n < 2:
        return Measurement(float(np.mean(values)) if n else math.nan, math.inf, 1.0)
    error = float(np.std(values, ddof=1) / math.sqrt(n))
    return Measurement(float(np.mean(values)), error, float(stdtrit(n - 1, 0.975)))


def equal(difference: Measurement, margin: float = 0.0, *, resolution: float = math.inf) -> Outcome:
    """Is the difference none? Not tested if the interval is wider than ``resolution``."""
    if not math.isfinite(difference.half) or difference.half > resolution:
        return "not tested"
    if abs(difference.value) <= difference.half:
        return "reproduces"
    return "partly" if abs(difference.value) <= difference.half + margin else "does not reproduce"


def equivalent(difference: Measurement, margin: float) -> Outcome:
    """Is the difference none for all purposes? A longer run makes this easier, not harder."""
    if abs(difference.value) + difference.half <= margin:
        return "reproduces"
    beyond = abs(difference.value) - difference.half > margin
    return "does not reproduce" if beyond else "not tested"


def less(difference: Measurement, claimed: float) -> Outcome:
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


def _least_squares(
    design: np.ndarray, values: np.ndarray, errors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and their errors, points weighted by 1/error^2."""
    scaled = design / errors[:, None]
    covariance = np.linalg.inv(scaled.T @ scaled)
    return covariance @ scaled.T @ (values / errors), np.sqrt(np.diag(covariance))


def log_slope(steps: Sequence[float], biases: Sequence[Measurement]) -> Measurement:
    """p of |bias| = c step^p, by weighted least squares of the logarithms."""
    size = np.abs([b.value for b in biases])
    error = np.array([b.error for b in biases]) / size
    x = np.log(np.asarray(steps))
    design = np.stack([np.ones_like(x), x], axis=1)
    coefficients, errors = _least_squares(design, np.log(size), error)
    return Measurement(float(coefficients[1]), float(errors[1]))


def limit(steps: Sequence[float], biases: Sequence[Measurement]) -> Measurement:
    """b_0 of bias = b_0 + b_1 h (+ b_2 h^2 from three points on)."""
    h = np.asarray(steps) / max(steps)
    design = np.stack([h**k for k in range(min(3, len(h)))], axis=1)
    values, errors = (np.array([getattr(b, a) for b in biases]) for a in ("value", "error"))
    coefficients, sigma = _least_squares(design, values, errors)
    return Measurement(float(coefficients[0]), float(sigma[0]))
