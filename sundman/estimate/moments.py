"""Weighted averages over draws: mean, covariance, effective sample size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sundman.draws import Draws
from sundman.estimate.error import standard_error

PyTree = Any
Function = Callable[[PyTree], Any]


class Estimate(NamedTuple):
    """A value with its Monte Carlo standard error; arrays where the function returns one."""

    value: Any
    error: Any

    def __str__(self) -> str:
        """The value and its error, side by side."""
        return f"{self.value} ± {self.error}"


def evaluate(draws: Draws, f: Function | None = None) -> np.ndarray:
    """f at every draw, (chain, draw, ...); ``None`` is the kept value itself, if an array."""
    if f is None:
        if not isinstance(draws.values, np.ndarray):
            raise TypeError(
                "the draws hold a pytree: give a function f(position) that returns an array"
            )
        return draws.values
    apply = jax.jit(jax.vmap(f))
    per_chain = [
        np.asarray(apply(jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), draws.values)))
        for i in range(draws.chains)
    ]
    return np.stack(per_chain)


def _flat(draws: Draws, f: Function | None) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    values = evaluate(draws, f)
    weight = draws.weight.astype(np.float64)
    if not weight.sum() > 0:
        raise ValueError("every weight is 0: all chains diverged, there is nothing to average")
    shape = values.shape[2:]
    return values.reshape(*weight.shape, -1).astype(np.float64), weight, shape


def _weighted_mean(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    kept = np.where(weight[..., None] > 0, values, 0.0)
    return np.einsum("cd,cdk->k", weight, kept) / weight.sum()


def mean(draws: Draws, f: Function | None = None) -> Estimate:
    """sum(w f) / sum(w) over all draws, with its standard error."""
    values, weight, shape = _flat(draws, f)
    average = _weighted_mean(values, weight)
    error = standard_error(values, weight, average)
    if shape == ():
        return Estimate(float(average[0]), float(error[0]))
    return Estimate(average.reshape(shape), error.reshape(shape))


def covariance(draws: Draws, f: Function | None = None) -> np.ndarray:
    """Weighted covariance matrix of f, flattened to a vector, over all draws."""
    values, weight, _ = _flat(draws, f)
    centred = np.where(weight[..., None] > 0, values - _weighted_mean(values, weight), 0.0)
    return np.einsum("cd,cdi,cdj->ij", weight, centred, centred) / weight.sum()


def variance(draws: Draws, f: Function | None = None) -> np.ndarray:
    """Weighted variance of each component of f over all draws."""
    values, weight, shape = _flat(draws, f)
    centred = np.where(weight[..., None] > 0, values - _weighted_mean(values, weight), 0.0)
    return (np.einsum("cd,cdk->k", weight, centred**2) / weight.sum()).reshape(shape)


def ess(draws: Draws, f: Function | None = None) -> Any:
    """Effective sample size: Var(f) / error^2, the independent draws that would do as well."""
    spread, error = variance(draws, f), np.asarray(mean(draws, f).error)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(spread > 0, spread / error**2, np.nan)
    return float(size) if size.shape == () else size
