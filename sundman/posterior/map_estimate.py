"""A maximum a posteriori start: minimise U by any optax optimizer before sampling.

Hyper-parameters stay at their first values: the joint mode of weights and their scales is the
degenerate one where both vanish.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from sundman import check
from sundman._types import PyTree
from sundman.gradients import Minibatch, minibatch
from sundman.noise import Stream, key_words
from sundman.posterior import Position, Posterior, model_params


def map_estimate(
    posterior: Posterior,
    params: PyTree,
    *,
    key: Array,
    steps: int,
    batch_size: int | None = None,
    optimizer: optax.GradientTransformation | None = None,
) -> PyTree:
    """The position an optimizer reaches from ``params`` on U/N.

    Args:
      posterior: with its data in memory.
      params: where to begin: parameters, or a position with hyper-parameters.
      key: for the minibatches.
      steps: of the optimizer.
      batch_size: rows a step; None takes all of them.
      optimizer: any of optax; Adam at 1e-3 if None.

    Returns:
      A position to hand to :func:`sundman.sample` as ``init``.
    """
    check.count("steps", steps, least=1)
    estimator = minibatch(posterior, batch_size)
    if not isinstance(estimator, Minibatch):
        raise ValueError("map_estimate needs in-memory data, not host batches")
    rule = optimizer or optax.adam(1e-3)
    words = key_words(key)

    @jax.jit
    def run(position: PyTree, estimator: Minibatch) -> PyTree:
        def place(params: PyTree) -> PyTree:
            return position._replace(params=params) if isinstance(position, Position) else params

        def body(carry: tuple[PyTree, PyTree], n: Array) -> tuple[tuple[PyTree, PyTree], None]:
            params, state = carry
            _, grads = estimator(Stream(words, n), place(params))
            grads = jax.tree.map(lambda g: g / posterior.size, model_params(grads))
            updates, state = rule.update(grads, state, params)
            return (optax.apply_updates(params, updates), state), None

        first = model_params(position)
        numbers = jnp.arange(steps, dtype=jnp.uint32)
        return place(lax.scan(body, (first, rule.init(first)), numbers)[0][0])

    return run(posterior.position(params), estimator)
