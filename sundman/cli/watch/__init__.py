"""``sundman watch``: how a run goes, from another terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from sundman.cli import options
from sundman.cli.errors import UserError, one_line
from sundman.cli.output import RESULTS, console, print_line, runs_in
from sundman.cli.settings import SETTINGS
from sundman.cli.watch.view import RunView

_REFRESH = 1.0  # seconds


class Watched:
    """The runs in a directory, of which there may be more with time; or one log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._views: dict[str, RunView] = {}
        if not path.exists():
            raise UserError(f"there is nothing at {path}; give the directory of a run")
        results = (path / SETTINGS).is_file() or (path / "runs").is_dir()
        if path.is_dir() and not results and not runs_in(path):
            raise UserError(
                f"{path} is not a run; give the --output of sundman bnn, the store= of a "
                "run, or a log of sundman.JsonLines"
            )

    def refresh(self) -> list[RunView]:
        """The runs as they are now, the one that was written last at the end."""
        runs = runs_in(self.path) if self.path.is_dir() else {self.path.name: self.path}
        for name, path in runs.items():
            if name not in self._views:
                self._views[name] = RunView(name, path, self.path if path.is_dir() else None)
        for view in self._views.values():
            try:
                view.refresh()
            except (ValueError, OSError) as error:
                raise UserError(f"{one_line(error)}; give the directory of a run") from None
        return sorted(self._views.values(), key=lambda view: (not view.over, view.written))

    def over(self, views: list[RunView]) -> bool:
        """Whether nothing more is to be expected."""
        if not views or not all(view.over for view in views):
            return False
        last = views[-1]
        if last.state != "finished" or (self.path / RESULTS).is_file():
            return True
        of_command = (self.path / SETTINGS).is_file()  # scores and other runs may follow
        return not of_command or last.process_is_gone

    def lines(self, views: list[RunView], width: int) -> list[str]:
        """The runs for a terminal: the last one in full, a line for each of the others."""
        if not views:
            return [f"{self.path} has no run yet"]
        return [*(view.title() for view in views[:-1]), *views[-1].lines(width)]


def watch(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="What --output is, the store= of a run in Python, or a log.",
            show_default=False,
        ),
    ],
    once: Annotated[bool, options.output("--once", text="Print how it stands, and exit.")] = False,
) -> None:
    """How a run goes, or went: reads only what it writes, so that it does not notice.

    Without options, a display that is renewed each second until the run ends; where the output is
    no terminal, as with --once.

    For example:

    sundman watch star
    """
    watched, out = Watched(run.expanduser()), console()
    views = watched.refresh()
    if once or not out.is_terminal:
        for line in watched.lines(views, out.width):
            print_line(out, line)
    else:
        _show(watched, out)


def _show(watched: Watched, out: Console) -> None:
    """A live display until nothing more is to be expected, or Ctrl-C."""
    try:
        with Live(console=out, auto_refresh=False) as live:
            while True:
                views = watched.refresh()
                text = "\n".join(watched.lines(views, out.width))
                live.update(Text(text, overflow="fold"), refresh=True)
                if watched.over(views):
                    return
                time.sleep(_REFRESH)
    except KeyboardInterrupt:
        return
