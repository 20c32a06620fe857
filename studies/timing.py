"""Interleaved timing: contestants take turns, and are compared within a round.

A machine that is slower for a while is slower for all that run then, so a ratio within a round can
be trusted where a time cannot. Ratios are summarised over the rounds by their median, quartiles and
range. The first round compiles and warms up, and is not counted; every second round is run
backwards, so that nobody always follows the same neighbour.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from studies.others import Others

RESULTS = Path(__file__).parent / "speed" / "results"


class Case(NamedTuple):
    """Something to time: ``run(round)`` makes ``steps`` steps.

    If it returns a float, those are the seconds that count; else the time of the whole call.
    """

    run: Callable[[int], Any]
    steps: int


class Ratio(NamedTuple):
    """A ratio of two cases' times per step, which way it should go, and how far."""

    top: str
    bottom: str
    better: str
    goal: float | None = None

    @property
    def name(self) -> str:
        """Which times are divided."""
        return f"{self.top} / {self.bottom}"

    def met(self, value: float) -> bool | None:
        """Whether the goal is met, if there is one."""
        if self.goal is None:
            return None
        return value >= self.goal if self.better == "higher" else value <= self.goal

    def bound(self) -> str:
        """The goal in symbols."""
        if self.goal is None:
            return ""
        return f"{'>=' if self.better == 'higher' else '<='} {self.goal:g}"


def seconds(case: Case, number: int) -> float:
    """Seconds per step of one turn."""
    began = time.perf_counter()
    found = case.run(number)
    spent = time.perf_counter() - began
    return (found if isinstance(found, float) else spent) / case.steps


class Measured(NamedTuple):
    """Seconds per step of each case, a number for each round; cores that others used meanwhile."""

    times: dict[str, np.ndarray]
    others: float | None


def measure(cases: Mapping[str, Case], rounds: int) -> Measured:
    """Time all cases, in turn, so many times."""
    others = Others()
    spent: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(rounds + 1):
        order = list(cases) if number % 2 == 0 else list(cases)[::-1]
        for name in order:
            spent[name].append(seconds(cases[name], number))
    counted = {name: np.array(values[1:]) for name, values in spent.items()}
    return Measured(counted, others.cores())


def summary(values: np.ndarray) -> dict[str, float]:
    """Median, quartiles and range."""
    names = ("min", "quarter", "median", "three_quarters", "max")
    return dict(zip(names, np.percentile(values, [0, 25, 50, 75, 100]).tolist(), strict=True))


def keep_to(cores: int | None) -> None:
    """Start this script again on so many cores, unless it has that many already.

    Thread pools take their size from the cores they may use when they are made, which is at import.
    """
    if cores is None:
        return
    free = sorted(os.sched_getaffinity(0))
    if cores > len(free):
        raise SystemExit(f"--cores {cores}: only {len(free)} here")
    if cores < len(free):
        os.sched_setaffinity(0, free[:cores])
        os.execv(sys.executable, [sys.executable, *sys.argv])


def arguments(about: str, name: str, rounds: int) -> argparse.ArgumentParser:
    """The options every benchmark has: --rounds, --cores, --output."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--cores", type=int, default=None, help="run on so many cores only")
    parser.add_argument("--output", type=Path, default=RESULTS / f"{name}.json")
    return parser
