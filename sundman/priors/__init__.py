"""Priors for the parameters of a model, assigned by parameter path."""

from functools import partial

from sundman.priors.assign import PriorLike, Rules, as_rules, assign, is_bias, is_weight, paths
from sundman.priors.base import Prior, named, names, register
from sundman.priors.elementwise import LogHalfCauchy as log_half_cauchy
from sundman.priors.elementwise import (
    cauchy_proxy,
    gaussian,
    laplace,
    scale_mixture,
    student_t,
)
from sundman.priors.horseshoe import FORMS, horseshoe

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
    "log_half_cauchy",
    "named",
    "names",
    "paths",
    "register",
    "scale_mixture",
    "student_t",
]

register("gaussian", gaussian)
register("horseshoe", horseshoe)
for _form in FORMS[1:]:
    register(f"horseshoe-{_form}", partial(horseshoe, form=_form))
register("laplace", laplace)
register("student-t", student_t)
register("cauchy", cauchy_proxy)
