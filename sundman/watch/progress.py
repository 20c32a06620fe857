"""How a run goes, on the screen: a live display on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from sundman._types import Json, Settings
from sundman.watch.events import (
    BlockReport,
    Look,
    ScalarLogger,
    Summary,
    Watcher,
)
from sundman.watch.log import as_watchers

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

ProgressOption: TypeAlias = Union[bool, "Console", None]
_REFRESH = 0.5
_SHORT = 1.0
_WINDOW = 60.0
_LABELS = {
    "dt": "dt",
    "zeta": "zeta",
    "potential": "potential",
    "temperature": "config. temperature",
    "kinetic_temperature": "kinetic temperature",
}


def count(number: float) -> str:
    """A large number for people: 0.25, 9500, 12.3 k, 1.20 M."""
    if number < 9999.5:
        return f"{number:.0f}" if number >= 10 or number == int(number) else f"{number:.2g}"
    size, letter = next(
        pair
        for pair in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
        if number >= 0.9995 * pair[0]
    )
    scaled = number / size
    digits = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
    return f"{scaled:.{digits}f} {letter}"


def figure(value: float) -> str:
    """A measured number for people: 0.987, 12345, 3.40e-4; a dash if it is not finite."""
    if not math.isfinite(value):
        return "-"
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.4g}" if abs(value) >= 1 else f"{value:.3g}"
    if 1e4 <= abs(value) < 1e6:
        return f"{value:.0f}"
    digits, exponent = f"{value:.2e}".split("e")
    return f"{digits}e{int(exponent)}"


def duration(seconds: float | None) -> str:
    """Seconds as m:ss or h:mm:ss."""
    if seconds is None or not math.isfinite(seconds):
        return "-:--"
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


class Pace:
    """Steps and draws per second over the last minute, so that compiling does not count."""

    def __init__(self) -> None:
        self._recent: deque[BlockReport] = deque(maxlen=512)
        self.steps: float | None = None
        self.draws: float | None = None

    def add(self, report: BlockReport) -> None:
        """Take in a report; a new stage is compiled anew, so the count begins again."""
        recent = self._recent
        if recent and recent[-1].stage != report.stage:
            recent.clear()
        recent.append(report)
        while len(recent) > 2 and report.seconds - recent[0].seconds > _WINDOW:
            recent.popleft()
        elapsed = report.seconds - recent[0].seconds
        if elapsed > 0:
            self.steps = (report.steps - recent[0].steps) / elapsed
            self.draws = (report.draws - recent[0].draws) / elapsed

    def left(self, report: BlockReport) -> float | None:
        """Seconds to go, or None if that cannot be told yet."""
        if report.total_steps is not None:
            rate, to_go = self.steps, report.total_steps - report.steps
        else:
            rate, to_go = self.draws, report.total_draws - report.draws
        return 0.0 if to_go <= 0 else to_go / rate if rate else None


def fraction(report: BlockReport, stage: str = "") -> float:
    """The part of the run that is done, between 0 and 1; 1 of one that a rule ended."""
    if stage == "done":
        return 1.0
    if report.total_steps is not None:
        return min(1.0, report.steps / max(1, report.total_steps))
    return min(1.0, report.draws / max(1, report.total_draws))


def _lost(report: BlockReport) -> str:
    if report.diverged:
        return f"!! {report.diverged} of {report.chains} chains DIVERGED !!"
    return f"0 of {report.chains} chains diverged"


def _speed(pace: Pace) -> str:
    return "- steps/s" if pace.steps is None else f"{count(pace.steps)} steps/s"


def _times(report: BlockReport, pace: Pace, stage: str) -> str:
    """Time gone and, while the run goes on, time to go."""
    gone = duration(report.seconds)
    if stage != report.stage:
        return gone
    at_most = "" if report.look is None else "at most "  # its rule may end it before
    return f"{gone}  ETA {at_most}{duration(pace.left(report))}"


def line(report: BlockReport, pace: Pace, stage: str) -> str:
    """A report on one line."""
    parts = [
        f"{stage} {fraction(report, stage):.0%}",
        f"{count(report.draws)} of {count(report.total_draws)} draws",
        _times(report, pace, stage),
        f"{_speed(pace)}, {count(report.steps * report.chains)} gradients",
    ]
    parts += [
        f"{_LABELS[name]} {figure(report.stats[name].mean)}"
        for name in _LABELS
        if name in report.stats
    ]
    if report.look is not None:
        parts.append(rule_line(report.look))
    return "sundman: " + "; ".join([*parts, _lost(report)])


def rule_line(look: Look) -> str:
    """What a rule asks, and what it saw when it last looked."""
    return f"until {look.rule}: {look} after {count(look.draws)} draws"


def _row(name: str, summary: Summary, temperature: float | None) -> str:
    spread = f"{figure(summary.low)} to {figure(summary.high)}"
    text = f"  {_LABELS[name]:<19}  {figure(summary.mean):<9}  {spread:<22}"
    if temperature is not None and "temperature" in name:
        text += f"  sampler's T = {figure(temperature)}"
    return text.rstrip()


def lines(
    report: BlockReport, pace: Pace, stage: str, temperature: float | None, width: int
) -> list[str]:
    """A report on several lines, for a live display; rich's own tables would cost ten times more.

    The line on lost chains is the third.
    """
    done = fraction(report, stage)
    times = f"{done:4.0%}  {_times(report, pace, stage)}"
    room = max(4, min(width, 100) - len(stage) - len(times) - 6)
    full = int(done * room)
    shown = [
        f"{stage}  [{'#' * full}{'-' * (room - full)}]  {times}",
        f"  {count(report.draws)} of {count(report.total_draws)} draws, {_speed(pace)}, "
        f"{count(report.steps * report.chains)} gradients",
        f"  {_lost(report)}",
    ]
    if report.look is not None:
        shown.append(f"  {rule_line(report.look)}")
    if report.stats:
        shown.append(f"  {'over the last block':<19}  {'mean':<9}  range")
    return shown + [
        _row(name, report.stats[name], temperature) for name in _LABELS if name in report.stats
    ]


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

    def start(self, about: Settings) -> None:
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

    def event(self, name: str, message: str, **fields: Json) -> None:
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


def progress_watcher(progress: ProgressOption, interval: float = 10.0) -> Progress | None:
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


def all_watchers(
    progress: ProgressOption,
    watchers: Sequence[Watcher | ScalarLogger],
    log: Watcher | None = None,
) -> list[Watcher]:
    """The display, the log and the user's own."""
    everyone = [progress_watcher(progress), log, *as_watchers(watchers)]
    return [watcher for watcher in everyone if watcher is not None]
