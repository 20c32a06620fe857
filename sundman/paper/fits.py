"""Fits through points with errors: a slope on logarithmic axes, and a limit as h goes to 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sundman.paper.measured import Measured


def _least_squares(
    design: np.ndarray, values: np.ndarray, errors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and their errors, points weighted by 1/error^2."""
    scaled = design / errors[:, None]
    covariance = np.linalg.inv(scaled.T @ scaled)
    return covariance @ scaled.T @ (values / errors), np.sqrt(np.diag(covariance))


def log_slope(steps: Sequence[float], biases: Sequence[Measured]) -> Measured:
    """p of |bias| = c step^p, by weighted least squares of the logarithms."""
    size = np.abs([b.value for b in biases])
    error = np.array([b.error for b in biases]) / size
    x = np.log(np.asarray(steps))
    design = np.stack([np.ones_like(x), x], axis=1)
    coefficients, errors = _least_squares(design, np.log(size), error)
    return Measured(float(coefficients[1]), float(errors[1]))


def limit(steps: Sequence[float], biases: Sequence[Measured]) -> Measured:
    """b_0 of bias = b_0 + b_1 h (+ b_2 h^2 from three points on)."""
    h = np.asarray(steps) / max(steps)
    design = np.stack([h**k for k in range(min(3, len(h)))], axis=1)
    values, errors = (np.array([getattr(b, a) for b in biases]) for a in ("value", "error"))
    coefficients, found = _least_squares(design, values, errors)
    return Measured(float(coefficients[0]), float(found[0]))
