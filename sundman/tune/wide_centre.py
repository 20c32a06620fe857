"""A centre in many dimensions, where no Hessian can be held: conjugate gradients.

The mode is found by Newton steps on some rows, then by the gradient on all of them, with products
of the Hessian on some rows in place of the matrix. Positions as they are typical of the normal law
that U has there are solutions of

    H (theta - theta*) = sum_i e_i grad l_i(theta*) + e'    e of unit variance, e' with the prior's

since the right side varies like the Hessian H. They tell what noise minibatches have with the
centre and without, and the chains begin at them.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from sundman._types import PyTree
from sundman.gradients.full_data import (
    full_pass,
    hessian_products,
    slopes_by_chance,
    slopes_of_rows,
)
from sundman.posterior import Posterior
from sundman.tune import scales

_FEWEST_ROWS, _ROWS_PER_COORDINATE = 16_384, 8  # by which curvature is known to a third
_FIRST_ROWS = 8_192
_NEWTON_STEPS, _FULL_PASSES, _HALVINGS = 30, 8, 8
_PRODUCTS = 60  # of conjugate gradients
_SOLVED, _NEWTON_SOLVED = 0.05, 0.3  # shares of the right side that may stay
_POWERS = 12  # by which the largest curvature is found
_ROWS_OF_DRAW, _ROWS_OF_DIAGONAL = 64, 1_024


class Surroundings:
    """U around a position: the curvature of some rows, always the same ones, and the prior's."""

    def __init__(self, posterior: Posterior, example: PyTree, key: Array) -> None:
        self.posterior, self.example, self.key = posterior, example, key
        flat, _ = ravel_pytree(example)
        rows = max(_FEWEST_ROWS, _ROWS_PER_COORDINATE * flat.size)
        self.rows, self.dtype = min(rows, posterior.size), flat.dtype

    def diagonal(self, at: np.ndarray) -> np.ndarray:
        """The diagonal of the Hessian, about: what rows' gradients vary by, and the prior's."""
        here = np.asarray(at, self.dtype)
        slopes, _ = slopes_of_rows(
            self.posterior, self.example, here[None], here, self.key, rows=_ROWS_OF_DIAGONAL
        )
        size = np.mean(np.square(np.asarray(slopes[0], np.float64)), axis=0)
        diagonal = size * self.posterior.size + self.of_prior(at)
        return np.maximum(diagonal, 1e-6 * diagonal.max())

    def of_prior(self, at: np.ndarray) -> np.ndarray:
        """The prior's curvature along each coordinate, as if it had no correlations."""
        unravel = ravel_pytree(self.example)[1]

        def slope(at: Array) -> Array:
            return jax.grad(lambda at: -self.posterior.log_prior(unravel(at)))(at)

        here = np.asarray(at, self.dtype)
        turned = jax.jit(lambda at: jax.jvp(slope, (at,), (jnp.ones_like(at),))[1])(here)
        return np.maximum(np.asarray(turned, np.float64), 0.0)

    def solved(
        self, at: np.ndarray, diagonal: np.ndarray, right: np.ndarray, rows: int, share: float
    ) -> tuple[np.ndarray, int]:
        """H^-1 of each row of ``right``, (k, d), but for a share of it; and passes over rows."""
        here = np.asarray(at, self.dtype)
        x, left = np.zeros_like(right), right.copy()
        z = left / diagonal
        way, energy = z.copy(), np.sum(left * z, axis=1)
        first, products = energy, 0
        while products < _PRODUCTS:
            products += 1
            product = hessian_products(
                self.posterior,
                self.example,
                here,
                np.asarray(way, self.dtype),
                self.key,
                np.int32(rows),
            )
            turned = np.asarray(product, np.float64)
            step = energy / np.maximum(np.sum(way * turned, axis=1), 1e-300)
            x, left = x + step[:, None] * way, left - step[:, None] * turned
            z = left / diagonal
            now = np.sum(left * z, axis=1)
            if not np.any(now > share**2 * first):
                break
            way, energy = z + (now / np.maximum(energy, 1e-300))[:, None] * way, now
        return x, products

    def stiffness(self, at: np.ndarray, diagonal: np.ndarray) -> float:
        """The largest curvature in coordinates of the size 1 / sqrt(diagonal), about."""
        here, unit = np.asarray(at, self.dtype), 1.0 / np.sqrt(diagonal)
        way, largest = np.random.default_rng(0).normal(size=at.size), 1.0
        rows = np.int32(min(_FIRST_ROWS, self.rows))
        for _ in range(_POWERS):
            way /= np.linalg.norm(way)
            ways = np.asarray((unit * way)[None], self.dtype)
            product = hessian_products(self.posterior, self.example, here, ways, self.key, rows)
            way = unit * np.asarray(product[0], np.float64)
            largest = float(np.linalg.norm(way))
        return largest

    def slope(self, at: np.ndarray, reference: np.ndarray, rows: int) -> tuple[float, np.ndarray]:
        """U less that at the reference, and its gradient, on so many rows."""
        found = full_pass(self.posterior, self.example, at[None], reference, rows, self.key)
        return float(found.value[0]), found.grads[0]

    def mode(self, start: np.ndarray, near: float) -> tuple[np.ndarray, np.ndarray, float] | None:
        """A position near the mode, the diagonal of the Hessian there, and passes over all rows.

        Args:
          start: where to begin.
          near: the squared distance from the mode, over d, that is near.

        Returns:
          None if no mode was found.
        """
        theta, passes = np.asarray(start, np.float64), 0.0
        diagonal = np.ones_like(theta)
        for rows in sorted({min(_FIRST_ROWS, self.rows), self.rows}):
            chance = max(near, 0.1 * (self.posterior.size / rows - 1.0))
            found = self._descended(theta, rows, chance)
            if found is None:
                return None
            theta, diagonal, more = found
            passes += more * rows / self.posterior.size
        if self.rows == self.posterior.size:
            return theta, diagonal, passes
        for _ in range(_FULL_PASSES):
            _, slope = self.slope(theta, theta, self.posterior.size)
            step, more = self.solved(theta, diagonal, -slope[None], self.rows, _NEWTON_SOLVED)
            passes += 1.0 + more * self.rows / self.posterior.size
            away = -float(step[0] @ slope)
            if not math.isfinite(away):
                return None
            if away < near * theta.size:
                return theta, diagonal, passes
            theta = theta + step[0]
        return None

    def _descended(
        self, theta: np.ndarray, rows: int, near: float
    ) -> tuple[np.ndarray, np.ndarray, float] | None:
        """Where guarded Newton steps lead, the diagonal there, and passes over these rows."""
        passes = 0.0
        for _ in range(_NEWTON_STEPS):
            diagonal = self.diagonal(theta)
            _, slope = self.slope(theta, theta, rows)
            steps, more = self.solved(theta, diagonal, -slope[None], rows, _NEWTON_SOLVED)
            step, away = steps[0], -float(steps[0] @ slope)
            passes += 1.0 + more
            if not math.isfinite(away):
                return None
            if away < near * theta.size:
                return theta, diagonal, passes
            for _ in range(_HALVINGS):
                passes += 1.0
                if self.slope(theta + step, theta, rows)[0] < -1e-4 * away:
                    break
                step = 0.25 * step
            else:
                return None
            theta = theta + step
        return None

    def typical(self, centre: np.ndarray, diagonal: np.ndarray, number: int) -> np.ndarray:
        """Draws of the normal law that U has at the centre, (number, d), less the centre."""
        random = np.random.default_rng(np.asarray(self.key, np.uint32).tolist())
        scores = slopes_by_chance(
            self.posterior,
            self.example,
            np.asarray(centre, self.dtype),
            random.normal(size=(number, self.rows)).astype(self.dtype),
            self.key,
            rows=self.rows,
        )
        right = math.sqrt(self.posterior.size / self.rows) * np.asarray(scores, np.float64)
        right += np.sqrt(self.of_prior(centre)) * random.normal(size=right.shape)
        return self.solved(centre, diagonal, right, self.rows, _SOLVED)[0]

    def loudest(
        self, draws: np.ndarray, centre: np.ndarray, unit: np.ndarray
    ) -> tuple[float, float]:
        """The largest variance of a row's noise at ``draws``, without the centre and with it.

        About, and in coordinates of the size ``unit``.
        """
        found = slopes_of_rows(
            self.posterior,
            self.example,
            np.asarray(draws, self.dtype),
            np.asarray(centre, self.dtype),
            self.key,
            rows=_ROWS_OF_DRAW,
        )
        both = []
        for slopes in found:
            away = np.asarray(slopes, np.float64) * unit * self.posterior.size
            away -= away.mean(axis=1, keepdims=True)
            size = scales.widest(away.reshape(-1, away.shape[-1]))
            both.append(size if math.isfinite(size) else math.inf)
        return both[0], both[1]
