"""The clock contract: how much physical time a step covers.

A clock sees the gradient at the current position and answers with dt. It counts the steps and
keeps the physical time elapsed, t = sum of dt, by compensated (Kahan) summation: in single
precision a plain sum stands still after some 1e7 steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from sundman import check
from sundman._types import PyTree
from sundman.units import LearningRate
from sundman.value import Number, Settings, Value, public_name, settings_of

Step: TypeAlias = Number | LearningRate
Schedule: TypeAlias = Callable[[Array | int], ArrayLike]
"""A function of the step number, such as any optax schedule."""


class ClockState(NamedTuple):
    """What every clock shows: the count of steps, the time so far, the last dt; zeta if any.

    ``memory`` is whatever else a clock carries from step to step.
    """

    step: Array
    time: Array
    lost: Array
    dt: Array
    zeta: Array | None = None
    memory: PyTree = None


class Stages(NamedTuple):
    """Cycles of ``cycle`` steps each; the first ``explore`` of them are not for drawing."""

    cycle: int
    explore: int


class Clock(Value):
    """A clock: a value with ``init`` and ``tick``.

    Attributes:
      label: its name in tables.
      adaptive: whether dt follows the gradient.
      biased: whether averages weighted by dt stay biased as the step goes to zero.
      references: keys of ``references.bib``, or BibTeX entries.
    """

    label: ClassVar[str] = ""
    adaptive: ClassVar[bool] = False
    references: ClassVar[tuple[str, ...]] = ()

    def init(self, params: PyTree) -> ClockState:
        """The state before the first step.

        Args:
          params: the first position.

        Returns:
          The state, with no time passed.
        """
        return start(params)

    def tick(self, state: ClockState, grads: PyTree, params: PyTree) -> tuple[PyTree, ClockState]:
        """dt of this step, and the state after it.

        Args:
          state: that of the clock.
          grads: the gradient of U at ``params``, at full-data scale.
          params: the position before the step.

        Returns:
          dt, a scalar, or of a blockwise clock a pytree with a scalar per leaf of ``params``;
          and the next state, whose ``dt`` is always a scalar.
        """
        raise NotImplementedError

    @property
    def biased(self) -> bool:
        """Whether weighted averages stay biased however small the step."""
        return False

    @property
    def takes_split_gradients(self) -> bool:
        """Whether ``tick`` takes gradients in two parts (:mod:`sundman.native.split_gradient`)."""
        return False

    @property
    def stages(self) -> Stages | None:
        """When draws are taken, if not always."""
        return None

    @property
    def settings(self) -> Settings:
        """Every setting by name."""
        return {"clock": public_name(type(self)), **settings_of(self)}

    @property
    def in_learning_rates(self) -> bool:
        """Whether the step is a learning rate on the mean loss, whose time is not known yet."""
        return False

    def prepared(self) -> Clock:
        """The clock for a long loop, with what can be worked out before it."""
        return self

    def in_time(self, size: int, *, kinetic: bool) -> Clock:
        """The clock in physical time, where the mean loss is that of ``size`` rows."""
        del size, kinetic
        return self


def step_size(**arguments: object) -> None:
    """A step must be a positive number, or a learning rate."""
    for name, value in arguments.items():
        if not isinstance(value, LearningRate):
            check.positive(**{name: value})


def check_schedule(name: str, schedule: Schedule) -> None:
    """A schedule must give steps of 0 or more, and hold no traced number unless it is a value."""
    first = schedule(0)
    if not isinstance(schedule, Value) and not check.known(first):
        raise TypeError(
            f"{name} is a function with a traced number in it, and a function is a choice, part of "
            "the compiled program: under jax.vmap map a clock in physical time, or make the "
            "schedule a sundman.value.Value"
        )
    check.not_negative(**{f"{name}(0)": first})


def time_dtype(params: PyTree) -> DTypeLike:
    """Time is kept in single precision, in double if any parameter is."""
    return jnp.result_type(jnp.float32, *jax.tree.leaves(params))


def start(params: PyTree, zeta: Array | None = None, memory: PyTree = None) -> ClockState:
    """The clock before its first tick."""
    zero = jnp.zeros((), time_dtype(params))
    return ClockState(jnp.uint32(0), time=zero, lost=zero, dt=zero, zeta=zeta, memory=memory)


def advance(
    state: ClockState, dt: ArrayLike, zeta: Array | None = None, memory: PyTree = None
) -> ClockState:
    """Count one step of length ``dt``; ``lost`` carries what rounding took from ``time``."""
    dt = jnp.asarray(dt, state.time.dtype)
    increment = dt - state.lost
    time = state.time + increment
    lost = (time - state.time) - increment
    return ClockState(state.step + jnp.uint32(1), time, lost, dt, zeta, memory)
