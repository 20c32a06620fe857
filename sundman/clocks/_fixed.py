"""Clocks that do not look at the gradient: constant, scheduled, decreasing, cyclical."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.clocks.base import (
    Clock,
    ClockState,
    PyTree,
    Stages,
    Step,
    advance,
    check_schedule,
    step_size,
)
from sundman.units import LearningRate
from sundman.value import Number, as_value, static


class _Scheduled(Clock):
    """A clock whose dt depends on the number of the step alone."""

    def tick(self, state: ClockState, grads: PyTree, params: PyTree) -> tuple[Array, ClockState]:
        """dt of this step."""
        del grads, params
        after = advance(state, self.at(state.step))
        return after.dt, after

    def at(self, step: Array) -> Any:
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
    def _h(self) -> Any:
        if isinstance(self.h, LearningRate):
            raise TypeError(_NO_SIZE.format(self.h))
        return self.h


_NO_SIZE = (
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

    def at(self, step: Array) -> Any:
        """h."""
        del step
        return self._h


class Schedule(_Scheduled):
    """dt_n = step_size(n): any optax schedule, or any function of the step number.

    Args:
      step_size: the function, of physical time steps.
    """

    label = "schedule"

    step_size: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.step_size):
            raise TypeError(
                f"step_size must be a function of the step number (an optax schedule), got "
                f"{self.step_size!r}; for a fixed step use clocks.constant({self.step_size!r})"
            )
        check_schedule("step_size", self.step_size)
        self._set(step_size=as_value(step_size=self.step_size))

    def at(self, step: Array) -> Any:
        """step_size(n)."""
        return self.step_size(step.astype(jnp.int32))  # signed: optax subtracts from it


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

    def at(self, step: Array) -> Any:
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
        check.choices_are_static(cycle=self.cycle, explore=self.explore)
        check.count("cycle", self.cycle, least=1)
        if self.explore is not None:
            self._set(explore=_steps_of(self.explore, self.cycle))

    @property
    def stages(self) -> Stages | None:
        """The cycles, if a part of them explores."""
        return None if self.explore is None else Stages(self.cycle, int(self.explore))

    def at(self, step: Array) -> Any:
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
