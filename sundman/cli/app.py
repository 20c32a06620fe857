"""The commands and their names."""

from __future__ import annotations

from typing import Annotated

import typer

from sundman import __version__
from sundman.cli.bnn import bnn
from sundman.cli.cite_reproduce import cite, reproduce
from sundman.cli.demo import demo
from sundman.cli.options import Command, Group
from sundman.cli.stored_runs import diagnose, report, resume
from sundman.cli.toy import toy

app = typer.Typer(
    cls=Group,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Langevin samplers with an adaptive step, from the shell.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"sundman {__version__}")
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


for command in (demo, toy, bnn, reproduce, diagnose, report, resume, cite):
    app.command(cls=Command)(command)
