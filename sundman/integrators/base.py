"""The integrator contract: how a step of physical length dt moves the position.

An integrator gets the (stochastic) gradient of U at the position once a step, at full-data
scale, and returns the change of the position. Momentum, thermostat or carried noise live in
its own state.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sundman.clocks.base import Stages
from sundman.noise import Stream

PyTree = Any


Move = Callable[[Stream, PyTree, Any, PyTree, PyTree], tuple[PyTree, Any]]


@dataclass(frozen=True)
class FusedMove:
    """A ``move`` that can also be made by the native kernels.

    ``advance`` takes the same arguments and returns the new parameters instead of updates.
    """

    move: Move
    advance: Move

    def __call__(
        self, stream: Stream, grads: PyTree, state: Any, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, Any]:
        """``move``."""
        return self.move(stream, grads, state, params, dt)


class Integrator(NamedTuple):
    """``init(params) -> state``; ``move(stream, grads, state, params, dt) -> (updates, state)``.

    ``dt`` is a scalar or a pytree of one scalar per leaf (a blockwise clock);
    ``at(temperature)`` is the same scheme at another temperature.

    Attributes:
      needs_value: ``move`` also takes ``value=``, U at the position.
      weigh: the factor by which the state after a step multiplies the weight dt of the position
        that the step left; 1 if it is not given.
      stages: the cycles in which it explores, if it does; the clock must have the same.
      replicas: how many copies of the position move together. If more than one, every array has
        a leading axis of copies, ``value`` has one number for each, and the first is the one
        that samples the target.
    """

    init: Callable[[PyTree], Any]
    move: Callable[..., tuple[PyTree, Any]]
    at: Callable[[Any], Integrator]
    settings: Mapping[str, Any]
    needs_value: bool = False
    weigh: Callable[[Any], Array] | None = None
    replicas: int = 1
    stages: Stages | None = None


class MomentumState(NamedTuple):
    """The momentum; by its name a run knows the kinetic temperature."""

    momentum: PyTree


def at_rest(params: PyTree) -> MomentumState:
    """Zero momentum: the friction brings it to temperature within a few 1/gamma."""
    return MomentumState(jax.tree.map(jnp.zeros_like, params))


def is_cold(temperature: Any) -> bool:
    """Whether the temperature is known to be 0, so that no noise need be made."""
    return isinstance(temperature, (int, float)) and temperature == 0


def per_leaf(dt: Array | PyTree, params: PyTree) -> PyTree:
    """dt as a pytree of one scalar for each leaf of ``params``."""
    if jax.tree.structure(dt) == jax.tree.structure(params):
        return dt
    return jax.tree.map(lambda _: dt, params)


def zeros_per_leaf(params: PyTree) -> PyTree:
    """A zero step for each leaf: the dt before the first step."""
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(params))
    return jax.tree.map(lambda _: jnp.zeros((), dtype), params)


def cast_like(tree: PyTree, like: PyTree) -> PyTree:
    """``tree`` in the dtypes of ``like``."""
    return jax.tree.map(lambda leaf, to: leaf.astype(jnp.result_type(to)), tree, like)
