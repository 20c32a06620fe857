"""Draws kept on disk while a run goes on, with checkpoints to resume from."""

from __future__ import annotations

import time
from collections.abc import Sequence

import jax
import numpy as np

from sundman.runner.description import columns
from sundman.runner.guard import Losses, Work
from sundman.runner.loop import Record
from sundman.runner.session import Done, last_position
from sundman.runner.stop import Stop, interruption
from sundman.store import checkpoint
from sundman.store.directory import Run, as_arrays
from sundman.store.files import writing
from sundman.watch.events import Watcher

_FLUSH_SECONDS = 10.0
_FLUSH_BYTES = 64 * 2**20
_CHECKPOINT_SECONDS = 30.0


def state_of(done: Done, work: Work, losses: Losses, replicas: int) -> checkpoint.Tree:
    """A complete state, for a checkpoint."""
    return {
        "work": as_arrays(work.chain),
        "position": as_arrays(last_position(work, replicas)),
        "averages": as_arrays(work.averages),
        "losses": losses.arrays(),
        "done": {name: np.asarray(value) for name, value in done._asdict().items()},
    }


def _joined(records: list[Record]) -> dict[str, np.ndarray]:
    def join(*parts: np.ndarray) -> np.ndarray:
        return np.swapaxes(parts[0] if len(parts) == 1 else np.concatenate(parts), 0, 1)

    values, weight, stats, _ = jax.tree.map(
        join,
        *[record._replace(broke=None) for record in records],
    )
    return columns(values, weight, stats)


class Disk:
    """Keeps the blocks of a run in its directory.

    Draws go to disk every few seconds and count from then on; a checkpoint is made every
    ``every`` pieces, or every half minute, and when a signal asks to stop.
    """

    def __init__(
        self,
        run: Run,
        every: int | None,
        stop: Stop,
        watchers: Sequence[Watcher],
        written: int,
        replicas: int,
    ) -> None:
        self._run, self._every, self._stop, self._watchers = run, every, stop, watchers
        self._arrays = run.arrays("r+")
        self._waiting: list[Record] = []
        self._bytes = 0
        self._written, self._replicas = written, replicas
        self._flushed = self._saved = time.perf_counter()

    def add(self, record: Record) -> None:
        """Take the draws of a block."""
        self._waiting.append(record)
        self._bytes += sum(leaf.nbytes for leaf in jax.tree.leaves(record))

    def after_piece(self, done: Done, work: Work, losses: Losses, over: bool, save: bool) -> None:
        """Write what is due; stop if a signal asked for it."""
        now = time.perf_counter()
        if self._every is None:
            due = now - self._saved > _CHECKPOINT_SECONDS
        else:
            due = done.pieces % self._every == 0
        due |= over or save or self._stop.signal is not None
        if due or self._bytes > _FLUSH_BYTES or now - self._flushed > _FLUSH_SECONDS:
            self._flush(done, losses)
        if due:
            self._checkpoint(done, work, losses)
        if over:  # said last: a finished run has its last state on disk
            with writing("the end of the run", self._run.path, self._written):
                self._tell(done, losses, finished=True)
        if self._stop.signal is not None and not over:
            message = (
                f'stopped after draw {done.draws}; go on with sundman.resume("{self._run.path}")'
            )
            for watcher in self._watchers:
                watcher.event("interrupted", message, signal=self._stop.signal.name)
            raise interruption(self._stop.signal, message)

    def _tell(self, done: Done, losses: Losses, finished: bool) -> None:
        told = {"diverged": losses.draw.tolist(), "diverged_step": losses.step.tolist()}
        self._run.write_progress({**done._asdict(), **told, "finished": finished})

    def _flush(self, done: Done, losses: Losses) -> None:
        path, lock = self._run.path, self._run.lock
        assert lock is not None  # only the process that holds it writes
        lock.check()
        with writing("draws", path, self._written):
            if self._waiting:
                self._arrays.write(self._written, _joined(self._waiting))
            lock.check()
            self._tell(done, losses, finished=False)
        self._written, self._bytes = done.draws, 0
        self._waiting.clear()
        self._flushed = time.perf_counter()

    def _checkpoint(self, done: Done, work: Work, losses: Losses) -> None:
        with writing("a checkpoint", self._run.path, self._written):
            state = state_of(done, work, losses, self._replicas)
            checkpoint.save(self._run.checkpoints.resolve(), done.pieces, state)
        self._saved = time.perf_counter()
        for watcher in self._watchers:
            watcher.event("checkpoint", f"state saved after draw {done.draws}", draws=done.draws)
