"""Clocks: constant, scheduled, decreasing, cyclical, and the adaptive Sundman clock."""

from sundman.clocks.adaptive import SundmanSettings, scale_free, sundman
from sundman.clocks.base import Clock, ClockState
from sundman.clocks.fixed import constant, cyclical, polynomial, schedule
from sundman.clocks.psi import psi

__all__ = [
    "Clock",
    "ClockState",
    "SundmanSettings",
    "constant",
    "cyclical",
    "polynomial",
    "psi",
    "scale_free",
    "schedule",
    "sundman",
]
