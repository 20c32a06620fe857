"""The posterior of a model, and what goes into it and comes out of it."""

from sundman.posterior._posterior import Posterior
from sundman.posterior.evaluation import (
    Batch,
    BatchLike,
    Evaluation,
    Model,
    Position,
    applying,
    likelihood_hyper,
    model_params,
)

__all__ = [
    "Batch",
    "BatchLike",
    "Evaluation",
    "Model",
    "Position",
    "Posterior",
    "applying",
    "likelihood_hyper",
    "model_params",
]
