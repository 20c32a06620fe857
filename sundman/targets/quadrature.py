"""Gauss-Legendre panels in double precision: expectations, masses of cells, and draws from them.

An interval is cut at its edges and then into panels no longer than the scale on which the
density varies; eight points a panel leave errors near rounding. Functions are given points
of shape (dim, nodes), so that ``x[0]`` is the first coordinate as it is of one position.

Independent draws, for densities without a direct sampler, come from a table of cells. A cell is
chosen by its mass, exact by quadrature and kept to 2^-32, then a point in it by inverting the
linear or bilinear density through its corners. The law of the draws is the target's up to the
curvature of the density within a cell. The table is made at the first draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array
from numpy.typing import NDArray

from sundman.targets.base import Floats

DEPTH = 46.0  # exp(-DEPTH) = 1e-20: where U exceeds its least value by DEPTH T, nothing is left


class Panels(NamedTuple):
    """Nodes and weights on a line, and the number of the first node of each cell."""

    nodes: Floats
    weights: Floats
    first: NDArray[np.int64]


def panels(edges: Floats, longest: float, order: int = 8) -> Panels:
    """Each cell [edges[i], edges[i+1]] in equal panels no longer than ``longest``.

    Args:
      edges: of the cells, increasing.
      longest: the greatest length of a panel.
      order: the number of nodes in each panel.

    Returns:
      The nodes of all panels, with their weights.
    """
    lengths = np.diff(edges)
    counts = np.maximum(1, np.ceil(lengths / longest)).astype(np.int64)
    first = np.cumsum(counts) - counts
    rank = np.arange(int(counts.sum())) - np.repeat(first, counts)
    half = np.repeat(lengths / counts, counts) / 2
    centre = np.repeat(edges[:-1], counts) + (2 * rank + 1) * half
    points, weights = np.polynomial.legendre.leggauss(order)
    nodes = centre[:, None] + half[:, None] * points
    return Panels(nodes.ravel(), (half[:, None] * weights).ravel(), first * order)


class Rule(NamedTuple):
    """Points of shape (dim, nodes) and weights that sum to one: E[f] = sum of weights f."""

    points: Floats
    weights: Floats
    log_normalizer: float

    def mean(self, f: Callable[[Floats], Floats]) -> float:
        """The expectation of f."""
        return float(np.sum(self.weights * np.asarray(f(self.points))))

    def central(self, axis: int, outside: float = 1e-3) -> tuple[float, float]:
        """The central interval of a coordinate, with mass ``outside`` left out."""
        order = np.argsort(self.points[axis])
        mass = np.cumsum(self.weights[order])
        ends = self.points[axis][order][np.searchsorted(mass, [outside / 2, 1 - outside / 2])]
        return float(ends[0]), float(ends[1])


def rule(
    potential: Callable[[Floats], Floats],
    temperature: float,
    edges: Sequence[Sequence[float]],
    longest: float,
) -> Rule:
    """The rule for exp(-U/T) on the box whose sides are cut at ``edges``, one list per axis.

    Args:
      potential: U, in NumPy.
      temperature: T.
      edges: where each axis is cut, the ends included.
      longest: the greatest length of a panel.

    Returns:
      The rule, normalised.
    """
    axes = [panels(np.asarray(side, np.float64), longest) for side in edges]
    mesh = np.meshgrid(*(axis.nodes for axis in axes), indexing="ij")
    points = np.stack([side.ravel() for side in mesh])
    measure = axes[0].weights
    for axis in axes[1:]:
        measure = np.multiply.outer(measure, axis.weights).ravel()
    energy = np.asarray(potential(points))
    least = energy.min()
    mass = np.exp((least - energy) / temperature) * measure
    total = mass.sum()
    return Rule(points, mass / total, float(math.log(total) - least / temperature))


def support(
    potential: Callable[[Floats], Floats], temperature: float, box: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """The least box within ``box`` where U is within DEPTH T of its minimum, by zooming in.

    Args:
      potential: U, in NumPy.
      temperature: T.
      box: the two ends of each axis, to begin with.

    Returns:
      The two ends of each axis.
    """
    sides = [np.linspace(low, high, 161) for low, high in box]
    for _ in range(4):
        mesh = np.stack(np.meshgrid(*sides, indexing="ij"))
        energy = np.asarray(potential(mesh))
        inside = np.nonzero(energy < energy.min() + DEPTH * temperature)
        ranges = [(max(i.min() - 2, 0), min(i.max() + 2, 160)) for i in inside]
        if all(last - first > 120 for first, last in ranges):
            break
        sides = [
            np.linspace(side[first], side[last], 161)
            for side, (first, last) in zip(sides, ranges, strict=True)
        ]
    return [(float(side[0]), float(side[-1])) for side in sides]


def line_cells(
    density: Callable[[Floats], Floats], edges: Floats, longest: float, order: int = 8
) -> Floats:
    """The integral of a density over each cell of a line.

    Args:
      density: of points (1, nodes).
      edges: of the cells, increasing.
      longest: the greatest length of a panel.
      order: the number of nodes in each panel.

    Returns:
      One mass for each cell.
    """
    nodes, weights, first = panels(edges, longest, order)
    return np.add.reduceat(weights * density(nodes[None]), first)


def plane_cells(
    density: Callable[[Floats], Floats],
    edges_x: Floats,
    edges_y: Floats,
    longest: float,
    order: int = 8,
) -> Floats:
    """The integral of a density over each cell of a grid, one column of cells at a time.

    Args:
      density: of points (2, ...).
      edges_x: of the cells along the first axis.
      edges_y: of the cells along the second axis.
      longest: the greatest length of a panel.
      order: the number of nodes in each panel.

    Returns:
      The masses, (cell along x, cell along y).
    """
    across = panels(edges_y, longest, order)
    columns: list[Floats] = []
    for ends in pairwise(edges_x):
        along = panels(np.array(ends), longest, order)
        points = np.stack(np.meshgrid(along.nodes, across.nodes, indexing="ij"))
        columns.append(
            np.add.reduceat(across.weights * (along.weights @ density(points)), across.first)
        )
    return np.stack(columns)


def ridge_cells(
    density: Callable[[Floats], Floats],
    mean: Callable[[Floats], Floats],
    deviation: Callable[[Floats], Floats],
    edges: Floats,
    across: Floats,
    longest: float,
) -> Floats:
    """Cell masses where s has a density and, given s, z is N(mean(s), deviation(s)^2).

    z is integrated in closed form, so ridges may be as narrow as they like.

    Args:
      density: of s.
      mean: of z given s.
      deviation: the standard deviation of z given s.
      edges: of the cells along s.
      across: the edges of the cells along z.
      longest: the greatest length of a panel along s.

    Returns:
      The masses, (cell along s, cell along z).
    """
    nodes, weights, first = panels(edges, longest)
    below = scipy.special.ndtr((across - mean(nodes)[:, None]) / deviation(nodes)[:, None])
    return np.add.reduceat((weights * density(nodes))[:, None] * np.diff(below), first)


Sampler = Callable[[Array, int], Array]


class CellTable(NamedTuple):
    """Cells with their cumulative masses in units of 2^-32, lower corners, sizes and shapes."""

    cumulative: np.ndarray
    lower: np.ndarray
    size: np.ndarray
    corners: np.ndarray


def _table(mass: Floats, lower: Floats, size: Floats, corners: Floats) -> CellTable:
    """``corners``: the density at each cell's 2 or 4 corners, the last coordinate fastest."""
    share = np.cumsum(mass) / mass.sum()
    cumulative = np.minimum(np.rint(share[:-1] * 2.0**32), 2.0**32 - 1).astype(np.uint32)
    shape = corners / np.maximum(corners.sum(axis=-1, keepdims=True), 1e-300)
    return CellTable(cumulative, *(array.astype(np.float32) for array in (lower, size, shape)))


def _linear(u: Array, start: Array, end: Array) -> Array:
    """The u-quantile of the density on [0, 1] that runs linearly from ``start`` to ``end``."""
    a = start / (start + end)
    return u / (a + jnp.sqrt(jnp.maximum(a * a + u * (1.0 - 2.0 * a), 0.0)))


def _draw(table: CellTable, key: Array, n: int) -> Array:
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

    def __init__(self, build: Callable[[], CellTable]) -> None:
        self._build = build
        self._table: CellTable | None = None

    def __call__(self, key: Array, n: int) -> Array:
        """``n`` independent draws."""
        if self._table is None:
            self._table = self._build()
        return _draw(self._table, key, n)

    def __getstate__(self) -> dict[str, object]:
        """Without the table, which can be built again."""
        return {"_build": self._build, "_table": None}


def line_sampler(density: Callable[[Floats], Floats], low: float, high: float) -> Sampler:
    """Draws of shape (n, 1) from a density on [low, high], by 4096 cells.

    Args:
      density: of points (1, nodes).
      low: the lower end.
      high: the upper end.

    Returns:
      A function of a key and the number of draws.
    """

    def table() -> CellTable:
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
    """Draws of shape (n, 2) from a density on a box, by cells no longer than ``longest``.

    Args:
      density: of points (2, ...).
      box: the two ends of each axis.
      longest: the greatest length of a cell.

    Returns:
      A function of a key and the number of draws.
    """

    def table() -> CellTable:
        edges = [np.linspace(low, high, 2 + int((high - low) / longest)) for low, high in box]
        value = density(np.stack(np.meshgrid(*edges, indexing="ij")))
        corners = [value[:-1, :-1], value[:-1, 1:], value[1:, :-1], value[1:, 1:]]
        lower = np.meshgrid(*(side[:-1] for side in edges), indexing="ij")
        size = np.meshgrid(*(np.diff(side) for side in edges), indexing="ij")
        mass = plane_cells(density, *edges, longest=np.inf, order=3)
        occupied = mass > 1e-12
        return _table(
            mass[occupied], *(np.stack(each, axis=-1)[occupied] for each in (lower, size, corners))
        )

    return TableSampler(table)
