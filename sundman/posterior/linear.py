"""Which posteriors have weights that can be judged: models whose outputs are linear in them.

A regression or a softmax regression has one mode, and its weights mean something each, however many
there are. The weights of a network go on moving when its predictions have long settled.
"""

from __future__ import annotations

import jax
import numpy as np

from sundman._types import PyTree
from sundman.posterior import Posterior
from sundman.posterior.evaluation import model_params

_ROUNDING = (
    1e-3  # of the change of the outputs; a network bends them by about as much as they change
)


def has_linear_outputs(posterior: Posterior, position: PyTree) -> bool:
    """Whether the model's outputs are linear in the parameters, but for a constant.

    Seen on two rows, by their second difference over steps as long as the parameters are large.

    Args:
      posterior: with its model.
      position: any position.
    """
    rng, x = np.random.default_rng(0), posterior.example().x

    def step(leaf: np.ndarray) -> np.ndarray:
        size = float(np.sqrt(np.mean(np.square(np.asarray(leaf, np.float64))))) or 1.0
        return (size * rng.normal(size=leaf.shape)).astype(leaf.dtype)

    at = jax.tree.map(np.asarray, model_params(position))
    by = jax.tree.map(step, at)

    def outputs(times: int) -> np.ndarray:
        moved = jax.tree.map(lambda a, b: jax.numpy.asarray(a + times * b), at, by)
        leaves = jax.tree.leaves(posterior.apply(moved, x))
        return np.concatenate([np.ravel(np.asarray(leaf, np.float64)) for leaf in leaves])

    before, here, after = map(outputs, (-1, 0, 1))
    bent, change = after - 2.0 * here + before, after - before
    return bool(np.linalg.norm(bent) <= _ROUNDING * np.linalg.norm(change))
