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
    native,
    noise,
    priors,
    targets,
)
from sundman.citations import cite
from sundman.configuration import config
from sundman.diagnose import diagnose
from sundman.diagnosis import Diagnosis
from sundman.draws import Draws
from sundman.posterior import Batch, Position, Posterior
from sundman.predict import NormalMixture, predict
from sundman.recipes import (
    baoab,
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
from sundman.runner import (
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
from sundman.warm_start import map_estimate

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Diagnosis",
    "DivergenceError",
    "DivergenceWarning",
    "Draws",
    "Interrupted",
    "JsonLines",
    "NormalMixture",
    "Position",
    "Posterior",
    "Sampler",
    "SamplerState",
    "StoreError",
    "TensorBoard",
    "baoab",
    "cite",
    "clocks",
    "compose",
    "config",
    "data",
    "diagnose",
    "estimate",
    "gradients",
    "integrators",
    "likelihoods",
    "lm",
    "map_estimate",
    "metrics",
    "models",
    "native",
    "noise",
    "predict",
    "priors",
    "read_log",
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
    "targets",
]
