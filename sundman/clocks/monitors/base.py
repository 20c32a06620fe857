"""What a monitor is, and the one made of a user's function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from sundman.clocks.base import PyTree, time_dtype


@runtime_checkable
class Monitor(Protocol):
    """What a clock watches; ``memory`` is its own, carried from step to step."""

    def init(self, params: PyTree) -> PyTree:
        """The memory before the first step."""
        ...

    def measure(
        self, grads: PyTree, params: PyTree, memory: PyTree, step: Array
    ) -> tuple[Array, PyTree]:
        """q, zero or more, and the memory after this step."""
        ...


def total(tree: PyTree, dtype: Any) -> Array:
    """The sum of all numbers."""
    sums = [jnp.sum(leaf.astype(dtype)) for leaf in jax.tree.leaves(tree)]
    return sum(sums[1:], sums[0])


def total_square(tree: PyTree, dtype: Any) -> Array:
    """The sum of all squares."""
    return total(jax.tree.map(lambda leaf: jnp.square(leaf.astype(dtype)), tree), dtype)


@dataclass(frozen=True)
class OfFunction:
    """q = function(grads, params)."""

    function: Callable[[PyTree, PyTree], Any]

    def init(self, params: PyTree) -> None:
        """Nothing."""

    def measure(self, grads: PyTree, params: PyTree, memory: None, step: Array):
        """The function's value, which must be a scalar."""
        del step
        found = jnp.asarray(self.function(grads, params))
        if found.shape != ():
            raise ValueError(f"a monitor must give one number, got shape {found.shape}")
        return jnp.maximum(found.astype(time_dtype(params)), 0.0), memory


def function(measure: Callable[[PyTree, PyTree], Any]) -> OfFunction:
    """q = measure(grads, params), a scalar; less than zero counts as zero."""
    return OfFunction(measure)


def as_monitor(given: Any) -> Monitor:
    """A monitor as it is, a function (grads, params) -> q as a monitor."""
    if isinstance(given, Monitor):
        return given
    if callable(given):
        return function(given)
    raise TypeError(
        "monitor must be one of sundman.clocks.monitors or a function (grads, params) -> number, "
        f"got {given!r}"
    )


def in_words(monitor: Monitor) -> str:
    """The monitor and its settings as a text that is the same in every process."""

    def text(value: Any) -> str:
        if callable(value):
            return getattr(value, "__qualname__", type(value).__qualname__)
        if value is None or isinstance(value, (int, float, str)):
            return repr(value)
        return str(jax.tree.map(jnp.shape, value))

    name = type(monitor).__name__
    if not is_dataclass(monitor):
        return name
    parts = [f"{field.name}={text(getattr(monitor, field.name))}" for field in fields(monitor)]
    return f"{name}({', '.join(parts)})"


def check_callable(name: str, potential: Any) -> None:
    """Raise unless it can be a potential."""
    if not callable(potential):
        raise TypeError(f"monitors.{name} needs a potential U(params) -> scalar, got {potential!r}")
