"""``sundman diagnose``, ``report`` and ``resume``: runs that are on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

import sundman
from sundman.cli import options, results_dir
from sundman.cli.bnn import repeat as repeat_bnn
from sundman.cli.errors import UserError, as_user_error
from sundman.cli.output import console, print_line
from sundman.cli.toy import repeat as repeat_toy
from sundman.report import of_run, write
from sundman.run.inputs import TargetLike
from sundman.run.spec import RunSpec
from sundman.store import StoreError
from sundman.store.directory import open_run

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="What --output was, or the store= of a run in Python.",
        show_default=False,
    ),
]


def _command_of(path: Path) -> Literal["toy", "bnn"] | None:
    """The command whose results are there; None for a run made in Python."""
    if not path.exists():
        raise UserError(f"there is nothing at {path}; give the directory of a run")
    if (path / results_dir.SETTINGS).is_file():
        command = results_dir.command_of(path / results_dir.SETTINGS)
        if command == "toy" or command == "bnn":
            return command
    if (path / "run.json").is_file():
        return None
    raise UserError(
        f"{path} is not a run; give the --output of sundman toy or bnn, or the store= of a run"
    )


def _repeat(path: Path, command: Literal["toy", "bnn"], page: Path | None = None) -> None:
    """Go on with a command from its settings; what is finished is only read."""
    repeat = repeat_toy if command == "toy" else repeat_bnn
    repeat(path.expanduser().absolute(), page)


def _stored_target(path: Path) -> TargetLike | None:
    """What was sampled, if the run can tell."""
    try:
        return cast(RunSpec, open_run(path).call()).target
    except StoreError:
        return None


def diagnose(run: Run, no_cache: options.NoCache = False) -> None:
    """Can I trust this run? One table for each of its chains' samplers or seeds.

    For example:

    sundman diagnose star
    """
    options.use_compilation_cache(not no_cache)
    _command_of(run)
    runs = results_dir.runs_in(run)
    if not runs:
        raise UserError(f"{run} has no run yet; go on with: sundman resume {run}")
    out = console()
    for name, path in runs.items():
        with as_user_error():
            draws = sundman.Draws.open(path)
        if len(draws) == 0:
            raise UserError(f"{path} has no draws yet; go on with: sundman resume {run}")
        print_line(out, name)
        sundman.diagnose(draws, _stored_target(path), console=out)


def resume(run: Run, no_cache: options.NoCache = False) -> None:
    """Go on with a run that was stopped or killed, to its end and its report.

    The draws are bit for bit those of a run that was never stopped. What is finished is not done
    again.

    For example:

    sundman resume star
    """
    options.use_compilation_cache(not no_cache)
    command = _command_of(run)
    if command is not None:
        _repeat(run, command)
        return
    with results_dir.resumable(run):
        draws = sundman.resume(run)
    sundman.diagnose(draws, _stored_target(run), console=console())


def report(
    run: Run,
    output: Annotated[
        Path | None,
        options.output("--output", "-o", text="The file. [default: RUN/report.html]"),
    ] = None,
    force: options.Force = False,
    no_cache: options.NoCache = False,
) -> None:
    """Write the report of a run: one page of HTML that needs no other file.

    For example:

    sundman report star --output star.html
    """
    options.use_compilation_cache(not no_cache)
    command = _command_of(run)
    page = run / results_dir.REPORT
    if output is not None:
        page = output.expanduser()
        _make_writable(page, force)
    if command is not None:
        if not (run / results_dir.RESULTS).is_file():
            raise UserError(f"{run} is not finished; go on with: sundman resume {run}")
        _repeat(run, command, page)
        return
    with as_user_error():
        write(of_run(run, target=_stored_target(run)), page)
    print_line(console(), f"Report: {page}")


def _make_writable(page: Path, force: bool) -> None:
    if page.exists() and (page.is_dir() or not force):
        remedy = "a file" if page.is_dir() else "another --output, or --force to replace it"
        raise UserError(f"{page} exists; use {remedy}")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    except OSError as error:
        raise UserError(f"cannot write {page}: {error.strerror}; use another --output") from None
