"""Spot checks: U and its gradient without minibatch noise, at a few dozen of a run's own draws.

The noise of minibatches hides what a run has missed: U scatters by thousands, and the recorded
virial by tens. At some draws, evenly spaced, both are computed on all rows. For the right law, and
any direction v,

    E[v . grad U] = 0,    E[(v . (theta - mean)) (v . grad U)] = T

so a cloud of draws beside the mode, or of the wrong width in one direction, shows.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from sundman import _chunks
from sundman.draws import Draws
from sundman.estimate.moments import moments
from sundman.gradients.control_variates import is_sum_over_rows
from sundman.gradients.full_data import spots
from sundman.posterior import Batch, Posterior

SHARE_OF_ROWS, MOST_PASSES = 0.05, 50  # of a run, that its spot checks may cost
_SPOTS, _FEWEST = 48, 24
_DIMENSIONS = 500  # up to so many coordinates there is a covariance
_DRAWS = 20_000  # by which widths are known, all chains together
_RIDGE = 0.02


class SpotChecks(NamedTuple):
    """What was seen at the spots, as plain numbers.

    Attributes:
      chain: of each spot.
      draw: of each spot.
      potential: U, less its mean.
      virial: (theta - mean) . grad U / d, whose mean is T.
      slope: for each spot, the part of grad U along the direction in which the others' point most
        in common, in units of 1 / standard deviation of the draws.
      temperatures: along the directions where the draws are too wide, or too narrow, by most as
        the other half of the spots has them.
      errors: of the temperatures.
      rows: that each spot was computed on.
      of_rows: how many there are.
    """

    chain: np.ndarray
    draw: np.ndarray
    potential: np.ndarray
    virial: np.ndarray
    slope: np.ndarray
    temperatures: np.ndarray
    errors: np.ndarray
    rows: int
    of_rows: int

    def as_numbers(self) -> dict[str, list[float]]:
        """Lists by name, for a file."""
        return {name: np.atleast_1d(column).tolist() for name, column in self._asdict().items()}

    @classmethod
    def from_numbers(cls, stored: dict[str, list[float]]) -> Self:
        """What :meth:`as_numbers` gave."""
        arrays = {name: np.asarray(stored[name]) for name in cls._fields}
        rows, of_rows = (int(arrays.pop(name)[0]) for name in ("rows", "of_rows"))
        return cls(**arrays, rows=rows, of_rows=of_rows)


def measure(draws: Draws, posterior: Posterior) -> SpotChecks | None:
    """The spot checks of a run; None if they cannot be made, or are not affordable."""
    if not draws.has_position or not isinstance(posterior.data, Batch):
        return None
    size = sum(math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(draws.position))
    chain, draw = _spread(draws)
    if size > _DIMENSIONS or len(chain) < _FEWEST or not is_sum_over_rows(posterior):
        return None
    positions = np.concatenate(
        [_chunks_at(leaf, chain, draw).reshape(len(chain), -1) for leaf in _leaves(draws)], axis=1
    )
    example = jax.tree.map(lambda leaf: _chunks_at(leaf, chain[:1], draw[:1])[0], draws.position)
    anchor = None if draws.tuning is None else draws.tuning.control_variate
    known = None
    if anchor is not None:
        parts = (ravel_pytree(each)[0] for each in (anchor.position, anchor.grads))
        where, slope = (np.asarray(part, np.float64) for part in parts)
        known = where, slope
    seen = spots(posterior, example, positions, affordable(draws, posterior), known)
    if seen is None or not (np.isfinite(seen.value).all() and np.isfinite(seen.grads).all()):
        return None
    mean, root, back = _widths(draws)
    z, g = (positions - mean) @ back.T, seen.grads @ root
    slope, temperatures, errors = np.zeros(len(z)), np.zeros(4), np.zeros(4)
    halves = np.arange(len(z)) % 2 == 0
    for number, here in enumerate((halves, ~halves)):
        common = g[~here].mean(axis=0)
        slope[here] = g[here] @ (common / max(np.linalg.norm(common), 1e-300))
        for place, v in enumerate(_extremes(z[~here], g[~here])):
            found = _along(z[here] @ v, g[here] @ v, _error_of_width(draws, back.T @ v))
            temperatures[2 * number + place], errors[2 * number + place] = found
    virial = np.sum((positions - mean) * seen.grads, axis=1) / size
    return SpotChecks(
        chain, draw, seen.value, virial, slope, temperatures, errors, seen.rows, posterior.size
    )


def affordable(draws: Draws, posterior: Posterior) -> float:
    """Rows that may be looked at."""
    tuning = draws.tuning
    anchor = None if tuning is None else tuning.control_variate
    rows = draws.facts.batch_size or posterior.size
    of_run = (draws.facts.steps or len(draws)) * draws.chains * rows * (1 if anchor is None else 2)
    return min(SHARE_OF_ROWS * of_run, float(MOST_PASSES * posterior.size))


def _leaves(draws: Draws) -> list:
    return jax.tree.leaves(draws.position)


def _chunks_at(leaf, chain: np.ndarray, draw: np.ndarray) -> np.ndarray:
    return np.asarray(_chunks.gather(leaf, chain * leaf.shape[1] + draw))


def _spread(draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Chain and draw of spots that are evenly spaced over what counts of every chain."""
    ends = _chunks.ends_of_weight(draws.column("weight"))
    alive = np.flatnonzero(ends > 0)[:_SPOTS]
    each = _SPOTS // max(len(alive), 1)
    places = [((np.arange(each) + 0.5) * ends[i] / each).astype(int) for i in alive]
    places = [np.unique(place) for place in places]
    chain = np.repeat(alive, [len(place) for place in places])
    return chain, np.concatenate([*places, np.zeros(0, int)]).astype(int)


def _some(draws: Draws) -> tuple[np.ndarray, np.ndarray]:
    """Evenly spaced positions (chain, draw, d), and their weights."""
    stride = max(1, draws.chains * len(draws) // _DRAWS)
    part = slice(None, None, stride)
    weight = np.asarray(draws.column("weight")[:, part], np.float64)
    leaves = [np.asarray(leaf[:, part], np.float64) for leaf in _leaves(draws)]
    flat = np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)
    return np.where(weight[..., None] > 0, flat, 0.0), weight


def _widths(draws: Draws) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of the draws, R with R R' = their covariance, and its inverse."""
    x, weight = _some(draws)
    share = weight / weight.sum()
    mean = np.einsum("cn,cnd->d", share, x)
    away = x - mean
    covariance = np.einsum("cn,cnd,cne->de", share, away, away)
    sd = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / np.outer(sd, sd))
    values = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    return mean, sd[:, None] * vectors * values, (vectors / values).T / sd


def _extremes(z: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Directions along which the gradient is steepest and flattest against the draws."""
    d = z.shape[1]
    ridge = _RIDGE * len(z) * np.eye(d)
    fit = np.linalg.solve(z.T @ z + ridge, z.T @ g + ridge)  # drawn to the identity
    _, vectors = np.linalg.eigh(0.5 * (fit + fit.T))
    return vectors[:, -1], vectors[:, 0]


def _error_of_width(draws: Draws, direction: np.ndarray) -> float:
    """The relative error of the variance of the draws along a direction chosen among d.

    Along one given beforehand it is sqrt(2 / n) of n effective draws; the coordinates of unit size,
    which are made of the same draws, are known to sqrt(d / n).
    """
    x, weight = _some(draws)
    along = x @ direction
    mean = np.sum(weight * along) / weight.sum()
    value, error, _ = moments(np.square(along - mean), weight)
    return float(error / value) * math.sqrt(1.0 + 0.5 * len(direction)) if value > 0 else math.inf


def _along(z: np.ndarray, g: np.ndarray, error: float) -> tuple[float, float]:
    """The temperature along a direction in which the draws have unit variance, and its error."""
    squares = float(z @ z)
    value = float(z @ g) / squares
    left = float(np.sum(np.square(z * (g - value * z)))) / squares**2
    return value, math.sqrt(left + (value * error) ** 2)
