"""The samplers people know by name, each an integrator times a clock."""

from sundman.recipes.kinetic import (
    baoab,
    obabo,
    sa_obabo,
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
    sa_adam_sgld,
    sa_psgld,
    sa_sgrhmc,
    sa_sgrld,
    sgrhmc,
    sgrld,
)

__all__ = [
    "adam_sgld",
    "baoab",
    "contour_sgld",
    "cyclical_sghmc",
    "cyclical_sgld",
    "lm",
    "obabo",
    "psgld",
    "replica_exchange_sgld",
    "sa_adam_sgld",
    "sa_lm",
    "sa_obabo",
    "sa_psgld",
    "sa_sghmc",
    "sa_sgld",
    "sa_sgnht",
    "sa_sgrhmc",
    "sa_sgrld",
    "samadams",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
]
