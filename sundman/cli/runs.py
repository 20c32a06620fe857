"""Commands about runs on disk: list, judge, go on with, make longer, export or remove them."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import sundman
from sundman.cli import farm, options
from sundman.cli.bnn import repeat
from sundman.cli.bnn.plan import BnnSettings, make_plan
from sundman.cli.bnn.run import run_networks
from sundman.cli.errors import UserError, as_user_error
from sundman.cli.output import console, print_line, print_table, resumable, runs_in
from sundman.cli.settings import SETTINGS, Request, command_of
from sundman.draws.stored import ended_of
from sundman.report import Table
from sundman.run.inputs import TargetLike
from sundman.store import StoreError
from sundman.store.directory import open_run
from sundman.store.files import is_held

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
    total = 0
    for where, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):  # a run that is written replaces its files
                total += os.lstat(Path(where, name)).st_size
    return total


def _bytes(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"


def _row(path: Path, name: str) -> list[str]:
    """State, draws, what ended it, sampler, size and verdict of a run."""
    size = _bytes(_size(path))
    try:
        run = open_run(path)
        progress = run.progress()
        verdict = run.verdict(progress["draws"])
        ended = ended_of(run, progress)
    except StoreError as error:
        return [name, "damaged", "", "", "", size, str(error).split(": ", 1)[-1][:60]]
    state = "finished" if progress["finished"] else "stopped"
    if not progress["finished"] and is_held(path):
        state = "running"
    if "failure" in progress:
        state = "failed"
    judged = "" if verdict is None or state != "finished" else verdict["status"]
    draws = f"{progress['draws']:,} of {run.about['draws']:,}"
    by = "" if ended is None else ended.rule if ended.by == "rule" else ended.by
    return [name, state, draws, by, str(run.about["settings"].get("sampler", "")), size, judged]


def runs(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to look. [default: .]", show_default=False)
    ] = Path(),
) -> None:
    """List the runs in a directory: state, draws, what ended them, sampler, size and verdict.

    For example:

    sundman runs runs
    """
    if not directory.is_dir():
        raise UserError(f"there is no directory {directory}; give one that has runs in it")
    paths = []
    for where, inside, names in os.walk(directory):
        depth = len(Path(where).relative_to(directory).parts)
        inside[:] = [name for name in inside if not name.endswith(".building")]
        if "run.json" in names or depth >= _DEEPEST:
            inside.clear()
        if "run.json" in names:
            paths.append(Path(where))
    rows = [_row(path, str(path.relative_to(directory))) for path in sorted(paths)]
    if not rows:
        raise UserError(f"there are no runs in {directory}; begin one with: sundman bnn digits")
    columns = ["run", "state", "draws", "ended by", "sampler", "size", "verdict"]
    if not any(row[3] for row in rows):  # no run had a rule
        columns, rows = columns[:3] + columns[4:], [row[:3] + row[4:] for row in rows]
    print_table(console(), Table("", columns, rows))


def extend(
    run: Run,
    steps: Annotated[
        int | None, options.run("--steps", text="How many more steps of each chain.")
    ] = None,
    draws: Annotated[
        int | None, options.run("--draws", text="How many more draws per chain, instead.")
    ] = None,
    until: options.Until = None,
    no_cache: options.NoCache = False,
) -> None:
    """Make a run on disk longer, bit for bit as if it had been so from the beginning.

    For example:

    sundman extend runs/mnist --steps 10000
    """
    options.use_compilation_cache(not no_cache)
    with as_user_error(), resumable(run):
        longer = sundman.extend(run, steps=steps, draws=draws, until=options.rule(until))
    print_line(console(), f"{longer.chains} chains of {len(longer):,} draws: {longer.verdict}")


def merge(
    directory: farm.Directory, others: farm.Others = None, no_cache: options.NoCache = False
) -> None:
    """Make results and report of seeds that were run as the tasks of an array.

    The last task does this by itself if all share one directory. Runs of other directories, made
    with the same settings on machines that share none, are copied into the first.

    For example:

    sundman merge mnist

    sundman merge mnist node1/mnist node2/mnist
    """
    options.use_compilation_cache(not no_cache)
    farm.collect(directory, others or [])
    if not (directory / SETTINGS).is_file() or command_of(directory / SETTINGS) != "bnn":
        raise UserError(f"{directory} is not of sundman bnn; give the --output of its tasks")
    plan = make_plan(Request(BnnSettings.read(directory / SETTINGS)))
    seed, seeds = plan.settings.seed, plan.settings.seeds
    names = [f"seed-{number}" for number in range(seed, seed + seeds)]
    missing = farm.unfinished(directory, names)
    if missing:
        raise UserError(
            f"{len(missing)} of {seeds} runs are not finished: {', '.join(missing[:5])}"
            f"{', ...' if len(missing) > 5 else ''}; run their tasks again, or go on here with: "
            f"sundman resume {directory}"
        )
    run_networks(plan, directory.expanduser().absolute(), resuming=True)


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
    if is_held(run):
        raise UserError(f"{run} is being written; stop the process that does, or wait for it")
    if run.is_symlink():
        raise UserError(f"{run} is a link; remove the run it points to")
    if not force:
        raise UserError(f"{run} has {_bytes(_size(run))}; add --force to remove it")
    with as_user_error():
        shutil.rmtree(run)
    print_line(console(), f"{run} is removed")


def made_by_command(path: Path) -> bool:
    """Whether the results there are those of ``sundman bnn``, and not a run made in Python."""
    if not path.exists():
        raise UserError(f"there is nothing at {path}; give the directory of a run")
    if (path / SETTINGS).is_file() and command_of(path / SETTINGS) == "bnn":
        return True
    if (path / "run.json").is_file():
        return False
    raise UserError(
        f"{path} is not a run; give the --output of sundman bnn, or the store= of a run"
    )


def stored_target(path: Path) -> TargetLike | None:
    """What was sampled, if it is all of this library: no other code is run to look at a run."""
    try:
        return open_run(path).call(ours=True)["target"]
    except (StoreError, KeyError):
        return None


def diagnose(run: Run, no_cache: options.NoCache = False) -> None:
    """Can I trust this run? One table for each of its chains' samplers or seeds.

    For example:

    sundman diagnose star
    """
    options.use_compilation_cache(not no_cache)
    made_by_command(run)
    runs = runs_in(run)
    if not runs:
        raise UserError(f"{run} has no run yet; go on with: sundman resume {run}")
    out = console()
    for name, path in runs.items():
        with as_user_error():
            draws = sundman.Draws.open(path)
        if len(draws) == 0:
            raise UserError(f"{path} has no draws yet; go on with: sundman resume {run}")
        print_line(out, name)
        with as_user_error():
            sundman.diagnose(draws, stored_target(path), console=out)


def resume(run: Run, no_cache: options.NoCache = False) -> None:
    """Go on with a run that was stopped or killed, to its end and its report.

    The draws are bit for bit those of a run that was never stopped. What is finished is not done
    again.

    For example:

    sundman resume star
    """
    options.use_compilation_cache(not no_cache)
    if made_by_command(run):
        repeat(run.expanduser().absolute(), None)
        return
    with resumable(run):
        draws = sundman.resume(run)
    sundman.diagnose(draws, stored_target(run), console=console())
