"""Integrators: one family of schemes per module, each working with every clock."""

from sundman.integrators._contour import Contour as contour
from sundman.integrators._kinetic import Baoab as baoab
from sundman.integrators._kinetic import Obabo as obabo
from sundman.integrators._kinetic import Sghmc as sghmc
from sundman.integrators._kinetic import Ubu as ubu
from sundman.integrators._low_rank import LowRankBaoab as low_rank_baoab
from sundman.integrators._overdamped import EulerMaruyama as euler_maruyama
from sundman.integrators._overdamped import LeimkuhlerMatthews as leimkuhler_matthews
from sundman.integrators._replica_exchange import ReplicaExchange as replica_exchange
from sundman.integrators._sgnht import Sgnht as sgnht
from sundman.integrators._wrapped import staged, whitened
from sundman.integrators.base import Integrator

__all__ = [
    "Integrator",
    "baoab",
    "contour",
    "euler_maruyama",
    "leimkuhler_matthews",
    "low_rank_baoab",
    "obabo",
    "replica_exchange",
    "sghmc",
    "sgnht",
    "staged",
    "ubu",
    "whitened",
]
