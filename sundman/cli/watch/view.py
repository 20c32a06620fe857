"""A run as ``sundman watch`` shows it: where it stands, its numbers and a verdict.

Only files are read, and none is written or locked, so that a run does not notice.
"""

from __future__ import annotations

import math
import os
import shlex
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from sundman.draws.trust import Verdict
from sundman.estimate import Estimate
from sundman.store import StoreError
from sundman.store.directory import open_run
from sundman.store.files import holder_of
from sundman.verdict.checks import ERRORS, ESS, RHAT, TEMPERATURE
from sundman.watch.follow import Convergence, LogTail, RunHistory
from sundman.watch.progress import count, duration, figure, lines

State = Literal["waiting", "running", "finished", "stopped", "killed", "silent"]
Mark = Literal["look", "bad"]
_SILENT, _LONG_SILENT = 60.0, 600.0  # seconds without a word, of a process we cannot or can see
_WARM_UP = "warm-up.npz"  # of a run whose sampler tunes itself, from its first window on
_STAGES = {"finished": "done", "stopped": "stopped", "killed": "killed", "silent": "silent"}


def process_of(directory: Path) -> bool | None:
    """Whether the process that writes a run is there; None if that cannot be known here."""
    holder = holder_of(directory)
    if holder is None or holder[1] != socket.gethostname():
        return None
    try:
        os.kill(holder[0], 0)
    except (ProcessLookupError, OverflowError):  # or no system has a process of that number
        return False
    except PermissionError:
        return True
    return True


class RunView:
    """One run and what its files say by now.

    Args:
      name: how it is called.
      path: its directory, or a log of :class:`sundman.JsonLines`.
      resume_path: what ``sundman resume`` goes on with; None if nothing does.
    """

    def __init__(self, name: str, path: Path, resume_path: Path | None = None) -> None:
        self.name, self.path, self._resume_path = name, path, resume_path
        self._tail = LogTail(path.resolve() if path.is_file() else path / "log.jsonl")
        self._history = RunHistory()
        self._verdict: Verdict | None = None
        self._failure = ""
        self._convergence: Convergence | None = None
        self.state: State = "waiting"

    def refresh(self) -> None:
        """Read what was written since the last time."""
        any_new = False
        while new := self._tail.read():
            if self._tail.replaced:
                self._history = RunHistory()
            for line in new:
                self._history.add(line)
            any_new = True
        if any_new:
            with np.errstate(all="ignore"):  # potentials may be near the largest number there is
                self._convergence = self._history.convergence()
        self.state = self._state()
        if self.state == "stopped" and self.path.is_dir():
            with suppress(StoreError):
                failure = open_run(self.path).progress().get("failure")
                self._failure = str(failure[-1]) if isinstance(failure, list) and failure else ""
        if self.state == "finished" and self._verdict is None and self.path.is_dir():
            with suppress(StoreError):  # a run that is damaged can be watched all the same
                run = open_run(self.path)
                stored = run.verdict(run.progress()["draws"])
                self._verdict = None if stored is None else Verdict.from_json(stored)

    @property
    def over(self) -> bool:
        """Whether nothing more is to be expected."""
        return self.state in ("finished", "stopped", "killed")

    @property
    def written(self) -> str:
        """When the last line was written, in ISO form."""
        return self._history.time

    @property
    def process_is_gone(self) -> bool:
        """Whether the process that wrote the run has certainly ended."""
        return process_of(self.path) is False

    def _state(self) -> State:
        history = self._history
        if history.ended is not None:
            return "finished" if history.ended else "stopped"
        alive = process_of(self.path) if self.path.is_dir() else None
        if alive is False:
            return "killed"
        if not history.time:
            return "waiting"
        patience = _LONG_SILENT if alive else _SILENT
        return "silent" if self._unheard() > max(patience, 10 * self._pause()) else "running"

    def _unheard(self) -> float:
        """Seconds since the last line."""
        try:
            return (datetime.now(UTC) - datetime.fromisoformat(self._history.time)).total_seconds()
        except (ValueError, TypeError):  # no time, or of an unknown zone
            return math.inf

    def _pause(self) -> float:
        """Seconds between two blocks, on average."""
        report = self._history.report
        return 0.0 if report is None else report.seconds / max(1, report.block)

    def judgement(self) -> str:
        """Whether the draws so far can be trusted, in a sentence or two."""
        if self._verdict is not None:
            return str(self._verdict)
        return self._so_far() + self._ending()

    def _so_far(self) -> str:
        report, convergence = self._history.report, self._convergence
        reasons = list(self._reasons())
        if reasons:
            worst = any(mark == "bad" for mark, _ in reasons)
            lead = "Not to be trusted as it is." if worst else "Not there yet."
            return " ".join((lead, *(text for _, text in reasons)))
        if report is None:
            warms_up = (self.path / _WARM_UP).is_file()
            why = "its sampler tunes itself" if warms_up else "no block is in the log"
            return f"Nothing to judge yet: {why}."
        if not report.stats:
            return "Nothing to judge yet: it is in its burn-in."
        if convergence is None:
            return "R-hat and ESS are not known: the log has no U per chain."
        if math.isnan(convergence.rhat):
            return "Too early to tell: too few draws are in the log."
        return "So far no reason was found to distrust this run."

    def _reasons(self) -> Iterator[tuple[Mark, str]]:
        report, convergence, T = self._history.report, self._convergence, self._history.temperature
        if report is not None and report.diverged:
            yield (
                "bad",
                f"{report.diverged} of {report.chains} chains were lost: use a smaller step.",
            )
        if self._history.about.get("biased") is True:
            yield "bad", "The law of its sampler is not that of the target, by design."
        if convergence is None:
            return
        if T is not None and T > 0 and convergence.temperature is not None:
            value, error = convergence.temperature
            off = abs(value - T)
            if off > ERRORS * error and off > TEMPERATURE * T:
                advice = "use a smaller step" if value > T else "run longer, or use a smaller step"
                yield (
                    "bad",
                    f"The temperature is {_estimate(convergence.temperature)}, not {T:g}: "
                    f"{advice}.",
                )
        if convergence.rhat > RHAT:
            yield (
                "look",
                f"Split R-hat of U is {convergence.rhat:.3g}, above {RHAT:g}: the chains disagree.",
            )
        if convergence.ess < ESS:
            yield "look", f"U has {convergence.ess:.0f} effective draws, fewer than {ESS:g}."

    def _ending(self) -> str:
        """What to do about a run that has stopped, or may have."""
        where = shlex.quote(str(self._resume_path)) if self._resume_path is not None else None
        resume = f": go on with sundman resume {where}" if where is not None else ""
        if self.state == "killed":
            return f" The process that wrote it is gone{resume}."
        if self._failure:
            return f" It failed: {self._failure.rstrip('.')}."
        if self.state == "stopped":
            return f" It was stopped before its end{resume}."
        if self.state == "silent":
            return f" Nothing was written for {duration(self._unheard())}: is it still there?"
        return ""

    def title(self) -> str:
        """The run in a line: its name, its sampler and where it stands."""
        sampler = self._history.about.get("sampler")
        return f"{self.name}{f', {sampler}' if sampler else ''}: {self.state}"

    def lines(self, width: int) -> list[str]:
        """The run on several lines, of a terminal ``width`` characters wide."""
        shown = [self.title()]
        if self._history.report is not None:
            report = self._history.report
            stage = _STAGES.get(self.state, report.stage)
            shown += lines(report, self._history.pace, stage, self._history.temperature, width)
        shown += [f"  {label:<19}  {value}" for label, value in self._facts()]
        shown += [f"  {name}: {message}" for name, message in list(self._history.events)[-3:]]
        return [*shown, f"Verdict: {self.judgement()}"]

    def _facts(self) -> Iterator[tuple[str, str]]:
        """What is known over the whole run so far."""
        convergence, T = self._convergence, self._history.temperature
        if convergence is None:
            return
        chains = "  ".join(f"{chain}: {figure(u)}" for chain, u in convergence.of_chain.items())
        yield "U per chain", chains
        yield "split R-hat of U", "-" if math.isnan(convergence.rhat) else f"{convergence.rhat:.4g}"
        looked = f"of {count(convergence.draws)} draws looked at"
        yield (
            "ESS of U",
            f"{count(round(convergence.ess))} {looked}" if math.isfinite(convergence.ess) else "-",
        )
        if convergence.temperature is not None:
            should = "" if T is None else f", should be {T:g}"
            yield "temperature so far", f"{_with_band(convergence.temperature)}{should}"


def _estimate(measured: Estimate) -> str:
    return f"{measured.value:.3g} ± {measured.error:.1g}"


def _with_band(measured: Estimate) -> str:
    """A mean with the band of two standard errors around it."""
    if math.isnan(measured.error):
        return f"{measured.value:.3g}"
    low, high = (measured.value + sign * 2 * measured.error for sign in (-1, 1))
    return f"{measured.value:.3g}, within {low:.3g} to {high:.3g}"
