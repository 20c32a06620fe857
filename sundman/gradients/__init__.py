"""Gradient estimators: what a sampler is told about U at each step.

An estimator is a value, called with the step's random stream and the position; it returns U and
its gradient there, at full-data scale. Its data are its own leaves, so that repeated runs compile
once. Any sampler takes any of them, in the place of the posterior:

    sundman.sample(gradients.control_variate(posterior, 100, at=mode), sampler, ...)
"""

from sundman.gradients.base import (
    Exact,
    GradientEstimator,
    Noisy,
    Potential,
    RemembersGradients,
    exact,
    noisy,
)
from sundman.gradients.control_variates import (
    ControlVariate,
    Svrg,
    control_variate,
    svrg,
)
from sundman.gradients.minibatch import Minibatch, Streamed, minibatch
from sundman.posterior import Evaluation

__all__ = [
    "ControlVariate",
    "Evaluation",
    "Exact",
    "GradientEstimator",
    "Minibatch",
    "Noisy",
    "Potential",
    "RemembersGradients",
    "Streamed",
    "Svrg",
    "control_variate",
    "exact",
    "minibatch",
    "noisy",
    "svrg",
]
