"""The commands and their names, and the two that are about papers, ``cite`` and ``reproduce``."""

from __future__ import annotations

import runpy
import shlex
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

import sundman
from sundman import citations
from sundman.cli import farm, options
from sundman.cli.bnn import bnn
from sundman.cli.bnn.predictions import predict
from sundman.cli.demo import demo
from sundman.cli.errors import RunFailed, Stopped, UserError, as_user_error, unknown
from sundman.cli.options import Command, Group
from sundman.cli.output import console, print_line, print_table
from sundman.cli.report import report
from sundman.cli.runs import diagnose, export, extend, merge, resume, rm, runs
from sundman.cli.toy import toy
from sundman.cli.watch import watch
from sundman.report import write
from sundman.run import hosts
from sundman.run.hosts import HostLostError

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
    distributed: Annotated[
        bool,
        options.processes("--distributed", text="Find the next three out: Slurm, MPI, TPU, ..."),
    ] = False,
    coordinator: Annotated[
        str | None, options.processes("--coordinator", text="HOST:PORT of process 0.")
    ] = None,
    num_processes: Annotated[
        int | None, options.processes("--num-processes", text="How many processes there are.")
    ] = None,
    process_id: Annotated[
        int | None, options.processes("--process-id", text="The number of this one, from 0.")
    ] = None,
    host_timeout: Annotated[
        int,
        options.processes(
            "--host-timeout", text="Seconds to wait for other processes. [default: 100]"
        ),
    ] = 100,
) -> None:
    """Langevin samplers with an adaptive step, from the shell.

    Begin with: sundman demo

    On several machines, the same command on each, with options before its name:

    sundman --coordinator node1:7000 --num-processes 2 --process-id 0 run script.py
    """
    if host_timeout < 1:
        raise UserError(f"--host-timeout must be 1 or more seconds, got {host_timeout}; use 100")
    given = (coordinator, num_processes, process_id)
    if distributed and given != (None, None, None):
        raise UserError("--distributed finds out what --coordinator says; give one of them")
    if distributed or given != (None, None, None):
        with as_user_error():
            hosts.connect(*given, timeout=host_timeout)


def run(
    script: Annotated[
        Path, typer.Argument(metavar="SCRIPT", help="A Python file.", show_default=False)
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="...", help="What it finds in sys.argv.", show_default=False),
    ] = None,
    no_cache: options.NoCache = False,
) -> None:
    """Run a script that calls sundman.sample, as one of several processes if that was said.

    For example:

    sundman run script.py

    sundman --coordinator node1:7000 --num-processes 2 --process-id 1 run script.py
    """
    if not script.is_file():
        raise UserError(f"there is no file {script}; give a Python script")
    options.use_compilation_cache(not no_cache)
    sys.argv = [str(script), *(arguments or [])]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except HostLostError:
        raise
    except Exception as error:
        traceback.print_exc()
        raise RunFailed(f"{script} failed with {type(error).__name__}") from None
    except SystemExit as ended:
        raise typer.Exit(
            ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        ) from None


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
    array_task: farm.ArrayTask = None,
    array_tasks: farm.ArrayTasks = None,
    no_cache: options.NoCache = False,
) -> None:
    """Run an experiment of the SA-SGLD paper, and say of each claim whether it holds.

    What is in the directory already is not done again: a run that was stopped goes on with the
    same command. The tasks of an array do the seeds of the networks, and the other experiments,
    between them; the command without --array-task then makes the page of all.

    For example:

    sundman reproduce fig-star

    sundman reproduce table1 --scale standard --data DIR --output table1

    sundman reproduce all --scale paper --output paper --array-task $SLURM_ARRAY_TASK_ID
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
        units = paper.units(name, scale, seed)
        part = farm.task_of(array_task, array_tasks, len(units))
        run = partial(
            paper.run, scale=scale, seed=seed, directory=directory, data=data, console=out
        )
        if part is not None:
            for each, seeds in part.share(units):
                run(each, seeds=seeds)
            print_line(out, f"Task {part.number} of {part.of} is done.")
            return
        result = run(name)
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
    page = directory / f"{result.stem}.html"
    write(result.report(), page)
    print_line(out, f"Report: {page}")


for command in (
    *(demo, toy, bnn, predict, reproduce, run),
    *(runs, watch, diagnose, report, resume, extend, merge, export, rm),
    cite,
):
    app.command(cls=Command)(command)
