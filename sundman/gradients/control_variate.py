"""Control variates: the minibatch is asked only for the difference to a fixed point theta*.

    G = grad U(theta*) + grad U_B(theta) - grad U_B(theta*)
      = grad U(theta*) + (N/|B|) sum_B [grad l_i(theta) - grad l_i(theta*)]
                       - grad log p(theta) + grad log p(theta*)

with l_i the negative log likelihood of row i: unbiased, the prior exact. Near theta* the rows'
gradients move together and the variance is of order |theta - theta*|^2 instead of a constant;
far from it, it may be larger than that of a plain minibatch. A step costs two gradients of the
batch. Baker, Fearnhead, Fox, Nemeth (2019), "Control variates for stochastic gradient MCMC".

U is estimated in the same way, U(theta*) + U_B(theta) - U_B(theta*), at no further cost.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from sundman._types import PyTree
from sundman.data.batches import take_rows
from sundman.gradients.base import GradientEstimator
from sundman.gradients.minibatch import Minibatch, in_memory
from sundman.noise import Stream
from sundman.posterior import Batch, BatchLike, Posterior
from sundman.split_gradient import dense
from sundman.value import array

_ROWS_PER_PASS = 4096


class Anchor(NamedTuple):
    """A position with the whole U and its gradient there."""

    position: PyTree
    value: Array
    grads: PyTree


def _value_and_grad(
    posterior: Posterior, position: PyTree, batch: Batch | None = None
) -> tuple[Array, PyTree]:
    _, value, grads = posterior.value_and_grad(position, batch)
    return value, dense(grads)


def anchored_at(posterior: Posterior, position: PyTree) -> Anchor:
    """U and grad U on all rows, some thousand at a time: the batches' means, by their sizes."""
    if posterior.size <= _ROWS_PER_PASS:
        return Anchor(position, *_value_and_grad(posterior, position))
    data = posterior.data
    assert isinstance(data, Batch)  # in_memory() refuses streamed data

    def add(number: Array, total: PyTree) -> PyTree:
        index = number * _ROWS_PER_PASS + jnp.arange(_ROWS_PER_PASS)
        real = index < posterior.size
        x, y = take_rows((data.x, data.y), index)
        part = _value_and_grad(posterior, position, Batch(x, y, real))
        share = jnp.sum(real) / posterior.size
        return jax.tree.map(lambda a, b: a + (share * b).astype(a.dtype), total, part)

    shapes = jax.eval_shape(lambda at: _value_and_grad(posterior, at), position)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    passes = -(-posterior.size // _ROWS_PER_PASS)
    return Anchor(position, *lax.fori_loop(0, passes, add, zeros))


def relative_to(
    anchor: Anchor, posterior: Posterior, position: PyTree, batch: Batch
) -> tuple[Array, PyTree]:
    """U and G by the batch's difference to the anchor.

    Args:
      anchor: where the whole gradient is known.
      posterior: whose gradient it is.
      position: where.
      batch: this step's rows.

    Returns:
      (U, G) at ``position``.
    """
    here = _value_and_grad(posterior, position, batch)
    there = _value_and_grad(posterior, anchor.position, batch)
    return jax.tree.map(
        lambda whole, one, other: whole + (one - other), (anchor.value, anchor.grads), here, there
    )


def check_anchor(anchor: PyTree, position: PyTree) -> None:
    """Raise unless both have the same structure and shapes."""
    shapes = [jax.tree.map(jnp.shape, tree) for tree in (anchor, position)]
    if jax.tree.structure(anchor) != jax.tree.structure(position) or shapes[0] != shapes[1]:
        raise ValueError(
            "at= of the control variate must have the structure and the shapes of the chain's "
            f"position: at has {shapes[0]}, the position {shapes[1]}"
        )


class ControlVariate(GradientEstimator):
    """G by the difference of a minibatch's gradients at theta and at theta*."""

    batches: Minibatch
    anchor: Anchor = array()

    @property
    def posterior(self) -> Posterior:
        """Whose gradient it is."""
        return self.batches.posterior

    def __call__(
        self, stream: Stream, position: PyTree, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree]:
        """(U, G) estimated on this step's rows."""
        check_anchor(self.anchor.position, position)
        rows = self.batches.batch(stream, batch)
        return relative_to(self.anchor, self.posterior, position, rows)


def control_variate(
    posterior: Posterior, batch_size: int, *, at: PyTree, order: str = "shuffled"
) -> ControlVariate:
    """The minibatch gradient with control variates at a fixed point.

    Args:
      posterior: with its data in memory.
      batch_size: rows a step.
      at: theta*, parameters near the mode such as :func:`sundman.map_estimate` gives; one full
        gradient is computed here, now.
      order: of the rows, as in :func:`minibatch`.

    Returns:
      The estimator.
    """
    batches = in_memory("control_variate", posterior, batch_size, order)
    position = posterior.position(at)
    anchor = jax.jit(anchored_at)(posterior, position)
    finite = [bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(anchor)]
    if not all(finite):
        raise ValueError(
            "U or its gradient is not finite at at=, the control variate's point: "
            f"U = {float(anchor.value)}; give parameters near the mode"
        )
    return ControlVariate(batches, anchor)
