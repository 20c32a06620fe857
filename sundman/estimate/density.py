"""Where the weight of the draws lies: quantiles, histograms, and their distance from a density.

With F(x) the share of the weight on draws of value x or less, the quantile is

    Q(q) = min { x of the draws : F(x) >= q }

so it is one of the draws; nothing is interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import jax
import numpy as np

from sundman import check
from sundman._chunks import IN_MEMORY, component_slices, draw_slices, elements_per_pass
from sundman._types import DrawsArray, PyTree
from sundman.estimate.moments import Function, flat_blocks, shaped, values_of, weights
from sundman.targets import Target

if TYPE_CHECKING:
    from sundman.draws import Draws


def quantile(draws: Draws, q: float | Sequence[float], f: Function | None = None) -> PyTree:
    """Q(q) of each component of f over all draws; several q make a first axis.

    Draws of equal values count together. Q(0) is the smallest draw that has a weight, Q(1) the
    largest.

    Args:
      draws: the weighted draws.
      q: one level or several, from 0 to 1.
      f: a function of one draw; None takes the kept values themselves.

    Returns:
      A number or an array for each leaf of f.
    """
    levels = np.asarray(q, np.float64)
    if levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
        raise ValueError(f"q must be a number from 0 to 1, or a list of them; got q={q!r}")
    weight = weights(draws)
    return jax.tree.map(lambda leaf: _quantile_of_leaf(leaf, weight, levels), values_of(draws, f))


def _quantile_of_leaf(
    leaf: DrawsArray, weight: np.ndarray, levels: np.ndarray
) -> float | np.ndarray:
    shape = leaf.shape[2:]
    quantiles = np.empty((levels.size, *shape), leaf.dtype)
    rows = np.flatnonzero(weight.ravel() > 0)
    share = weight.ravel()[rows]
    for where in component_slices(shape, max(1, elements_per_pass(leaf) // weight.size)):
        piece = np.asarray(leaf[(slice(None), slice(None), *where)])
        flat = piece.reshape(weight.size, -1)
        picked = np.empty((levels.size, flat.shape[1]), leaf.dtype)
        for some in draw_slices(flat.shape[1], max(1, IN_MEMORY // weight.size)):
            picked[:, some] = _quantile_of_columns(flat[rows, some], share, levels.ravel())
        quantiles[(slice(None), *where)] = picked.reshape(levels.size, *piece.shape[2:])
    return shaped(quantiles.reshape(levels.shape + shape))


def _quantile_of_columns(values: np.ndarray, share: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Q of each column of values (draw, k) at each level."""
    order = np.argsort(values, axis=0, kind="stable")
    running = np.cumsum(share[order], axis=0)
    rank = np.array([(running < level * running[-1]).sum(axis=0) for level in levels])
    return np.take_along_axis(values, np.take_along_axis(order, rank, axis=0), axis=0)


def histogram(draws: Draws, edges: tuple[np.ndarray, ...], f: Function | None = None) -> np.ndarray:
    """Fraction of the weight in each cell of a grid; what lies outside counts in no cell.

    ``edges`` has one array of cell edges for each component of f (or of the position).

    Args:
      draws: the weighted draws.
      edges: one array of cell edges for each component.
      f: a function of one draw; None takes the kept values themselves.

    Returns:
      The share of the weight in each cell.
    """
    check.draws(draws)
    weight = np.asarray(draws.weight, np.float64)
    counts = np.zeros(tuple(len(axis) - 1 for axis in edges))
    for part, block in flat_blocks(draws, f):
        if block.shape[2] != len(edges):
            raise ValueError(
                f"edges has {len(edges)} axes, but the values have {block.shape[2]} components"
            )
        w = weight[:, part].ravel()
        points = block.reshape(w.size, -1)[w > 0]
        counts += np.histogramdd(points, bins=list(edges), weights=w[w > 0])[0]
    return counts / weight.sum()


def total_variation(draws: Draws, target: Target, edges: tuple[np.ndarray, np.ndarray]) -> float:
    """Half the sum of |histogram - exact mass| over the grid, the outside as one more cell.

    Args:
      draws: of positions in the plane.
      target: with exact masses of cells.
      edges: of the cells along each of the two axes.

    Returns:
      A distance from 0 to 1.
    """
    sampled, exact = histogram(draws, edges), target.grid_mass(*edges)
    outside = abs(sampled.sum() - exact.sum())
    return float(0.5 * (np.abs(sampled - exact).sum() + outside))
