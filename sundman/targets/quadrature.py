"""Gauss-Legendre panels in double precision: expectations and the masses of cells.

An interval is cut at its edges and then into panels no longer than the scale on which the
density varies; eight points a panel leave errors near rounding. Functions are given points
of shape (dim, nodes), so that ``x[0]`` is the first coordinate as it is of one position.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from sundman.targets.base import Floats

DEPTH = 46.0  # exp(-DEPTH) = 1e-20: where U exceeds its least value by DEPTH T, nothing is left


class Panels(NamedTuple):
    """Nodes and weights on a line, and the number of the first node of each cell."""

    nodes: Floats
    weights: Floats
    first: NDArray[np.int64]


def panels(edges: Floats, longest: float, order: int = 8) -> Panels:
    """Each cell [edges[i], edges[i+1]] in equal panels no longer than ``longest``."""
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

    def mean(self, f: Callable[[Any], Any]) -> float:
        """The expectation of f."""
        return float(np.sum(self.weights * np.asarray(f(self.points))))

    def central(self, axis: int, outside: float = 1e-3) -> tuple[float, float]:
        """The central interval of a coordinate, with mass ``outside`` left out."""
        order = np.argsort(self.points[axis])
        mass = np.cumsum(self.weights[order])
        ends = self.points[axis][order][np.searchsorted(mass, [outside / 2, 1 - outside / 2])]
        return float(ends[0]), float(ends[1])


def rule(
    potential: Callable[[Any], Any],
    temperature: float,
    edges: Sequence[Sequence[float]],
    longest: float,
) -> Rule:
    """The rule for exp(-U/T) on the box whose sides are cut at ``edges``, one list per axis."""
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
    potential: Callable[[Any], Any], temperature: float, box: Sequence[tuple[float, float]]
) -> list[tuple[float, float]]:
    """The least box within ``box`` where U is within DEPTH T of its minimum, by zooming in."""
    sides = [np.linspace(low, high, 161) for low, high in box]
    for _ in range(4):
        mesh = np.stack(np.meshgrid(*sides, indexing="ij"))
        energy = np.asarray(potential(mesh))
        inside = np.nonzero(energy < energy.min() + DEPTH * temperature)
        found = [(max(i.min() - 2, 0), min(i.max() + 2, 160)) for i in inside]
        if all(last - first > 120 for first, last in found):
            break
        sides = [
            np.linspace(side[first], side[last], 161)
            for side, (first, last) in zip(sides, found, strict=True)
        ]
    return [(float(side[0]), float(side[-1])) for side in sides]


def line_cells(
    density: Callable[[Floats], Floats], edges: Floats, longest: float, order: int = 8
) -> Floats:
    """The integral of a density over each cell of a line."""
    nodes, weights, first = panels(edges, longest, order)
    return np.add.reduceat(weights * density(nodes[None]), first)


def plane_cells(
    density: Callable[[Floats], Floats],
    edges_x: Floats,
    edges_y: Floats,
    longest: float,
    order: int = 8,
) -> Floats:
    """The integral of a density over each cell of a grid, one column of cells at a time."""
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
    """
    nodes, weights, first = panels(edges, longest)
    below = scipy.special.ndtr((across - mean(nodes)[:, None]) / deviation(nodes)[:, None])
    return np.add.reduceat((weights * density(nodes))[:, None] * np.diff(below), first)
