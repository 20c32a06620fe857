"""How a run goes, on the screen: a live display on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from sundman.watch.events import BlockReport
from sundman.watch.progress_text import Pace, line, lines

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_REFRESH = 0.5
_SHORT = 1.0


def _stderr_console() -> Console | None:
    try:
        from rich.console import Console
    except ImportError:
        return None
    # Not left to rich, which takes FORCE_COLOR in the environment for a terminal.
    return Console(stderr=True, force_terminal=sys.stderr.isatty())


class Progress:
    """A watcher that shows a run on a rich console, on standard error unless one is given.

    Without rich, or where the console is not a terminal, it writes a line every ``interval``
    seconds. ``quiet`` keeps those back until the first interval has gone by, and the live display
    for a second.
    """

    def __init__(
        self, console: Console | None = None, *, interval: float = 10.0, quiet: bool = False
    ) -> None:
        if not interval > 0:
            raise ValueError(f"interval must be a positive number of seconds, got {interval!r}")
        self._console = console or _stderr_console()
        self._out = sys.stderr if self._console is None else self._console.file
        self._interval, self._quiet = interval, quiet
        self._live = self._report = self._temperature = None
        self._terminal = False
        self._pace, self._note, self._shown = Pace(), "", -math.inf

    def start(self, about: Mapping[str, Any]) -> None:
        """Open the live display, if there is a terminal for it."""
        temperature = about.get("temperature")
        if isinstance(temperature, int | float | np.number):
            self._temperature = float(temperature)
        console = self._console
        self._terminal = (
            console is not None and console.is_terminal and not console.is_dumb_terminal
        )
        if self._terminal and not self._quiet:
            self._open()

    def _open(self) -> None:
        from rich.live import Live

        # What is printed during the run goes above the display, unless it goes to a file.
        self._live = Live(
            "starting: compiling the first block",
            console=self._console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),
        )
        self._live.start(refresh=True)

    def block(self, report: BlockReport) -> None:
        """Show the report if the last one has been there long enough."""
        new_stage = self._report is not None and report.stage != self._report.stage
        self._report = report
        self._pace.add(report)
        since = report.seconds - self._shown
        early = self._quiet and report.seconds < self._interval
        if self._terminal and self._live is None and report.seconds >= _SHORT:
            self._open()
        if self._live is not None:
            if new_stage or since >= _REFRESH:
                self._show(report.stage)
        elif not self._terminal and not early and since >= self._interval:
            self._show(report.stage)

    def event(self, name: str, message: str, **fields: Any) -> None:
        """Write it out; checkpoints are many, and only the last is shown on a live display."""
        if name == "checkpoint" or (self._terminal and self._live is None):
            self._note = message
        elif self._live is not None:
            self._live.console.print(f"sundman: {message}", markup=False, highlight=False)
        elif not self._quiet or math.isfinite(self._shown):
            self._write(f"sundman: {message}")

    def close(self, ok: bool) -> None:
        """Show the last report and give the terminal back."""
        spoken = self._live is not None or not self._quiet or math.isfinite(self._shown)
        try:
            if self._report is not None and spoken:
                self._show("done" if ok else "stopped")
        finally:
            live, self._live, self._report = self._live, None, None
            if live is not None:
                live.stop()

    def _show(self, stage: str) -> None:
        assert self._report is not None
        self._shown = self._report.seconds
        if self._live is None:
            self._write(line(self._report, self._pace, stage))
        else:
            self._live.update(self._panel(self._report, stage), refresh=True)

    def _panel(self, report: BlockReport, stage: str) -> RenderableType:
        from rich.text import Text

        assert self._live is not None
        shown = lines(report, self._pace, stage, self._temperature, self._live.console.width)
        if self._note:
            shown.append(f"  {self._note}")
        text = Text("\n".join(shown), no_wrap=True, overflow="ellipsis")
        if report.diverged:
            begin = sum(len(one) + 1 for one in shown[:2]) + 2
            text.stylize("bold reverse", begin, begin + len(shown[2]) - 2)
        return text

    def _write(self, text: str) -> None:
        self._out.write(text + "\n")
        self._out.flush()


def progress_watcher(progress: bool | Console | None, interval: float = 10.0) -> Progress | None:
    """The display a user asked for: False none, True always, None where it does not disturb.

    None means a live display on a terminal; elsewhere lines, but only for runs that take longer
    than ``interval`` seconds. A rich console is written to as with True.
    """
    if progress is False:
        return None
    if progress is None or progress is True:
        return Progress(interval=interval, quiet=progress is None)
    if not hasattr(progress, "is_terminal"):
        raise TypeError(
            f"progress must be True, False, None or a rich.console.Console, got {progress!r}"
        )
    return Progress(progress, interval=interval)
