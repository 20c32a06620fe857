"""Draws in zarr: one array per leaf, made at full length, filled block by block.

Chunks have checksums and are replaced as a whole, so a crash leaves each as it was or as it
should be. Which draws count is written elsewhere, after them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from sundman._optional import needs_extra
from sundman._types import Index
from sundman.store.files import StoreError

with needs_extra("store", "a stored run"):
    import zarr
    from numpy.typing import DTypeLike
    from zarr.codecs import Crc32cCodec
from zarr.storage import LocalStore

_CHUNK_BYTES = 4 * 2**20
_CHECKSUM_BYTES = 4


def create(path: Path, shapes: Mapping[str, tuple[tuple[int, ...], DTypeLike]]) -> None:
    """Empty arrays, by name; shapes are (chain, draw, ...)."""
    group = zarr.create_group(store=str(path))
    for name, (shape, given) in shapes.items():
        dtype = np.dtype(given)
        bits = dtype.kind == "V"  # zarr does not know bfloat16 and its like
        one = dtype.itemsize * shape[0] * math.prod(shape[2:])
        length = max(1, min(shape[1], _CHUNK_BYTES // max(one, 1)))
        group.create_array(
            name,
            shape=shape,
            chunks=tuple(max(size, 1) for size in (shape[0], length, *shape[2:])),
            dtype=np.dtype(f"u{dtype.itemsize}") if bits else dtype,
            fill_value=np.nan if dtype.kind in "fc" else None,
            attributes={"bits of": dtype.name} if bits else None,
            compressors=[Crc32cCodec()],
        )


class Arrays:
    """The arrays of a run, by name."""

    def __init__(self, path: Path, mode: str) -> None:
        self.path = path
        try:
            self._group = zarr.open_group(str(path), mode=mode)  # type: ignore[arg-type]
        except FileNotFoundError:
            raise StoreError(f"there are no draws in {path}: the store was damaged") from None
        except Exception as error:
            raise StoreError(f"the draws in {path} cannot be opened: {error}") from error

    def __getitem__(self, name: str) -> zarr.Array:
        """One array."""
        try:
            array = self._group[name]
        except KeyError:
            array = None
        except Exception as error:
            raise StoreError(f"{name!r} in {self.path} is damaged: {error}") from error
        if not isinstance(array, zarr.Array):
            raise StoreError(f"the array {name!r} is missing from {self.path}")
        return array

    def write(self, begin: int, columns: Mapping[str, np.ndarray]) -> None:
        """Put columns, axes (chain, draw, ...), from draw ``begin`` on."""
        for name, column in columns.items():
            array = self[name]
            _check_chunks(array, begin - begin % array.chunks[1], begin)
            try:
                array[:, begin : begin + column.shape[1]] = column.view(array.dtype)
            except ValueError as error:
                raise StoreError(
                    f"a chunk of {name!r} in {self.path} is damaged: {error}"
                ) from error

    def check(self, names: Iterable[str], draws: int) -> None:
        """Raise if a chunk that holds one of the first ``draws`` draws is missing or cut short."""
        for name in names:
            _check_chunks(self[name], 0, draws)


def _check_chunks(array: zarr.Array, begin: int, end: int) -> None:
    """Raise if a chunk with draws ``begin`` to ``end`` is not whole: zarr would read it as NaN."""
    if array.size == 0:
        return
    length = array.chunks[1]
    whole = math.prod(array.chunks) * array.dtype.itemsize + _CHECKSUM_BYTES
    assert isinstance(array.store, LocalStore)
    for index in range(begin // length, -(-end // length)):
        where = (0, index, *[0] * (array.ndim - 2))
        file = array.store.root / array.path / array.metadata.encode_chunk_key(where)
        size = file.stat().st_size if file.exists() else -1
        if size != whole:
            state = "missing" if size < 0 else f"{size} bytes long instead of {whole}"
            first, last = max(begin, index * length), min(end, (index + 1) * length) - 1
            raise StoreError(
                f"draws {first} to {last} of {array.path!r} are damaged: {file} is {state}. "
                "Restore it from a copy, or run again"
            )


class LazyArray:
    """The first draws of an array on disk, read when they are asked for."""

    def __init__(self, array: zarr.Array, draws: int) -> None:
        self._array = array
        self.shape = (array.shape[0], draws, *array.shape[2:])
        self.dtype = np.dtype(str(array.attrs.get("bits of", array.dtype)))
        self.ndim = len(self.shape)
        self.size = math.prod(self.shape)

    def __len__(self) -> int:
        """Number of chains."""
        return self.shape[0]

    def __getitem__(self, key: Index) -> np.ndarray:
        """NumPy indexing by integers, slices and, along one axis, arrays of integers."""
        parts = key if isinstance(key, tuple) else (key,)
        if any(part is None or part is Ellipsis for part in parts):
            return np.asarray(self)[key]
        parts = parts + (slice(None),) * (self.ndim - len(parts))
        keys = [self._within(part, size) for part, size in zip(parts, self.shape, strict=True)]
        if any(isinstance(part, slice) and part.step not in (None, 1) for part in keys):
            keys = [
                np.arange(self.shape[axis])[k] if isinstance(k, slice) else k
                for axis, k in enumerate(keys)
            ]
        rows = np.arange(self.shape[1])[keys[1]]
        if rows.size:
            _check_chunks(self._array, int(rows.min()), int(rows.max()) + 1)
        try:
            return np.asarray(self._array.oindex[tuple(keys)]).view(self.dtype)
        except ValueError as error:
            raise StoreError(f"{self._array.path!r} is damaged on disk: {error}") from error

    @staticmethod
    def _within(part: object, size: int) -> slice | int | np.ndarray:
        if isinstance(part, slice):
            begin, end, step = part.indices(size)
            return slice(begin, end) if step == 1 else part
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
