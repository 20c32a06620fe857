"""BAOAB with more friction along the directions in which the gradient is noisiest.

The noise of minibatches is loud in a few directions and faint in the rest: of a small classifier
ten directions hold nine tenths of it. One friction for all lets the loudest set the ratio of step
and friction, and all others pay. Here V (rank, d) are the loudest directions so far and s their
variances, learnt from the gradients themselves, and

    p <- p - dt G,    x <- x + dt/2 p,    O,    x <- x + dt/2 p
    O: c_j = exp(-gamma_j dt) along v_j, gamma_j = max(gamma, dt s_j / (2 share T));
       c = exp(-gamma dt) elsewhere; noise to match

so that along v_j the noise of the gradient heats by ``share`` as long as dt^2 s_j / (4 T), the heat
of a single kick, is less: dt = 2 sqrt(share T / s_1) is the longest step that makes sense. V and s
come from differences of successive gradients, (G_n - G_{n-1}) / sqrt(2): every ``rank`` rows,

    (V, s) <- the largest ``rank`` of  memory V' diag(s) V + (1 - memory) mean of the rows' squares

The differences are of two successive gradients out of ``every``. The directions belong to a chain
and drift: they are followed, not frozen. V is kept like the parameters, ``rank`` copies of each
array: a step reads all of it twice, which is most of its cost where there are many parameters.

Friction that changes in time leaves the law as it is only if it does not know where the chain is.
V and s do know a little, as far as the noise depends on the position; then the law is changed. On a
Gaussian whose gradient noise has a variance like |x|^4 the temperature near it is wrong by up to a
quarter (``tests/law/test_low_rank.py``); a longer ``memory`` lessens that.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from sundman import check
from sundman._types import PyTree
from sundman.integrators._kinetic import KineticLangevin
from sundman.integrators.base import per_leaf
from sundman.noise import Purpose, Stream, gaussian, substream
from sundman.value import Number, static


class LowRankState(NamedTuple):
    """Momentum, its unfinished kick, the loudest directions, and the rows to learn them from.

    Attributes:
      momentum: before the trailing half kick.
      dt: the step that kick belongs to.
      directions: V, orthonormal; of every array of the position ``rank`` copies.
      variances: s, the largest last.
      rows: differences of gradients, as many as there are directions.
      seen: gradients so far.
    """

    momentum: PyTree
    dt: Array
    directions: PyTree
    variances: Array
    rows: PyTree
    seen: Array


class LowRankBaoab(KineticLangevin):
    """BAOAB with more friction along the noisiest directions, for networks on minibatches.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction elsewhere.
      rank: how many directions are followed.
      share: how much of the temperature the gradient noise may add along them.
      memory: what is left of the old variances when new ones are learnt.
      every: the directions are learnt from two successive gradients of so many: 2 uses all, and
        a larger number costs less where there are many parameters.
    """

    label = "BAOAB with friction along the noisiest directions"
    references = ("leimkuhler2013robust", "shang2015covariance")

    _: KW_ONLY
    rank: int = static(default=20)
    share: Number = 0.2
    memory: Number = 0.9
    every: int = static(default=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.count("rank", self.rank, least=1)
        check.count("every", self.every, least=2)
        self._settle(share=check.positive, memory=check.decay)

    def init(self, params: PyTree) -> LowRankState:
        """Zero momentum, no directions yet."""
        none = jax.tree.map(
            lambda leaf: jnp.zeros((self.rank, *jnp.shape(leaf)), jnp.result_type(leaf)), params
        )
        zero = jnp.zeros((), jnp.result_type(jnp.float32, *jax.tree.leaves(params)))
        return LowRankState(
            momentum=jax.tree.map(jnp.zeros_like, params),
            dt=zero,
            directions=none,
            variances=jnp.zeros(self.rank, zero.dtype),
            rows=none,
            seen=jnp.uint32(0),
        )

    def move(
        self, stream: Stream, grads: PyTree, state: LowRankState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, LowRankState]:
        """The step before's last kick, and this step up to its own."""
        h = jax.tree.leaves(per_leaf(dt, params))[0]
        learnt = self._learn(state, grads)
        V, s = learnt.directions, learnt.variances
        before = jax.tree.map(
            lambda p, g: (p - 0.5 * (state.dt + h) * g).astype(p.dtype), state.momentum, grads
        )
        keep, scale = self._keep(h), self._noise_scale(h, jnp.zeros_like(h))
        gamma = jnp.maximum(self.gamma, h * s / (2.0 * self.share * self.T))
        # along V momentum is lost and noise is missing; that noise is independent of what is there
        lost = jnp.exp(-gamma * h) - keep
        missing = self.T * (jnp.exp(-2.0 * self.gamma * h) - jnp.exp(-2.0 * gamma * h))
        own = gaussian(substream(stream, Purpose.SUBSPACE_NOISE), s)
        along = lost * _products(V, before) + jnp.sqrt(missing) * own

        def friction(p: Array, eps: Array, v: Array) -> Array:
            more = jnp.tensordot(along.astype(v.dtype), v, 1)
            return (keep * p + scale * eps + more).astype(p.dtype)

        after = jax.tree.map(friction, before, gaussian(stream, params), V)
        updates = jax.tree.map(lambda p, q: (0.5 * h * (p + q)).astype(p.dtype), before, after)
        return updates, learnt._replace(momentum=after, dt=h.astype(state.dt.dtype))

    def _learn(self, state: LowRankState, grads: PyTree) -> LowRankState:
        """With this gradient: two of ``every`` make a row, ``rank`` rows new directions."""
        turn, phase = jnp.divmod(state.seen, jnp.uint32(self.every))
        place = turn % jnp.uint32(self.rank)
        second = phase == 1

        def write(_: Array, rows: PyTree) -> PyTree:
            def one(row: Array, g: Array) -> Array:
                half = (jnp.sqrt(0.5) * g).astype(row.dtype)
                return row.at[place].set(jnp.where(second, half - row[place], half))

            return jax.tree.map(one, rows, grads)

        def renew(_: Array, learnt: tuple[PyTree, Array, PyTree]) -> tuple[PyTree, Array, PyTree]:
            V, s, rows = learnt
            old = jnp.where(turn < self.rank, 0.0, self.memory)
            # rows are emptied: XLA would take products of what stays the same out of the loop
            return *_leading(V, s, rows, old), jax.tree.map(jnp.zeros_like, rows)

        # loops of one turn or none: a condition would copy its arrays at every step
        rows = lax.fori_loop(0, (phase <= 1).astype(jnp.int32), write, state.rows)
        full = second & (place == self.rank - 1)
        directions, variances, rows = lax.fori_loop(
            0, full.astype(jnp.int32), renew, (state.directions, state.variances, rows)
        )
        return state._replace(
            directions=directions,
            variances=variances,
            rows=rows,
            seen=state.seen + jnp.uint32(1),
        )


def _products(many: PyTree, other: PyTree) -> Array:
    """Inner products of each of many positions with one, or with each of many others."""

    def one(a: Array, b: Array) -> Array:
        flat = a.reshape(a.shape[0], -1)
        return flat @ (b.reshape(b.shape[0], -1).T if b.ndim == a.ndim else b.reshape(-1))

    return jnp.asarray(sum(jax.tree.leaves(jax.tree.map(one, many, other))))


def _leading(V: PyTree, s: Array, rows: PyTree, old: Array) -> tuple[PyTree, Array]:
    """The leading eigenvectors and eigenvalues of old V' diag(s) V + (1 - old) rows' rows / k.

    Args:
      V: orthonormal.
      s: their variances.
      rows: k of them.
      old: what is left of the old variances.

    Returns:
      As many as there were.
    """
    k = s.size
    a, b = jnp.sqrt(old * s), jnp.sqrt((1.0 - old) / k)
    across = a[:, None] * _products(V, rows) * b
    gram = jnp.block([[jnp.diag(a * a), across], [across.T, b * b * _products(rows, rows)]])
    values, vectors = jnp.linalg.eigh(gram)
    values, vectors = jnp.maximum(values[-k:], 0.0), vectors[:, -k:]
    fine = values > 1e-6 * values[-1]
    mix = jnp.where(fine, 1.0 / jnp.sqrt(jnp.maximum(values, 1e-30)), 0.0)[:, None] * vectors.T
    of_V, of_rows = mix[:, :k] * a, mix[:, k:] * b

    def combined(v: Array, row: Array) -> Array:
        new = jnp.tensordot(of_V, v, 1) + jnp.tensordot(of_rows, row, 1)
        return new.astype(v.dtype)

    return jax.tree.map(combined, V, rows), jnp.where(fine, values, 0.0).astype(s.dtype)
