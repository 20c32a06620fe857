"""Leaves that may live on disk: read them a bounded piece at a time.

A leaf has the axes (chain, draw, ...). It is a numpy array, or anything with ``shape``, ``dtype``,
``ndim`` and ``__getitem__`` that takes slices, and an integer array on one axis, and returns numpy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import jax
import numpy as np
from numpy.typing import DTypeLike

from sundman._types import DrawsArray, Index, PyTree

BLOCK_BYTES = 64 * 2**20
IN_MEMORY, ON_DISK = 4 * 2**20, 32 * 2**20  # numbers worked on at a time


def draws_per_block(values: PyTree) -> int:
    """How many draws of all chains fit into ``BLOCK_BYTES``; one at least."""
    one = sum(
        np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape) // max(leaf.shape[1], 1)
        for leaf in jax.tree.leaves(values)
    )
    return max(1, BLOCK_BYTES // max(one, 1))


def draw_slices(draws: int, size: int) -> Iterator[slice]:
    """Consecutive slices of ``size`` draws, the last one shorter if need be."""
    for first in range(0, draws, size):
        yield slice(first, min(first + size, draws))


def ends_of_weight(weight: DrawsArray) -> np.ndarray:
    """For each chain how many draws there are up to the last that counts; 0 if none does."""
    ends = np.zeros(weight.shape[0], int)
    for part in reversed([*draw_slices(weight.shape[1], max(1, IN_MEMORY // len(ends)))]):
        counts = weight[:, part] > 0
        last = counts.shape[1] - np.argmax(counts[:, ::-1], axis=1)
        ends = np.where((ends == 0) & counts.any(axis=1), part.start + last, ends)
        if (ends > 0).all():
            break
    return ends


def elements_per_pass(leaf: DrawsArray) -> int:
    """How many numbers of a leaf to work on; more on disk, where each pass reads all of it."""
    return IN_MEMORY if isinstance(leaf, np.ndarray) else ON_DISK


def component_slices(shape: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Pieces of an array of this shape, each of at most ``most`` elements, in order."""
    if not shape:
        yield ()
        return
    row = math.prod(shape[1:])
    if row > most:
        for i in range(shape[0]):
            for rest in component_slices(shape[1:], most):
                yield (slice(i, i + 1), *rest)
        return
    for piece in draw_slices(shape[0], max(1, most // max(row, 1))):
        yield (piece, *(slice(0, length) for length in shape[1:]))


def gather(leaf: DrawsArray, rows: np.ndarray) -> np.ndarray:
    """The draws numbered ``rows``, counted chain after chain, in the order given."""
    chain, draw = np.divmod(np.asarray(rows), leaf.shape[1])
    if isinstance(leaf, np.ndarray):
        return leaf[chain, draw]
    gathered = np.empty((len(chain), *leaf.shape[2:]), leaf.dtype)
    wanted, place = np.unique(draw, return_inverse=True)
    for part in draw_slices(len(wanted), draws_per_block(leaf)):
        first, last = wanted[part.start], wanted[part.stop - 1]
        together = last - first == part.stop - part.start - 1
        piece = np.asarray(leaf[:, slice(first, last + 1) if together else wanted[part]])
        here = np.flatnonzero((place >= part.start) & (place < part.stop))
        gathered[here] = piece[chain[here], place[here] - part.start]
    return gathered


def window(leaf: DrawsArray, rows: range) -> DrawsArray:
    """Some draws of a leaf, evenly spaced: a view of a numpy array, else a :class:`DrawSlice`."""
    if isinstance(leaf, np.ndarray):
        return leaf[:, _as_slice(rows)]
    return DrawSlice(leaf, rows)


def _as_slice(rows: range) -> slice:
    return slice(rows.start, rows.stop, rows.step)


class DrawSlice:
    """Evenly spaced draws of a leaf on disk, read when indexed."""

    def __init__(self, leaf: DrawsArray, rows: range) -> None:
        """``rows`` are draws of ``leaf``, with a positive step."""
        self._leaf, self._rows = leaf, rows
        self.shape = (leaf.shape[0], len(rows), *leaf.shape[2:])
        self.dtype = leaf.dtype
        self.ndim = leaf.ndim

    def __getitem__(self, index: Index) -> np.ndarray:
        """As numpy's, for slices, whole numbers, and an integer array on one axis."""
        index = index if isinstance(index, tuple) else (index,)
        if Ellipsis in [i for i in index if not isinstance(i, np.ndarray)]:
            at = next(i for i, part in enumerate(index) if part is Ellipsis)
            missing = (slice(None),) * (self.ndim - len(index) + 1)
            index = (*index[:at], *missing, *index[at + 1 :])
        chain, draw, *rest = (*index, slice(None), slice(None))[: max(2, len(index))]
        if isinstance(draw, slice):
            if draw.step is not None and draw.step < 0:
                raise ValueError(f"draws on disk are read forwards: the step is {draw.step}")
            draw = _as_slice(self._rows[draw])
        elif np.ndim(draw) == 0:
            draw = self._rows[draw]
        else:
            draw = np.arange(self._rows.start, self._rows.stop, self._rows.step)[draw]
        return self._leaf[(chain, draw, *rest)]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """All of it, in memory."""
        if copy is False:
            raise ValueError("these draws are on disk: an array of them is always a copy")
        return np.asarray(self[:], dtype)
