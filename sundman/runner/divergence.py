"""Chains that left the region where the potential and its gradient are finite."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

PyTree = Any


class DivergenceWarning(UserWarning):
    """Some chains left the region where the potential and its gradient are finite."""


def first_divergence(stats: Mapping[str, np.ndarray], last: PyTree) -> np.ndarray:
    """Index of each chain's first non-finite draw, the number of draws if only its end is."""
    finite = np.isfinite(stats["potential"])
    if "grad_norm" in stats:
        finite &= np.isfinite(stats["grad_norm"])
    draws = finite.shape[1]
    first = np.where(finite.all(axis=1), draws, np.argmin(finite, axis=1))
    ended = np.ones(len(first), bool)
    for leaf in jax.tree.leaves(last):
        ended &= np.isfinite(np.asarray(leaf).reshape(len(first), -1)).all(axis=1)
    return np.where(ended & (first == draws), -1, first)


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
