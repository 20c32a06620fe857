"""sundman: adaptive-stepsize Langevin samplers for JAX.

A sampler is an integrator times a clock, and an optax gradient transformation.
"""

from sundman import (
    clocks,
    data,
    estimate,
    gradients,
    integrators,
    likelihoods,
    metrics,
    models,
    noise,
    priors,
    targets,
)
from sundman.draws import Draws
from sundman.posterior import Batch, Position, Posterior
from sundman.predict import NormalMixture, predict
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
from sundman.warm_start import map_estimate

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "DivergenceWarning",
    "Draws",
    "NormalMixture",
    "Position",
    "Posterior",
    "Sampler",
    "SamplerState",
    "baoab",
    "clocks",
    "compose",
    "data",
    "estimate",
    "gradients",
    "integrators",
    "likelihoods",
    "lm",
    "map_estimate",
    "metrics",
    "models",
    "noise",
    "predict",
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
