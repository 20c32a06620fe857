"""Commands about the runs in a directory: list them, make one longer, move it, remove it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated

import typer

import sundman
from sundman.cli import options
from sundman.cli.errors import UserError, as_user_error
from sundman.cli.output import console, print_line, print_table, resumable
from sundman.report import Table
from sundman.store.directory import open_run
from sundman.store.files import Lock, StoreError

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="What --output was, or the store= of a run in Python.",
        show_default=False,
    ),
]
_DEEPEST = 4


def _size(path: Path) -> int:
    """Bytes of all files below."""
    return sum(
        os.lstat(Path(where, name)).st_size for where, _, names in os.walk(path) for name in names
    )


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def _row(path: Path, name: str) -> list[str]:
    """State, draws, sampler, size and verdict of a run."""
    size = _bytes(_size(path))
    try:
        run = open_run(path)
        progress, verdict = run.progress(), run.verdict()
    except StoreError as error:
        return [name, "damaged", "", "", size, str(error).split(": ", 1)[-1][:60]]
    state = "finished" if progress["finished"] else "stopped"
    if not progress["finished"] and _is_held(path):
        state = "running"
    if "failure" in progress:
        state = "failed"
    judged = "" if verdict is None or state != "finished" else verdict["status"]
    draws = f"{progress['draws']:,} of {run.about['draws']:,}"
    return [name, state, draws, str(run.about["settings"].get("sampler", "")), size, judged]


def _is_held(path: Path) -> bool:
    """Whether a process writes there; a medium that cannot be written has none."""
    try:
        Lock(path).release()
    except StoreError as error:
        return "is being written" in str(error)
    return False


def runs(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to look. [default: .]", show_default=False)
    ] = Path(),
) -> None:
    """List the runs in a directory: state, draws, sampler, size and verdict.

    For example:

    sundman runs runs
    """
    if not directory.is_dir():
        raise UserError(f"there is no directory {directory}; give one that has runs in it")
    found = []
    for where, inside, names in os.walk(directory):
        depth = len(Path(where).relative_to(directory).parts)
        if "run.json" in names or depth >= _DEEPEST:
            inside.clear()
        if "run.json" in names:
            found.append(Path(where))
    rows = [_row(path, str(path.relative_to(directory))) for path in sorted(found)]
    if not rows:
        raise UserError(f"there are no runs in {directory}; begin one with: sundman toy star")
    print_table(console(), Table("", ("run", "state", "draws", "sampler", "size", "verdict"), rows))


def extend(
    run: Run,
    steps: Annotated[
        int | None, options.run("--steps", text="How many more steps of each chain.")
    ] = None,
    draws: Annotated[
        int | None, options.run("--draws", text="How many more draws per chain, instead.")
    ] = None,
    no_cache: options.NoCache = False,
) -> None:
    """Make a run on disk longer, bit for bit as if it had been so from the beginning.

    For example:

    sundman extend runs/mnist --steps 10000
    """
    options.use_compilation_cache(not no_cache)
    with as_user_error(), resumable(run):
        longer = sundman.extend(run, steps=steps, draws=draws)
    print_line(console(), f"{longer.chains} chains of {len(longer):,} draws: {longer.verdict}")


def export(
    run: Run,
    output: Annotated[Path, options.output("--output", "-o", text="The file, such as run.npz.")],
    thin: Annotated[int, options.run("--thin", text="Keep every n-th draw. [default: 1]")] = 1,
    dtype: Annotated[
        str | None, options.run("--dtype", text="Of the values: float16, float32 or float64.")
    ] = None,
    force: options.Force = False,
) -> None:
    """Write the draws of a run as one file that numpy.load opens.

    For example:

    sundman export runs/mnist --output mnist.npz --thin 10 --dtype float16
    """
    if dtype not in (None, "float16", "float32", "float64"):
        raise UserError(f"there is no --dtype {dtype!r}; use float16, float32 or float64")
    if output.exists() and not force:
        raise UserError(f"{output} exists; use another --output, or --force to replace it")
    with as_user_error():
        where = sundman.export(sundman.Draws.open(run), output, thin=thin, dtype=dtype)
    print_line(console(), f"{where}: {_bytes(where.stat().st_size)}")


def rm(
    run: Run,
    force: Annotated[
        bool, options.output("--force", text="Remove it; without, only say what would go.")
    ] = False,
) -> None:
    """Remove a run from the disk, unless a process writes to it.

    For example:

    sundman rm runs/mnist --force
    """
    if not (run / "run.json").is_file():
        raise UserError(f"{run} is not a run; see the runs there are with: sundman runs")
    if _is_held(run):
        raise UserError(f"{run} is being written; stop the process that does, or wait for it")
    if run.is_symlink():
        raise UserError(f"{run} is a link; remove the run it points to")
    if not force:
        raise UserError(f"{run} has {_bytes(_size(run))}; add --force to remove it")
    with as_user_error():
        shutil.rmtree(run)
    print_line(console(), f"{run} is removed")
