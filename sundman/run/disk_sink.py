"""The sink that writes draws to a run's directory, with checkpoints, and stops when asked to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Self, TypeAlias, TypeVar

import jax
import numpy as np

from sundman._trees import leaf_names, named_leaves
from sundman._types import PyTree, Settings
from sundman.draws.trust import Failure
from sundman.run.sinks import joined
from sundman.run.state import RunState
from sundman.run.step import Record
from sundman.store import checkpoint
from sundman.store.arrays import Arrays
from sundman.store.directory import Run
from sundman.store.files import writing
from sundman.watch.events import Watcher

Column = TypeVar("Column", np.ndarray, jax.ShapeDtypeStruct)
Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None
_FLUSH_SECONDS = 10.0
_FLUSH_BYTES = 64 * 2**20
_CHECKPOINT_SECONDS = 30.0


def columns(values: PyTree, weight: Column, stats: Mapping[str, Column]) -> dict[str, Column]:
    """What a record holds, by the names of the arrays on disk."""
    leaves = zip(leaf_names(values), jax.tree.leaves(values), strict=True)
    return {
        **{f"values/{name}": leaf for name, leaf in leaves},
        "weight": weight,
        **{f"stats/{name}": leaf for name, leaf in stats.items()},
    }


def to_checkpoint(state: RunState, replicas: int) -> checkpoint.Tree:
    """A state by the names of its leaves, and the positions as ``draws.last`` has them."""
    parts = {name: named_leaves(part) for name, part in state._asdict().items()}
    return {**parts, "position": named_leaves(state.position(replicas))}


def progress_of(state: RunState, *, finished: bool, failure: Failure | None = None) -> Settings:
    """What a run says about how far it is, beside its draws."""
    known = state.divergences
    return {
        **state.progress._asdict(),
        "diverged": known.draw.tolist(),
        "diverged_step": known.step.tolist(),
        "diverged_times": known.times.tolist(),
        "finished": finished,
        **({} if failure is None else {"failure": [type(failure).__name__, str(failure)]}),
    }


class DiskSink:
    """Keeps the blocks of a run in its directory.

    Draws go to disk every few seconds and count from then on; a checkpoint is made every
    ``every`` pieces, or every half minute, and when a signal asks to stop. What is written is
    durable before the file that says how many draws count names it.

    Args:
      run: its directory, locked by this process.
      arrays: the draws that are there.
      every: pieces between checkpoints.
      stop: whether a signal asked to stop.
      watchers: are told of checkpoints.
      replicas: of the sampler.
    """

    def __init__(
        self,
        run: Run,
        arrays: Arrays,
        every: int | None,
        stop: Stop,
        watchers: Sequence[Watcher],
        replicas: int,
    ) -> None:
        self._run, self._every, self._stop, self._watchers = run, every, stop, watchers
        self._arrays, self._replicas = arrays, replicas
        self._waiting: list[Record] = []
        self._bytes = 0
        self._flushed = self._saved = time.perf_counter()

    def add(self, record: Record) -> None:
        """Take the draws of a block."""
        self._waiting.append(record)
        self._bytes += sum(leaf.nbytes for leaf in jax.tree.leaves(record))

    def after_piece(
        self, state: RunState, *, over: bool, save: bool, failure: Failure | None = None
    ) -> None:
        """Write what is due; stop if a signal asked for it."""
        done, now = state.progress, time.perf_counter()
        if self._every is None:
            due = now - self._saved > _CHECKPOINT_SECONDS
        else:
            due = done.pieces % self._every == 0
        due |= over or save or self._stop.signal is not None
        if due or self._bytes > _FLUSH_BYTES or now - self._flushed > _FLUSH_SECONDS:
            self._flush(state)
        if due:
            self._checkpoint(state)
        if over or failure is not None:  # said last: a finished run has its last state on disk
            with writing("the end of the run", self._run.path, self._arrays.draws):
                end = progress_of(state, finished=over, failure=failure)
                self._run.write_progress(self._arrays, end)
        if self._stop.signal is not None and not over:
            message = (
                f'stopped after draw {done.draws}; go on with sundman.resume("{self._run.path}")'
            )
            for watcher in self._watchers:
                watcher.event("interrupted", message, signal=self._stop.signal.name)
            raise interruption(self._stop.signal, message)

    def _flush(self, state: RunState) -> None:
        path, lock = self._run.path, self._run.lock
        assert lock is not None  # only the process that holds it writes
        lock.check()
        with writing("draws", path, self._arrays.draws):
            if self._waiting:
                self._arrays.write(columns(*joined(self._waiting)))
            lock.check()
            self._run.write_progress(self._arrays, progress_of(state, finished=False))
        self._bytes = 0
        self._waiting.clear()
        self._flushed = time.perf_counter()

    def _checkpoint(self, state: RunState) -> None:
        done = state.progress
        with writing("a checkpoint", self._run.path, self._arrays.draws):
            saved = to_checkpoint(state, self._replicas)
            checkpoint.save(self._run.checkpoints, self._run.id, done.pieces, saved)
        self._saved = time.perf_counter()
        for watcher in self._watchers:
            watcher.event("checkpoint", f"state saved after draw {done.draws}", draws=done.draws)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """While entered, remembers the first signal instead of acting on it.

    Ctrl-C and SIGTERM ask a run to stop at the end of its block; a second one stops it at once.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> Self:
        """Take over the signals, if this is the main thread; one that is ignored stays ignored.

        A shell lets its background jobs ignore SIGINT, which Ctrl-C sends to all of them.
        """
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in _SIGNALS}
            self._before = {n: h for n, h in handlers.items() if h is not signal.SIG_IGN}
            for number in self._before:
                signal.signal(number, self._ask)
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal = signal.Signals(number)
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back; one that came too late to stop the run is passed on."""
        self._give_back()
        if error is None and self.signal is not None:
            signal.raise_signal(self.signal)


class Interrupted(KeyboardInterrupt):
    """A run was asked to stop and did, after saving its state."""


def interruption(number: signal.Signals, message: str) -> BaseException:
    """What to raise for a signal: as Python would, with the message."""
    if number == signal.SIGTERM:
        return SystemExit(128 + number)
    return Interrupted(message)
