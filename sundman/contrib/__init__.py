"""The second shelf: samplers that work and are held to their laws, without any other promise.

They use what a user could: the contracts of an integrator, a clock and a sampler. Their names may
change or go in any version. The first shelf knows nothing of them:

    from sundman import contrib

    sampler = contrib.psgld(1e-3)
"""

from sundman.contrib import curvature, integrators, metric_tensors, monitors
from sundman.contrib.recipes import adam_sgld, psgld, sgrhmc, sgrld

__all__ = [
    "adam_sgld",
    "curvature",
    "integrators",
    "metric_tensors",
    "monitors",
    "psgld",
    "sgrhmc",
    "sgrld",
]
