"""A small network whose posterior predictive is known, and how far the draws of a run are from it.

The network of ``sundman bnn digits``, 64-50-50-10 with rectified units, under the Gaussian and the
per-tensor horseshoe prior. Its posterior predictive comes from full-batch Hamiltonian Monte Carlo
with a Metropolis test: under the Gaussian prior by ``studies/networks/true_posterior.py``, in the
package; under the horseshoe from an earlier run of another program, whose chains agree less well
(R-hat of the log of the logit scale 1.19). That one is read from the directory that
``SUNDMAN_DATA_DIR`` names. No sampler can be seen to be nearer than the reference itself is known:
its floor is the distance of the means of disjoint halves of its chains.
"""

from __future__ import annotations

import base64
import functools
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import sundman
from studies.sa_sgld.experiment import Numbers, PyTree
from sundman import metrics, models, priors, scaling
from sundman.data.base import Dataset
from sundman.posterior.evaluation import hyper_params, model_params, prior_name

SIZES, BATCH = (64, 50, 50, 10), 32
PRIORS = ("gaussian", "horseshoe")
LAST = f"layer_{len(SIZES) - 2}"
_REFERENCE = "reference_digits.npz"
_PARTS = ("mean", "half1", "half2", "train_nll", "potential")


@dataclass(frozen=True)
class Reference:
    """The true predictive of one prior.

    Attributes:
      mean: class probabilities at the test points.
      halves: the same from disjoint halves of the chains.
      train_nll: loss on the training points, mean and standard deviation over draws.
      potential: U, likewise.
    """

    mean: np.ndarray
    halves: tuple[np.ndarray, np.ndarray]
    train_nll: tuple[float, float]
    potential: tuple[float, float]

    @property
    def floor(self) -> float:
        """TV of the halves: how well the mean itself is known, and a little worse."""
        return metrics.total_variation(*self.halves)


@functools.cache
def reference(prior: str) -> Reference:
    """The true predictive of the digits network under ``"gaussian"`` or ``"horseshoe"``."""
    path = reference_path(prior)
    if path is None:
        raise FileNotFoundError(
            f"the true predictive under the {prior} prior is not part of the package: put "
            f"reference/{_REFERENCE} into the directory that SUNDMAN_DATA_DIR names"
        )
    with np.load(path) as stored:
        part = {name: np.asarray(stored[f"{prior}_{name}"]) for name in _PARTS}
    nll, potential = (tuple(map(float, part[name])) for name in ("train_nll", "potential"))
    return Reference(part["mean"], (part["half1"], part["half2"]), nll, potential)  # type: ignore[arg-type]


def reference_path(prior: str) -> Path | None:
    """The file that has the true predictive under a prior, if there is one."""
    folders = [Path(__file__).parent]
    if named := os.environ.get("SUNDMAN_DATA_DIR"):
        folders.append(Path(named) / "reference")
    for path in (folder / _REFERENCE for folder in folders):
        if path.is_file():
            with np.load(path) as stored:
                if f"{prior}_mean" in stored:
                    return path
    return None


@functools.cache
def data() -> Dataset:
    """scikit-learn's digits, as ``sundman bnn digits`` splits them."""
    return sundman.data.digits()


@functools.cache
def posterior(prior: str) -> sundman.Posterior:
    """The posterior of ``sundman bnn digits`` under a prior."""
    rules = {
        "kernel": priors.named(prior, scale=1.41, fan_in="leading"),
        "bias": priors.named(prior, scale=1.0, fan_in=None),
    }
    return sundman.Posterior(models.mlp_apply, prior=rules, data=tuple(data().train))


def base_scale(target: sundman.Posterior) -> scaling.Scale:
    """The prior's own scale of every array, 1.41 / sqrt(fan_in) or 1; 1 for hyper-parameters."""
    position = target.position(models.mlp_init(jax.random.key(0), SIZES))

    def of(path: str, leaf: Array) -> float:
        return 1.41 / math.sqrt(leaf.shape[0]) if path.endswith("kernel") else 1.0

    sizes = [of(path, leaf) for path, leaf in priors.paths(position)]
    return scaling.diagonal(jax.tree.unflatten(jax.tree.structure(position), sizes))


def last_layer(target: sundman.Posterior, position: PyTree) -> Array:
    """|grad U|^2 and the Laplacian of U over the last layer, in which logits are linear.

    The likelihood's part of the Laplacian is sum_i (|a_i|^2 + 1)(1 - sum_c p_ic^2), with a_i the
    last hidden layer; the prior's is its precision times the number of weights.

    Args:
      target: a posterior of :func:`sundman.models.mlp_apply` with priors that are normal given
        their scales, its data in memory.
      position: where.

    Returns:
      Both numbers.
    """
    params, hyper = model_params(position), hyper_params(position)
    slope = model_params(target.gradient(position))[LAST]
    squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(slope))
    hidden = jnp.asarray(target.example().x if target.host else target.data.x)  # type: ignore[union-attr]
    for layer in range(len(SIZES) - 2):
        own = params[f"layer_{layer}"]
        hidden = jax.nn.relu(hidden @ own["kernel"] + own["bias"])
    p = jax.nn.softmax(hidden @ params[LAST]["kernel"] + params[LAST]["bias"])
    laplacian = jnp.sum((jnp.sum(hidden**2, -1) + 1.0) * (1.0 - jnp.sum(p * p, -1)))
    leaves = priors.paths(params)
    for (path, prior), (_, leaf) in zip(priors.assign(target.prior, params), leaves, strict=True):
        if path.startswith(LAST):
            pull = jax.grad(prior.of_squares)(
                jnp.float32(0.0), leaf.shape, hyper.get(prior_name(path))
            )
            laplacian += -2.0 * pull * leaf.size
    return jnp.stack([jnp.asarray(squares), laplacian])


@functools.cache
def evaluations(prior: str) -> tuple[Callable[[PyTree], Array], Callable[[PyTree], Array]]:
    """Class probabilities at the test points; and loss, U, and the last layer's two numbers."""
    target, x = posterior(prior), jnp.asarray(data().test.x)

    def predict(positions: PyTree) -> Array:
        return jax.lax.map(lambda position: target.predict(position, x), positions)

    def diagnose(positions: PyTree) -> Array:
        def one(position: PyTree) -> Array:
            loss = -target.log_likelihood(position)
            own = jnp.stack([loss, target.potential(position)])
            return jnp.concatenate([own, last_layer(target, position)])

        return jax.lax.map(one, positions)

    return jax.jit(predict), jax.jit(diagnose)


def at_each(function: Callable[[PyTree], Array], positions: PyTree) -> np.ndarray:
    """A function of many positions, at positions with the axes (chain, draw)."""
    chains, count = jax.tree.leaves(positions)[0].shape[:2]
    flat = jax.tree.map(lambda leaf: np.reshape(leaf, (-1, *leaf.shape[2:])), positions)
    values = np.asarray(function(flat), np.float64)
    return values.reshape(chains, count, *values.shape[1:])


def chain_predictives(
    probabilities: np.ndarray,
    weight: np.ndarray,
    diagnosed: np.ndarray,
    its_weight: np.ndarray,
    *,
    pooled: bool,
) -> Numbers:
    """The predictive of each chain, or of all together; what the draws say of themselves.

    Args:
      probabilities: (chain, draw, point, class).
      weight: of these draws.
      diagnosed: (chain, draw, what): loss, U, the last layer's squares and Laplacian.
      its_weight: of those draws.
      pooled: whether the chains are one ensemble.

    Returns:
      The numbers of every chain that lives; the predictives as text, single precision in base 64.
    """
    alive = (weight.sum(axis=1) > 0) & (its_weight.sum(axis=1) > 0)
    if not alive.any():
        return {}
    weight, probabilities = weight[alive], probabilities[alive]
    diagnosed, its_weight = diagnosed[alive], its_weight[alive]
    means = np.einsum("cd,cdik->cik", weight, probabilities) / weight.sum(axis=1)[:, None, None]
    if pooled:
        means = np.einsum("c,cik->ik", weight.sum(axis=1) / weight.sum(), means)[None]
    loss, U, squares, laplacian = np.moveaxis(
        np.einsum("cd,cdf->cf", its_weight, diagnosed) / its_weight.sum(axis=1)[:, None], -1, 0
    )
    return {
        "predictive": base64.b64encode(means.astype("<f4").tobytes()).decode(),
        "train_nll": loss.tolist(),
        "potential": U.tolist(),
        "stiff_temperature": (squares / laplacian).tolist(),
    }


def score_unit(prior: str, unit: Numbers) -> dict[str, dict[str, list[float]]]:
    """The scores of a unit by budget: TV and NLL of its predictives, and the rest."""
    truth, labels = reference(prior), data().test.y
    scores: dict[str, dict[str, list[float]]] = {}
    for budget, numbers in unit["budgets"].items():
        if not numbers:
            continue
        raw = np.frombuffer(base64.b64decode(numbers["predictive"]), "<f4").astype(np.float64)
        means = raw.reshape(-1, *truth.mean.shape)
        means = means / means.sum(axis=-1, keepdims=True)
        scores[budget] = {
            "tv": [metrics.total_variation(mean, truth.mean) for mean in means],
            "nll": [metrics.nll(mean, labels) for mean in means],
            **{name: values for name, values in numbers.items() if name != "predictive"},
        }
    return scores
