"""The sink that writes draws to a run's directory, with checkpoints, and stops when asked to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import FrameType, TracebackType
from typing import Self, TypeAlias

import jax
import numpy as np

from sundman._trees import named_leaves
from sundman._types import PyTree, Settings
from sundman.draws.trust import Ended, Failure
from sundman.run import hosts
from sundman.run.devices import Layout
from sundman.run.sinks import columns, joined
from sundman.run.state import RunState
from sundman.run.step import Record
from sundman.store import checkpoint
from sundman.store.array_writer import ArrayWriter
from sundman.store.checkpoint import Part
from sundman.store.directory import Run
from sundman.store.files import StoreError, writing
from sundman.watch.events import Watcher

Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None
_FLUSH_SECONDS = 10.0
_FLUSH_BYTES = 64 * 2**20
_CHECKPOINT_SECONDS = 30.0


def to_checkpoint(state: RunState, replicas: int, layout: Layout | None = None) -> checkpoint.Tree:
    """A state by the names of its leaves, and the positions as ``draws.last`` has them.

    Args:
      state: of a run.
      replicas: of its sampler.
      layout: where its chains are; of several processes, each has the part that it writes.
    """
    state_by_name = {**state._asdict(), "position": state.position(replicas)}
    if layout is not None and hosts.several():
        rows = np.searchsorted(layout.local, layout.written)
        for name in ("chains", "averages", "position"):
            local = layout.to_local(state_by_name[name])
            state_by_name[name] = jax.tree.map(lambda leaf: leaf[rows], local)
    return {name: named_leaves(part) for name, part in state_by_name.items()}


def progress_of(
    state: RunState,
    layout: Layout,
    *,
    finished: bool,
    failure: Failure | None = None,
    ended: Ended | None = None,
) -> Settings:
    """What a run says about how far it is, beside its draws."""
    known = state.divergences
    return {
        **state.progress._asdict(),
        **layout.settings,
        "diverged": known.draw.tolist(),
        "diverged_step": known.step.tolist(),
        "diverged_times": known.times.tolist(),
        "finished": finished,
        **({} if failure is None else {"failure": [type(failure).__name__, str(failure)]}),
        **({} if ended is None else {"ended": ended.as_json()}),
    }


class DiskSink:
    """Keeps the blocks of a run in its directory, by a thread that writes while the run goes on.

    Draws go to disk every few seconds and count from then on; a checkpoint is made every
    ``every`` pieces, or every half minute, and when a signal asks to stop. What is written is
    durable before the file that says how many draws count names it. The run waits for the disk
    only where more is to be written before the last is, and at its end. What the thread could not
    write is raised after the next piece. Entered, it is left with nothing being written.

    Args:
      run: its directory, locked by this process, or by the first of several.
      arrays: the draws that are there.
      every: pieces between checkpoints.
      stop: whether a signal asked to stop.
      watchers: are told of checkpoints.
      replicas: of the sampler.
      layout: the devices of the run.
    """

    def __init__(
        self,
        run: Run,
        arrays: ArrayWriter,
        every: int | None,
        stop: Stop,
        watchers: Sequence[Watcher],
        replicas: int,
        layout: Layout,
    ) -> None:
        self._run, self._every, self._stop, self._watchers = run, every, stop, watchers
        self._arrays, self._replicas, self._layout = arrays, replicas, layout
        self._waiting: list[Record] = []
        self._bytes = 0
        self._flushed = self._saved = time.perf_counter()
        self._thread = ThreadPoolExecutor(1, "sundman-disk")
        self._write: Future[int | None] | None = None  # of the draws of the state it has saved

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for what is being written; that it failed is a note to an error there is."""
        try:
            self._finish_write()
        except StoreError as failure:
            if error is None:
                raise
            error.add_note(str(failure))
        finally:
            self._thread.shutdown()

    def add(self, record: Record) -> None:
        """Take the draws of a block."""
        self._waiting.append(record)
        self._bytes += sum(leaf.nbytes for leaf in jax.tree.leaves(record))

    def asked_to_stop(self) -> bool:
        """Whether a signal asked one of the processes to stop."""
        return bool(hosts.highest(int(self._stop.signal is not None))[0])

    def after_piece(
        self,
        state: RunState,
        *,
        over: bool,
        save: bool,
        failure: Failure | None = None,
        ended: Ended | None = None,
    ) -> None:
        """Write what is due; stop if a signal asked for it."""
        if self._write is not None and self._write.done():
            self._finish_write()
        done, now = state.progress, time.perf_counter()
        if self._every is None:
            due = now - self._saved > _CHECKPOINT_SECONDS
        else:
            due = done.pieces % self._every == 0
        flush = self._bytes > _FLUSH_BYTES or now - self._flushed > _FLUSH_SECONDS
        asked = 0 if self._stop.signal is None else int(self._stop.signal)
        due, flush, asked = hosts.highest(int(due or over or save), int(flush), asked)
        due = due or asked
        if due or flush:
            self._finish_write()
            self._begin_write(state, with_state=bool(due))
        if over or failure is not None:  # said last: a finished run has its last state on disk
            self._finish_write()
            self._say_end(state, over=over, failure=failure, ended=ended)
        if asked and not over:
            self._finish_write()
            self._stop.signal = signal.Signals(asked)
            message = (
                f'stopped after draw {done.draws}; go on with sundman.resume("{self._run.path}")'
            )
            for watcher in self._watchers:
                watcher.event("interrupted", message, signal=self._stop.signal.name)
            raise interruption(self._stop.signal, message)

    def _begin_write(self, state: RunState, *, with_state: bool) -> None:
        """Have the draws that wait written, and the state if it is to be saved."""
        progress = progress_of(state, self._layout, finished=False)
        saved = to_checkpoint(state, self._replicas, self._layout) if with_state else None
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._flushed = time.perf_counter()
        self._saved = self._flushed if with_state else self._saved
        number, draws = state.progress.pieces, state.progress.draws

        def write() -> int | None:
            self._write_draws(waiting, progress)
            if saved is None:
                return None
            self._write_state(saved, number)
            return draws

        if hosts.several():  # they tell each other what they wrote, as they do while they compute
            self._write = Future()
            self._write.set_result(write())
        else:
            self._write = self._thread.submit(write)

    def _finish_write(self) -> None:
        """Wait for what is being written; raise if it failed, tell watchers of a new checkpoint."""
        write, self._write = self._write, None
        draws = None if write is None else write.result()
        if draws is not None:
            for watcher in self._watchers:
                watcher.event("checkpoint", f"state saved after draw {draws}", draws=draws)

    def _say_end(
        self, state: RunState, *, over: bool, failure: Failure | None, ended: Ended | None
    ) -> None:
        """Say that the run is over, once every process has saved its last state."""
        hosts.highest(0)
        if hosts.is_first():
            with writing("the end of the run", self._run.path, self._arrays.draws):
                end = progress_of(state, self._layout, finished=over, failure=failure, ended=ended)
                self._run.write_progress(self._arrays, end)
        hosts.highest(0)

    def _write_draws(self, records: list[Record], progress: Settings) -> None:
        """The draws of some blocks, and then how far the run is."""
        self._check_lock()
        try:
            with writing("draws", self._run.path, self._arrays.draws):
                if records and hosts.several():
                    self._write_part(*joined(records))
                elif records:
                    self._arrays.write(columns(*joined(records)))
                self._check_lock()
                if hosts.is_first():
                    self._run.write_progress(self._arrays, progress)
        except StoreError:
            self._check_lock()  # that the directory is gone says more
            raise

    def _check_lock(self) -> None:
        """Only the first process holds it, and writes what is not of its own chains."""
        if hosts.is_first():
            assert self._run.lock is not None
            self._run.lock.check()

    def _write_part(self, values: PyTree, weight: np.ndarray, stats: dict[str, np.ndarray]) -> None:
        """Write the groups of chains whose first one is written here, and share their checksums."""
        layout, arrays = self._layout, self._arrays
        group = next(iter(arrays.infos.values())).group
        local = layout.local
        if layout.group % group:  # a run of fewer processes: chunks have chains of several
            values, local = layout.gather_local(values, 0), np.arange(layout.chains)
        mine = [first // group for first in layout.written.tolist() if first % group == 0]
        chains = (np.array(mine, int)[:, None] * group + np.arange(group)).ravel()
        rows = np.searchsorted(local, chains)
        values = jax.tree.map(lambda leaf: leaf[rows], values)
        numbers = jax.tree.map(lambda leaf: leaf[chains], (weight, stats))
        arrays.write(columns(values, *numbers), mine)
        arrays.share_sums(mine, lambda sums: hosts.gather(sums).sum(axis=0, dtype=np.uint32))

    def _write_state(self, saved: checkpoint.Tree, number: int) -> None:
        """A checkpoint; of several processes, the part of it that is written here."""
        part = None
        if hosts.several():
            part = Part(jax.process_index(), jax.process_count(), self._layout.written)
        with writing("a checkpoint", self._run.path, self._arrays.draws):
            checkpoint.save(self._run.checkpoints, self._run.id, number, saved, part)


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
