"""Draws of a run on disk, read when they are asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from sundman._trees import leaf_names, rebuilt
from sundman._types import PyTree
from sundman.draws import Draws
from sundman.store import checkpoint
from sundman.store.arrays import Arrays, LazyArray
from sundman.store.directory import Run, open_run


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

    _run: Run
    _count: int

    @cached_property
    def weight(self) -> np.ndarray:  # type: ignore[override]
        """The weights, (chain, draw)."""
        return np.asarray(LazyArray(self._run.arrays()["weight"], self._count))

    @cached_property
    def last(self) -> PyTree:  # type: ignore[override]
        """The position of each chain at the last checkpoint."""
        return rebuilt(self._run.structure()["position"], _in_order(self._state["position"]))

    @cached_property
    def online(self) -> Any:  # type: ignore[override]
        """The online averages at the last checkpoint."""
        structure = self._run.structure()["online"]
        if structure is None:
            return None
        return _known(rebuilt(structure, _in_order(self._state["averages"])))

    @cached_property
    def _state(self) -> checkpoint.Tree:
        return checkpoint.load_latest(self._run.checkpoints.resolve())[1]


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
        for name in run.about["arrays"]
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
        "_count": count,
        "values": rebuilt(structure["values"], [LazyArray(arrays[n], count) for n in names]),
        "stats": StoredStats(arrays, recorded, count),
        "diverged": np.asarray(progress.get("diverged", never)),
        "settings": {**run.about["settings"], **made},
        "has_position": run.about["has_position"],
    }
    for name, part in parts.items():
        object.__setattr__(draws, name, part)
    return draws
