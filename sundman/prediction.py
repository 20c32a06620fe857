"""The posterior predictive: the model averaged over draws, with their weights.

p(y | x, D) = sum_d w_d p(y | x, theta_d) / sum_d w_d
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from sundman import _chunks, likelihoods, metrics
from sundman._types import PyTree
from sundman.data.base import as_inputs
from sundman.draws import Draws
from sundman.likelihoods import Likelihood, Normal
from sundman.posterior import Model, Posterior, applying, likelihood_hyper, model_params
from sundman.value import Value, static

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


def _weighted_rows(draws: Draws, weighted: bool) -> tuple[np.ndarray, np.ndarray]:
    """The draws with a weight, counted chain after chain; and their weights, summing to one."""
    weight = np.asarray(draws.weight, np.float64).ravel()
    rows = np.flatnonzero(weight > 0)
    if len(rows) == 0:
        raise ValueError("every weight is 0: all chains diverged, there is nothing to predict with")
    weight = weight[rows] if weighted else np.ones(len(rows))
    return rows, (weight / weight.sum()).astype(np.float32)


def _positions(draws: Draws, rows: np.ndarray) -> PyTree:
    return jax.tree.map(lambda leaf: _chunks.gather(leaf, rows), draws.position)


class _OfPosterior(Value):
    """The predictive of one draw of a posterior."""

    posterior: Posterior

    def example(self) -> PyTree:
        """Inputs the model is known to take."""
        return self.posterior.example().x

    def __call__(self, position: PyTree, x: PyTree) -> PyTree:
        return self.posterior.predict(position, x)


class _OfModel(Value):
    """The predictive of one draw of a model, with a likelihood."""

    apply: Model = static()
    likelihood: Likelihood

    def example(self) -> None:
        """None is known."""

    def __call__(self, position: PyTree, x: PyTree) -> PyTree:
        outputs = self.apply(model_params(position), x)
        return self.likelihood.predict(outputs, likelihood_hyper(position))


_Predictive = _OfPosterior | _OfModel


def _predictive(model: Posterior | Model, likelihood: Likelihood | None) -> _Predictive:
    if likelihood is not None:
        likelihood = likelihoods.as_likelihood(likelihood)
    if isinstance(model, Posterior):
        return _OfPosterior(model if likelihood is None else model.replace(likelihood=likelihood))
    if not callable(model):
        raise TypeError(f"predict needs a Posterior or a function (params, x), got {model!r}")
    return _OfModel(model, _CATEGORICAL if likelihood is None else likelihood)


@jax.jit
def _add(
    total: PyTree, positions: PyTree, weight: np.ndarray, x: PyTree, predictive: _Predictive
) -> PyTree:
    def body(total: PyTree, item: tuple[PyTree, np.ndarray]) -> tuple[PyTree, None]:
        position, w = item
        return jax.tree.map(lambda t, v: t + w * v, total, predictive(position, x)), None

    return lax.scan(body, total, (positions, weight))[0]


@jax.jit
def _members(positions: PyTree, x: PyTree, predictive: _Predictive) -> PyTree:
    return lax.map(lambda position: predictive(position, x), positions)


def predict(
    draws: Draws,
    model: Posterior | Model,
    x: PyTree,
    *,
    likelihood: Likelihood | None = None,
    weighted: bool = True,
    members: bool = False,
) -> PyTree:
    """The predictive at ``x``: class probabilities, or a :class:`NormalMixture`.

    Args:
      draws: draws that kept their positions.
      model: the posterior, or its ``apply(params, x)``, taken to give logits of classes unless
        ``likelihood`` says otherwise.
      x: inputs, one row per point.
      likelihood: with ``apply``, what its outputs mean.
      weighted: average with the time weights; without them the ensemble is that of equal draws.
      members: return the predictive of every draw, (draw, point, ...), instead of the average.

    Returns:
      Class probabilities (point, class), the mixture of the draws' normals, or what each draw
      predicts.
    """
    if not isinstance(draws, Draws):
        raise TypeError(
            "predict takes the draws first, then the model and x: predict(draws, posterior, x); "
            f"got {type(draws).__name__} in the place of the draws"
        )
    rows, weight = _weighted_rows(draws, weighted)
    predictive = _predictive(model, likelihood)
    x = jax.tree.map(jnp.asarray, as_inputs(x))
    first = jax.tree.map(lambda leaf: leaf[0], _positions(draws, rows[:1]))
    with applying(first, x, predictive.example):
        shape = jax.eval_shape(predictive, first, x)
    size = draws.chains * _chunks.draws_per_block(draws.position)
    in_memory = all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(draws.position))
    # on disk the chains of one draw lie together
    order = np.arange(len(rows)) if in_memory else np.argsort(rows % len(draws), kind="stable")
    pieces = [order[piece] for piece in _chunks.draw_slices(len(rows), size)]
    if members or isinstance(shape, Normal):
        parts = [
            jax.tree.map(np.asarray, _members(_positions(draws, rows[piece]), x, predictive))
            for piece in pieces
        ]
        back = np.argsort(order)
        each = jax.tree.map(lambda *leaves: np.concatenate(leaves)[back], *parts)
        return NormalMixture(each.mean, each.sd, weight) if isinstance(shape, Normal) else each
    total = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, jnp.result_type(leaf.dtype, weight.dtype)), shape
    )
    for piece in pieces:
        total = _add(total, _positions(draws, rows[piece]), weight[piece], x, predictive)
    return jax.tree.map(np.asarray, total)
