"""The posterior of a model, and what goes into it and comes out of it."""

from sundman.posterior._posterior import Posterior
from sundman.posterior._scale_moves import ScaleMoves, scale_exchange
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
    "ScaleMoves",
    "applying",
    "likelihood_hyper",
    "model_params",
    "scale_exchange",
]
