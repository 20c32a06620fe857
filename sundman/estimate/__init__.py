"""Estimates from weighted draws, each with its Monte Carlo error."""

from sundman.estimate.density import histogram, total_variation
from sundman.estimate.moments import Estimate, covariance, ess, evaluate, mean, variance
from sundman.estimate.rhat import split_rhat
from sundman.estimate.stein import kernel_stein_discrepancy
from sundman.estimate.temperature import configurational_temperature

__all__ = [
    "Estimate",
    "configurational_temperature",
    "covariance",
    "ess",
    "evaluate",
    "histogram",
    "kernel_stein_discrepancy",
    "mean",
    "split_rhat",
    "total_variation",
    "variance",
]
