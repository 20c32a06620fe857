"""Weighted histograms, and their distance from an exact density on the same grid."""

from __future__ import annotations

import numpy as np

from sundman.draws import Draws
from sundman.estimate.moments import Function, evaluate
from sundman.targets import Target


def histogram(draws: Draws, edges: tuple[np.ndarray, ...], f: Function | None = None) -> np.ndarray:
    """Fraction of the weight in each cell of a grid; what lies outside counts in no cell.

    ``edges`` has one array of cell edges for each component of f (or of the position).
    """
    values = evaluate(draws, f)
    points = values.reshape(draws.weight.size, -1)
    if points.shape[1] != len(edges):
        raise ValueError(
            f"edges has {len(edges)} axes, but the values have {points.shape[1]} components"
        )
    weight = draws.weight.astype(np.float64).ravel()
    kept = weight > 0
    counts, _ = np.histogramdd(points[kept], bins=list(edges), weights=weight[kept])
    return counts / weight.sum()


def total_variation(draws: Draws, target: Target, edges: tuple[np.ndarray, np.ndarray]) -> float:
    """Half the sum of |histogram - exact mass| over the grid, the outside as one more cell."""
    found, exact = histogram(draws, edges), target.grid_mass(*edges)
    outside = abs(found.sum() - exact.sum())
    return float(0.5 * (np.abs(found - exact).sum() + outside))
