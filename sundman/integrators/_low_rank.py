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
come from differences of successive gradients, (G_n - G_{n-1}) / sqrt(2). After ``learn_after`` such
rows,

    (V, s) <- the largest ``rank`` of  memory V' diag(s) V + (1 - memory) mean of the rows' squares

The differences are of two successive gradients out of ``every``. The directions belong to a chain
and turn within some hundred steps: they are followed, not frozen, and the fresher they are, the
longer a step the same heat allows (studies/networks/README.md). V is ``rank`` copies of each array,
large ones in 16 bits a number: a step reads all of it twice, which is most of its cost where there
are many parameters. Friction matters at each step only where dt^2 s_j is near T, and the variances
may fall fast. With ``loudest`` only that many directions have it at each step, the quiet ones at
every ``quiet_every``-th, as much as they missed:

    t after the last time:  c_j = exp(-(gamma_j - gamma) t), noise to match

Too few of them, and the noise heats the others meanwhile: the temperature of the run says so.

Friction that changes in time leaves the law as it is only if it does not know where the chain is.
V and s do know a little, as far as the noise depends on the position; then the law is changed. On a
Gaussian whose gradient noise has a variance like |x|^4 the temperature near it is wrong by up to a
quarter (``tests/law/test_low_rank.py``); a longer ``memory`` lessens that.
"""

from __future__ import annotations

import operator
from dataclasses import KW_ONLY
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array, lax

from sundman import check
from sundman._types import PyTree
from sundman.integrators import _directions
from sundman.integrators._kinetic import KineticLangevin
from sundman.integrators.base import per_leaf
from sundman.noise import Purpose, Stream, gaussian, substream
from sundman.value import Number, static

_Learnt: TypeAlias = tuple[PyTree, PyTree, Array]  # quiet, loudest, variances


class LowRankState(NamedTuple):
    """Momentum, its unfinished kick, the loudest directions, and the rows to learn them from.

    Attributes:
      momentum: before the trailing half kick.
      dt: the step that kick belongs to.
      directions: V, orthonormal; of every array of the position a copy for each of the loudest. Of
        large arrays in single precision the bits of bfloat16, as integers, which
        ``jax.lax.bitcast_convert_type(V, jax.numpy.bfloat16)`` makes numbers.
      quiet: the rest of V.
      variances: s of the quiet ones and of the loudest, the largest last.
      waited: the time since the quiet ones had their friction.
      rows: differences of gradients, ``learn_after`` of them.
      seen: gradients so far.
    """

    momentum: PyTree
    dt: Array
    directions: PyTree
    quiet: PyTree
    variances: Array
    waited: Array
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
      learn_after: after how many differences of gradients the directions are learnt anew.
      every: the directions are learnt from two successive gradients of so many: 2 uses all, and
        a larger number costs less where there are many parameters.
      loudest: how many directions have their friction at each step; None is all of them.
      quiet_every: after how many steps the others have theirs.
    """

    label = "BAOAB with friction along the noisiest directions"
    references = ("leimkuhler2013robust", "shang2015covariance")

    _: KW_ONLY
    rank: int = static(default=20)
    share: Number = 0.2
    memory: Number = 0.9
    learn_after: int = static(default=5)
    every: int = static(default=2)
    loudest: int | None = static(default=None)
    quiet_every: int = static(default=8)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.count("rank", self.rank, least=1)
        check.count("learn_after", self.learn_after, least=1)
        check.count("every", self.every, least=2)
        check.count("quiet_every", self.quiet_every, least=1)
        if self.loudest is not None:
            check.count("loudest", self.loudest, least=1)
        self._settle(share=check.positive, memory=check.decay)

    def init(self, params: PyTree) -> LowRankState:
        """Zero momentum, no directions yet."""

        def none(number: int) -> PyTree:
            return jax.tree.map(lambda leaf: _directions.zeros(number, leaf), params)

        zero = jnp.zeros((), jnp.result_type(jnp.float32, *jax.tree.leaves(params)))
        return LowRankState(
            momentum=jax.tree.map(jnp.zeros_like, params),
            dt=zero,
            directions=none(self.rank - self._quiet),
            quiet=none(self._quiet),
            variances=jnp.zeros(self.rank, zero.dtype),
            waited=zero,
            rows=jax.tree.map(
                lambda leaf: jnp.zeros((self.learn_after, *jnp.shape(leaf)), jnp.result_type(leaf)),
                params,
            ),
            seen=jnp.uint32(0),
        )

    @property
    def _quiet(self) -> int:
        """How many directions wait for their friction."""
        return 0 if self.loudest is None else max(0, self.rank - self.loudest)

    def move(
        self, stream: Stream, grads: PyTree, state: LowRankState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, LowRankState]:
        """The step before's last kick, and this step up to its own."""
        h = jax.tree.leaves(per_leaf(dt, params))[0]
        learnt = self._learn(state, grads)
        V, s = learnt.directions, learnt.variances[..., self._quiet :]
        before = jax.tree.map(
            lambda p, g: (p - 0.5 * (state.dt + h) * g).astype(p.dtype), state.momentum, grads
        )
        keep, scale = self._keep(h), self._noise_scale(h, jnp.zeros_like(h))
        gamma = self._friction(h, s)
        # along V momentum is lost and noise is missing; that noise is independent of what is there
        lost = jnp.exp(-gamma * h) - keep
        missing = self.T * (jnp.exp(-2.0 * self.gamma * h) - jnp.exp(-2.0 * gamma * h))
        own = gaussian(substream(stream, Purpose.SUBSPACE_NOISE), learnt.variances)
        along = lost * self._along(V, before) + jnp.sqrt(missing) * own[..., self._quiet :]
        after = self._sum(along, V, keep, before, _directions.ScaledNoise(stream, scale, 0))
        after, waited = self._late(learnt, after, h, own[..., : self._quiet])
        updates = jax.tree.map(lambda p, q: (0.5 * h * (p + q)).astype(p.dtype), before, after)
        dt = h.astype(state.dt.dtype)
        return updates, learnt._replace(momentum=after, dt=dt, waited=waited)

    def _friction(self, h: Array, s: Array) -> Array:
        """Along directions whose noise has these variances."""
        return jnp.maximum(self.gamma, h * s / (2.0 * self.share * self.T))

    def _late(
        self, state: LowRankState, momentum: PyTree, h: Array, noise: Array
    ) -> tuple[PyTree, Array]:
        """The friction of the directions that wait, when it is their turn; and how long they have.

        Args:
          state: with this step's directions.
          momentum: after the friction of the loudest.
          h: the step.
          noise: a standard normal number for each direction.
        """
        if not self._quiet:
            return momentum, state.waited
        waited = (state.waited + h).astype(state.waited.dtype)
        due = state.seen % jnp.uint32(self.quiet_every) == 0
        gamma = self._friction(h, state.variances[..., : self._quiet])
        keep = jnp.exp(-(gamma - self.gamma) * waited)

        def damped(_: Array, momentum: PyTree) -> PyTree:
            # or XLA takes their conversion to numbers out of the loop, and does it at each step
            momentum, quiet = lax.optimization_barrier((momentum, state.quiet))
            along = (keep - 1.0) * self._along(quiet, momentum)
            along += jnp.sqrt(self.T * (1.0 - keep * keep)) * noise
            return self._sum(along, quiet, jnp.ones_like(h), momentum)

        momentum = lax.fori_loop(0, due.astype(jnp.int32), damped, momentum)
        return momentum, jnp.where(due, jnp.zeros_like(waited), waited)

    def _learn(self, state: LowRankState, grads: PyTree) -> LowRankState:
        """With this gradient: two of ``every`` make a row, ``learn_after`` rows new directions."""
        turn, phase = jnp.divmod(state.seen, jnp.uint32(self.every))
        place = turn % jnp.uint32(self.learn_after)
        second = phase == 1

        def write(_: Array, rows: PyTree) -> PyTree:
            def one(row: Array, g: Array) -> Array:
                half = (jnp.sqrt(0.5) * g).astype(row.dtype)
                return row.at[place].set(jnp.where(second, half - row[place], half))

            return jax.tree.map(one, rows, grads)

        def renew(_: Array, learnt: _Learnt) -> _Learnt:
            quiet, loudest, s = learnt
            before = jax.tree.map(lambda *parts: jnp.concatenate(parts), quiet, loudest)
            old = jnp.where(turn < self.learn_after, 0.0, self.memory)
            V, s = self._leading(before, s, rows, old)
            quiet, loudest = (
                jax.tree.map(operator.itemgetter(part), V)
                for part in (slice(None, self._quiet), slice(self._quiet, None))
            )
            return quiet, loudest, s

        # loops of one turn or none: a condition would copy its arrays at every step
        rows = lax.fori_loop(0, (phase <= 1).astype(jnp.int32), write, state.rows)
        full = second & (place == self.learn_after - 1)
        learnt = (state.quiet, state.directions, state.variances)
        quiet, directions, variances = lax.fori_loop(0, full.astype(jnp.int32), renew, learnt)
        return state._replace(
            directions=directions,
            quiet=quiet,
            variances=variances,
            rows=rows,
            seen=state.seen + jnp.uint32(1),
        )

    def _products(self, V: PyTree, rows: PyTree) -> Array:
        """Inner products of each direction, then of each of some positions, with these."""
        return _over_arrays(jax.tree.map(_directions.products, V, rows))

    def _along(self, V: PyTree, position: PyTree) -> Array:
        """Inner products of each direction with one position."""
        return _over_arrays(jax.tree.map(_directions.along, V, position))

    def _sum(
        self,
        along: Array,
        V: PyTree,
        keep: Array,
        position: PyTree,
        noise: _directions.ScaledNoise | None = None,
    ) -> PyTree:
        """V by the coefficients ``along``, ``keep`` of a position, and noise."""
        last = jnp.broadcast_to(keep, (*along.shape[:-1], 1)).astype(along.dtype)
        leaves, structure = jax.tree.flatten(position)
        weights = jnp.concatenate([along, last], -1)
        sums = []
        for directions, leaf in zip(jax.tree.leaves(V), leaves, strict=True):
            sums.append(_directions.weighted_sum(weights, directions, leaf, noise))
            if noise is not None:
                noise = noise._replace(offset=noise.offset + leaf.size)
        return structure.unflatten(sums)

    def _leading(self, V: PyTree, s: Array, rows: PyTree, old: Array) -> tuple[PyTree, Array]:
        """The leading eigenvectors and eigenvalues of old V' diag(s) V + (1 - old) rows' rows / n.

        Args:
          V: orthonormal.
          s: their variances.
          rows: n of them.
          old: what is left of the old variances.

        Returns:
          As many as there were.
        """
        k = self.rank
        a, b = jnp.sqrt(old * s), jnp.sqrt((1.0 - old) / self.learn_after)
        products = self._products(V, rows)
        across = a[..., None] * products[..., :k, :] * b
        diagonal = (a * a)[..., None] * jnp.eye(k, dtype=s.dtype)
        within = b * b * products[..., k:, :]
        gram = jnp.concatenate(
            [
                jnp.concatenate([diagonal, across], -1),
                jnp.concatenate([across.mT, within], -1),
            ],
            -2,
        )
        values, vectors = jnp.linalg.eigh(gram)
        values, vectors = jnp.maximum(values[..., -k:], 0.0), vectors[..., -k:]
        fine = values > 1e-6 * values[..., -1:]
        inverse = jnp.where(fine, 1.0 / jnp.sqrt(jnp.maximum(values, 1e-30)), 0.0)
        weights = inverse[..., None] * vectors.mT
        weights = jnp.concatenate([weights[..., :k] * a[..., None, :], weights[..., k:] * b], -1)
        new = jax.tree.map(lambda v, r: _directions.mixed(weights, v, r), V, rows)
        return new, jnp.where(fine, values, 0.0).astype(s.dtype)


def _over_arrays(each: PyTree) -> Array:
    """The sums of what each array has."""
    return jnp.asarray(sum(jax.tree.leaves(each)))
