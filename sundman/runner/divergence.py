"""Chains that left the region where the potential and its gradient are finite."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

PyTree = Any
_FEW = 20


class DivergenceWarning(UserWarning):
    """Some chains left the region where the potential and its gradient are finite."""


def _onset(potential: np.ndarray) -> int:
    """Where a chain that ends non-finite began to run away: after its last ordinary draw.

    The last finite draws of a diverging chain are astronomically far out and would rule every
    average. Ordinary is up to ten times as far above the median as the 99th percentile is.
    """
    if len(potential) < _FEW:
        return 0
    middle, high = np.quantile(potential, (0.5, 0.99), method="lower")
    ordinary = np.flatnonzero(potential <= middle + 10.0 * (high - middle))
    return int(ordinary[-1]) + 1


def first_divergence(stats: Mapping[str, np.ndarray], last: PyTree) -> np.ndarray:
    """Index of the first draw that counts for nothing, for each chain; -1 for a good one.

    The number of draws if only the end of the chain is lost.
    """
    finite = np.isfinite(stats["potential"])
    if "grad_norm" in stats:
        finite &= np.isfinite(stats["grad_norm"])
    chains, draws = finite.shape
    good = finite.all(axis=1)
    for leaf in jax.tree.leaves(last):
        good &= np.isfinite(np.asarray(leaf).reshape(chains, -1)).all(axis=1)
    first = np.full(chains, -1)
    for chain in np.flatnonzero(~good):
        end = draws if finite[chain].all() else int(np.argmin(finite[chain]))
        first[chain] = _onset(np.asarray(stats["potential"][chain, :end], np.float64))
    return first


def warn_divergence(diverged: np.ndarray) -> None:
    """Say how many chains were lost, which first, and what to change."""
    lost = np.flatnonzero(diverged >= 0)
    first = lost[np.argmin(diverged[lost])]
    warnings.warn(
        f"{len(lost)} of {len(diverged)} chains diverged: the potential or its gradient is not "
        f"finite; chain {first} first, by draw {int(diverged[first])}. Their draws from there on "
        "have weight 0. Use a smaller step (h or dtau), or a clock with a smaller lower bound m.",
        DivergenceWarning,
        stacklevel=3,
    )
