"""Weighted quantiles.

With F(x) the share of the weight on draws of value x or less, the quantile is

    Q(q) = min { x of the draws : F(x) >= q }

so it is one of the draws; nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from sundman._chunks import IN_MEMORY, component_slices, draw_slices, elements_per_pass
from sundman.draws import Draws
from sundman.estimate.moments import Function, kept, shaped, weights


def quantile(draws: Draws, q: float | Sequence[float], f: Function | None = None) -> Any:
    """Q(q) of each component of f over all draws; several q make a first axis.

    Draws of equal values count together. Q(0) is the smallest draw that has a weight, Q(1) the
    largest.
    """
    levels = np.asarray(q, np.float64)
    if levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError(f"q must be a number from 0 to 1, or a list of them; got q={q!r}")
    weight = weights(draws)
    return jax.tree.map(lambda leaf: _of_leaf(leaf, weight, levels), kept(draws, f))


def _of_leaf(leaf: Any, weight: np.ndarray, levels: np.ndarray) -> Any:
    shape = leaf.shape[2:]
    found = np.empty((levels.size, *shape), leaf.dtype)
    rows = np.flatnonzero(weight.ravel() > 0)
    share = weight.ravel()[rows]
    for where in component_slices(shape, max(1, elements_per_pass(leaf) // weight.size)):
        piece = np.asarray(leaf[(slice(None), slice(None), *where)])
        flat = piece.reshape(weight.size, -1)
        picked = np.empty((levels.size, flat.shape[1]), leaf.dtype)
        for some in draw_slices(flat.shape[1], max(1, IN_MEMORY // weight.size)):
            picked[:, some] = _of_columns(flat[rows, some], share, levels.ravel())
        found[(slice(None), *where)] = picked.reshape(levels.size, *piece.shape[2:])
    return shaped(found.reshape(levels.shape + shape))


def _of_columns(values: np.ndarray, share: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Q of each column of values (draw, k) at each level."""
    order = np.argsort(values, axis=0, kind="stable")
    running = np.cumsum(share[order], axis=0)
    rank = np.array([(running < level * running[-1]).sum(axis=0) for level in levels])
    return np.take_along_axis(values, np.take_along_axis(order, rank, axis=0), axis=0)
