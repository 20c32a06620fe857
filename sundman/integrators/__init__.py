"""Integrators: one scheme per module, each working with every clock."""

from sundman.integrators.baoab import baoab
from sundman.integrators.base import FusedMove, Integrator
from sundman.integrators.euler_maruyama import euler_maruyama
from sundman.integrators.leimkuhler_matthews import leimkuhler_matthews
from sundman.integrators.sghmc import sghmc
from sundman.integrators.sgnht import sgnht

__all__ = [
    "FusedMove",
    "Integrator",
    "baoab",
    "euler_maruyama",
    "leimkuhler_matthews",
    "sghmc",
    "sgnht",
]
