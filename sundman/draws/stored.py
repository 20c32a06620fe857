"""Draws of a run on disk: what can be read at once, and what is read when it is asked for.

Nothing of a run is code: JSON, arrays, and archives of arrays.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import jax
import numpy as np

from sundman._trees import with_named_leaves
from sundman._types import DrawsArray, PyTree, Settings
from sundman.draws.online import Average, RunningAverage, averaged
from sundman.draws.trust import Ended, Verdict
from sundman.store import checkpoint
from sundman.store.arrays import Arrays
from sundman.store.directory import Run, check_settings, open_run
from sundman.store.files import StoreError
from sundman.store.lazy_array import LazyArray
from sundman.store.structure import leaf_count, structure_from_json
from sundman.tune import Tuning
from sundman.tune.saved import from_bytes


class StoredStats(Mapping[str, np.ndarray]):
    """Statistics by name, each read once, when it is first asked for."""

    def __init__(self, arrays: Arrays, names: Mapping[str, str]) -> None:
        self._arrays, self._names = arrays, names
        self._read: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        """One statistic, (chain, draw)."""
        if name not in self._read:
            self._read[name] = np.asarray(LazyArray(self._arrays, self._names[name]))
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        """Whether it was recorded."""
        return name in self._names

    def column(self, name: str) -> DrawsArray:
        """One statistic, or ``"weight"``, of which only what is asked for is read."""
        if name in self._read:
            return self._read[name]
        return LazyArray(self._arrays, self._names.get(name, name))

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._names)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._names)


class Stored(NamedTuple):
    """The fields of :class:`sundman.Draws`, and those to be read when they are asked for."""

    fields: Mapping[str, object]
    deferred: Mapping[str, Callable[[], object]]


def read(path: str | os.PathLike[str], like: Mapping[str, PyTree] | None = None) -> Stored:
    """The draws of a run, finished or going on: those that were written by now.

    Args:
      path: of the run.
      like: pytrees of the classes that ``values``, ``position`` and ``averages`` are of, where
        they are known; else they are made as far as the classes are imported already.

    Returns:
      Their fields.
    """
    run = open_run(path)
    progress = run.progress()
    arrays = run.arrays(progress)
    arrays.check_metadata()
    arrays.check_sizes()
    names = [name for name in run.infos if name.startswith("values/")]
    recorded = {
        name.removeprefix("stats/"): name for name in run.infos if name.startswith("stats/")
    }
    if run.about["weighting"] == "leaving":
        recorded = {"dt": "weight", **recorded}
    never = [-1] * run.about["chains"]
    outcome = {
        "steps": progress.get("steps", 0),
        "seconds": progress.get("seconds", 0.0),
        "diverged_step": progress.get("diverged_step", never),
        "diverged_times": progress.get("diverged_times", [0] * run.about["chains"]),
        "finished": progress["finished"],
        "path": str(run.path),
        **({"devices": progress["devices"]} if "devices" in progress else {}),
    }
    fields = {
        "values": _tree(run, "values", like, [LazyArray(arrays, name) for name in names]),
        "stats": StoredStats(arrays, recorded),
        "diverged_at": np.asarray(progress.get("diverged", never)),
        "settings": {**run.about["settings"], **outcome},
        "has_position": run.about["has_position"],
        "verdict": None,
        "tuning": None,
        "ended": ended_of(run, progress),
    }
    tuning = _tuning(run, like)
    if tuning is not None:
        fields["tuning"], settings = tuning
        since = {n: v for n, v in run.about["settings"].items() if n in ("draws", "until")}
        fields["settings"] = {**settings, **since, **outcome}  # it may have become longer
    verdict = run.verdict(progress["draws"])
    if verdict is not None and progress["finished"]:
        fields["verdict"] = Verdict.from_json(verdict)

    @cache
    def state() -> checkpoint.Tree:
        return checkpoint.load_latest(run.checkpoints, run.id)

    return Stored(
        fields,
        {
            "weight": lambda: np.asarray(LazyArray(arrays, "weight")),
            "last": lambda: _part(run, "position", like, state()),
            "online": lambda: _online(run, like, state()),
        },
    )


def ended_of(run: Run, progress: Settings) -> Ended | None:
    """What ended the run, if it had a rule and is over."""
    stored = progress.get("ended")
    try:
        return None if stored is None else Ended.from_json(stored)
    except ValueError as error:
        raise StoreError(f"{run.path / 'progress.json'} is damaged: {error}") from None


def _tree(
    run: Run, name: str, like: Mapping[str, PyTree] | None, leaves: list[object] | None = None
) -> PyTree:
    """A pytree of the run with these leaves; with the numbers of its leaves if none are given."""
    structure = run.about["structure"].get(name)
    if leaves is None:
        leaves = list(range(leaf_count(structure)))
    if like is not None:
        return jax.tree.unflatten(jax.tree.structure(like[name]), leaves)
    return structure_from_json(structure, leaves)


def _tuning(run: Run, like: Mapping[str, PyTree] | None) -> tuple[Tuning, Settings] | None:
    """What the sampler found out in its warm-up, and its settings since, if it tuned itself."""
    content = run.file("tuning.npz")
    if content is None:
        return None
    try:
        plain, arrays = from_bytes(content)
        run.check_owner("tuning.npz", plain.get("run"))
        check_settings(plain["settings"], run.about["chains"])
        return Tuning.from_parts(plain, arrays, _tree(run, "position", like)), plain["settings"]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StoreError(f"{run.path / 'tuning.npz'} is damaged: {error}") from None


def _part(run: Run, name: str, like: Mapping[str, PyTree] | None, state: checkpoint.Tree) -> PyTree:
    """One part of the last checkpoint, as the pytree it was."""
    try:
        return with_named_leaves(_tree(run, name, like), state.get(name, {}))
    except KeyError as missing:
        raise StoreError(
            f"{run.checkpoints} is damaged: its states do not fit the run, they have no or an "
            f"unknown {missing}"
        ) from None


def _online(run: Run, like: Mapping[str, PyTree] | None, state: checkpoint.Tree) -> Average | None:
    if run.about["structure"].get("averages") is None:
        return None
    running = _part(run, "averages", like, state)
    if not isinstance(running, RunningAverage):
        raise StoreError(f"{run.path / 'run.json'} is damaged: its averages are not averages")
    try:
        return averaged(running)
    except (TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"{run.checkpoints} is damaged: its averages are none ({error})") from None
