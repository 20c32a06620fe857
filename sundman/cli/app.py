"""The commands and their names, and those of them that are small.

``cite`` and ``reproduce`` are about the papers; ``diagnose``, ``report`` and ``resume`` about runs
that are on disk, as are those of :mod:`sundman.cli.runs`.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

import sundman
from sundman import citations
from sundman.cli import options
from sundman.cli.bnn import bnn
from sundman.cli.bnn import repeat as repeat_bnn
from sundman.cli.bnn.predictions import predict
from sundman.cli.compare import COMPARED, compare
from sundman.cli.demo import demo
from sundman.cli.errors import Stopped, UserError, as_user_error, unknown
from sundman.cli.options import Command, Group
from sundman.cli.output import (
    REPORT,
    RESULTS,
    console,
    make_writable,
    print_line,
    print_table,
    resumable,
    runs_in,
)
from sundman.cli.runs import Run, export, extend, rm, runs
from sundman.cli.settings import SETTINGS, command_of
from sundman.cli.toy import repeat as repeat_toy
from sundman.cli.toy import toy
from sundman.cli.watch import watch
from sundman.report import of_run, write
from sundman.run.inputs import TargetLike
from sundman.store import StoreError
from sundman.store.directory import open_run

app = typer.Typer(
    cls=Group,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Langevin samplers with an adaptive step, from the shell.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"sundman {sundman.__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")
    ] = False,
) -> None:
    """Langevin samplers with an adaptive step, from the shell.

    Begin with: sundman demo
    """


def cite(
    sampler: Annotated[
        str | None,
        typer.Argument(metavar="SAMPLER", help="All works if not given.", show_default=False),
    ] = None,
) -> None:
    """The BibTeX of a sampler, or of everything used here.

    For example:

    sundman cite sa-sgld > references.bib
    """
    if sampler is not None and sampler.lower().replace("_", "-") not in citations.names():
        raise unknown("sampler", sampler, citations.names())
    print(citations.cite(sampler))


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="fig-star, fig-muller-brown, table1, fig-logprob, fig-robustness, theory, "
            "posterior-accuracy or all.",
            show_default=False,
        ),
    ],
    scale: Annotated[
        str,
        options.run(
            "--scale", text="quick (minutes), standard (an hour) or paper. [default: quick]"
        ),
    ] = "quick",
    seed: Annotated[int, options.run("--seed", text="Of everything random. [default: 0]")] = 0,
    data: Annotated[
        str | None,
        options.output("--data", text="Directory that has mnist/ in it, or digits for those."),
    ] = None,
    output: Annotated[
        Path | None,
        options.output("--output", "-o", text="Directory. [default: runs/reproduce]"),
    ] = None,
    no_cache: options.NoCache = False,
) -> None:
    """Run an experiment of the SA-SGLD paper, and say of each claim whether it holds.

    What is in the directory already is not done again: a run that was stopped goes on with the
    same command.

    For example:

    sundman reproduce fig-star

    sundman reproduce table1 --scale standard --data DIR --output table1
    """
    from sundman import paper  # here, since it loads matplotlib, which other commands do not need

    options.use_compilation_cache(not no_cache)
    known = (*paper.NAMES, "all")
    if name not in known:
        raise unknown("experiment", name, known)
    if scale not in paper.SCALES:
        raise unknown("scale", scale, ("quick", "standard", "paper"))
    if seed < 0:
        raise UserError(f"--seed must be 0 or more, got {seed}; use 0, say")
    directory = (output or Path("runs") / "reproduce").expanduser().absolute()
    out = console()
    try:
        with as_user_error():
            directory.mkdir(parents=True, exist_ok=True)
        result = paper.run(
            name, scale=scale, seed=seed, directory=directory, data=data, console=out
        )
    except FileNotFoundError:
        raise UserError(
            f"{name} needs MNIST, which was not found; put its four files into DIR/mnist and give "
            "--data DIR, or use --data digits for a small stand-in"
        ) from None
    except KeyboardInterrupt:
        again = ["sundman", "reproduce", name, "--scale", scale, "--output", str(directory)]
        again += ["--seed", str(seed)] if seed else []
        again += ["--data", data] if data is not None else []
        raise Stopped(f"stopped; go on with: {shlex.join(again)}") from None
    for table in result.tables:
        print_table(out, table)
    for verdict in result.verdicts:
        print_line(out, f"{verdict.outcome}: {verdict.claim} (ours {verdict.ours})")
    page = directory / f"{name}-{scale}.html"
    write(result.report(), page)
    print_line(out, f"Report: {page}")


def _command_behind(path: Path) -> Literal["toy", "bnn"] | None:
    """The command whose results are there; None for a run made in Python."""
    if not path.exists():
        raise UserError(f"there is nothing at {path}; give the directory of a run")
    if (path / SETTINGS).is_file():
        command = command_of(path / SETTINGS)
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
    _command_behind(run)
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
        sundman.diagnose(draws, _stored_target(path), console=out)


def resume(run: Run, no_cache: options.NoCache = False) -> None:
    """Go on with a run that was stopped or killed, to its end and its report.

    The draws are bit for bit those of a run that was never stopped. What is finished is not done
    again.

    For example:

    sundman resume star
    """
    options.use_compilation_cache(not no_cache)
    command = _command_behind(run)
    if command is not None:
        _repeat(run, command)
        return
    with resumable(run):
        draws = sundman.resume(run)
    sundman.diagnose(draws, _stored_target(run), console=console())


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="What --output was, or the store= of a run in Python; several are compared.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        options.output(
            "--output", "-o", text="The file. [default: RUN/report.html; of several, compared.html]"
        ),
    ] = None,
    force: options.Force = False,
    no_cache: options.NoCache = False,
) -> None:
    """Write the report of a run, or of several side by side: one page that needs no other file.

    For example:

    sundman report star --output star.html

    sundman report small large --output both.html
    """
    options.use_compilation_cache(not no_cache)
    for each in runs[1:]:
        _command_behind(each)
    run, command = runs[0], _command_behind(runs[0])
    page = run / REPORT if len(runs) == 1 else Path(COMPARED)
    if output is not None or len(runs) > 1:
        page = page if output is None else output.expanduser()
        make_writable(page, force)
    if len(runs) > 1:
        _write_compared(runs, page)
        return
    if command is not None:
        if not (run / RESULTS).is_file():
            raise UserError(f"{run} is not finished; go on with: sundman resume {run}")
        _repeat(run, command, page)
        return
    with as_user_error():
        write(of_run(run, target=_stored_target(run)), page)
    print_line(console(), f"Report: {page}")


def _write_compared(runs: list[Path], page: Path) -> None:
    try:
        with as_user_error():
            write(compare(runs, page, _stored_target), page)
    except BaseException:
        if page.stat().st_size == 0:  # made to see whether it can be written
            page.unlink()
        raise
    print_line(console(), f"Report: {page}")


for command in (
    *(demo, toy, bnn, predict, reproduce),
    *(runs, watch, diagnose, report, resume, extend, export, rm),
    cite,
):
    app.command(cls=Command)(command)
