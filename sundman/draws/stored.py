"""Draws of a run on disk: what can be read at once, and what is read when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from sundman._trees import leaf_names, rebuilt, with_named_leaves
from sundman._types import PyTree, Settings
from sundman.draws.online import Average, averaged
from sundman.draws.trust import Verdict
from sundman.store import checkpoint
from sundman.store.arrays import Arrays, LazyArray
from sundman.store.directory import Run, open_run
from sundman.tune import Tuning
from sundman.tune.saved import from_bytes


class StoredStats(Mapping[str, np.ndarray]):
    """Statistics by name, each read once, when it is first asked for."""

    def __init__(self, arrays: Arrays, names: Mapping[str, str], draws: int) -> None:
        self._arrays, self._names, self._draws = arrays, names, draws
        self._read: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        """One statistic, (chain, draw)."""
        if name not in self._read:
            self._read[name] = np.asarray(LazyArray(self._arrays[self._names[name]], self._draws))
        return self._read[name]

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


def read(path: str | os.PathLike[str]) -> Stored:
    """The draws of a run, finished or going on: those that were written by now."""
    run = open_run(path)
    progress, structure = run.progress(), run.structure()
    count, arrays = progress["draws"], run.arrays()
    names = [f"values/{name}" for name in leaf_names(structure["values"])]
    recorded = {
        name.removeprefix("stats/"): name
        for name in run.about["arrays"]
        if name.startswith("stats/")
    }
    arrays.check([*names, "weight", *recorded.values()], count)
    if run.about["weighting"] == "leaving":
        recorded = {"dt": "weight", **recorded}
    never = [-1] * run.about["chains"]
    outcome = {
        "steps": progress.get("steps", 0),
        "seconds": progress.get("seconds", 0.0),
        "diverged_step": progress.get("diverged_step", never),
        "finished": progress["finished"],
        "path": str(run.path),
    }
    fields = {
        "values": rebuilt(structure["values"], [LazyArray(arrays[n], count) for n in names]),
        "stats": StoredStats(arrays, recorded, count),
        "diverged_at": np.asarray(progress.get("diverged", never)),
        "settings": {**run.about["settings"], **outcome},
        "has_position": run.about["has_position"],
        "verdict": None,
        "tuning": None,
    }
    tuning = _tuning(run)
    if tuning is not None:
        fields["tuning"], settings = tuning
        fields["settings"] = {**settings, **outcome}
    verdict = run.verdict()
    if verdict is not None:
        fields["verdict"] = Verdict.from_json(verdict)

    @cache
    def state() -> checkpoint.Tree:
        return checkpoint.load_latest(run.checkpoints.resolve())[1]

    return Stored(
        fields,
        {
            "weight": lambda: np.asarray(LazyArray(run.arrays()["weight"], count)),
            "last": lambda: _part(run, "position", state()),
            "online": lambda: _online(run, state()),
        },
    )


def _tuning(run: Run) -> tuple[Tuning, Settings] | None:
    """What the sampler found out in its warm-up, and its settings since, if it tuned itself."""
    content = run.file("tuning.npz")
    if content is None:
        return None
    plain, arrays = from_bytes(content)
    return Tuning.from_parts(plain, arrays, run.structure()["position"]), plain["settings"]


def _part(run: Run, name: str, state: checkpoint.Tree) -> PyTree:
    """One part of the last checkpoint, as the pytree it was."""
    structure = run.structure()
    if run.about["format"] == 1:  # leaves had numbers, and the averages another name
        skeleton = structure[{"averages": "online"}.get(name, name)]
        return rebuilt(skeleton, [state[name][number] for number in sorted(state[name])])
    return with_named_leaves(structure[name], state.get(name, {}))


def _online(run: Run, state: checkpoint.Tree) -> Average | None:
    structure = run.structure()
    if structure.get("averages", structure.get("online")) is None:
        return None
    return averaged(_part(run, "averages", state))
