"""Chains side by side or one after the other.

Many small chains are one vector: every step moves all of them. A few small chains are better run
one after the other: XLA makes one kernel of the loop of a single chain, and several of the loop of
four, which then takes five times as long a chain. Chains of a network share nothing, and together
they leave the cache, so on a CPU each of them, too, runs through a whole block before the next.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sundman._types import PyTree
from sundman.run.step import Plan
from sundman.samplers import Sampler

_LARGE = 10_000  # elements of a position: a network
_FEW = 31  # chains


def each_chain(run: Callable[..., PyTree], plan: Plan, *chains: PyTree) -> PyTree:
    """``run(plan, *chain)`` for every chain along the leading axis.

    A single chain runs as it is, without a batch axis: a batched matrix product with a batch of
    one is several times slower than a plain one on CPU. A stacked sampler is mapped over with the
    chains.
    """

    def one(sampler: Sampler, *chain: PyTree) -> PyTree:
        return run(plan.replace(sampler=sampler, stacked=False), *chain)

    if len(jax.tree.leaves(chains)[0]) > 1:
        axes = (0 if plan.stacked else None, *[0] * len(chains))
        return jax.vmap(one, axes)(plan.sampler, *chains)
    sampler = _first(plan.sampler) if plan.stacked else plan.sampler
    alone = one(sampler, *_first(chains))
    return jax.tree.map(lambda leaf: leaf[None], alone)


def _first(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[0], tree)


def runs_sequentially(positions: PyTree) -> bool:
    """Whether chains at these positions are better run one after the other."""
    leaves = jax.tree.leaves(positions)
    large = sum(leaf[0].size for leaf in leaves) >= _LARGE
    few = len(leaves[0]) <= _FEW
    return len(leaves[0]) > 1 and (large or few) and jax.default_backend() == "cpu"


def map_sequentially(run: Callable[..., PyTree], plan: Plan, *chains: PyTree) -> PyTree:
    """``run(plan, *chains)``, which takes chains with a leading axis, on one after the other."""

    def one(sampler_and_chain: tuple[PyTree, ...]) -> PyTree:
        sampler, own = sampler_and_chain
        alone = plan if not plan.stacked else plan.replace(sampler=_one_more_axis(sampler))
        return run(alone, *_one_more_axis(own))

    return lax.map(one, (plan.sampler if plan.stacked else (), chains))


def _one_more_axis(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[None], tree)


def put_chain_axis(tree: PyTree) -> PyTree:
    """What :func:`map_sequentially` gave without the axis of one chain that ``run`` puts first."""
    return jax.tree.map(lambda leaf: leaf.squeeze(1), tree)


def draw_in_blocks(
    draw: Callable[..., tuple[PyTree, ...]],
    plan: Plan,
    count: Array,
    capacity: int,
    positions: PyTree,
    *chains: PyTree,
) -> tuple[PyTree, ...]:
    """``count`` draws of every chain and the records they leave.

    Chains that run one after the other share one set of records, written in place: a copy of each
    chain's records would take a tenth of the time of a small target.

    Args:
      draw: ``draw(index, plan, *chain)`` gives the chain after its draw ``index`` and a record.
      plan: the loop's plan.
      count: draws.
      capacity: draws the records have room for, so that blocks of any length share a program.
      positions: of the chains, which say how these are best run.
      *chains: what is carried, with a leading axis of chains.

    Returns:
      The chains, and the records with axes (draw, chain), or (chain, draw) if chains run one after
      the other.
    """

    @partial(jax.jit, inline=True)  # its shapes and its body are one trace
    def of_all(plan: Plan, index: Array, chains: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        return each_chain(partial(draw, index), plan, *chains)

    def over_draws(
        plan: Plan,
        chains: tuple[PyTree, ...],
        records: PyTree,
        place: Callable[[Array, Array, Array], Array],
    ) -> tuple[PyTree, ...]:
        def body(index: Array, carry: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
            chains, records = carry
            *chains, record = of_all(plan, index, chains)
            return tuple(chains), jax.tree.map(partial(place, index), records, record)

        return lax.fori_loop(jnp.uint32(0), count, body, (chains, records))

    *_, record = jax.eval_shape(of_all, plan, jnp.uint32(0), chains)
    if not runs_sequentially(positions):
        room = jax.tree.map(lambda x: lax.empty((capacity, *x.shape), x.dtype), record)
        in_row = lambda index, to, leaf: lax.dynamic_update_index_in_dim(to, leaf, index, 0)  # noqa: E731
        chains, records = over_draws(plan, chains, room, in_row)
        return *chains, records

    def one_chain(number: Array, carry: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        chains, records = carry
        alone = plan.replace(sampler=_only(number, plan.sampler)) if plan.stacked else plan

        def in_place(index: Array, to: Array, leaf: Array) -> Array:
            return lax.dynamic_update_slice(
                to, leaf[:, None], (number, index, *[jnp.uint32(0)] * (leaf.ndim - 1))
            )

        own, records = over_draws(alone, _only(number, chains), records, in_place)
        put = lambda to, leaf: lax.dynamic_update_slice_in_dim(to, leaf, number, 0)  # noqa: E731
        return jax.tree.map(put, chains, own), records

    room = jax.tree.map(lambda x: lax.empty((x.shape[0], capacity, *x.shape[1:]), x.dtype), record)
    number_of = jnp.uint32(len(jax.tree.leaves(chains)[0]))
    chains, records = lax.fori_loop(jnp.uint32(0), number_of, one_chain, (chains, room))
    return *chains, records


def _only(number: Array, tree: PyTree) -> PyTree:
    """The part of one chain, with an axis for it."""
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, number, 1, 0), tree)


def draws_first(records: PyTree, positions: PyTree) -> PyTree:
    """The records of a block on the host with axes (draw, chain), however chains were run."""
    swap = runs_sequentially(positions)
    return jax.tree.map(lambda x: np.swapaxes(np.asarray(x), 0, 1) if swap else x, records)
