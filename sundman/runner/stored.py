"""Draws kept on disk while a run goes on, with checkpoints to resume from."""

from __future__ import annotations

import time
import zlib
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

import sundman
from sundman.noise import Stream
from sundman.posterior import Posterior
from sundman.runner import loop
from sundman.runner.call import Call, Parts
from sundman.runner.guard import Losses, Work
from sundman.runner.loop import Record
from sundman.runner.report import Watcher
from sundman.runner.session import Done, last_chain, last_position
from sundman.runner.stop import Stop, interruption
from sundman.runner.turns import each_chain
from sundman.store import checkpoint
from sundman.store.files import writing
from sundman.store.run import Run, as_arrays, leaf_names, skeleton
from sundman.targets import Target

PyTree = Any
_FLUSH_SECONDS = 10.0
_FLUSH_BYTES = 64 * 2**20
_CHECKPOINT_SECONDS = 30.0


def _estimator_in_words(estimator: Any) -> dict[str, Any]:
    """Which gradient estimator, its numbers, and a checksum of each of its arrays."""
    kind = type(estimator).__name__
    found: dict[str, Any] = {f"target.{kind.lower()}": True}
    for field in fields(estimator) if is_dataclass(estimator) else ():
        value = getattr(estimator, field.name)
        if value is None or isinstance(value, (bool, int, float, str)):
            found[f"target.{field.name}"] = value
        elif is_dataclass(value):
            found |= _estimator_in_words(value)
        elif not isinstance(value, Posterior):
            found[f"target.{field.name}"] = _checksum(value)
    return found


def _checksum(tree: PyTree) -> str:
    total = 0
    for leaf in jax.tree.leaves(tree):
        total = zlib.crc32(np.ascontiguousarray(leaf).tobytes(), total)
    return f"crc32 {total:08x}"


def _target_in_words(target: Any) -> dict[str, Any]:
    """What a target is, as far as one can tell without running it."""
    posterior = target if isinstance(target, Posterior) else getattr(target, "posterior", None)
    if isinstance(posterior, Posterior):
        return {
            **({} if target is posterior else _estimator_in_words(target)),
            "target": "posterior",
            "target.rows": posterior.size,
            "target.data": _checksum(posterior.data),
            "target.likelihood": posterior.likelihood.name,
            "target.temperature": posterior.temperature,
        }
    if isinstance(target, Target):
        return {"target": target.name, "target.temperature": target.temperature}
    return {"target": getattr(target, "__qualname__", type(target).__qualname__)}


def _in_words(tree: PyTree) -> dict[str, str]:
    leaves = jax.tree.leaves(tree)
    return {
        name: f"{leaf.dtype.name}{list(leaf.shape)}"
        for name, leaf in zip(leaf_names(tree), leaves, strict=True)
    }


def identify(call: Call, parts: Parts) -> dict[str, str]:
    """What must be the same for a run to go on, as one flat mapping of texts."""
    chain = last_chain(parts.work)
    position = _in_words(chain.position)
    values = _in_words(jax.eval_shape(jax.vmap(parts.plan.collect), chain.position))
    key = np.asarray(chain.state.key[0]).tolist()
    found = {
        **call.settings,
        **_target_in_words(call.target),
        "key": key,
        "stats": list(call.stats),
        "online": call.online is not None,
        "native": call.native,
        **{f"position.{name}": text for name, text in position.items()},
        **{f"values.{name}": text for name, text in values.items()},
    }
    return {name: str(value) for name, value in found.items()}


@partial(jax.jit, static_argnames=("gradient",))
def _potential(stream: Stream, position: PyTree, data: PyTree, gradient: Any) -> Any:
    return gradient(stream, position, data)[0]


def first_potential(parts: Parts) -> float:
    """The potential where chain 0 begins: it tells targets apart that are called the same."""
    position, state, _ = jax.tree.map(lambda leaf: leaf[0], last_chain(parts.work))
    stream = Stream(state.key, state.clock.step)
    return float(np.sum(_potential(stream, position, parts.example, parts.plan.gradient)))


def describe(call: Call, parts: Parts) -> dict[str, Any]:
    """What run.json says about a run."""
    return {
        "sundman": sundman.__version__,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "chains": call.chains,
        "draws": call.draws,
        "has_position": call.collect is None,
        "weighting": call.settings["weighting"],
        "size": parts.size._asdict(),
        "settings": call.settings,
        "identity": identify(call, parts),
        "first_potential": first_potential(parts),
    }


def layout(call: Call, parts: Parts) -> tuple[dict[str, PyTree], dict[str, tuple]]:
    """The skeletons of the pytrees of a run, and name -> (shape, dtype) of its arrays."""
    chain = last_chain(parts.work)
    data = parts.example
    values = jax.eval_shape(jax.vmap(parts.plan.collect), chain.position)
    _, _, weight, stats = jax.eval_shape(
        lambda c: each_chain(lambda one: loop.step(one, data, parts.plan), c), chain
    )
    columns = {
        **{
            f"values/{n}": v
            for n, v in zip(leaf_names(values), jax.tree.leaves(values), strict=True)
        },
        "weight": weight,
        **{f"stats/{name}": leaf for name, leaf in stats.items()},
    }
    shapes = {
        name: ((leaf.shape[0], call.draws, *leaf.shape[1:]), leaf.dtype)
        for name, leaf in columns.items()
    }
    structure = {
        "values": skeleton(values),
        "position": skeleton(last_position(parts.work, parts.replicas)),
        "online": None if parts.work.averages is None else skeleton(parts.work.averages),
    }
    return structure, shapes


def state_of(done: Done, work: Work, losses: Losses, replicas: int) -> checkpoint.Tree:
    """A complete state, for a checkpoint."""
    return {
        "work": as_arrays(work.chain),
        "position": as_arrays(last_position(work, replicas)),
        "averages": as_arrays(work.averages),
        "losses": losses.arrays(),
        "done": {name: np.asarray(value) for name, value in done._asdict().items()},
    }


def _columns(records: list[Record]) -> dict[str, np.ndarray]:
    def join(*parts: np.ndarray) -> np.ndarray:
        return np.swapaxes(parts[0] if len(parts) == 1 else np.concatenate(parts), 0, 1)

    values, weight, stats, _ = jax.tree.map(
        join,
        *[record._replace(broke=None) for record in records],
    )
    names = leaf_names(values)
    return {
        **{f"values/{n}": v for n, v in zip(names, jax.tree.leaves(values), strict=True)},
        "weight": weight,
        **{f"stats/{name}": column for name, column in stats.items()},
    }


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
                self._arrays.write(self._written, _columns(self._waiting))
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
