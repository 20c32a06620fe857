"""Priors for the parameters of a model, assigned by parameter path."""

from sundman.priors.assign import Rules, assign, check_rules, is_bias, is_weight
from sundman.priors.base import Prior
from sundman.priors.elementwise import (
    cauchy_proxy,
    gaussian,
    laplace,
    scale_mixture,
    student_t,
)
from sundman.priors.horseshoe import horseshoe

__all__ = [
    "Prior",
    "Rules",
    "assign",
    "cauchy_proxy",
    "check_rules",
    "gaussian",
    "horseshoe",
    "is_bias",
    "is_weight",
    "laplace",
    "scale_mixture",
    "student_t",
]
