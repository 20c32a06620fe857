"""A block's report in words: one line, or a few for a live display."""

from __future__ import annotations

import math
from collections import deque

from sundman.watch.events import BlockReport, Summary

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
    if seconds is None:
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


def fraction(report: BlockReport) -> float:
    """The part of the run that is done, between 0 and 1."""
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
    return f"{gone}  ETA {duration(pace.left(report))}" if stage == report.stage else gone


def line(report: BlockReport, pace: Pace, stage: str) -> str:
    """A report on one line."""
    parts = [
        f"{stage} {fraction(report):.0%}",
        f"{count(report.draws)} of {count(report.total_draws)} draws",
        _times(report, pace, stage),
        f"{_speed(pace)}, {count(report.steps * report.chains)} gradients",
    ]
    parts += [
        f"{_LABELS[name]} {figure(report.stats[name].mean)}"
        for name in _LABELS
        if name in report.stats
    ]
    return "sundman: " + "; ".join([*parts, _lost(report)])


def _row(name: str, found: Summary, temperature: float | None) -> str:
    spread = f"{figure(found.low)} to {figure(found.high)}"
    text = f"  {_LABELS[name]:<19}  {figure(found.mean):<9}  {spread:<22}"
    if temperature is not None and "temperature" in name:
        text += f"  sampler's T = {figure(temperature)}"
    return text.rstrip()


def lines(
    report: BlockReport, pace: Pace, stage: str, temperature: float | None, width: int
) -> list[str]:
    """A report on several lines, for a live display; rich's own tables would cost ten times more.

    The line on lost chains is the third.
    """
    done = fraction(report)
    times = f"{done:4.0%}  {_times(report, pace, stage)}"
    room = max(4, min(width, 100) - len(stage) - len(times) - 6)
    full = int(done * room)
    shown = [
        f"{stage}  [{'#' * full}{'-' * (room - full)}]  {times}",
        f"  {count(report.draws)} of {count(report.total_draws)} draws, {_speed(pace)}, "
        f"{count(report.steps * report.chains)} gradients",
        f"  {_lost(report)}",
    ]
    if report.stats:
        shown.append(f"  {'over the last block':<19}  {'mean':<9}  range")
    return shown + [
        _row(name, report.stats[name], temperature) for name in _LABELS if name in report.stats
    ]
