"""U and its gradient along lines between the draws of a run, for the verdict."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from sundman import _chunks
from sundman.draws import Draws
from sundman.estimate.temperature import TargetLike
from sundman.gradients import Exact, GradientEstimator, minibatch
from sundman.gradients.slopes import Slopes, comparable, measure, most_lines
from sundman.posterior import Posterior
from sundman.targets import Target

_SHORT = 0.03  # of the way from one draw to the next one that is looked at
_APART = 0.381966  # of the draws of a chain between both ends of a line: as unlike as there are
_SIZES = (1.0, 0.02)  # of random directions, in units of the spread of the draws


def slopes_of(draws: Draws, target: TargetLike, rows: int | None) -> Slopes | None:
    """U and its gradient along lines between draws, and in random directions.

    Two thirds of the lines lead from a draw to another one of its chain. A sixth begin like these
    and are short, the others go through draws in random directions.

    Args:
      draws: that kept their positions.
      target: what was sampled.
      rows: of a posterior; None if it has none.

    Returns:
      What was measured; None where U and its gradient need not belong together.
    """
    gradient = _estimator(target)
    gradient = None if gradient is None else comparable(gradient, *([] if rows is None else [rows]))
    if gradient is None or not draws.has_position:
        return None
    size = sum(math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(draws.position))
    number = most_lines(size) // 6
    pairs = _pairs(draws, 4 * number)
    if pairs is None:
        return None
    one, other = (
        jax.tree.map(lambda leaf, rows=rows: np.asarray(_chunks.gather(leaf, rows)), draws.position)
        for rows in pairs
    )
    rng = np.random.default_rng(0)
    some = rng.permutation(4 * number)[:number]
    half = np.resize(np.asarray(_SIZES), number) / np.sqrt(size)
    again = np.arange(number) // len(_SIZES) * len(_SIZES)  # one direction in all sizes

    def lines(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        def column(numbers: np.ndarray) -> np.ndarray:
            return numbers.reshape(-1, *[1] * (a.ndim - 1)).astype(a.dtype)

        spread = np.std(np.concatenate([a, b]), axis=0)
        v = column(half) * (spread * rng.normal(size=(number, *a.shape[1:])))[again].astype(a.dtype)
        starts = np.concatenate([a, a[some], b[again] - v])
        return starts, np.concatenate([b - a, _SHORT * (b - a)[some], 2 * v]).astype(a.dtype)

    made = [lines(a, b) for a, b in zip(*map(jax.tree.leaves, (one, other)), strict=True)]
    starts, ways = (
        jax.tree.unflatten(jax.tree.structure(one), part) for part in zip(*made, strict=True)
    )
    numbers = np.concatenate([np.arange(4 * number), some, 4 * number + again])
    temperature = draws.facts.temperature
    known = temperature is not None and temperature > 0
    return measure(
        gradient,
        jax.tree.map(jnp.asarray, starts),
        jax.tree.map(jnp.asarray, ways),
        numbers,
        float(temperature) if known else 1.0,  # type: ignore[arg-type]  # it is a number
        np.arange(len(numbers)) < 4 * number,
    )


def _estimator(target: TargetLike) -> GradientEstimator | None:
    if isinstance(target, GradientEstimator):
        return target
    if isinstance(target, Posterior):
        return minibatch(target, None)
    potential = target.potential if isinstance(target, Target) else target
    return Exact(potential) if callable(potential) else None


def _pairs(draws: Draws, number: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Draws that count and others of the same chain, counted chain after chain."""
    weight = draws.column("weight")
    ends = _chunks.ends_of_weight(weight)
    alive = np.flatnonzero(ends > 1)
    if not len(alive):
        return None
    chains = alive[np.arange(number) * len(alive) // number]
    place = np.arange(number) / number
    last = ends[chains] - 1
    one = (place * last).astype(int)
    other = (one + np.maximum(1, (ends[chains] * _APART).astype(int))) % ends[chains]
    counts = np.array(
        [weight[c, i] > 0 and weight[c, j] > 0 for c, i, j in zip(chains, one, other, strict=True)]
    )
    if not counts.any():
        return None
    keep = np.resize(np.flatnonzero(counts), number)
    rows = chains * len(draws)
    return (rows + one)[keep], (rows + other)[keep]
