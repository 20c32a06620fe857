"""The posterior predictive: the model averaged over draws, with their weights.

p(y | x, D) = sum_d w_d p(y | x, theta_d) / sum_d w_d
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sundman import lazy, likelihoods, metrics
from sundman.draws import Draws
from sundman.likelihoods import Likelihood, Normal
from sundman.posterior import Position, Posterior, model_params

PyTree = Any
_CATEGORICAL = likelihoods.categorical()


class NormalMixture(NamedTuple):
    """A mixture of normals for each point, one component per draw: (draw, point, ...)."""

    mean: np.ndarray
    sd: np.ndarray
    weight: np.ndarray

    @property
    def centre(self) -> np.ndarray:
        """The mean of the mixture at each point."""
        return np.average(self.mean, axis=0, weights=self.weight)

    @property
    def spread(self) -> np.ndarray:
        """The standard deviation of the mixture at each point."""
        second = self.sd**2 + (self.mean - self.centre) ** 2
        return np.sqrt(np.average(second, axis=0, weights=self.weight))

    def interval(self, level: float = 0.9) -> tuple[np.ndarray, np.ndarray]:
        """The central interval of probability ``level`` at each point."""
        tail = 0.5 * (1.0 - level)
        mean, sd = (part.reshape(len(part), -1) for part in (self.mean, self.sd))
        low, high = (
            metrics.normal_mixture_quantile(mean, sd, self.weight, q).reshape(self.mean.shape[1:])
            for q in (tail, 1.0 - tail)
        )
        return low, high


def _kept(draws: Draws, weighted: bool) -> tuple[np.ndarray, np.ndarray]:
    """The draws with a weight, counted chain after chain; and their weights, summing to one."""
    weight = np.asarray(draws.weight, np.float64).ravel()
    rows = np.flatnonzero(weight > 0)
    if len(rows) == 0:
        raise ValueError("every weight is 0: all chains diverged, there is nothing to predict with")
    weight = weight[rows] if weighted else np.ones(len(rows))
    return rows, (weight / weight.sum()).astype(np.float32)


def _positions(draws: Draws, rows: np.ndarray) -> PyTree:
    return jax.tree.map(lambda leaf: lazy.gather(leaf, rows), draws.position)


@dataclass(frozen=True)
class _Member:
    """One draw's predictive; equal for equal parts, so that predictions compile once."""

    apply: Callable[[PyTree, Any], Any]
    likelihood: Likelihood

    def __call__(self, position: PyTree, x: Any) -> Any:
        hyper = position.hyper.get("likelihood") if isinstance(position, Position) else None
        return self.likelihood.predict(self.apply(model_params(position), x), hyper)


def _member(model: Any, likelihood: Likelihood | None) -> _Member:
    if isinstance(model, Posterior):
        return _Member(model.apply, likelihood or model.likelihood)
    if not callable(model):
        raise TypeError(f"predict needs a Posterior or a function (params, x), got {model!r}")
    return _Member(model, likelihood or _CATEGORICAL)


@partial(jax.jit, static_argnames=("one",))
def _add(total: Any, positions: PyTree, weight: Any, x: Any, one: Callable) -> Any:
    def body(total: Any, item: tuple) -> tuple[Any, None]:
        position, w = item
        return jax.tree.map(lambda t, v: t + w * v, total, one(position, x)), None

    return lax.scan(body, total, (positions, weight))[0]


@partial(jax.jit, static_argnames=("one",))
def _members(positions: PyTree, x: Any, one: Callable) -> Any:
    return lax.map(lambda position: one(position, x), positions)


def predict(
    draws: Draws,
    model: Any,
    x: Any,
    *,
    likelihood: Likelihood | None = None,
    weighted: bool = True,
    members: bool = False,
) -> Any:
    """The predictive at ``x``: class probabilities, or a :class:`NormalMixture`.

    Args:
      draws: draws that kept their positions.
      model: the posterior, or its ``apply(params, x)``, taken to give logits of classes unless
        ``likelihood`` says otherwise.
      x: inputs, one row per point.
      likelihood: with ``apply``, what its outputs mean.
      weighted: average with the time weights; without them the ensemble is that of equal draws.
      members: return the predictive of every draw, (draw, point, ...), instead of the average.
    """
    rows, weight = _kept(draws, weighted)
    one = _member(model, likelihood)
    x = jax.tree.map(jnp.asarray, x)
    first = jax.tree.map(lambda leaf: leaf[0], _positions(draws, rows[:1]))
    shape = jax.eval_shape(one, first, x)
    size = draws.chains * lazy.draws_per_block(draws.position)
    in_memory = all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(draws.position))
    # on disk the chains of one draw lie together
    order = np.arange(len(rows)) if in_memory else np.argsort(rows % len(draws), kind="stable")
    pieces = [order[piece] for piece in lazy.draw_slices(len(rows), size)]
    if members or isinstance(shape, Normal):
        parts = [
            jax.tree.map(np.asarray, _members(_positions(draws, rows[piece]), x, one))
            for piece in pieces
        ]
        back = np.argsort(order)
        found = jax.tree.map(lambda *leaves: np.concatenate(leaves)[back], *parts)
        return NormalMixture(found.mean, found.sd, weight) if isinstance(shape, Normal) else found
    total = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, jnp.result_type(leaf.dtype, weight.dtype)), shape
    )
    for piece in pieces:
        total = _add(total, _positions(draws, rows[piece]), weight[piece], x, one)
    return jax.tree.map(np.asarray, total)
