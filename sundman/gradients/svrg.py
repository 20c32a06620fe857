"""SVRG: control variates at a snapshot of the chain itself, renewed every k steps.

    G = grad U(snapshot) + grad U_B(theta) - grad U_B(snapshot)

No mode is needed and the chain may wander; the variance follows |theta - snapshot|^2, what the
chain moves in k steps. A renewal costs a pass over all rows, so a step costs on average two
gradients of the batch and N / k rows. Dubey, Reddi, Williamson, Poczos, Smola, Xing (2016),
"Variance reduction in stochastic gradient Langevin dynamics", after Johnson, Zhang (2013).

Chains that run side by side renew together, at the same step numbers: the pass over all rows is
behind a condition that all of them share, and is not computed in the steps between.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

from sundman import check
from sundman._types import PyTree
from sundman.gradients.base import RemembersGradients
from sundman.gradients.control_variate import Anchor, anchored_at, relative_to
from sundman.gradients.minibatch import Minibatch, in_memory
from sundman.noise import Stream
from sundman.posterior import Posterior
from sundman.value import static


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
        self, stream: Stream, position: PyTree, memory: Anchor, batch: Any = None
    ) -> tuple[Array, PyTree, Anchor]:
        """(U, G), and the snapshot: a new one at multiples of ``every`` but for the first."""
        due = (stream.step % jnp.uint32(self.every) == 0) & (stream.step > 0)

        def renew(old: Anchor) -> Anchor:
            new = anchored_at(self.posterior, position)
            return jax.tree.map(lambda one, other: jnp.where(due, one, other), new, old)

        memory = lax.cond(anywhere(due), renew, lambda old: old, memory)
        rows = self.batches.batch(stream, batch)
        return *relative_to(memory, self.posterior, position, rows), memory


def svrg(
    posterior: Posterior, batch_size: int, *, every: int | None = None, replace: bool = False
) -> Svrg:
    """The minibatch gradient relative to a snapshot of the chain.

    Args:
      posterior: with its data in memory.
      batch_size: rows a step.
      every: steps between snapshots; an epoch, ceil(N / batch_size), if not given.
      replace: rows drawn with replacement instead of each once an epoch.

    Returns:
      The estimator.
    """
    batches = in_memory("svrg", posterior, batch_size, replace)
    if every is None:
        every = -(-posterior.size // batch_size)
    check.count("every", every, least=1)
    return Svrg(batches, int(every))
