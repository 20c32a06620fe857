"""The commands and their names, and two small ones, ``run`` and ``cite``."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

import sundman
from sundman import citations
from sundman.cli import options
from sundman.cli.bnn import bnn
from sundman.cli.bnn.predictions import predict
from sundman.cli.demo import demo
from sundman.cli.errors import RunFailed, UserError, as_user_error, unknown
from sundman.cli.options import Command, Group
from sundman.cli.report import report
from sundman.cli.runs import diagnose, export, extend, merge, resume, rm, runs
from sundman.cli.watch import watch
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


for command in (
    *(demo, bnn, predict, run),
    *(runs, watch, diagnose, report, resume, extend, merge, export, rm),
    cite,
):
    app.command(cls=Command)(command)
