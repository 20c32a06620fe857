"""How well the chains mix: effective sizes and R-hat of what was kept, and of predictions.

The weights of a network move slowly, and permuting its units changes them but not its function.
What one wants are predictions, so their convergence is looked at by itself: R-hat and effective
size of log p(y_i | x_i, theta) on some rows of the data.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import jax
import numpy as np
from jax import Array

from sundman import estimate
from sundman._trees import leaf_paths, some_of_each
from sundman._types import PyTree
from sundman.diagnosis.table import Row, graded
from sundman.draws import Draws
from sundman.estimate.moments import moments, weights
from sundman.posterior import Batch, Posterior

_ROWS = 50  # of the data, evenly spaced
_DRAWS = 2000  # over all chains, evenly spaced
_ELEMENTS = 32 * 2**20  # of the components held in memory, over all draws


def mixing_rows(draws: Draws, components: int) -> Iterator[Row]:
    """Smallest effective size, its rates, worst R-hat, largest relative error."""
    values, labels = some_components(draws, components)
    _, error, variance = moments(values, weights(draws))
    broken = np.flatnonzero(~np.isfinite(variance))
    if len(broken):
        note = f"{labels[broken[0]]} first; of {len(labels)} components"
        yield Row("components not finite", len(broken), None, "bad", note)
    moving = np.isfinite(variance) & (variance > 0)
    if not moving.any():
        yield Row("smallest ESS", 0.0, None, "bad", "nothing moves: every value is constant")
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(moving, variance / error**2, np.inf)
    worst = int(np.argmin(size))
    least = float(size[worst])
    of = f"{labels[worst]}, of {len(labels)} components"
    verdict = graded(-least, look=-400, bad=-100)
    yield Row("smallest ESS", least, None, verdict, f"{of}; 400 or more is good")
    evaluations, seconds = draws.facts.gradient_evaluations, draws.facts.seconds
    if evaluations:
        yield Row("ESS per 1000 gradients", 1000 * least / evaluations)
    if seconds:
        yield Row("ESS per second", least / seconds)
    if len(draws) >= 4:
        part = Draws(values, draws.weight, {}, draws.diverged_at, None)
        ratio = np.nan_to_num(np.asarray(estimate.split_rhat(part)), nan=1.0)
        worst_ratio = int(np.argmax(ratio))
        largest = float(ratio[worst_ratio])
        verdict = graded(largest, look=1.01, bad=1.05)
        note = {"good": "the chains agree", "look": "run longer", "bad": "the chains disagree"}
        yield Row(
            "largest split R-hat", largest, None, verdict, f"{labels[worst_ratio]}; {note[verdict]}"
        )
    relative = 1.0 / math.sqrt(least)
    verdict = graded(relative, look=0.05, bad=0.1)
    yield Row("largest error / sd", relative, None, verdict, f"{labels[worst]}; error of the mean")


def some_components(draws: Draws, most: int) -> tuple[np.ndarray, list[str]]:
    """At most ``most`` components, of every leaf at least one: (chain, draw, k) and their names.

    Fewer if the draws are very many. The values are read once, in blocks.
    """
    leaves = jax.tree.leaves(draws.values)
    sizes = [math.prod(leaf.shape[2:]) for leaf in leaves]
    ends = np.cumsum([0, *sizes])
    most = max(1, min(most, int(ends[-1]), _ELEMENTS // (draws.chains * len(draws))))
    chosen = some_of_each(sizes, most)
    per_leaf = [
        chosen[(chosen >= first) & (chosen < last)] - first
        for first, last in itertools.pairwise(ends)
    ]
    dtype = np.result_type(np.float32, *(leaf.dtype for leaf in leaves))
    components = np.empty((draws.chains, len(draws), len(chosen)), dtype)
    for part, values in draws.blocks():
        flat = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(values)]
        columns = [leaf[..., index] for leaf, index in zip(flat, per_leaf, strict=True)]
        components[:, part] = np.concatenate(columns, axis=2)
    labels = [
        label
        for name, leaf, index in zip(leaf_paths(draws.values), leaves, per_leaf, strict=True)
        for label in _labels(name, leaf.shape[2:], index)
    ]
    return components, labels


def _labels(name: str, shape: tuple[int, ...], picked: np.ndarray) -> list[str]:
    if not shape:
        return [name]
    indices = zip(*np.unravel_index(picked, shape), strict=True)
    return [f"{name}[{', '.join(str(i) for i in index)}]" for index in indices]


def function_rows(draws: Draws, posterior: Posterior) -> Iterator[Row]:
    """Smallest effective size and largest split R-hat of the log likelihood of single rows."""
    data = posterior.data
    if not isinstance(data, Batch):
        return
    some = draws.thin(-(-draws.chains * len(draws) // _DRAWS))
    if len(some) < 4:
        return
    number = np.linspace(0, posterior.size - 1, min(_ROWS, posterior.size)).astype(int)
    x, y = jax.tree.map(lambda leaf: leaf[number], (data.x, data.y))

    def log_likelihood(position: PyTree) -> Array:
        return posterior.log_likelihood_of_rows(position, x, y)

    values = estimate.evaluate(some, log_likelihood)
    part = Draws(values, some.weight, {}, some.diverged_at, None)
    size = np.nan_to_num(np.asarray(estimate.ess(part)), nan=np.inf)
    ratio = np.nan_to_num(np.asarray(estimate.split_rhat(part)), nan=1.0)
    least, worst = int(np.argmin(size)), int(np.argmax(ratio))
    of = f"of {len(number)} rows of the data"
    if np.isfinite(size[least]):
        verdict = graded(-float(size[least]), look=-400, bad=-100)
        note = f"log likelihood of row {number[least]}, {of}; 400 or more is good"
        yield Row("smallest ESS, predictions", float(size[least]), None, verdict, note)
    verdict = graded(float(ratio[worst]), look=1.01, bad=1.05)
    says = {"good": "the chains agree", "look": "run longer", "bad": "the chains disagree"}
    note = f"log likelihood of row {number[worst]}, {of}; {says[verdict]}"
    yield Row("largest split R-hat, predictions", float(ratio[worst]), None, verdict, note)


def of_weights(row: Row) -> Row:
    """A row on the weights of a network, which move slowly: it does not decide on its own."""
    if row.name not in ("smallest ESS", "largest split R-hat", "largest error / sd"):
        return row
    note = f"{row.note}; of the weights, which may still move when predictions have settled"
    return row._replace(verdict="look" if row.verdict == "bad" else row.verdict, note=note)
