"""The commands and their names, and the two that are about papers, ``cite`` and ``reproduce``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

import sundman
from sundman import citations
from sundman.cli import options
from sundman.cli.bnn import bnn
from sundman.cli.bnn.predictions import predict
from sundman.cli.demo import demo
from sundman.cli.errors import Stopped, UserError, as_user_error, unknown
from sundman.cli.options import Command, Group
from sundman.cli.output import console, print_line, print_table
from sundman.cli.report import report
from sundman.cli.runs import diagnose, export, extend, resume, rm, runs
from sundman.cli.toy import toy
from sundman.cli.watch import watch
from sundman.report import write

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


for command in (
    *(demo, toy, bnn, predict, reproduce),
    *(runs, watch, diagnose, report, resume, extend, export, rm),
    cite,
):
    app.command(cls=Command)(command)
