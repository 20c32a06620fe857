"""Weighted histograms, and their distance from an exact density on the same grid."""

from __future__ import annotations

import numpy as np

from sundman.draws import Draws
from sundman.estimate.moments import Function, flat_blocks
from sundman.targets import Target


def histogram(draws: Draws, edges: tuple[np.ndarray, ...], f: Function | None = None) -> np.ndarray:
    """Fraction of the weight in each cell of a grid; what lies outside counts in no cell.

    ``edges`` has one array of cell edges for each component of f (or of the position).
    """
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
    """Half the sum of |histogram - exact mass| over the grid, the outside as one more cell."""
    found, exact = histogram(draws, edges), target.grid_mass(*edges)
    outside = abs(found.sum() - exact.sum())
    return float(0.5 * (np.abs(found - exact).sum() + outside))
