"""Clocks: constant, scheduled, decreasing, cyclical, and the adaptive Sundman clock."""

from sundman.clocks import monitors
from sundman.clocks._fixed import Constant as constant
from sundman.clocks._fixed import Cyclical as cyclical
from sundman.clocks._fixed import Polynomial as polynomial
from sundman.clocks._fixed import Schedule as schedule
from sundman.clocks._fixed import Times as times
from sundman.clocks._psi import psi
from sundman.clocks._sundman import Sundman as sundman
from sundman.clocks._sundman import SundmanSettings, scale_free
from sundman.clocks.base import Clock, ClockState, Stages

__all__ = [
    "Clock",
    "ClockState",
    "Stages",
    "SundmanSettings",
    "constant",
    "cyclical",
    "monitors",
    "polynomial",
    "psi",
    "scale_free",
    "schedule",
    "sundman",
    "times",
]
