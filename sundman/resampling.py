"""Equal-weight draws by systematic resampling.

With u uniform on [0, 1) and W the running sum of the weights, divided by its last value,

    draw i of n is the first one with W > (u + i) / n

so a draw of share w comes floor(n w) or ceil(n w) times, n w on average. Draws keep their order.
Kitagawa (1996). Repeated draws carry no new information: for averages, the weights are better.
"""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
from jax import Array

from sundman import _chunks, check
from sundman._types import PyTree
from sundman.draws import Draws


def systematic(weight: np.ndarray, u: float, n: int) -> np.ndarray:
    """The indices of n draws, in rising order."""
    running = np.cumsum(weight.astype(np.float64))
    picked = np.searchsorted(running, (u + np.arange(n)) / n * running[-1], side="right")
    return np.minimum(picked, np.flatnonzero(weight > 0)[-1])


def pooled(draws: Draws, key: Array, n: int) -> Draws:
    """n draws of all chains together, as one chain: chain after chain, each in its order."""
    check.count("n", n, least=1)
    weight = draws.weight.ravel()
    if not weight.sum() > 0:
        raise ValueError("every weight is 0: all chains diverged, there is nothing to resample")
    rows = systematic(weight, float(jax.random.uniform(key)), n)
    return _equal(draws, rows[None], last=None)


def per_chain(draws: Draws, key: Array, n: int) -> Draws:
    """n draws of each chain that did not diverge; every chain counts for the same."""
    check.count("n", n, least=1)
    good = np.flatnonzero((draws.diverged < 0) & (draws.weight.sum(axis=1) > 0))
    if len(good) == 0:
        raise ValueError("all chains diverged, there is none to resample")
    if len(good) < draws.chains:
        from sundman.runner import DivergenceWarning

        lost = sorted(set(range(draws.chains)) - set(good.tolist()))
        warnings.warn(
            f"chains {lost} diverged and are left out of the resampled draws",
            DivergenceWarning,
            stacklevel=3,
        )
    u = np.asarray(jax.random.uniform(key, (draws.chains,)), np.float64)
    rows = [c * len(draws) + systematic(draws.weight[c], u[c], n) for c in good]
    last = jax.tree.map(lambda leaf: np.asarray(leaf)[good], draws.last)
    return _equal(draws, np.stack(rows), last)


def _equal(draws: Draws, rows: np.ndarray, last: PyTree) -> Draws:
    """The draws numbered ``rows`` (chain, draw), with weight 1."""

    def pick(leaf: Any) -> np.ndarray:
        return _chunks.gather(leaf, rows.ravel()).reshape(*rows.shape, *leaf.shape[2:])

    return Draws(
        values=jax.tree.map(pick, draws.values),
        weight=np.ones(rows.shape, np.float32),
        stats={name: pick(leaf) for name, leaf in draws.stats.items()},
        diverged=np.full(len(rows), -1),
        last=last,
        settings={**draws.settings, "resampled": rows.shape[1]},
        has_position=draws.has_position,
    )
