"""``run``: do an experiment, or go on with it, and write down what it gave."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sundman
from sundman import check
from sundman.paper.result import Result
from sundman.paper.scales import SCALES, Scale
from sundman.paper.units import Bench, Console, plain
from sundman.report.model import Figure, Table, Verdict

_MODULES = {
    "fig-star": "star",
    "fig-muller-brown": "muller_brown",
    "table1": "table1",
    "fig-logprob": "logprob",
    "fig-robustness": "robustness",
    "theory": "theory",
}
NAMES = tuple(_MODULES)


@dataclass(frozen=True)
class Task:
    """What an experiment is given.

    Attributes:
      bench: where it works.
      scale: its budget.
      seed: the first seed.
      data: the directory of MNIST, None to look for it, or ``"digits"``.
      rows: which rows to run, of an experiment that has rows; None: all.
      seeds: which seeds to run; None: all of the budget.
    """

    bench: Bench
    scale: Scale
    seed: int = 0
    data: str | Path | None = None
    rows: Sequence[str] | None = None
    seeds: Sequence[int] | None = None


@dataclass(frozen=True)
class Findings:
    """What an experiment gives back: the part of a result that is its own."""

    settings: Mapping[str, Any]
    numbers: Mapping[str, Any]
    verdicts: Sequence[Verdict] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


def run(
    name: str,
    *,
    scale: str = "quick",
    seed: int = 0,
    directory: str | Path | None = None,
    data: str | Path | None = None,
    console: Console | None = None,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> Result:
    """Run an experiment and return its result; the same seed gives the same numbers.

    Args:
      name: one of ``NAMES``; or ``"all"``, which runs each and returns them joined.
      scale: ``"quick"``, ``"standard"`` or ``"paper"``.
      seed: of everything random.
      directory: where the result is written, with its units of work and its chains; what is
        there already is not done again. None: nothing is kept.
      data: the directory of MNIST; None to look for it, ``"digits"`` for scikit-learn's digits.
      console: told of every unit that is begun.
      rows: run only these rows of the table; the result has those that are there.
      seeds: run only these seeds.
    """
    check.choice("name", name, (*NAMES, "all"))
    check.choice("scale", scale, tuple(SCALES))
    check.count("seed", seed, least=0)
    if directory is None:
        with tempfile.TemporaryDirectory() as temporary:
            return run(
                name,
                scale=scale,
                seed=seed,
                directory=temporary,
                data=data,
                console=console,
                rows=rows,
                seeds=seeds,
            )
    where = Path(directory).expanduser().absolute()
    task = Task(Bench(where, scale, console), SCALES[scale], seed, data, rows, seeds)
    if name == "all":
        return joined([_one(each, task) for each in NAMES])
    return _one(name, task)


def _one(name: str, task: Task) -> Result:
    began = time.perf_counter()
    task = replace(task, bench=replace(task.bench, before={}))
    module = importlib.import_module(f"sundman.paper.{_MODULES[name]}")
    found: Findings = module.examine(task)
    scale = task.bench.scale
    options = f" --seed {task.seed}" if task.seed else ""
    for option, given in (("--rows", task.rows), ("--seeds", task.seeds)):
        if given is not None:
            options += f" {option} {' '.join(map(str, given))}"
    result = Result(
        name=name,
        scale=scale,
        seed=task.seed,
        settings=plain(found.settings),
        numbers=plain(found.numbers),
        verdicts=tuple(found.verdicts),
        figures=tuple(found.figures),
        tables=tuple(found.tables),
        wall_seconds=time.perf_counter() - began + sum(task.bench.before.values()),
        version=sundman.__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=f"python -m sundman.paper {name} --scale {scale}{options}",
    )
    result.write(task.bench.directory)
    return result


def joined(results: Sequence[Result]) -> Result:
    """Several results as one, named ``all``: numbers and settings by experiment."""
    first = results[0]
    return replace(
        first,
        name="all",
        settings={result.name: result.settings for result in results},
        numbers={result.name: result.numbers for result in results},
        verdicts=tuple(verdict for result in results for verdict in result.verdicts),
        figures=tuple(figure for result in results for figure in result.figures),
        tables=tuple(table for result in results for table in result.tables),
        wall_seconds=sum(result.wall_seconds for result in results),
        command=first.command.replace(f" {first.name} ", " all "),
    )
