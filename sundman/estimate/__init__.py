"""Estimates from weighted draws, each with its Monte Carlo error."""

from sundman.estimate.averages import mean, step_bias
from sundman.estimate.convergence import kernel_stein_discrepancy, split_rhat
from sundman.estimate.density import histogram, quantile, total_variation
from sundman.estimate.moments import Estimate, covariance, ess, evaluate, variance
from sundman.estimate.temperature import (
    configurational_temperature,
    curvature_temperature,
    kinetic_temperature,
    stiff_temperature,
    temperature_by_block,
)

__all__ = [
    "Estimate",
    "configurational_temperature",
    "covariance",
    "curvature_temperature",
    "ess",
    "evaluate",
    "histogram",
    "kernel_stein_discrepancy",
    "kinetic_temperature",
    "mean",
    "quantile",
    "split_rhat",
    "step_bias",
    "stiff_temperature",
    "temperature_by_block",
    "total_variation",
    "variance",
]
