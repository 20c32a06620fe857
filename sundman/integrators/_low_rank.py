"""BAOAB with more friction along the directions in which the gradient is noisiest.

The noise of minibatches is loud in a few directions and faint in the rest: of a small classifier
ten directions hold nine tenths of it. One friction for all lets the loudest set the ratio of step
and friction, and all others pay. Here V (rank, d) are the loudest directions so far and s their
variances, learnt from the gradients themselves, and

    p <- p - dt G,    x <- x + dt/2 p,    O,    x <- x + dt/2 p
    O: c_j = exp(-gamma_j dt) along v_j, gamma_j = max(gamma, dt s_j / (2 share T));
       c = exp(-gamma dt) elsewhere; noise to match

so that along v_j the noise of the gradient heats by ``share`` as long as dt^2 s_j / (4 T), the heat
of a single kick, is less: dt = 2 sqrt(share T / s_1) is the longest step that makes sense. Friction
that depends on the past needs no correction. V and s come from differences of successive gradients,
(G_n - G_{n-1}) / sqrt(2), taken in pairs: every ``rank`` rows,

    (V, s) <- the largest ``rank`` of  memory V' diag(s) V + (1 - memory) mean of the rows' squares

The directions belong to a chain and drift: they are followed, not frozen.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from sundman import check
from sundman._types import PyTree
from sundman.integrators._kinetic import KineticLangevin
from sundman.integrators.base import per_leaf
from sundman.noise import Stream, gaussian
from sundman.value import Number, static


class LowRankState(NamedTuple):
    """Momentum, its unfinished kick, the loudest directions, and the rows to learn them from.

    Attributes:
      momentum: before the trailing half kick.
      dt: the step that kick belongs to.
      directions: V, orthonormal rows.
      variances: s.
      rows: differences of gradients, as many as there are directions.
      before: the gradient before, for the next difference.
      seen: gradients so far.
    """

    momentum: PyTree
    dt: Array
    directions: Array
    variances: Array
    rows: Array
    before: Array
    seen: Array


class LowRankBaoab(KineticLangevin):
    """BAOAB with more friction along the noisiest directions, for networks on minibatches.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction elsewhere.
      rank: how many directions are followed.
      share: how much of the temperature the gradient noise may add along them.
      memory: what is left of the old variances when new ones are learnt.
    """

    label = "BAOAB with friction along the noisiest directions"
    references = ("leimkuhler2013robust", "shang2015covariance")

    _: KW_ONLY
    rank: int = static(default=20)
    share: Number = 0.2
    memory: Number = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choices_are_static(rank=self.rank)
        check.count("rank", self.rank, least=1)
        self._settle(share=check.positive, memory=check.decay)

    def init(self, params: PyTree) -> LowRankState:
        """Zero momentum, no directions yet."""
        flat, _ = ravel_pytree(jax.tree.map(jnp.zeros_like, params))
        none = jnp.zeros((self.rank, flat.size), flat.dtype)
        zero = jnp.zeros((), jnp.result_type(jnp.float32, flat))
        return LowRankState(
            momentum=jax.tree.map(jnp.zeros_like, params),
            dt=zero,
            directions=none,
            variances=jnp.zeros(self.rank, zero.dtype),
            rows=none,
            before=flat,
            seen=jnp.uint32(0),
        )

    def move(
        self, stream: Stream, grads: PyTree, state: LowRankState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, LowRankState]:
        """The step before's last kick, and this step up to its own."""
        h = jax.tree.leaves(per_leaf(dt, params))[0]
        g, _ = ravel_pytree(grads)
        p, unravel = ravel_pytree(state.momentum)
        eps, _ = ravel_pytree(gaussian(stream, params))
        learnt = self._learn(state, g)
        V, s = learnt.directions, learnt.variances
        before = p - (0.5 * (state.dt + h) * g).astype(p.dtype)
        keep, scale = self._keep(h), self._noise_scale(h, jnp.zeros_like(h))
        gamma = jnp.maximum(self.gamma, h * s / (2.0 * self.share * self.T))
        own_keep = jnp.exp(-gamma * h)
        own_scale = jnp.sqrt(-jnp.expm1(-2.0 * gamma * h) * self.T)
        along = (own_keep - keep) * (V @ before) + (own_scale - scale) * (V @ eps)
        after = (keep * before + scale * eps + along @ V).astype(p.dtype)
        updates = unravel((0.5 * h * (before + after)).astype(p.dtype))
        return updates, learnt._replace(momentum=unravel(after), dt=h.astype(state.dt.dtype))

    def _learn(self, state: LowRankState, g: Array) -> LowRankState:
        """With this gradient: every second one makes a row, every ``rank`` rows new directions."""
        k = self.rank
        second = state.seen % jnp.uint32(2) == 1
        place = (state.seen // jnp.uint32(2)) % jnp.uint32(k)
        row = jnp.where(second, (g - state.before) * jnp.sqrt(0.5), state.rows[place])
        rows = state.rows.at[place].set(row.astype(state.rows.dtype))
        full = second & (place == k - 1)

        def renew() -> tuple[Array, Array]:
            first = state.seen < jnp.uint32(2 * k)
            old = jnp.where(first, 0.0, self.memory)
            stack = jnp.concatenate(
                [
                    jnp.sqrt(old * state.variances)[:, None] * state.directions,
                    jnp.sqrt((1.0 - old) / k) * rows,
                ]
            )
            values, vectors = jnp.linalg.eigh(stack @ stack.T)
            values, vectors = jnp.maximum(values[-k:], 0.0), vectors[:, -k:]
            length = jnp.sqrt(jnp.maximum(values, 1e-30))
            fine = values > 1e-6 * values[-1]
            found = jnp.where(fine, 1.0 / length, 0.0)[:, None] * (vectors.T @ stack)
            return found.astype(rows.dtype), jnp.where(fine, values, 0.0).astype(jnp.float32)

        directions, variances = lax.cond(
            full, renew, lambda: (state.directions, state.variances.astype(jnp.float32))
        )
        return state._replace(
            directions=directions,
            variances=variances.astype(state.variances.dtype),
            rows=rows,
            before=jnp.where(second, state.before, g),
            seen=state.seen + jnp.uint32(1),
        )
