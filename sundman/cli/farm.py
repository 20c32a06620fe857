"""Seeds as an array of tasks, which share nothing but a directory of results.

Task n of N does every N-th seed, beginning with the n-th. The runs of all tasks are in one
directory, and the task that finds all of them finished makes results and report. There is no
daemon: Slurm, GNU parallel or a loop of the shell starts the tasks, and one that was killed is
started again. ``sundman merge`` does the last step by hand, also for directories of several
machines.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import typer

from sundman.cli import options
from sundman.cli.errors import UserError, as_user_error
from sundman.cli.output import RUNS
from sundman.cli.settings import SETTINGS, same_settings
from sundman.store import StoreError
from sundman.store.directory import open_run
from sundman.store.files import Lock

Unit = TypeVar("Unit")
ArrayTask = Annotated[
    options.Count,
    options.run("--array-task", text="Do a part of the seeds: the number of this task, from 0."),
]
ArrayTasks = Annotated[
    options.Count,
    options.run(
        "--array-tasks",
        text="How many tasks there are. [default: one for each seed]",
    ),
]


class Task(NamedTuple):
    """One of several tasks."""

    number: int
    of: int

    def share(self, units: Sequence[Unit]) -> list[Unit]:
        """The units of work that this task does."""
        return list(units[self.number :: self.of])


def task_of(number: int | None, of: int | None, units: int) -> Task | None:
    """The task that was asked for, if any.

    Args:
      number: what ``--array-task`` says.
      of: what ``--array-tasks`` says.
      units: how many units of work there are.
    """
    if number is None:
        if of is not None:
            raise UserError(f"--array-tasks {of} needs --array-task; give the number of this task")
        return None
    if of is None:
        # Not SLURM_ARRAY_TASK_COUNT, which is 1 when one task of many is submitted again.
        of = units
    if of < 1:
        raise UserError(f"--array-tasks must be 1 or more, got {of}; use {units}, say")
    if not 0 <= number < of:
        raise UserError(
            f"--array-task must be from 0 to {of - 1}, got {number}; of Slurm, use "
            f"--array=0-{of - 1}"
        )
    return Task(number, of)


def unfinished(path: Path, names: Sequence[str]) -> list[str]:
    """Those of the runs in a directory of results that have not come to their end."""

    def is_over(name: str) -> bool:
        try:
            progress = open_run(path / RUNS / name).progress()
        except StoreError:
            return False
        return progress["finished"] or "failure" in progress

    return [name for name in names if not is_over(name)]


@contextmanager
def by_one(path: Path) -> Iterator[bool]:
    """Whether this task is the one that does what is inside; several may come to it at once."""
    try:
        lock = Lock(path)
    except StoreError:
        yield False
        return
    try:
        yield True
    finally:
        lock.path.unlink(missing_ok=True)
        lock.release()


def collect(path: Path, others: Sequence[Path]) -> None:
    """Copy the runs of other directories of the same settings into one.

    Args:
      path: the directory to have them all; it is made if need be.
      others: where they are.
    """
    with as_user_error():
        for other in others:
            if not (other / SETTINGS).is_file():
                raise UserError(f"{other} has no {SETTINGS}; give the --output of sundman bnn")
            path.mkdir(parents=True, exist_ok=True)
            if not (path / SETTINGS).exists():
                shutil.copy(other / SETTINGS, path / SETTINGS)
            if not same_settings(path / SETTINGS, other / SETTINGS):
                raise UserError(
                    f"{other} was made with other settings than {path}; compare their {SETTINGS}"
                )
            for run in sorted((other / RUNS).glob("*/run.json")):
                name = run.parent.name
                if unfinished(other, [name]) or not unfinished(path, [name]):
                    continue
                (path / RUNS).mkdir(exist_ok=True)
                copy = path / RUNS / f".{name}.{os.getpid()}.copy"
                shutil.copytree(run.parent, copy)
                shutil.rmtree(path / RUNS / name, ignore_errors=True)
                copy.rename(path / RUNS / name)


Directory = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="What --output of the tasks was.", show_default=False),
]
Others = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FROM...", help="Directories whose runs are copied there.", show_default=False
    ),
]
