"""Clocks that do not look at the gradient: constant, scheduled, decreasing, cyclical.

:class:`Times` multiplies any clock with a schedule, so that adaptive steps also decrease, warm up
or cycle: dt_n = schedule(n) dt_n of the clock. The weight of a position stays the dt that leaves
it, whatever made it so long.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from sundman import check
from sundman._types import PyTree
from sundman.clocks.base import (
    Clock,
    ClockState,
    Stages,
    Step,
    advance,
    check_schedule,
    step_size,
)
from sundman.clocks.base import (
    Schedule as StepSchedule,
)
from sundman.units import LearningRate
from sundman.value import Number, Settings, as_value, static


class _Scheduled(Clock):
    """A clock whose dt depends on the number of the step alone."""

    def tick(self, state: ClockState, grads: PyTree, params: PyTree) -> tuple[Array, ClockState]:
        """dt of this step."""
        del grads, params
        after = advance(state, self.at(state.step))
        return after.dt, after

    def at(self, step: Array) -> ArrayLike:
        """dt of step number ``step``."""
        raise NotImplementedError


class _FromStep(_Scheduled):
    """A scheduled clock in units of one step h."""

    h: Step

    def __post_init__(self) -> None:
        step_size(h=self.h)
        if not isinstance(self.h, LearningRate):
            self._settle(h=check.positive)

    @property
    def in_learning_rates(self) -> bool:
        """Whether h is a learning rate."""
        return isinstance(self.h, LearningRate)

    def in_time(self, size: int, *, kinetic: bool) -> Clock:
        """The clock with h in physical time."""
        if not isinstance(self.h, LearningRate):
            return self
        return self.replace(h=self.h.time_step(size, kinetic=kinetic))

    @property
    def _h(self) -> Number:
        if isinstance(self.h, LearningRate):
            raise TypeError(_ROWS_UNKNOWN.format(self.h))
        return self.h


_ROWS_UNKNOWN = (
    "the step is {!r}, a learning rate on the mean loss, and the number of rows is not known here: "
    "sundman.sample knows it from a posterior; in a loop of your own use sampler.on_mean_loss(N), "
    "or a step in physical time"
)


class Constant(_FromStep):
    """dt = h.

    Args:
      h: the step, in physical time or a :class:`sundman.LearningRate`.
    """

    label = "constant"

    def at(self, step: Array) -> ArrayLike:
        """h."""
        del step
        return self._h


def _signed(step: Array) -> Array:
    """The number of the step, from which optax subtracts; from 2^31 on its last signed value."""
    return jnp.minimum(step, jnp.uint32(2**31 - 1)).astype(jnp.int32)


class Schedule(_Scheduled):
    """dt_n = step_size(n): any optax schedule, or any function of the step number.

    Args:
      step_size: the function, of physical time steps.
    """

    label = "schedule"

    step_size: StepSchedule

    def __post_init__(self) -> None:
        if not callable(self.step_size):
            raise TypeError(
                f"step_size must be a function of the step number (an optax schedule), got "
                f"{self.step_size!r}; for a fixed step use clocks.constant({self.step_size!r})"
            )
        check_schedule("step_size", self.step_size)
        self._set(step_size=as_value(step_size=self.step_size))

    def at(self, step: Array) -> ArrayLike:
        """step_size(n)."""
        return self.step_size(_signed(step))


class Polynomial(_FromStep):
    """dt_n = h (1 + n / offset)^(-power), the decreasing steps of Welling and Teh (2011).

    Weighted by dt, averages converge to the target itself; power = 1/3 gives the fastest rate
    (Teh, Thiery, Vollmer 2016).

    Args:
      h: the first step.
      offset: after how many steps it begins to fall.
      power: how fast, in (0, 1].
    """

    label = "decreasing"
    references = ("welling2011sgld", "teh2016consistency")

    _: KW_ONLY
    offset: Number = 1.0
    power: Number = 1.0 / 3.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(offset=check.positive, power=check.positive)
        if check.known(self.power) and self.power > 1:
            raise ValueError(
                f"power must be at most 1, or the total time stays finite; got power={self.power!r}"
            )

    def at(self, step: Array) -> ArrayLike:
        """h (1 + n / offset)^(-power)."""
        return self._h * (1.0 + step.astype(jnp.float32) / self.offset) ** -self.power


class Cyclical(_FromStep):
    """dt_n = h/2 (cos(pi (n mod cycle) / cycle) + 1), cosine cycles of ``cycle`` steps.

    Zhang et al. (2020), "Cyclical stochastic gradient MCMC for Bayesian deep learning". The first
    ``explore`` steps of each cycle, or that fraction of it if it is less than 1, are not drawn
    from; without it, all are, and cycles mean nothing to a run.

    Args:
      h: the longest step.
      cycle: steps of a cycle.
      explore: steps of a cycle that explore, or a fraction of it below 1.
    """

    label = "cyclical"
    references = ("zhang2020cyclical",)

    _: KW_ONLY
    cycle: int = static()
    explore: int | float | None = static(default=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choices_are_static(explore=self.explore)
        check.count("cycle", self.cycle, least=1)
        if self.explore is not None:
            self._set(explore=_steps_of(self.explore, self.cycle))

    @property
    def stages(self) -> Stages | None:
        """The cycles, if a part of them explores."""
        return None if self.explore is None else Stages(self.cycle, int(self.explore))

    def at(self, step: Array) -> ArrayLike:
        """h sin^2 of what is left of the cycle: the cosine's, but never rounded to 0."""
        cycle = jnp.uint32(self.cycle)
        left = (cycle - step % cycle).astype(jnp.float32) / self.cycle
        return self._h * jnp.square(jnp.sin(0.5 * jnp.pi * left))


def _steps_of(explore: int | float, cycle: int) -> int:
    """How many steps of a cycle explore, given as that number or as a fraction."""
    check.not_negative(explore=explore)
    number = round(explore * cycle) if explore < 1 else explore
    check.count("explore", number, least=0)
    if not number < cycle:
        raise ValueError(
            "explore must leave steps of a cycle to sample: less than cycle steps, or a fraction "
            f"less than 1; got explore={explore!r}, cycle={cycle}"
        )
    return int(number)


class Times(Clock):
    """A clock with every step multiplied by ``schedule(n)``, any optax schedule.

    zeta goes on as before: the schedule scales the step, not what the clock has seen.

    Args:
      clock: any clock.
      schedule: a function of the step number.
    """

    clock: Clock
    schedule: StepSchedule

    def __post_init__(self) -> None:
        _check_clock(self.clock)
        if not callable(self.schedule):
            raise TypeError(
                "schedule must be a function of the step number (an optax schedule), got "
                f"{self.schedule!r}"
            )
        check_schedule("schedule", self.schedule)
        self._set(schedule=as_value(schedule=self.schedule))

    @property
    def label(self) -> str:  # type: ignore[override]  # others have it on the class
        """That of the clock."""
        return self.clock.label

    @property
    def adaptive(self) -> bool:  # type: ignore[override]  # others have it on the class
        """Whether the clock is."""
        return self.clock.adaptive

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]  # others have it on the class
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
    def settings(self) -> Settings:
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
        factor = self.schedule(_signed(state.step))  # signed: optax subtracts from it

        def scaled(step: Array) -> Array:
            return (step * factor).astype(step.dtype)

        whole = advance(state, scaled(after.dt), after.zeta, after.memory)
        return (whole.dt if dt is after.dt else jax.tree.map(scaled, dt)), whole


def _check_clock(clock: object) -> None:
    """Raise unless it is a clock."""
    if not isinstance(clock, Clock):
        raise TypeError(
            f"clock must be one of sundman.clocks, such as clocks.constant(1e-3); got {clock!r}"
        )
