"""Split R-hat on weighted draws: do the chains, and the halves of each, agree?

    R = sqrt((W + B) / W)

with W the mean of the weighted variances within the half chains and B the variance of their
weighted means. Gelman, Rubin (1992); Vehtari et al. (2021) for the splitting.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sundman.draws import Draws
from sundman.estimate.moments import Function, evaluate


def split_rhat(draws: Draws, f: Function | None = None) -> Any:
    """Split R-hat of each component of f; near 1 when the chains sample one law."""
    values = evaluate(draws, f)
    shape, half = values.shape[2:], len(draws) // 2
    if half < 2:
        raise ValueError(f"split R-hat needs 4 draws or more per chain, got {len(draws)}")
    values = values.reshape(*draws.weight.shape, -1).astype(np.float64)
    parts = np.concatenate([values[:, :half], values[:, -half:]])
    weight = np.concatenate([draws.weight[:, :half], draws.weight[:, -half:]]).astype(np.float64)
    alive = weight.sum(axis=1) > 0
    parts, weight = parts[alive], weight[alive]
    parts = np.where(weight[..., None] > 0, parts, 0.0)
    share = weight / weight.sum(axis=1, keepdims=True)
    means = np.einsum("cd,cdk->ck", share, parts)
    within = np.einsum("cd,cdk->ck", share, (parts - means[:, None]) ** 2).mean(axis=0)
    between = means.var(axis=0, ddof=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt((within + between) / within)
    return float(ratio[0]) if shape == () else ratio.reshape(shape)
