"""Clocks: constant, scheduled, decreasing, cyclical, and the adaptive Sundman clock."""

from sundman.clocks import monitors
from sundman.clocks.adaptive import SundmanSettings, scale_free, sundman
from sundman.clocks.base import Clock, ClockState, Stages
from sundman.clocks.fixed import constant, cyclical, polynomial, schedule
from sundman.clocks.product import times
from sundman.clocks.psi import psi

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
