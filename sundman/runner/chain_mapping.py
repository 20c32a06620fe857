"""Chains side by side or one after the other.

Many small chains are one vector: every step moves all of them. A few small chains are better run
one after the other: XLA makes one kernel of the loop of a single chain, and several of the loop of
four, which then takes five times as long a chain. Chains of a network share nothing, and together
they leave the cache, so on a CPU each of them, too, runs through a whole block before the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

PyTree = Any
_LARGE = 10_000  # elements of a position: a network
_FEW = 16  # chains


def each_chain(run: Callable[..., Any], plan: Any, *chains: PyTree) -> Any:
    """``run(plan, *chain)`` for every chain along the leading axis.

    A single chain runs as it is, without a batch axis: a batched matrix product with a batch of
    one is several times slower than a plain one on CPU. A stacked sampler is mapped over with the
    chains.
    """

    def one(sampler: Any, *chain: PyTree) -> Any:
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


def map_sequentially(run: Callable[..., Any], plan: Any, *chains: PyTree) -> Any:
    """``run(plan, *chains)``, which takes chains with a leading axis, on one after the other."""

    def one(given: tuple) -> Any:
        sampler, own = given
        alone = plan if not plan.stacked else plan.replace(sampler=_one_more_axis(sampler))
        return run(alone, *_one_more_axis(own))

    return lax.map(one, (plan.sampler if plan.stacked else (), chains))


def _one_more_axis(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[None], tree)


def put_chain_axis(tree: PyTree) -> PyTree:
    """What :func:`map_sequentially` gave without the axis of one chain that ``run`` puts first."""
    return jax.tree.map(lambda leaf: leaf.squeeze(1), tree)


def put_chain_axes(chains: PyTree, averages: PyTree, records: PyTree, seen: PyTree) -> tuple:
    """The same for a block, whose records have the chain second: they become (chain, draw)."""
    records = jax.tree.map(lambda leaf: leaf.squeeze(2), records)
    return *put_chain_axis((chains, averages)), records, put_chain_axis(seen)


def draws_first(records: PyTree, positions: PyTree) -> PyTree:
    """The records of a block on the host with axes (draw, chain), however chains were run."""
    swap = runs_sequentially(positions)
    return jax.tree.map(lambda x: np.swapaxes(np.asarray(x), 0, 1) if swap else x, records)
