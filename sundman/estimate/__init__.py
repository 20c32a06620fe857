"""Estimates from weighted draws, each with its Monte Carlo error."""

from sundman.estimate.density import histogram, total_variation
from sundman.estimate.moments import Estimate, covariance, ess, evaluate, mean, variance
from sundman.estimate.temperature import configurational_temperature

__all__ = [
    "Estimate",
    "configurational_temperature",
    "covariance",
    "ess",
    "evaluate",
    "histogram",
    "mean",
    "total_variation",
    "variance",
]
