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
    Saga,
    Svrg,
    control_variate,
    saga,
    svrg,
)
from sundman.gradients.minibatch import Importance, Minibatch, Streamed, importance, minibatch
from sundman.posterior import Evaluation

__all__ = [
    "ControlVariate",
    "Evaluation",
    "Exact",
    "GradientEstimator",
    "Importance",
    "Minibatch",
    "Noisy",
    "Potential",
    "RemembersGradients",
    "Saga",
    "Streamed",
    "Svrg",
    "control_variate",
    "exact",
    "importance",
    "minibatch",
    "noisy",
    "saga",
    "svrg",
]
