"""The samplers people know by name, each an integrator times a clock."""

from sundman.recipes.kinetic import baoab, sa_sghmc, sa_sgnht, samadams, sghmc, sgnht
from sundman.recipes.overdamped import lm, sa_lm, sa_sgld, sgld

__all__ = [
    "baoab",
    "lm",
    "sa_lm",
    "sa_sghmc",
    "sa_sgld",
    "sa_sgnht",
    "samadams",
    "sghmc",
    "sgld",
    "sgnht",
]
