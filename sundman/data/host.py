"""Data beyond memory: minibatches from any host iterator, prefetched in blocks.

A worker thread stacks the next batches while the device works on the last ones, so the compiled
loop sees one array per block.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator

import jax
import numpy as np

from sundman import check
from sundman._types import PyTree
from sundman.data.base import as_examples


@jax.tree_util.register_static
class HostBatches:
    """Minibatches (x, y) from an iterable: a torch DataLoader, a grain loader, a memmap reader.

    Args:
      batches: an iterable over one epoch of (x, y) batches that can be iterated again, or a
        function that returns such an iterator. Shuffling is the iterable's own business.
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

    def epoch(self) -> Iterator[tuple[PyTree, PyTree]]:
        """One pass over the data."""
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

    def endless(self) -> Iterator[tuple[PyTree, PyTree, np.ndarray]]:
        """(x, y, mask), epoch after epoch; the mask says which rows of a short batch are real."""
        rows = len(jax.tree.leaves(self.peek()[1])[0])
        while True:
            used = 0
            for x, y in self.epoch():
                used += 1
                yield _filled_up(x, y, rows)
            if not used:
                raise ValueError(
                    "the batches gave nothing on a second pass: give an iterable that can be "
                    "iterated again, or a function that returns a new iterator"
                )


def _filled_up(x: PyTree, y: PyTree, rows: int) -> tuple[PyTree, PyTree, np.ndarray]:
    count = len(jax.tree.leaves(y)[0])
    if count > rows:
        raise ValueError(f"a batch has {count} rows, more than the {rows} of the first one")
    if count < rows:
        take = np.minimum(np.arange(rows), count - 1)
        x, y = (jax.tree.map(lambda leaf: leaf[take], part) for part in (x, y))
    return x, y, np.arange(rows) < count


def stacked(batches: Iterator[PyTree], lengths: Iterable[int], ahead: int = 2) -> Generator[PyTree]:
    """Blocks of consecutive batches, stacked along a new first axis, prepared in a thread.

    ``lengths`` are the numbers of batches of the blocks; at most ``ahead`` blocks wait. An error
    in the thread is raised where the block it spoiled is asked for.

    Args:
      batches: one after the other, endless or long enough.
      lengths: how many batches each block has.
      ahead: how many blocks may wait to be taken.

    Returns:
      The blocks, in order.
    """
    ready: queue.Queue[PyTree] = queue.Queue(maxsize=ahead)
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
                parts = [next(batches) for _ in range(length)]
                put(jax.tree.map(lambda *leaves: np.stack(leaves), *parts))
                if stop.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    try:
        while (block := ready.get()) is not None:
            if isinstance(block, BaseException):
                raise block
            yield block
    finally:
        stop.set()
        worker.join()
