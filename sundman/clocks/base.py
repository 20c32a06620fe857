"""The clock contract: how much physical time a step covers.

A clock sees the gradient at the current position and answers with dt. It counts the steps and
keeps the physical time elapsed, t = sum of dt, by compensated (Kahan) summation: in single
precision a plain sum stands still after some 1e7 steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

PyTree = Any


class ClockState(NamedTuple):
    """What every clock shows: the count of steps, the time so far, the last dt; zeta if any.

    ``memory`` is whatever else a clock carries from step to step.
    """

    step: Array
    time: Array
    lost: Array
    dt: Array
    zeta: Array | None = None
    memory: Any = None


class Stages(NamedTuple):
    """Cycles of ``cycle`` steps each; the first ``explore`` of them are not for drawing."""

    cycle: int
    explore: int


class Clock(NamedTuple):
    """``init(params) -> ClockState``; ``tick(state, grads, params) -> (dt, ClockState)``.

    ``dt`` is a scalar, or for a blockwise clock a pytree with one scalar per leaf of the
    parameters; ``state.dt`` is always a scalar. ``splits`` says that ``tick`` takes gradients in
    two parts (:mod:`sundman.split`); ``stages``, if given, when draws are taken.
    """

    init: Callable[[PyTree], ClockState]
    tick: Callable[[ClockState, PyTree, PyTree], tuple[PyTree, ClockState]]
    settings: Mapping[str, Any]
    splits: bool = False
    stages: Stages | None = None


def time_dtype(params: PyTree) -> Any:
    """Time is kept in single precision, in double if any parameter is."""
    return jnp.result_type(jnp.float32, *jax.tree.leaves(params))


def start(params: PyTree, zeta: Array | None = None, memory: Any = None) -> ClockState:
    """The clock before its first tick."""
    zero = jnp.zeros((), time_dtype(params))
    return ClockState(jnp.uint32(0), time=zero, lost=zero, dt=zero, zeta=zeta, memory=memory)


def advance(
    state: ClockState, dt: Array, zeta: Array | None = None, memory: Any = None
) -> ClockState:
    """Count one step of length ``dt``; ``lost`` carries what rounding took from ``time``."""
    dt = jnp.asarray(dt, state.time.dtype)
    increment = dt - state.lost
    time = state.time + increment
    lost = (time - state.time) - increment
    return ClockState(state.step + jnp.uint32(1), time, lost, dt, zeta, memory)
