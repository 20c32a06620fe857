"""What the measurements of laws.py share: a value with its standard error, and how a run is made.

A standard error is that of the variation between chains, which are independent; so nothing needs to
be known of the autocorrelation within one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

import sundman

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "law"))  # the operators: transfer, euler_operator

Floats = NDArray[np.float64]
Settings = dict[str, Any]
Values = dict[str, Any]


class Value(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


class Part(NamedTuple):
    """A table: how it is measured, and the settings, of which ``--quick`` shortens the lengths."""

    measure: Callable[[Settings], Values]
    settings: Settings

    def shortened(self) -> Part:
        """A hundredth of every length, of steps not below 1000."""
        settings = dict(self.settings)
        for name, value in self.settings.items():
            if name.endswith("steps"):
                settings[name] = max(value // 100, min(value, 1000))
            elif name.endswith(("burn_in", "pairs")):
                settings[name] = value // 100
            elif name.endswith(("time", "relaxations")):
                settings[name] = value / 100
        return self._replace(settings=settings)


def run(
    target: Any,
    sampler: sundman.Sampler,
    settings: Settings,
    *,
    seed: int,
    init: Any = None,
    sigma: float = 0.0,
    **more: Any,
) -> sundman.Draws:
    """Chains from exact draws of the target, or from ``init``.

    Args:
      target: what to sample.
      sampler: the sampler.
      settings: chains, steps, thin and burn_in of the run; the last two may be missing.
      seed: of the start and of the noise.
      init: where the chains start: one position for all, or one for each with ``per_chain=True``.
      sigma: the standard deviation of white noise added to the gradient.
      more: other arguments of :func:`sundman.sample`, which win over the settings.

    Returns:
      The draws, without statistics other than dt and U.
    """
    first, key = jax.random.split(jax.random.key(seed))
    names = ("chains", "steps", "thin", "burn_in")
    more = {**{name: settings[name] for name in names if name in settings}, **more}
    if init is None:
        init, more = target.exact(first, more["chains"]), {"per_chain": True, **more}
    return sundman.sample(
        sundman.gradients.noisy(target.potential, sigma) if sigma else target,
        sampler,
        init=init,
        key=key,
        **{"stats": (), "progress": False, **more},
    )


def average(values: Any, weight: Any) -> Value:
    """The weighted mean of an array with the axes (chain, draw).

    A ratio of sums over the chains, its error from how much each chain moves it.
    """
    weight = np.asarray(weight, np.float64)
    values = np.where(weight > 0, np.asarray(values, np.float64), 0.0)
    top, bottom = (values * weight).sum(axis=1), weight.sum(axis=1)
    mean = top.sum() / bottom.sum()
    moved = (top - mean * bottom) / bottom.mean()
    return Value(float(mean), float(moved.std(ddof=1) / math.sqrt(len(moved))))


def unweighted(draws: sundman.Draws) -> Floats:
    """Weights of 1, and 0 where a chain is lost."""
    return (np.asarray(draws.weight) > 0).astype(np.float64)


def coordinates(draws: sundman.Draws) -> list[Floats]:
    """Every coordinate of the positions, each with the axes (chain, draw)."""
    return list(np.moveaxis(np.asarray(draws.position, np.float64), -1, 0))


def relative(value: Value, truth: float) -> Value:
    """value / truth - 1."""
    return Value(value.value / truth - 1.0, value.error / abs(truth))


def extrapolated(coarse: Value, fine: Value, order: int = 1) -> Value:
    """The limit of small steps from a step and half of it, of a scheme of this order."""
    factor = 2**order
    value = (factor * fine.value - coarse.value) / (factor - 1)
    return Value(value, math.hypot(factor * fine.error, coarse.error) / (factor - 1))


def ratio(top: Value, bottom: Value) -> Value:
    """top / bottom."""
    value = top.value / bottom.value
    return Value(value, math.hypot(top.error, value * bottom.error) / abs(bottom.value))


def slope(steps: Sequence[float], biases: Sequence[Value]) -> Value:
    """The slope of log |bias| against log step, by least squares."""
    x = np.log(steps) - np.mean(np.log(steps))
    share = x / np.sum(x**2)
    logs = np.log([abs(bias.value) for bias in biases])
    errors = [bias.error / bias.value for bias in biases]
    return Value(float(share @ logs), float(np.sqrt(np.sum((share * errors) ** 2))))


def mean_dt(draws: sundman.Draws) -> float:
    """Mean dt over the steps of the chains that are not lost."""
    return float(np.mean(np.asarray(draws.stats["dt"], np.float64)[~draws.diverged]))


def to_json(values: Any) -> Any:
    """Values as objects of value and error."""
    if isinstance(values, Value):
        return {"value": float(values.value), "error": float(values.error)}
    if isinstance(values, dict):
        return {str(name): to_json(each) for name, each in values.items()}
    if isinstance(values, (list, tuple)):
        return [to_json(each) for each in values]
    return values.item() if isinstance(values, np.generic) else values
