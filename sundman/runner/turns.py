"""Chains side by side or one after the other.

Many small chains are one vector: every step moves all of them. Chains of a network share nothing,
and together they leave the cache, so on a CPU each runs through a whole block before the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

PyTree = Any
_LARGE = 10_000


def each_chain(run: Callable[..., Any], *chains: PyTree) -> Any:
    """``run`` mapped over the leading axis; a single chain runs as it is, without a batch axis.

    A batched matrix product with a batch of one is several times slower than a plain one on CPU.
    """
    if len(jax.tree.leaves(chains)[0]) > 1:
        return jax.vmap(run)(*chains)
    alone = run(*jax.tree.map(lambda leaf: leaf[0], chains))
    return jax.tree.map(lambda leaf: leaf[None], alone)


def takes_turns(positions: PyTree) -> bool:
    """Whether chains at these positions are better run one after the other."""
    leaves = jax.tree.leaves(positions)
    large = sum(leaf[0].size for leaf in leaves) >= _LARGE
    return len(leaves[0]) > 1 and large and jax.default_backend() == "cpu"


def in_turn(run: Callable[..., Any], *chains: PyTree) -> Any:
    """``run``, which takes chains with a leading axis, on one after the other."""
    return lax.map(lambda one: run(*jax.tree.map(lambda leaf: leaf[None], one)), chains)


def joined(found: PyTree, axis: int = 0) -> PyTree:
    """What :func:`in_turn` gave, with the axis of chains where ``run`` puts it."""
    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, axis).squeeze(axis + 1), found)
