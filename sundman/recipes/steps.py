"""The step of a recipe: a physical time, a learning rate, a schedule, or a clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sundman import clocks
from sundman.clocks import Clock
from sundman.clocks.base import Step

StepOrClock = Step | Callable[[Any], Any] | Clock


def as_clock(h: StepOrClock) -> Clock:
    """The clock of a step."""
    if isinstance(h, Clock):
        return h
    if callable(h):
        return clocks.schedule(h)
    return clocks.constant(h)
