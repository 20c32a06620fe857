"""Integrators with a preconditioner or a metric, each working with every clock."""

from sundman.contrib.integrators._preconditioned import AdamSgld as adam_sgld
from sundman.contrib.integrators._preconditioned import Psgld as psgld
from sundman.contrib.integrators._riemannian import Sgrhmc as sgrhmc
from sundman.contrib.integrators._riemannian import Sgrld as sgrld

__all__ = ["adam_sgld", "psgld", "sgrhmc", "sgrld"]
