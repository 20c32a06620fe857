"""sundman: adaptive-stepsize Langevin samplers for JAX.

A sampler is an integrator times a clock, and an optax gradient transformation.
"""

from sundman import (
    clocks,
    curvature,
    data,
    estimate,
    gradients,
    integrators,
    likelihoods,
    metric_tensors,
    metrics,
    models,
    native,
    noise,
    priors,
    recipes,
    targets,
)
from sundman.citations import cite
from sundman.configuration import config
from sundman.diagnosis import Diagnosis, diagnose
from sundman.draws import Draws
from sundman.posterior import Batch, Position, Posterior
from sundman.predict import NormalMixture, predict
from sundman.recipes import (
    adam_sgld,
    baoab,
    contour_sgld,
    cyclical_sghmc,
    cyclical_sgld,
    lm,
    obabo,
    psgld,
    replica_exchange_sgld,
    sa_lm,
    sa_sghmc,
    sa_sgld,
    sa_sgnht,
    samadams,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
)
from sundman.runner import (
    AllDivergedError,
    DivergenceError,
    DivergenceWarning,
    Interrupted,
    JsonLines,
    TensorBoard,
    read_log,
    resume,
    sample,
)
from sundman.samplers import Sampler, SamplerState, compose
from sundman.store import StoreError
from sundman.units import LearningRate
from sundman.warm_start import map_estimate

__version__ = "0.1.0"

__all__ = [
    "AllDivergedError",
    "Batch",
    "Diagnosis",
    "DivergenceError",
    "DivergenceWarning",
    "Draws",
    "Interrupted",
    "JsonLines",
    "LearningRate",
    "NormalMixture",
    "Position",
    "Posterior",
    "Sampler",
    "SamplerState",
    "StoreError",
    "TensorBoard",
    "adam_sgld",
    "baoab",
    "cite",
    "clocks",
    "compose",
    "config",
    "contour_sgld",
    "curvature",
    "cyclical_sghmc",
    "cyclical_sgld",
    "data",
    "diagnose",
    "estimate",
    "gradients",
    "integrators",
    "likelihoods",
    "lm",
    "map_estimate",
    "metric_tensors",
    "metrics",
    "models",
    "native",
    "noise",
    "obabo",
    "predict",
    "priors",
    "psgld",
    "read_log",
    "recipes",
    "replica_exchange_sgld",
    "resume",
    "sa_lm",
    "sa_sghmc",
    "sa_sgld",
    "sa_sgnht",
    "samadams",
    "sample",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
    "targets",
]
