"""Shuffled minibatches of arrays in memory-mapped files.

The rows of a large file are read by their place, not through its map, whose pages would fill the
memory and cost a fault each. The system is told which rows come next, so that it fetches them from
the disk while others are computed with.
"""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.data.base import as_arrays
from sundman.data.batches import epoch_rows
from sundman.data.streaming import ALL, Batch, HostBatches, Unread
from sundman.noise import Stream, key_words

_STEPS_AT_ONCE, _BYTES_AT_ONCE = 64, 2**26  # whose rows are chosen and fetched in one go


@jax.tree_util.register_static
class ArrayBatches(HostBatches):
    """Shuffled minibatches of arrays that stay where they are, such as memory-mapped files.

    Every row comes once an epoch, and each epoch has an order of its own. The rows of a step are a
    function of the seed and of the step's number, so nothing is read twice when a run is resumed,
    and a process that needs some rows of each batch reads these alone. All chains have the same
    batches.

    Args:
      x: inputs, one row per example: ``np.load("x.npy", mmap_mode="r")``, or a pytree of these.
      y: targets, likewise.
      batch_size: rows of a step.
      seed: of the order.
      consecutive: how many rows that follow each other in the file are taken together. More than
        one are read faster, and make gradients noisier if neighbours are alike; in a file whose
        rows were shuffled once they are not.
    """

    def __init__(
        self, x: PyTree, y: PyTree, *, batch_size: int, seed: int = 0, consecutive: int = 1
    ) -> None:
        check.count("batch_size", batch_size, least=1)
        check.count("consecutive", consecutive, least=1)
        x, y = as_arrays("x", x), as_arrays("y", y)
        leaves = jax.tree.leaves((x, y))
        check.examples(*jax.tree.map(lambda leaf: leaf[:1], (x, y)))  # the others as they come
        lengths = sorted({len(leaf) for leaf in leaves})
        if len(lengths) > 1:
            raise ValueError(f"x and y must have one row per example: got {lengths} rows")
        super().__init__((), size=lengths[0])
        if batch_size > self.size:
            raise ValueError(
                f"batch_size={batch_size} is more than the {self.size} rows of the data"
            )
        if batch_size % consecutive:
            raise ValueError(
                f"batch_size={batch_size} must be a multiple of consecutive={consecutive}"
            )
        self._rows, self._consecutive = batch_size, consecutive
        self._key = np.asarray(key_words(jax.random.key(seed)))
        self._sources = {"x": jax.tree.map(_source, x), "y": jax.tree.map(_source, y)}
        batch = batch_size * sum(leaf[:1].nbytes for leaf in leaves)
        self._steps = max(1, min(_STEPS_AT_ONCE, _BYTES_AT_ONCE // batch))

    @property
    def batch_size(self) -> int:
        """The rows of a batch."""
        return self._rows

    def peek(self) -> tuple[PyTree, PyTree]:
        """The first batch."""
        if self._first is None:
            x, y = self._rows_of(self._order(0, ALL)[0][0])
            self._first = jax.tree.map(np.asarray, x), jax.tree.map(np.asarray, y)
        return self._first

    def endless(self, begin: int = 0, part: slice = ALL) -> Iterator[Batch]:
        """(x, y, mask) of each step from ``begin`` on, x and y not read yet.

        Args:
          begin: the number of the first step.
          part: the rows of each batch that are wanted.
        """
        rows, real = self._order(begin, part)
        from_disk = True
        while True:
            before, begin = _bytes_read(), begin + self._steps
            later = self._order(begin, part)
            for source in jax.tree.leaves(self._sources) if from_disk else ():
                source.fetch(later[0].ravel())
            for chosen, mask in zip(rows, real, strict=True):
                yield *self._rows_of(chosen), mask
            from_disk = before is None or _bytes_read() != before  # if not, all was in the cache
            rows, real = later

    def _rows_of(self, rows: np.ndarray) -> tuple[PyTree, PyTree]:
        def of(name: str) -> PyTree:
            return jax.tree.map(lambda source: _Rows(name, source, rows), self._sources[name])

        return of("x"), of("y")

    def _order(self, begin: int, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """The rows of some steps, (step, row), and which of them are real."""
        groups = -(-self.size // self._consecutive)
        number = self._rows // self._consecutive
        with jax.default_device(_host()):
            chosen, mask = _groups(self._key, np.uint32(begin), self._steps, groups, number)
        first = np.where(mask, np.asarray(chosen, np.int64) * self._consecutive, self.size)
        first.sort(axis=1)  # as they are in the file; those that are not real come last
        rows = (first[..., None] + np.arange(self._consecutive)).reshape(self._steps, -1)[:, part]
        return np.minimum(rows, self.size - 1), rows < self.size


@partial(jax.jit, static_argnums=(2, 3, 4))
def _groups(key: Array, begin: Array, steps: int, size: int, number: int) -> tuple[Array, Array]:
    """The groups of rows of some steps from ``begin`` on, and which of them are real."""

    def at(step: Array) -> tuple[Array, Array]:
        rows, real = epoch_rows(Stream(key, step), size, number)
        return rows, jnp.ones(number, bool) if real is None else real

    return jax.vmap(at)(begin + jnp.arange(steps, dtype=jnp.uint32))


def _host() -> object:
    """A device that does not compute the run, if there is one."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


def _bytes_read() -> int | None:
    """What this thread has had read from disks; None where that cannot be told."""
    try:
        lines = Path("/proc/thread-self/io").read_bytes().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) for line in lines if line.startswith(b"read_bytes:"))


class _InMemory:
    """Rows of an array that is in memory, or in a small file."""

    def __init__(self, array: np.ndarray | Array) -> None:
        self._array = array
        self.shape, self.dtype = array.shape[1:], np.dtype(array.dtype)

    def read(self, rows: np.ndarray, room: np.ndarray) -> None:
        """Some of them."""
        np.take(self._array, rows, axis=0, out=room, mode="clip")  # which does not copy the room

    def fetch(self, rows: np.ndarray) -> None:
        """They are there."""


class _InFile:
    """Rows of an array in a file, each in one piece.

    Args:
      array: which it is.
      file: the map that it is a view of.
    """

    def __init__(self, array: np.ndarray, file: np.memmap) -> None:
        mapped = np.frombuffer(file._mmap, np.uint8).ctypes.data  # type: ignore[attr-defined]
        begin = file.offset - file.offset % mmap.ALLOCATIONGRANULARITY
        self._first = begin + array.ctypes.data - mapped
        self.shape, self.dtype, self._bytes = array.shape[1:], array.dtype, array.strides[0]
        self._name = str(file.filename)
        self._descriptor = os.open(self._name, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)

    def _pieces(self, rows: np.ndarray) -> Iterator[tuple[int, int, int]]:
        """Rows that follow each other: the first and last place in ``rows``, and in the file."""
        ends = np.append(np.flatnonzero(np.diff(rows) != 1) + 1, len(rows))
        begins = np.append(0, ends[:-1])
        places = self._first + rows[begins] * self._bytes
        return zip(begins.tolist(), ends.tolist(), places.tolist(), strict=True)

    def read(self, rows: np.ndarray, room: np.ndarray) -> None:
        """Some of them."""
        memory, size = room.reshape(-1).view(np.uint8).data, self._bytes
        for begin, end, place in self._pieces(rows):
            wanted = (end - begin) * size
            if os.preadv(self._descriptor, [memory[begin * size : end * size]], place) < wanted:
                raise OSError(f"{self._name} is shorter than it was: it ends before byte {place}")

    def fetch(self, rows: np.ndarray) -> None:
        """Have some of them read from the disk while others are computed with."""
        if hasattr(os, "posix_fadvise"):
            for begin, end, place in self._pieces(rows):
                size = (end - begin) * self._bytes
                os.posix_fadvise(self._descriptor, place, size, os.POSIX_FADV_WILLNEED)


def _source(array: np.ndarray | Array) -> _InMemory | _InFile:
    """How the rows of an array are read."""
    file: object = array
    while file is not None and not isinstance(file, np.memmap):
        file = getattr(file, "base", None)
    if (
        file is None
        or isinstance(array, Array)
        or file.mode == "c"  # changes that are in memory alone
        or file.filename is None
        or not hasattr(os, "preadv")
        or array.nbytes < _BYTES_AT_ONCE
        or not array[:1].flags.c_contiguous
        or array.strides[0] != array[:1].nbytes
    ):
        return _InMemory(array)
    return _InFile(array, file)


class _Rows(Unread):
    """Some rows of an array.

    Args:
      name: what errors call it, "x" or "y".
      source: where they are.
      rows: which they are.
    """

    def __init__(self, name: str, source: _InMemory | _InFile, rows: np.ndarray) -> None:
        self._name, self._source, self._rows = name, source, rows
        self.shape, self.dtype = (len(rows), *source.shape), source.dtype

    def write(self, room: np.ndarray) -> None:
        """Read them, and see that they are finite."""
        self._source.read(self._rows, room)
        check.finite_rows(self._name, room)
