"""``sundman diagnose``, ``report`` and ``resume``: runs that are on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sundman.cli import cache, folder, options, screen, toml
from sundman.cli.errors import UserError, at_the_door
from sundman.store import StoreError

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="What --output was, or the store= of a run in Python.",
        show_default=False,
    ),
]


def _made_by(path: Path) -> str:
    """The command whose results are there; empty for a run made in Python."""
    if not path.exists():
        raise UserError(f"there is nothing at {path}; give the directory of a run")
    if (path / folder.SETTINGS).is_file():
        command = toml.command_of(path / folder.SETTINGS)
        if command in ("toy", "bnn"):
            return command
    if (path / "run.json").is_file():
        return ""
    raise UserError(
        f"{path} is not a run; give the --output of sundman toy or bnn, or the store= of a run"
    )


def _command_again(path: Path, command: str, page: Path | None = None) -> None:
    """Go on with a command from its settings; what is finished is only read."""
    path = path.expanduser().absolute()
    if command == "toy":
        from sundman.cli import toy_run

        read = toml.read(path / folder.SETTINGS, command, tuple(toy_run.DEFAULTS))
        toy_run.run(toy_run.plan(read, {}, {}), path, resuming=True, page=page)
    else:
        from sundman.cli import bnn_plan, bnn_run

        read = toml.read(path / folder.SETTINGS, command, tuple(bnn_plan.DEFAULTS))
        bnn_run.run(bnn_plan.plan(read, {}, {}), path, resuming=True, page=page)


def _target(path: Path) -> Any:
    """What was sampled, if the run can tell."""
    from sundman.store.directory import open_run

    try:
        return open_run(path).call().target
    except StoreError:
        return None


def diagnose(run: Run, no_cache: options.NoCache = False) -> None:
    """Can I trust this run? One table for each of its chains' samplers or seeds.

    For example:

    sundman diagnose star
    """
    import sundman

    cache.use(not no_cache)
    _made_by(run)
    found = folder.runs_in(run)
    if not found:
        raise UserError(f"{run} has no run yet; go on with: sundman resume {run}")
    out = screen.console()
    for name, path in found.items():
        with at_the_door():
            draws = sundman.Draws.open(path)
        if len(draws) == 0:
            raise UserError(f"{path} has no draws yet; go on with: sundman resume {run}")
        screen.say(out, name)
        sundman.diagnose(draws, _target(path), console=out)


def resume(run: Run, no_cache: options.NoCache = False) -> None:
    """Go on with a run that was stopped or killed, to its end and its report.

    The draws are bit for bit those of a run that was never stopped. What is finished is not done
    again.

    For example:

    sundman resume star
    """
    cache.use(not no_cache)
    command = _made_by(run)
    if command:
        _command_again(run, command)
        return
    import sundman

    with folder.resumable(run):
        draws = sundman.resume(run)
    sundman.diagnose(draws, _target(run), console=screen.console())


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
    cache.use(not no_cache)
    command = _made_by(run)
    page = run / folder.REPORT
    if output is not None:
        page = output.expanduser()
        _writable(page, force)
    if command:
        if not (run / folder.RESULTS).is_file():
            raise UserError(f"{run} is not finished; go on with: sundman resume {run}")
        _command_again(run, command, page)
        return
    from sundman.report import of_run, write

    with at_the_door():
        write(of_run(run, target=_target(run)), page)
    screen.say(screen.console(), f"Report: {page}")


def _writable(page: Path, force: bool) -> None:
    if page.exists() and (page.is_dir() or not force):
        remedy = "a file" if page.is_dir() else "another --output, or --force to replace it"
        raise UserError(f"{page} exists; use {remedy}")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    except OSError as error:
        raise UserError(f"cannot write {page}: {error.strerror}; use another --output") from None
