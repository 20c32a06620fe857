"""The samplers people know by name, each an integrator times a clock."""

from sundman.recipes.kinetic import (
    baoab,
    obabo,
    sa_sghmc,
    sa_sgnht,
    samadams,
    sghmc,
    sgnht,
)
from sundman.recipes.multimodal import (
    contour_sgld,
    cyclical_sghmc,
    cyclical_sgld,
    replica_exchange_sgld,
)
from sundman.recipes.overdamped import lm, sa_lm, sa_sgld, sgld
from sundman.recipes.preconditioned import (
    adam_sgld,
    psgld,
    sgrhmc,
    sgrld,
)
from sundman.recipes.registry import RECIPES, Recipe, recipe

__all__ = [
    "RECIPES",
    "Recipe",
    "adam_sgld",
    "baoab",
    "contour_sgld",
    "cyclical_sghmc",
    "cyclical_sgld",
    "lm",
    "obabo",
    "psgld",
    "recipe",
    "replica_exchange_sgld",
    "sa_lm",
    "sa_sghmc",
    "sa_sgld",
    "sa_sgnht",
    "samadams",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
]
