"""An array of a run on disk, indexed like NumPy's, of which only the chunks asked for are read."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import DTypeLike

from sundman._types import Index
from sundman.store.arrays import Arrays


class LazyArray:
    """An array on disk, read when it is asked for; every chunk that is read is checked."""

    def __init__(self, arrays: Arrays, name: str) -> None:
        self._arrays, self._info = arrays, arrays.infos[name]
        info = self._info
        self.shape = (info.shape[0], arrays.draws, *info.shape[2:])
        self.dtype = info.dtype
        self.ndim = len(self.shape)
        self.size = math.prod(self.shape)

    def __len__(self) -> int:
        """Number of chains."""
        return self.shape[0]

    def _chunks(self, rows: range | np.ndarray) -> Iterator[tuple[Index, Index, np.ndarray]]:
        """For each chunk that has some of ``rows``: which of them, where in it, and its draws."""
        length = self._info.length
        if isinstance(rows, range):  # upwards; a number for each row would take more than the draws
            for index in range(rows[0] // length, rows[-1] // length + 1):
                begin = index * length
                first, last = (
                    max(0, -((rows.start - edge) // rows.step)) for edge in (begin, begin + length)
                )
                some = rows[first:last]
                if some:
                    places = slice(some.start - begin, some.stop - begin, some.step)
                    yield slice(first, last), places, self._arrays.chunk(self._info, index)
            return
        numbers = rows // length
        for index in np.unique(numbers).tolist():
            which = np.flatnonzero(numbers == index)
            yield which, rows[which] - index * length, self._arrays.chunk(self._info, index)

    def __getitem__(self, key: Index) -> np.ndarray:
        """NumPy indexing by integers, slices and, along one axis, arrays of integers."""
        parts = key if isinstance(key, tuple) else (key,)
        if any(part is None or part is Ellipsis for part in parts):
            return np.asarray(self)[key]
        parts = parts + (slice(None),) * (self.ndim - len(parts))
        if len(parts) > self.ndim:
            raise IndexError(f"there are {len(parts)} indices for {self.ndim} axes")
        keys = [self._within(part, size) for part, size in zip(parts, self.shape, strict=True)]
        rows = [_rows(part, size) for part, size in zip(keys, self.shape, strict=True)]
        others = (keys[0], slice(None), *keys[2:])
        out = np.empty([len(part) for part in rows], self.dtype)
        if self.size and out.size:
            for which, places, chunk in self._chunks(rows[1]):
                out[:, which] = _outer(chunk[:, places], others)
        alone = tuple(0 if isinstance(part, int) else slice(None) for part in keys)
        return out[alone]

    @staticmethod
    def _within(part: object, size: int) -> slice | int | np.ndarray:
        if isinstance(part, slice):
            return part
        rows = np.asarray(part)
        if rows.dtype == bool:
            return np.flatnonzero(rows)
        if rows.size and (rows.min() < -size or rows.max() >= size):
            raise IndexError(f"index {part} is out of range for an axis of length {size}")
        rows = np.where(rows < 0, rows + size, rows)
        return int(rows) if rows.ndim == 0 else rows

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """All of it."""
        whole = self[:]
        return whole if dtype is None else whole.astype(dtype)

    def __repr__(self) -> str:
        """Shape and type, not contents."""
        return f"LazyArray(shape={self.shape}, dtype={self.dtype})"


def _rows(key: slice | int | np.ndarray, size: int) -> range | np.ndarray:
    """What a key takes of an axis, as a range if it is one that goes upwards."""
    if isinstance(key, int):
        return range(key, key + 1)
    if isinstance(key, slice):
        taken = range(*key.indices(size))
        return taken if taken.step > 0 else np.array(taken, int)
    return key


def _outer(chunk: np.ndarray, keys: tuple[slice | int | np.ndarray, ...]) -> np.ndarray:
    """The chunk indexed along each axis by itself; an integer keeps its axis."""
    for axis, key in enumerate(keys):
        if isinstance(key, slice) and key == slice(None):
            continue
        which = [key] if isinstance(key, int) else np.arange(chunk.shape[axis])[key]
        chunk = np.take(chunk, which, axis)
    return chunk
