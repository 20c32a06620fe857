"""Control variates: a minibatch is asked only for the difference to what is known already.

At a fixed point theta* the gradient over all data is known:

    G = grad U(theta*) + grad U_B(theta) - grad U_B(theta*)
      = grad U(theta*) + (N/|B|) sum_B [grad l_i(theta) - grad l_i(theta*)]
                       - grad log p(theta) + grad log p(theta*)

with l_i the negative log likelihood of row i: unbiased, the prior exact. Near theta* the rows'
gradients move together and the variance is of order |theta - theta*|^2 instead of a constant;
far from it, it may be larger than that of a plain minibatch. A step costs two gradients of the
batch. Baker, Fearnhead, Fox, Nemeth (2019), "Control variates for stochastic gradient MCMC".

U is estimated so that this is its gradient, row by row and but for a constant,

    U - sum_i l_i(theta*) = delta . sum_i grad l_i(theta*) - log p(theta)
        + (N/|B|) sum_B [l_i(theta) - l_i(theta*) - delta . grad l_i(theta*)]

with delta = theta - theta*: in single precision a million rows leave no rounding to
speak of. The whole sum at theta* is never added: it is in ``anchor.value``.

SVRG has them at a snapshot of the chain itself, renewed every k steps:

    G = grad U(snapshot) + grad U_B(theta) - grad U_B(snapshot)

No mode is needed and the chain may wander; the variance follows |theta - snapshot|^2, what the
chain moves in k steps. A renewal costs a pass over all rows, so a step costs on average two
gradients of the batch and N / k rows. Chains that run side by side renew together, at the same
step numbers: the pass over all rows is behind a condition that all of them share, and is not
computed in the steps between.

Dubey, Reddi, Williamson, Poczos, Smola, Xing (2016), "Variance reduction in stochastic gradient
Langevin dynamics", after Johnson, Zhang (2013).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

from sundman import check
from sundman._types import PyTree
from sundman.data.batches import take_rows
from sundman.gradients.base import GradientEstimator, RemembersGradients
from sundman.gradients.minibatch import Minibatch, in_memory
from sundman.native.split_gradient import dense
from sundman.noise import Stream
from sundman.posterior import Batch, BatchLike, Posterior
from sundman.value import array, static

_ROWS_PER_PASS = 4096


class Anchor(NamedTuple):
    """A position with the likelihood's part of U there, over all rows, and its gradient.

    Of a posterior with a U of its own, ``value`` and ``grads`` are of the whole U.
    """

    position: PyTree
    value: Array
    grads: PyTree


def is_sum_over_rows(posterior: Posterior) -> bool:
    """Whether U is a sum over rows and a prior: no subclass has replaced how it is made."""
    return posterior.overrides("potential", "scaled_loss") is None


def _loss_and_grad(
    posterior: Posterior, position: PyTree, batch: Batch | None = None
) -> tuple[Array, PyTree]:
    """The part of U that minibatches estimate, and its gradient."""
    if is_sum_over_rows(posterior):
        return jax.value_and_grad(posterior.scaled_loss)(position, batch)
    _, value, grads = posterior.value_and_grad(position, batch)
    return value, dense(grads)


def anchored_at(posterior: Posterior, position: PyTree) -> Anchor:
    """U and grad U on all rows, some thousand at a time: the batches' means, by their sizes."""
    if posterior.size <= _ROWS_PER_PASS:
        return Anchor(position, *_loss_and_grad(posterior, position))
    data = posterior.data
    assert isinstance(data, Batch)  # in_memory() refuses streamed data

    def add(number: Array, total: PyTree) -> PyTree:
        index = number * _ROWS_PER_PASS + jnp.arange(_ROWS_PER_PASS)
        real = index < posterior.size
        x, y = take_rows((data.x, data.y), index)
        part = _loss_and_grad(posterior, position, Batch(x, y, real))
        share = jnp.sum(real) / posterior.size
        return jax.tree.map(lambda a, b: a + (share * b).astype(a.dtype), total, part)

    shapes = jax.eval_shape(lambda at: _loss_and_grad(posterior, at), position)
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    passes = -(-posterior.size // _ROWS_PER_PASS)
    return Anchor(position, *lax.fori_loop(0, passes, add, zeros))


def change_from(
    anchor: Anchor, posterior: Posterior, position: PyTree, batch: Batch
) -> tuple[Array, PyTree]:
    """What a batch says of the change of the likelihood's part of U since the anchor.

    Args:
      anchor: where the whole gradient is known.
      posterior: whose gradient it is.
      position: where.
      batch: this step's rows.

    Returns:
      The change of the part, row by row, and the gradient of the part at ``position``.
    """
    if posterior.overrides("potential", "scaled_loss", "log_likelihood"):
        here, there = (_loss_and_grad(posterior, at, batch) for at in (position, anchor.position))
        change, slopes = here[0] - there[0], (here[1], there[1])
    else:
        x, y, mask = batch
        rows = len(jax.tree.leaves(y)[0]) if mask is None else jnp.sum(mask)

        def of_rows(at: PyTree) -> Array:
            losses = -posterior.pointwise(at, x, y)
            return losses if mask is None else jnp.where(mask, losses, 0.0)

        ends = [jax.vjp(of_rows, at) for at in (position, anchor.position)]
        scale = jnp.asarray(posterior.size / rows, ends[0][0].dtype)
        change = scale * jnp.sum(ends[0][0] - ends[1][0])
        each = jnp.broadcast_to(scale, ends[0][0].shape)
        slopes = tuple(back(each)[0] for _, back in ends)
    known = jax.tree.map(lambda whole, other: whole - other, anchor.grads, slopes[1])
    delta = jax.tree.map(jnp.subtract, position, anchor.position)
    along = sum(jax.tree.leaves(jax.tree.map(lambda a, b: jnp.sum(a * b), known, delta)))
    return change + along, jax.tree.map(jnp.add, known, slopes[0])


def relative_to(
    anchor: Anchor, posterior: Posterior, position: PyTree, batch: Batch
) -> tuple[Array, PyTree]:
    """U, less ``anchor.value``, and G by the batch's difference to the anchor.

    Args:
      anchor: where the whole gradient is known.
      posterior: whose gradient it is.
      position: where.
      batch: this step's rows.

    Returns:
      (U - ``anchor.value``, G) at ``position``.
    """
    change, grads = change_from(anchor, posterior, position, batch)
    if not is_sum_over_rows(posterior):
        return change, grads
    _, value, grads = posterior.add_prior(position, change, grads)
    return value, dense(grads)


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
        """(U - ``anchor.value``, G) estimated on this step's rows."""
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
      The estimator. Its U is less by the part of U at theta* that minibatches estimate.
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


@custom_vmap
def anywhere(flag: Array) -> Array:
    """Whether ``flag`` holds in any of the lanes of a ``vmap``: one answer for all of them.

    ``lax.cond`` on it stays a branch, where on a flag per lane it would compute both sides.
    """
    return flag


@anywhere.def_vmap
def _in_any_lane(lanes: int, batched: list[bool], flag: Array) -> tuple[Array, bool]:
    del lanes
    return anywhere(jnp.any(flag, axis=0) if batched[0] else flag), False


class Svrg(RemembersGradients):
    """G relative to a snapshot of the chain; what it remembers is that snapshot."""

    batches: Minibatch
    every: int = static()

    @property
    def posterior(self) -> Posterior:
        """Whose gradient it is."""
        return self.batches.posterior

    def begin(self, position: PyTree) -> Anchor:
        """The first snapshot."""
        return anchored_at(self.posterior, position)

    def recall(
        self, stream: Stream, position: PyTree, memory: Anchor, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree, Anchor]:
        """(U, G), and the snapshot: a new one at multiples of ``every`` but for the first."""
        due = (stream.step % jnp.uint32(self.every) == 0) & (stream.step > 0)

        def renew(old: Anchor) -> Anchor:
            new = anchored_at(self.posterior, position)
            return jax.tree.map(lambda one, other: jnp.where(due, one, other), new, old)

        memory = lax.cond(anywhere(due), renew, lambda old: old, memory)
        rows = self.batches.batch(stream, batch)
        value, grads = relative_to(memory, self.posterior, position, rows)
        return memory.value + value, grads, memory


def svrg(
    posterior: Posterior, batch_size: int, *, every: int | None = None, order: str = "shuffled"
) -> Svrg:
    """The minibatch gradient relative to a snapshot of the chain.

    Args:
      posterior: with its data in memory.
      batch_size: rows a step.
      every: steps between snapshots; an epoch, ceil(N / batch_size), if not given.
      order: of the rows, as in :func:`minibatch`.

    Returns:
      The estimator.
    """
    batches = in_memory("svrg", posterior, batch_size, order)
    if every is None:
        every = -(-posterior.size // batch_size)
    check.count("every", every, least=1)
    return Svrg(batches, int(every))
