"""Split R-hat on weighted draws: do the chains, and the halves of each, agree?

    R = sqrt((W + B) / W)

with W the mean of the weighted variances within the half chains and B the variance of their
weighted means. Gelman, Rubin (1992); Vehtari et al. (2021) for the splitting.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sundman.draws import Draws
from sundman.estimate.moments import Function, kept, shaped
from sundman.estimate.sums import stretch_sums


def split_rhat(draws: Draws, f: Function | None = None) -> Any:
    """Split R-hat of each component of f; near 1 when the chains sample one law."""
    half = len(draws) // 2
    if half < 2:
        raise ValueError(f"split R-hat needs 4 draws or more per chain, got {len(draws)}")
    weight = np.asarray(draws.weight, np.float64)
    middle = len(draws) % 2  # of an odd number of draws, the middle one is in neither half
    stretch = np.repeat([0, 1, 1 + middle], [half, middle, half])
    return jax.tree.map(lambda leaf: _of_leaf(leaf, weight, stretch), kept(draws, f))


def _of_leaf(leaf: Any, weight: np.ndarray, stretch: np.ndarray) -> Any:
    ratio = np.empty(leaf.shape[2:])
    for where, sums in stretch_sums(leaf, weight, stretch, squares=True):
        total, first, second = (
            np.concatenate([part[:, 0], part[:, -1]])
            for part in (sums.weight, sums.first, sums.second)
        )
        alive = total > 0
        total = total[alive, None]
        means = first[alive] / total
        within = np.maximum(second[alive] / total - means**2, 0.0).mean(axis=0)
        between = means.var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.sqrt((within + between) / within)
        ratio[where] = found.reshape(ratio[where].shape)
    return shaped(ratio)
