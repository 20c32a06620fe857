"""Priors for the parameters of a model, assigned by parameter path."""

from sundman.priors.assign import PriorLike, Rules, as_rules, assign, is_bias, is_weight, paths
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
    "PriorLike",
    "Rules",
    "as_rules",
    "assign",
    "cauchy_proxy",
    "gaussian",
    "horseshoe",
    "is_bias",
    "is_weight",
    "laplace",
    "paths",
    "scale_mixture",
    "student_t",
]
