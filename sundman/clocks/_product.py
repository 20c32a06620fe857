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

from sundman._types import PyTree
from sundman.clocks.base import Clock, ClockState, Stages, advance, check_schedule
from sundman.value import as_value


class Times(Clock):
    """The clock with every step multiplied by ``schedule(n)``, any optax schedule.

    zeta goes on as before: the schedule scales the step, not what the clock has seen.

    Args:
      clock: any clock.
      schedule: a function of the step number.
    """

    clock: Clock
    schedule: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not isinstance(self.clock, Clock):
            raise TypeError(
                "clock must be one of sundman.clocks, such as clocks.constant(1e-3); got "
                f"{self.clock!r}"
            )
        if not callable(self.schedule):
            raise TypeError(
                "schedule must be a function of the step number (an optax schedule), got "
                f"{self.schedule!r}"
            )
        check_schedule("schedule", self.schedule)
        self._set(schedule=as_value(schedule=self.schedule))

    @property
    def label(self) -> str:  # type: ignore[override]
        """That of the clock."""
        return self.clock.label

    @property
    def adaptive(self) -> bool:  # type: ignore[override]
        """Whether the clock is."""
        return self.clock.adaptive

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the clock."""
        return self.clock.references

    @property
    def biased(self) -> bool:
        """Whether the clock is."""
        return self.clock.biased

    @property
    def takes_split_gradients(self) -> bool:
        """Whether the clock does."""
        return self.clock.takes_split_gradients

    @property
    def stages(self) -> Stages | None:
        """Those of the clock."""
        return self.clock.stages

    @property
    def settings(self) -> dict[str, Any]:
        """Those of the clock, and the schedule."""
        name = repr(self.schedule)
        before = self.clock.settings.get("times")
        return {**self.clock.settings, "times": name if before is None else f"{before}, {name}"}

    @property
    def in_learning_rates(self) -> bool:
        """Whether the clock is."""
        return self.clock.in_learning_rates

    def in_time(self, size: int, *, kinetic: bool) -> Clock:
        """The product with the clock in physical time."""
        return self.replace(clock=self.clock.in_time(size, kinetic=kinetic))

    def prepared(self) -> Clock:
        """The product with the clock prepared."""
        return self.replace(clock=self.clock.prepared())

    def init(self, params: PyTree) -> ClockState:
        """That of the clock."""
        return self.clock.init(params)

    def tick(self, state: ClockState, grads: PyTree, params: PyTree) -> tuple[PyTree, ClockState]:
        """schedule(n) times the clock's dt."""
        dt, after = self.clock.tick(state, grads, params)
        factor = self.schedule(state.step.astype(jnp.int32))  # signed: optax subtracts from it

        def scaled(step: Array) -> Array:
            return (step * factor).astype(step.dtype)

        whole = advance(state, scaled(after.dt), after.zeta, after.memory)
        return (whole.dt if dt is after.dt else jax.tree.map(scaled, dt)), whole
