"""Integrators: one scheme per module, each working with every clock."""

from sundman.integrators.adam_sgld import adam_sgld
from sundman.integrators.baoab import baoab
from sundman.integrators.base import FusedMove, Integrator
from sundman.integrators.contour import contour
from sundman.integrators.euler_maruyama import euler_maruyama
from sundman.integrators.leimkuhler_matthews import leimkuhler_matthews
from sundman.integrators.obabo import obabo
from sundman.integrators.psgld import psgld
from sundman.integrators.replica_exchange import replica_exchange
from sundman.integrators.sghmc import sghmc
from sundman.integrators.sgnht import sgnht
from sundman.integrators.sgrhmc import sgrhmc
from sundman.integrators.sgrld import sgrld
from sundman.integrators.staged import staged

__all__ = [
    "FusedMove",
    "Integrator",
    "adam_sgld",
    "baoab",
    "contour",
    "euler_maruyama",
    "leimkuhler_matthews",
    "obabo",
    "psgld",
    "replica_exchange",
    "sghmc",
    "sgnht",
    "sgrhmc",
    "sgrld",
    "staged",
]
