"""Independent draws from a table of cells, for densities without a direct sampler.

A cell is chosen by its mass, exact by quadrature and kept to 2^-32, then a point in it by
inverting the linear or bilinear density through its corners. The law of the draws is the
target's up to the curvature of the density within a cell. The table is made at the first draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman.targets.base import Floats
from sundman.targets.quadrature import line_cells, plane_cells

Sampler = Callable[[Array, int], Array]


class Table(NamedTuple):
    """Cells with their cumulative masses in units of 2^-32, lower corners, sizes and shapes."""

    cumulative: np.ndarray
    lower: np.ndarray
    size: np.ndarray
    corners: np.ndarray


def _table(mass: Floats, lower: Floats, size: Floats, corners: Floats) -> Table:
    """``corners``: the density at each cell's 2 or 4 corners, the last coordinate fastest."""
    share = np.cumsum(mass) / mass.sum()
    cumulative = np.minimum(np.rint(share[:-1] * 2.0**32), 2.0**32 - 1).astype(np.uint32)
    shape = corners / np.maximum(corners.sum(axis=-1, keepdims=True), 1e-300)
    return Table(cumulative, *(array.astype(np.float32) for array in (lower, size, shape)))


def _linear(u: Array, start: Array, end: Array) -> Array:
    """The u-quantile of the density on [0, 1] that runs linearly from ``start`` to ``end``."""
    a = start / (start + end)
    return u / (a + jnp.sqrt(jnp.maximum(a * a + u * (1.0 - 2.0 * a), 0.0)))


def _draw(table: Table, key: Array, n: int) -> Array:
    which, within = jax.random.split(key)
    dim = table.lower.shape[-1]
    bits = jax.random.bits(which, (n,), jnp.uint32)
    cell = jnp.searchsorted(jnp.asarray(table.cumulative), bits, side="right")
    u = 1.0 - jax.random.uniform(within, (n, dim), jnp.float32)
    shape = jnp.asarray(table.corners)[cell]
    fractions: list[Array] = []
    for axis in range(dim):
        start, end = jnp.split(shape, 2, axis=-1)
        t = _linear(u[:, axis], start.sum(-1), end.sum(-1))
        shape = (1.0 - t)[:, None] * start + t[:, None] * end
        fractions.append(t)
    step = jnp.asarray(table.size)[cell] * jnp.stack(fractions, axis=-1)
    return jnp.asarray(table.lower)[cell] + step


class TableSampler:
    """``sampler(key, n)``: draws from a table that is built when it is first needed."""

    def __init__(self, build: Callable[[], Table]) -> None:
        self._build = build
        self._table: Table | None = None

    def __call__(self, key: Array, n: int) -> Array:
        """``n`` independent draws."""
        if self._table is None:
            self._table = self._build()
        return _draw(self._table, key, n)

    def __getstate__(self) -> dict[str, Any]:
        """Without the table, which can be built again."""
        return {"_build": self._build, "_table": None}


def line_sampler(density: Callable[[Floats], Floats], low: float, high: float) -> Sampler:
    """Draws of shape (n, 1) from a density on [low, high], by 4096 cells."""

    def table() -> Table:
        edges = np.linspace(low, high, 4097)
        size = np.diff(edges)
        value = density(edges[None])
        mass = line_cells(density, edges, np.inf, 3)
        return _table(
            mass, edges[:-1, None], size[:, None], np.stack([value[:-1], value[1:]], axis=-1)
        )

    return TableSampler(table)


def plane_sampler(
    density: Callable[[Floats], Floats], box: Sequence[tuple[float, float]], longest: float
) -> Sampler:
    """Draws of shape (n, 2) from a density on a box, by cells no longer than ``longest``."""

    def table() -> Table:
        edges = [np.linspace(low, high, 2 + int((high - low) / longest)) for low, high in box]
        value = density(np.stack(np.meshgrid(*edges, indexing="ij")))
        corners = [value[:-1, :-1], value[:-1, 1:], value[1:, :-1], value[1:, 1:]]
        lower = np.meshgrid(*(side[:-1] for side in edges), indexing="ij")
        size = np.meshgrid(*(np.diff(side) for side in edges), indexing="ij")
        mass = plane_cells(density, *edges, longest=np.inf, order=3)
        kept = mass > 1e-12
        return _table(
            mass[kept], *(np.stack(each, axis=-1)[kept] for each in (lower, size, corners))
        )

    return TableSampler(table)
