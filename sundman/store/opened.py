"""Draws of a run on disk, read when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from sundman.draws import Draws
from sundman.store import checkpoint
from sundman.store.arrays import Arrays, LazyArray
from sundman.store.run import Run, leaf_names, open_run, rebuilt

PyTree = Any
_LATER = ("weight", "last", "online")


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


class StoredDraws(Draws):
    """Draws whose values stay on disk; weights, statistics and the last state load when used."""

    def __getattr__(self, name: str) -> Any:
        """Load what was left out."""
        if name not in _LATER or "_run" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        loaded = self._weight() if name == "weight" else self._state()[name]
        object.__setattr__(self, name, loaded)
        return loaded

    def _weight(self) -> np.ndarray:
        run: Run = self.__dict__["_run"]
        return np.asarray(LazyArray(run.arrays()["weight"], len(self)))

    def _state(self) -> dict[str, PyTree]:
        run: Run = self.__dict__["_run"]
        _, tree = checkpoint.load_latest(run.checkpoints.resolve())
        structure = run.structure()
        found = {"last": rebuilt(structure["position"], _in_order(tree["position"]))}
        found["online"] = None
        if structure["online"] is not None:
            found["online"] = _known(rebuilt(structure["online"], _in_order(tree["averages"])))
        return found


def _in_order(leaves: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    return [leaves[name] for name in sorted(leaves)]


def _known(averages: Any) -> Any:
    from sundman.runner.online import known

    return known(averages)


def open_draws(path: str | os.PathLike[str]) -> StoredDraws:
    """The draws of a run, finished or going on: those that were written by now."""
    run = open_run(path)
    progress, structure = run.progress(), run.structure()
    count, arrays = progress["draws"], run.arrays()
    names = [f"values/{name}" for name in leaf_names(structure["values"])]
    recorded = {
        name.removeprefix("stats/"): name
        for name in arrays.all_names()
        if name.startswith("stats/")
    }
    arrays.check([*names, "weight", *recorded.values()], count)
    if run.about["weighting"] == "leaving":
        recorded = {"dt": "weight", **recorded}
    never = [-1] * run.about["chains"]
    made = {"steps": progress.get("steps", 0), "seconds": progress.get("seconds", 0.0)}
    made |= {"diverged_step": progress.get("diverged_step", never)}
    made |= {"finished": progress["finished"], "path": str(run.path)}
    draws = object.__new__(StoredDraws)
    parts = {
        "_run": run,
        "values": rebuilt(structure["values"], [LazyArray(arrays[n], count) for n in names]),
        "stats": StoredStats(arrays, recorded, count),
        "diverged": np.asarray(progress.get("diverged", never)),
        "settings": {**run.about["settings"], **made},
        "has_position": run.about["has_position"],
    }
    for name, part in parts.items():
        object.__setattr__(draws, name, part)
    return draws
