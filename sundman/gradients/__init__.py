"""Gradient estimators: what a sampler is told about U at each step.

An estimator is called with the step's random stream, the position and the data, and returns
the value and the gradient of U there, at full-data scale. It is the static part of a compiled
loop and compares equal when made of equal parts, so that repeated runs compile once; arrays go
in through ``data``. Any sampler takes any of them, in the place of the posterior:

    sundman.sample(gradients.control_variate(posterior, 100, at=mode), sampler, ...)
"""

from sundman.gradients.base import GradientEstimator, Potential, RemembersGradients
from sundman.gradients.control_variate import ControlVariate, control_variate
from sundman.gradients.importance import Importance, importance
from sundman.gradients.minibatch import Minibatch, Streamed, minibatch
from sundman.gradients.potential import Exact, Noisy, exact, noisy
from sundman.gradients.saga import Saga, saga
from sundman.gradients.svrg import Svrg, svrg

__all__ = [
    "ControlVariate",
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
