"""Clocks that do not look at the gradient: constant, scheduled, decreasing, cyclical."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.clocks.base import Clock, ClockState, PyTree, Stages, advance, start


def _from_step(step_size: Callable[[Array], Any], settings: Mapping[str, Any]) -> Clock:
    def tick(state: ClockState, grads: PyTree, params: PyTree) -> tuple[Array, ClockState]:
        del grads, params
        after = advance(state, step_size(state.step))
        return after.dt, after

    return Clock(start, tick, settings)


def constant(h: float) -> Clock:
    """dt = h."""
    check.positive(h=h)
    return _from_step(lambda step: h, {"clock": "constant", "h": h})


def schedule(step_size: Callable[[Any], Any]) -> Clock:
    """dt_n = step_size(n): any optax schedule, or any function of the step number."""
    if not callable(step_size):
        raise TypeError(
            f"step_size must be a function of the step number (an optax schedule), got "
            f"{step_size!r}; for a fixed step use clocks.constant({step_size!r})"
        )
    first = step_size(0)
    check.not_negative(**{"step_size(0)": first})
    name = getattr(step_size, "__qualname__", type(step_size).__name__)

    def at(step: Array) -> Any:
        return step_size(step.astype(jnp.int32))  # signed: optax subtracts from it

    return _from_step(at, {"clock": "schedule", "step_size": name})


def polynomial(h: float, *, offset: float = 1.0, power: float = 1.0 / 3.0) -> Clock:
    """dt_n = h (1 + n / offset)^(-power), the decreasing steps of Welling and Teh (2011).

    Weighted by dt, averages converge to the target itself; power = 1/3 gives the fastest rate
    (Teh, Thiery, Vollmer 2016).
    """
    check.positive(h=h, offset=offset, power=power)
    if power > 1:
        raise ValueError(
            f"power must be at most 1, or the total time stays finite; got power={power!r}"
        )

    def step_size(step: Array) -> Array:
        return h * (1.0 + step.astype(jnp.float32) / offset) ** -power

    settings = {"clock": "polynomial", "h": h, "offset": offset, "power": power}
    return _from_step(step_size, settings)


def cyclical(h: float, *, cycle: int, explore: int | float | None = None) -> Clock:
    """dt_n = h/2 (cos(pi (n mod cycle) / cycle) + 1), cosine cycles of ``cycle`` steps.

    Zhang et al. (2020), "Cyclical stochastic gradient MCMC for Bayesian deep learning". The first
    ``explore`` steps of each cycle, or that fraction of it if it is less than 1, are not drawn
    from; without it, all are, and cycles mean nothing to a run.
    """
    check.positive(h=h)
    check.count("cycle", cycle, least=1)
    stages = None if explore is None else Stages(cycle, _steps_of(explore, cycle))

    def step_size(step: Array) -> Array:
        left = (jnp.uint32(cycle) - step % jnp.uint32(cycle)).astype(jnp.float32) / cycle
        return h * jnp.square(jnp.sin(0.5 * jnp.pi * left))  # the same, but never rounded to 0

    settings = {"clock": "cyclical", "h": h, "cycle": cycle}
    if stages is not None:
        settings["explore"] = stages.explore
    return _from_step(step_size, settings)._replace(stages=stages)


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
