"""Data beyond memory: minibatches from a host iterator, prepared ahead of their use.

A worker thread writes the next batches into blocks while the device works on the last ones, so the
compiled loop sees one array per block. The memory of a block is used again for a later one, and it
begins at addresses from which a CPU device takes it without a copy.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TypeAlias

import jax
import numpy as np

from sundman import check
from sundman._types import PyTree
from sundman.data.base import as_examples

ALL = slice(None)
Batch: TypeAlias = tuple[PyTree, PyTree, np.ndarray]
"""x, y, and which rows are real."""
_ALIGNED = 64  # bytes: XLA's CPU client takes arrays that begin at multiples of it as they are


@jax.tree_util.register_static
class HostBatches:
    """Minibatches (x, y) from an iterable: a torch DataLoader, a grain loader, a generator.

    For arrays in files there is :class:`sundman.data.ArrayBatches`.

    Args:
      batches: an iterable over one epoch of (x, y) batches that can be iterated again, or a
        function that returns such an iterator. Shuffling is the iterable's own business. A
        sequence is indexed, so that a resumed run does not read what it had read before.
      size: N, the number of examples in the whole data set.
    """

    def __init__(
        self, batches: Iterable[PyTree] | Callable[[], Iterator[PyTree]], *, size: int
    ) -> None:
        check.count("size", size, least=1)
        if not callable(batches) and not hasattr(batches, "__iter__"):
            raise TypeError(
                "batches must be an iterable of (x, y), or a function that returns an iterator; "
                f"got {batches!r}"
            )
        self.size = size
        self._batches = batches
        self._first: tuple[PyTree, PyTree] | None = None

    @property
    def batch_size(self) -> int:
        """The rows of a batch: of the first one, which none may exceed."""
        return len(jax.tree.leaves(self.peek()[1])[0])

    def epoch(self, begin: int = 0) -> Iterator[tuple[PyTree, PyTree]]:
        """One pass over the data; of a sequence, from batch number ``begin`` on."""
        if isinstance(self._batches, Sequence):
            passes = map(self._batches.__getitem__, range(begin, len(self._batches)))
        else:
            passes = self._batches() if callable(self._batches) else iter(self._batches)
        for batch in passes:
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise TypeError(f"each batch must be a pair (x, y), got {type(batch).__name__}")
            yield as_examples(*batch)

    def peek(self) -> tuple[PyTree, PyTree]:
        """The first batch, to check shapes and labels."""
        if self._first is None:
            first = next(self.epoch(), None)
            if first is None:
                raise ValueError("the batches are empty: the iterable gave nothing")
            rows = len(jax.tree.leaves(first[1])[0])
            if rows > self.size:
                raise ValueError(f"a batch has {rows} rows, but size={self.size} examples in all")
            if isinstance(self._batches, Iterator):  # what was taken is put back
                self._batches = itertools.chain([first], self._batches)
            self._first = first
        return self._first

    def endless(self, begin: int = 0, part: slice = ALL) -> Iterator[Batch]:
        """(x, y, mask), epoch after epoch; the mask says which rows of a short batch are real.

        Args:
          begin: the first batch that is wanted. If ``batches`` is a sequence, those before it are
            not read; otherwise they are taken from it and left.
          part: the rows of each batch that are wanted.
        """
        if isinstance(self._batches, Sequence) and len(self._batches):
            return self._passes(begin % len(self._batches), part)
        return itertools.islice(self._passes(0, part), begin, None)

    def _passes(self, begin: int, part: slice) -> Iterator[Batch]:
        rows = self.batch_size
        while True:
            used = 0
            for x, y in self.epoch(begin):
                used += 1
                yield jax.tree.map(lambda leaf: leaf[part], _filled_up(x, y, rows))
            begin = 0
            if not used:
                raise ValueError(
                    "the batches gave nothing on a second pass: give an iterable that can be "
                    "iterated again, or a function that returns a new iterator"
                )


def _filled_up(x: PyTree, y: PyTree, rows: int) -> Batch:
    count = len(jax.tree.leaves(y)[0])
    if count > rows:
        raise ValueError(f"a batch has {count} rows, more than the {rows} of the first one")
    if count < rows:
        take = np.minimum(np.arange(rows), count - 1)
        x, y = (jax.tree.map(lambda leaf: leaf[take], part) for part in (x, y))
    return x, y, np.arange(rows) < count


class Unread:
    """Rows that are read when there is room for them.

    Attributes:
      shape: of all rows.
      dtype: of each number.
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    def write(self, room: np.ndarray) -> None:
        """Read them into an array of this shape."""
        raise NotImplementedError

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        """Read them into a new array."""
        room = np.empty(self.shape, self.dtype)
        self.write(room)
        return room if dtype is None else room.astype(dtype)


def stacked(batches: Iterator[PyTree], lengths: Iterable[int], ahead: int = 2) -> Generator[PyTree]:
    """Blocks of consecutive batches, stacked along a new first axis, prepared in a thread.

    A block is written over once the next one has been asked for. An error in the thread is raised
    where the block it spoiled is asked for.

    Args:
      batches: one after the other, endless or long enough.
      lengths: how many batches each block has.
      ahead: how many blocks may wait to be taken.

    Returns:
      The blocks, in order.
    """
    ready: queue.Queue[PyTree] = queue.Queue(maxsize=ahead)
    free: queue.SimpleQueue[PyTree] = queue.SimpleQueue()
    stop = threading.Event()

    def put(item: PyTree) -> None:
        while not stop.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queue.Full:
                continue

    def work() -> None:
        try:
            for length in lengths:
                put(_fill(batches, length, free))
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        while (filled := ready.get()) is not None:
            if isinstance(filled, BaseException):
                raise filled
            room, length = filled
            yield jax.tree.map(lambda leaf, n=length: leaf[:n], room)
            free.put(room)
    finally:
        stop.set()
        worker.join()


def _fill(
    batches: Iterator[PyTree], length: int, free: queue.SimpleQueue[PyTree]
) -> tuple[PyTree, int]:
    """The next batches, in memory that is free or new, and how many there are."""
    batch = next(batches)
    room = None
    while room is None or len(jax.tree.leaves(room)[0]) < length:  # what is too short is dropped
        try:
            room = free.get_nowait()
        except queue.Empty:
            room = jax.tree.map(partial(_room, length), batch)
    for index in range(length):
        batch = batch if index == 0 else next(batches)
        jax.tree.map(partial(_write, index), room, batch)
    return room, length


def _room(length: int, leaf: np.ndarray | Unread) -> np.ndarray:
    """Memory for some arrays like ``leaf``, as a device has them and where it takes them."""
    dtype = _on_device(leaf.dtype)
    shape = (length, *leaf.shape)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + _ALIGNED, np.uint8)
    first = -memory.ctypes.data % _ALIGNED
    return memory[first : first + size].view(dtype).reshape(shape)


@cache
def _on_device(dtype: np.dtype) -> np.dtype:
    """The type that a device has for one of the host."""
    return jax.dtypes.canonicalize_dtype(dtype)


def _write(index: int, room: np.ndarray, leaf: np.ndarray | Unread) -> None:
    dtype = _on_device(leaf.dtype)
    if leaf.shape != room.shape[1:] or dtype != room.dtype:
        raise ValueError(
            f"all batches must be alike: one has an array of shape {leaf.shape} and dtype {dtype}, "
            f"where another has {room.shape[1:]} and {room.dtype}"
        )
    if isinstance(leaf, Unread) and leaf.dtype == dtype:
        leaf.write(room[index])
    else:
        room[index] = leaf
