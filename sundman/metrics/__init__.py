"""How good predictions are: plain functions of arrays, computed in double precision on the host.

Probabilities have the axes (point, class), labels are class numbers or one-hot rows; what comes
from an ensemble has the draw as its first axis and takes the weights of the draws.
"""

from sundman.metrics.classification import (
    Reliability,
    accuracy,
    auroc,
    brier,
    ece,
    entropy,
    log_probability_curve,
    mutual_information,
    nll,
    reliability,
    total_variation,
)
from sundman.metrics.regression import (
    coverage,
    normal_mixture_nll,
    normal_mixture_quantile,
    rmse,
)

__all__ = [
    "Reliability",
    "accuracy",
    "auroc",
    "brier",
    "coverage",
    "ece",
    "entropy",
    "log_probability_curve",
    "mutual_information",
    "nll",
    "normal_mixture_nll",
    "normal_mixture_quantile",
    "reliability",
    "rmse",
    "total_variation",
]
