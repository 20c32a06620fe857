"""sundman: adaptive-stepsize Langevin samplers for JAX.

A sampler is an integrator times a clock, and an optax gradient transformation.
"""

from sundman import clocks, estimate, gradients, integrators, likelihoods, noise, priors, targets
from sundman.draws import Draws
from sundman.posterior import Batch, Posterior, Position
from sundman.runner import DivergenceWarning, sample
from sundman.samplers import (
    Sampler,
    SamplerState,
    baoab,
    compose,
    lm,
    sa_lm,
    sa_sghmc,
    sa_sgld,
    sa_sgnht,
    samadams,
    sghmc,
    sgld,
    sgnht,
)

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "DivergenceWarning",
    "Draws",
    "Position",
    "Posterior",
    "Sampler",
    "SamplerState",
    "baoab",
    "clocks",
    "compose",
    "estimate",
    "gradients",
    "integrators",
    "likelihoods",
    "lm",
    "noise",
    "priors",
    "sa_lm",
    "sa_sghmc",
    "sa_sgld",
    "sa_sgnht",
    "samadams",
    "sample",
    "sghmc",
    "sgld",
    "sgnht",
    "targets",
]
