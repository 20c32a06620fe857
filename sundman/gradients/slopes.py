"""U and its gradient along short lines: do they belong together, and does U jump?

Along a line from x to x + v the change of U is the integral of its slope,

    U(x + b v) - U(x + a v) = int_a^b v . G(x + t v) dt

Both are computed at five points of a line, always on the same rows, and so in four pieces. Where
the slope is monotonic the integral over a piece lies between the length of the piece times the
slopes at its ends. A kink in U turns the slope and a jump in U is in one piece, so that neither
looks like a gradient that belongs to another U: that is off in at least three pieces of four, on
lines along which U and slope are smooth, however short.

Where one piece alone is off it is halved time and again: what stays off is a jump.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman._types import PyTree
from sundman.gradients.base import Exact, GradientEstimator, Noisy
from sundman.gradients.minibatch import minibatch
from sundman.native.split_gradient import dense
from sundman.noise import Stream
from sundman.posterior import Posterior

LINES = 48  # of a measurement, so that all of a run share what is compiled
_POINTS = np.linspace(0.0, 1.0, 5)
_HALVINGS = 14  # of a piece with a jump: then it is far shorter than any scale of a step
_ROUNDINGS = 8.0  # so many roundings of U may be chance
_ROWS = 2000  # of a posterior, at most
_ELEMENTS = 2**23  # numbers of positions, and of directions, in memory
_SMALL_JUMP = 0.1  # in units of T: what is less is not looked into
_HIGH = 5.0  # in units of T above both ends of a line: a chain is hardly ever there
_FEWEST_TOLD, _BEYOND_DOUBT = 8, 4.0  # lines, and times what quadrature and rounding may do
_BENDS = 0.25  # of the change of U: along a line that bends by more nothing is told
_Point: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
"""U, slope and what rounding may do to U, at one point of every line."""


class Slopes(NamedTuple):
    """What was measured, one number for each line.

    Attributes:
      line: lines of the same number are one direction at one position, of several lengths.
      excess: by how much the change of U is beyond what the slopes allow in three pieces of four,
        as a share of the larger of the two.
      told: by how much it could be seen to be, at most: 0 where nothing can be told, because of
        rounding or because the line is not straight enough.
      change: of U from end to end.
      work: the integral of the slope, by five points.
      doubt: how far work may be from the change: by rounding, and by what three points give.
      jump: the largest jump of U that was found on it, in units of T.
    """

    line: np.ndarray
    excess: np.ndarray
    told: np.ndarray
    change: np.ndarray
    work: np.ndarray
    doubt: np.ndarray
    jump: np.ndarray

    def as_numbers(self) -> dict[str, list[float]]:
        """Lists by name, of few digits, for a file."""
        return {
            name: [float(f"{number:.4g}") for number in column]
            for name, column in self._asdict().items()
        }

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, list[float]]) -> Slopes:
        """What :meth:`as_numbers` gave."""
        return cls(*(np.asarray(numbers[name], np.float64) for name in cls._fields))

    def disagreement(self, share: float = 0.1) -> tuple[int, int, float]:
        """How many directions were told, on how many of them U and slope disagree at all lengths.

        Args:
          share: what an excess must be above.

        Returns:
          Both numbers; and the median of the slope over the slope that U has, where they disagree.
        """
        told = self.told > 2.0 * share
        lines = np.unique(self.line[told])
        off = [line for line in lines if (self.excess[told & (self.line == line)] > share).all()]
        among = told & np.isin(self.line, off) & (self.change != 0)
        ratio = float(np.median(self.work[among] / self.change[among])) if among.any() else 1.0
        return len(lines), len(off), ratio

    def unaccounted(self) -> float:
        """The share of the change of U that is not in the integral of the slope, where it is sure.

        The median over lines; 0 unless on most of them it is far beyond doubt. A gradient that is
        wrong in one coordinate of many is seen here, since of a smooth U the integral has many
        digits. Kinks make doubt as large as the error, and single lines may be without luck.
        """
        apart = abs(self.change - self.work)
        size = np.maximum(abs(self.change), abs(self.work))
        told = size > self.doubt
        if np.count_nonzero(told) < _FEWEST_TOLD:
            return 0.0
        sure = np.where(apart > _BEYOND_DOUBT * self.doubt, apart / np.where(told, size, 1.0), 0.0)
        return float(np.median(sure[told]))


def comparable(gradient: GradientEstimator, rows: int = _ROWS) -> GradientEstimator | None:
    """An estimator whose G is to be the gradient of its U; None if there is none.

    Args:
      gradient: any; noise is taken away, and of a posterior's estimators its minibatches are taken.
      rows: of a posterior, at most.
    """
    posterior = getattr(gradient, "posterior", None)
    ours = type(gradient).__module__.startswith("sundman.gradients")
    if isinstance(posterior, Posterior) and ours:
        few = min(rows, _ROWS)
        known = posterior.host is None
        return minibatch(posterior, few if few < posterior.size else None) if known else None
    if isinstance(gradient, Noisy):
        return Exact(gradient.potential)
    return gradient if gradient.agrees else None


def most_lines(size: int) -> int:
    """How many lines there is room for, in positions of ``size`` numbers."""
    return int(np.clip(_ELEMENTS // max(size, 1), 8, LINES))


@jax.jit
def _evaluate(
    gradient: GradientEstimator, starts: PyTree, lines: PyTree, t: Array
) -> tuple[Array, Array, Array]:
    """U at start + t line, the slope there, and the size of the numbers that were rounded."""

    def total(one: PyTree, other: PyTree) -> Array:
        products = jax.tree.map(lambda a, b: jnp.sum(a * b), one, other)
        return jnp.asarray(sum(jax.tree.leaves(products)))

    def at(item: tuple[PyTree, PyTree, Array]) -> tuple[Array, Array, Array]:
        start, line, t = item
        here = jax.tree.map(lambda x, v: x + t.astype(x.dtype) * v, start, line)
        one_batch = Stream(jnp.array([0x5EED, 0x510E], jnp.uint32), jnp.uint32(0))
        value, grads = gradient(one_batch, here)
        grads = dense(grads)
        sizes = jax.tree.map(lambda x, v: jnp.abs(x) + jnp.abs(v), here, line)
        size = jnp.abs(value) + total(jax.tree.map(jnp.abs, grads), sizes)
        return value, total(grads, line), size

    return jax.lax.map(at, (starts, lines, t))


class _Along:
    """U, slopes and rounding errors along lines, as NumPy arrays."""

    def __init__(self, gradient: GradientEstimator, starts: PyTree, lines: PyTree) -> None:
        self._gradient, self._starts, self._lines = gradient, starts, lines
        leaves = jax.tree.leaves(starts)
        self.number = len(leaves[0])
        self._precision = max(float(jnp.finfo(leaf.dtype).eps) for leaf in leaves)

    def at(self, t: np.ndarray) -> _Point:
        """At one t of each line."""
        found = _evaluate(self._gradient, self._starts, self._lines, jnp.asarray(t, jnp.float32))
        U, slope, size = (np.asarray(column, np.float64) for column in found)
        return U, slope, self._precision * size


def _beyond(change: np.ndarray, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """How far the change of U is outside of what the slopes at both ends allow."""
    return np.maximum(np.minimum(one, other) - change, change - np.maximum(one, other)).clip(0.0)


def measure(
    gradient: GradientEstimator,
    starts: PyTree,
    lines: PyTree,
    number: np.ndarray,
    temperature: float = 1.0,
    jumps: np.ndarray | None = None,
) -> Slopes:
    """Measure along lines; those on which U or its slope is not finite are left out.

    Args:
      gradient: whose G is to be the gradient of its U.
      starts: where each line begins, a pytree with a leading axis.
      lines: from there to its end.
      number: of each line; one direction at one position has one.
      temperature: T.
      jumps: on which of them jumps are looked for; on none if None.
    """
    along = _Along(gradient, starts, lines)
    with np.errstate(all="ignore"):
        points = [along.at(np.full(along.number, t)) for t in _POINTS]
        told, excess, work, doubt = _compared(points)
        found = np.zeros(along.number)
        if jumps is not None:
            found = np.where(jumps, _jumps(along, points, temperature), 0.0)
    U, slope, _ = (np.stack(column) for column in zip(*points, strict=True))
    known = np.isfinite(U).all(axis=0) & np.isfinite(slope).all(axis=0)
    columns = (np.asarray(number, np.float64), excess, told, U[-1] - U[0], work, doubt, found)
    return Slopes(*(np.nan_to_num(column)[known] for column in columns))


def _compared(points: Sequence[_Point]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """How much could be told along each line, the excess, the integral of the slope, its doubt."""
    U, slope, rounding = (np.stack(column) for column in zip(*points, strict=True))
    rounding = _ROUNDINGS * rounding.max(axis=0)
    work, change = slope * (_POINTS[1] - _POINTS[0]), np.diff(U, axis=0)
    scale = np.maximum.reduce([abs(change), abs(work[:-1]), abs(work[1:])])
    beyond = _beyond(change, work[:-1], work[1:])
    # the second smallest of four: what is so in three pieces
    excess = np.sort((beyond - rounding) / scale, axis=0)[1]
    width = abs(np.diff(work, axis=0))
    told = np.sort((scale - rounding - width) / scale, axis=0)[1]
    whole = np.tensordot([7, 32, 12, 32, 7], slope, axes=1) / 90.0  # Boole's rule and Simpson's
    coarse = np.tensordot([1, 4, 1], slope[::2], axes=1) / 6.0
    bend = abs(np.tensordot([-1, 3, -3, 1], change, axes=1)) - len(points) * rounding
    straight = (bend < _BENDS * abs(change).sum(axis=0)) & (
        abs(whole - coarse) < _BENDS * abs(slope).mean(axis=0)
    )
    doubt = abs(whole - coarse) + rounding
    return np.where(straight, told, 0.0).clip(0.0), excess.clip(0.0), whole, doubt


def _jumps(along: _Along, points: Sequence[_Point], temperature: float) -> np.ndarray:
    """The change of U, in units of T, that stays where pieces are halved time and again.

    The piece, and then the half, in which U changes least as its slope says is gone on with. What
    lies so high above both ends of its line that a chain hardly comes there does not count.
    """
    each = np.arange(along.number)
    off = np.stack([_off(*pair) for pair in itertools.pairwise(_with_places(points))])
    which = np.argmax(np.nan_to_num(off), axis=0)
    columns = [np.stack(column) for column in zip(*_with_places(points), strict=True)]
    one, other = ([column[i, each] for column in columns] for i in (which, which + 1))

    def rounding() -> np.ndarray:
        return 2.0 * _ROUNDINGS * np.maximum(one[3], other[3])

    for _ in range(_HALVINGS):
        if not (_off(one, other) - rounding() > _SMALL_JUMP * temperature).any():
            return np.zeros(along.number)
        t = 0.5 * (one[0] + other[0])
        middle = [t, *along.at(t)]
        first = _off(one, middle) >= _off(middle, other)
        one = [np.where(first, a, b) for a, b in zip(one, middle, strict=True)]
        other = [np.where(first, a, b) for a, b in zip(middle, other, strict=True)]
    length = other[0] - one[0]
    rest = _beyond(other[1] - one[1], length * one[2], length * other[2]) - rounding()
    top = np.maximum(points[0][0], points[-1][0]) + _HIGH * temperature
    met = np.minimum(one[1], other[1]) < top
    return np.where(met, rest / temperature, 0.0).clip(0.0)


def _with_places(points: Sequence[_Point]) -> list[list[np.ndarray]]:
    return [[np.full_like(p[0], t), *p] for t, p in zip(_POINTS, points, strict=True)]


def _off(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> np.ndarray:
    """How far the change of U between two points is from the mean of their slopes."""
    return abs(other[1] - one[1] - 0.5 * (other[0] - one[0]) * (one[2] + other[2]))
