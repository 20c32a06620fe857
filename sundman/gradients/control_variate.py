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

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from sundman.data.minibatch import take_rows
from sundman.gradients.base import PyTree
from sundman.gradients.minibatch import Minibatch, in_memory
from sundman.noise import Stream
from sundman.posterior import Batch, Posterior

_AT_ONCE = 4096


class Anchor(NamedTuple):
    """A position with the whole U and its gradient there."""

    position: PyTree
    value: Array
    grads: PyTree


class Anchored(NamedTuple):
    """The rows, and the point they are compared at."""

    rows: Batch
    anchor: Anchor


def anchored_at(posterior: Posterior, position: PyTree, rows: Batch) -> Anchor:
    """U and grad U on all rows, some thousand at a time: the batches' means, by their sizes."""
    found = jax.value_and_grad(posterior.potential)
    if posterior.size <= _AT_ONCE:
        return Anchor(position, *found(position, rows))

    def add(number: Array, total: PyTree) -> PyTree:
        index = number * _AT_ONCE + jnp.arange(_AT_ONCE)
        real = index < posterior.size
        x, y = take_rows((rows.x, rows.y), index)
        part = found(position, Batch(x, y, real))
        share = jnp.sum(real) / posterior.size
        return jax.tree.map(lambda a, b: a + (share * b).astype(a.dtype), total, part)

    shapes = jax.eval_shape(found, position, rows)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return Anchor(position, *lax.fori_loop(0, -(-posterior.size // _AT_ONCE), add, zeros))


def relative_to(
    anchor: Anchor, posterior: Posterior, position: PyTree, batch: Batch
) -> tuple[Array, PyTree]:
    """(U, G) at ``position`` estimated by the batch's difference to the anchor."""
    found = jax.value_and_grad(posterior.potential)
    here, there = found(position, batch), found(anchor.position, batch)
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


@dataclass(frozen=True)
class ControlVariate:
    """G by the difference of a minibatch's gradients at theta and at theta*."""

    batches: Minibatch
    data: Anchored = field(compare=False, repr=False)

    @property
    def posterior(self) -> Posterior:
        """Whose gradient it is."""
        return self.batches.posterior

    def __call__(self, stream: Stream, position: PyTree, data: Anchored) -> tuple[Array, PyTree]:
        """(U, G) estimated on this step's rows."""
        check_anchor(data.anchor.position, position)
        batch = self.batches.batch(stream, data.rows)
        return relative_to(data.anchor, self.posterior, position, batch)


def control_variate(
    posterior: Posterior, batch_size: int, *, at: PyTree, replace: bool = False
) -> ControlVariate:
    """The minibatch gradient with control variates at a fixed point.

    Args:
      posterior: with its data in memory.
      batch_size: rows a step.
      at: theta*, parameters near the mode such as :func:`sundman.map_estimate` gives; one full
        gradient is computed here, now.
      replace: rows drawn with replacement instead of each once an epoch.
    """
    batches = in_memory("control_variate", posterior, batch_size, replace)
    position = posterior.position(at)
    anchor = jax.jit(anchored_at, static_argnums=0)(posterior, position, batches.data)
    finite = [bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(anchor)]
    if not all(finite):
        raise ValueError(
            "U or its gradient is not finite at at=, the control variate's point: "
            f"U = {float(anchor.value)}; give parameters near the mode"
        )
    return ControlVariate(batches, Anchored(batches.data, anchor))
