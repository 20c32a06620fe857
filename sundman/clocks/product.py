"""A clock times a schedule: adaptive steps that also decrease, warm up or cycle.

    dt_n = schedule(n) dt_n of the clock

The weight of a position stays the dt that leaves it, whatever made it so long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.clocks.base import Clock, ClockState, PyTree, advance


def times(clock: Clock, schedule: Callable[[Any], Any]) -> Clock:
    """The clock with every step multiplied by ``schedule(n)``, any optax schedule.

    zeta goes on as before: the schedule scales the step, not what the clock has seen.
    """
    if not isinstance(clock, Clock):
        raise TypeError(
            f"clock must be one of sundman.clocks, such as clocks.constant(1e-3); got {clock!r}"
        )
    if not callable(schedule):
        raise TypeError(
            f"schedule must be a function of the step number (an optax schedule), got {schedule!r}"
        )
    check.not_negative(**{"schedule(0)": schedule(0)})

    def tick(state: ClockState, grads: PyTree, params: PyTree) -> tuple[PyTree, ClockState]:
        dt, after = clock.tick(state, grads, params)
        factor = schedule(state.step.astype(jnp.int32))  # signed: optax subtracts from it

        def scaled(step: Array) -> Array:
            return (step * factor).astype(step.dtype)

        whole = advance(state, scaled(after.dt), after.zeta, after.memory)
        return (whole.dt if dt is after.dt else jax.tree.map(scaled, dt)), whole

    name = getattr(schedule, "__qualname__", type(schedule).__name__)
    before = clock.settings.get("times")
    settings = {**clock.settings, "times": name if before is None else f"{before}, {name}"}
    return clock._replace(tick=tick, settings=settings)
