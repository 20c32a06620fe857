"""Minibatches: of data in memory as a function of (key, step), and of data beyond memory.

In memory there is no order to store or to resume. Without replacement, an epoch is a pseudo-random
permutation of the rows, computed element by element: a Feistel network on the smallest near-square
table that holds N rows, walked until it lands below N (Black, Rogaway 2002). Every row comes once
an epoch, the last batch may be short, and batch n of a run can be had without the ones before it.

Data beyond memory come from any host iterator, prefetched in blocks: a worker thread stacks the
next batches while the device works on the last ones, so the compiled loop sees one array per block.
"""

from __future__ import annotations

import itertools
import math
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import PartitionSpec

from sundman import check
from sundman._types import PyTree
from sundman.data.base import as_examples
from sundman.noise import Purpose, Stream, fold, threefry2x32

DATA_AXIS = "data"
"""The axis of a mesh over which the rows of a minibatch are split."""
_ROUNDS = 8


def _mix(value: Array, key: Array, round_: Array) -> Array:
    word, _ = threefry2x32((key[0], key[1]), (value, jnp.full_like(value, round_)), 8)
    return word


def permute(index: Array, key: Array, size: int) -> Array:
    """The image of ``index`` (each below ``size``) under the permutation named by ``key``.

    Args:
      index: whole numbers below ``size``.
      key: two 32-bit words that name the permutation.
      size: the number of rows.

    Returns:
      Where each index goes, below ``size``.
    """
    rows = math.isqrt(size - 1) + 1
    columns = -(-size // rows)  # rows * columns - size < rows: few places to walk out of
    modulus = (jnp.uint32(rows), jnp.uint32(columns))

    def feistel(value: Array) -> Array:
        def two_rounds(n: Array, place: tuple[Array, Array]) -> tuple[Array, Array]:
            row, column = place
            row = (row + _mix(column, key, 2 * n) % modulus[0]) % modulus[0]
            column = (column + _mix(row, key, 2 * n + 1) % modulus[1]) % modulus[1]
            return row, column

        place = jnp.divmod(value, modulus[1])
        row, column = lax.fori_loop(jnp.uint32(0), jnp.uint32(_ROUNDS // 2), two_rounds, place)
        return row * modulus[1] + column

    def outside(value: Array) -> Array:
        return jnp.any(value >= size)

    def walk(value: Array) -> Array:
        return jnp.where(value >= size, feistel(value), value)

    first = feistel(index.astype(jnp.uint32))
    return first if rows * columns == size else lax.while_loop(outside, walk, first)


def epoch_rows(stream: Stream, size: int, batch_size: int) -> tuple[Array, Array | None]:
    """Rows of this step's batch, every row once an epoch; and which are real, if some are not.

    Args:
      stream: the randomness of this step, and its number.
      size: the number of rows of the data.
      batch_size: the number of rows of a batch.

    Returns:
      The rows; and a mask of the real ones if the last batch of an epoch is short, else None.
    """
    per_epoch = -(-size // batch_size)
    epoch, place = jnp.divmod(stream.step, jnp.uint32(per_epoch))
    index = place * jnp.uint32(batch_size) + jnp.arange(batch_size, dtype=jnp.uint32)
    if size % batch_size == 0:
        return permute(index, fold(stream.key, epoch, Purpose.ROWS), size), None
    real = index < size
    rows = permute(jnp.where(real, index, 0), fold(stream.key, epoch, Purpose.ROWS), size)
    return rows, real


def random_rows(stream: Stream, size: int, batch_size: int) -> tuple[Array, None]:
    """``batch_size`` rows drawn with replacement.

    Args:
      stream: the randomness of this step, and its number.
      size: the number of rows of the data.
      batch_size: the number of rows of a batch.

    Returns:
      The rows; and None, because all of them are real.
    """
    key = fold(stream.key, stream.step, Purpose.ROWS)
    counter = jnp.arange(batch_size, dtype=jnp.uint32)
    word, _ = threefry2x32((key[0], key[1]), (counter, jnp.zeros_like(counter)))
    return word % jnp.uint32(size), None


def symmetric_rows(stream: Stream, size: int, batch_size: int) -> tuple[Array, Array | None]:
    """Rows of this step's batch: an epoch, then the same batches backward, then a new epoch.

    Args:
      stream: the randomness of this step, and its number.
      size: the number of rows of the data.
      batch_size: the number of rows of a batch.

    Returns:
      The rows; and a mask of the real ones if a batch of an epoch is short, else None.
    """
    per_epoch = jnp.uint32(-(-size // batch_size))
    pair, place = jnp.divmod(stream.step, 2 * per_epoch)
    place = jnp.where(place < per_epoch, place, 2 * per_epoch - 1 - place)
    return epoch_rows(Stream(stream.key, pair * per_epoch + place), size, batch_size)


ORDERS: dict[str, Callable[[Stream, int, int], tuple[Array, Array | None]]] = {
    "shuffled": epoch_rows,
    "symmetric": symmetric_rows,
    "with_replacement": random_rows,
}
"""In which order rows come, by name."""


def take_rows(tree: PyTree, rows: Array) -> PyTree:
    """The given rows of every array of a pytree; on a mesh, each device has its part of them."""
    return jax.tree.map(lambda leaf: _split(jnp.take(leaf, rows, axis=0, mode="clip")), tree)


def _split(rows: Array) -> Array:
    """The rows over the axis ``data`` of the mesh that this is traced for, if there is one."""
    size = jax.sharding.get_abstract_mesh().shape.get(DATA_AXIS, 1)
    if size == 1 or len(rows) % size:
        return rows
    return lax.with_sharding_constraint(rows, PartitionSpec(DATA_AXIS))


@jax.tree_util.register_static
class HostBatches:
    """Minibatches (x, y) from an iterable: a torch DataLoader, a grain loader, a memmap reader.

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

    def endless(self, begin: int = 0) -> Iterator[tuple[PyTree, PyTree, np.ndarray]]:
        """(x, y, mask), epoch after epoch; the mask says which rows of a short batch are real.

        Args:
          begin: the first batch that is wanted. If ``batches`` is a sequence, those before it are
            not read; otherwise they are taken from it and left.
        """
        if isinstance(self._batches, Sequence) and len(self._batches):
            return self._passes(begin % len(self._batches))
        return itertools.islice(self._passes(0), begin, None)

    def _passes(self, begin: int) -> Iterator[tuple[PyTree, PyTree, np.ndarray]]:
        rows = len(jax.tree.leaves(self.peek()[1])[0])
        while True:
            used = 0
            for x, y in self.epoch(begin):
                used += 1
                yield _filled_up(x, y, rows)
            begin = 0
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
