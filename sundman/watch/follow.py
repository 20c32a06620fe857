"""A run seen from outside, by its log alone: how far it is, and whether its chains agree.

A log has, for each block and each chain, the weight, the mean and the variance of U in a few
stretches of draws. With w, u and v those of a stretch, U has over any set of stretches

    mean m = sum w u / sum w,    variance = sum w (v + (u - m)^2) / sum w

which gives split R-hat. The standard error of m is that of the sums w (u - m), whose correlation
along the chain is summed up as in :mod:`sundman.estimate`; ESS is the variance over its square.
"""

from __future__ import annotations

import math
import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sundman._files import open_regular
from sundman._types import Json, Settings
from sundman.estimate.moments import Estimate, long_run_variance
from sundman.watch.events import BlockReport, Look, Stretches, Summary
from sundman.watch.log import LONGEST_LINE, parse_line
from sundman.watch.progress import Pace

_FEWEST, _FEWEST_PER_CHAIN = 16, 4  # stretches from which R-hat and errors are told
_EVENTS = 100
_LARGEST = 1e308
_COUNTS = ("block", "draws", "total_draws", "steps", "chains", "diverged")
_TABLES = ("weight", "potential", "variance", "temperature")


class LogTail:
    """Reads a log while it is written: each call of ``read`` gives the lines added since.

    A long log is given in parts of a few megabytes, until there are no more lines. One that is not
    complete yet is left for the next call. A run that is resumed replaces its log; it is then read
    from the beginning, and ``replaced`` is True after that call. A link is not followed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.replaced = False
        self._offset, self._number = 0, 0
        self._inode: int | None = None

    def read(self) -> list[Settings]:
        """The lines since the last call; none while there is no file."""
        try:
            file = open_regular(self.path)
        except FileNotFoundError:
            return []
        with file:
            now = os.fstat(file.fileno())
            self.replaced = self._inode is not None and (
                now.st_ino != self._inode or now.st_size < self._offset
            )
            if self.replaced:
                self._offset, self._number = 0, 0
            self._inode = now.st_ino
            file.seek(self._offset)
            whole, newline, rest = file.read(LONGEST_LINE).rpartition(b"\n")
        if not newline and len(rest) == LONGEST_LINE:
            raise ValueError(
                f"{self.path} is not the log of a run: line {self._number + 1} is too long"
            )
        self._offset += len(whole) + len(newline)
        lines = []
        for text in whole.split(b"\n") if newline else []:
            self._number += 1
            line = parse_line(text)
            if line is None or "event" not in line:
                raise ValueError(
                    f"{self.path} is not the log of a run: line {self._number} is no event"
                )
            lines.append(line)
        return lines


class Convergence(NamedTuple):
    """What the draws in a log say of the run so far; NaN where there are too few.

    Attributes:
      draws: how many draws were looked at, of all chains together.
      potential: the mean of U with its standard error.
      rhat: split R-hat of U.
      ess: effective draws among those looked at.
      temperature: the mean temperature with its standard error; None where it is not recorded.
      of_chain: the mean of U of each chain, by its number.
    """

    draws: int
    potential: Estimate
    rhat: float
    ess: float
    temperature: Estimate | None
    of_chain: dict[int, float]


class RunHistory:
    """What a log tells, line after line.

    Attributes:
      about: the settings of the run.
      report: the last block; None before the first.
      pace: steps and draws per second.
      blocks: U and the temperature of each sampling block, with the steps done by then.
      events: divergences, resumptions and interruptions, the last hundred; checkpoints left out.
      ended: True if the run came to its end, False if it was broken off, None if neither is said.
      time: when the last line was written, in ISO form.
    """

    def __init__(self) -> None:
        self.about: Settings = {}
        self.report: BlockReport | None = None
        self.pace = Pace()
        self.blocks: list[tuple[int, Stretches]] = []
        self.events: deque[tuple[str, str]] = deque(maxlen=_EVENTS)
        self.ended: bool | None = None
        self.time = ""

    def add(self, line: Settings) -> None:
        """Take in a line."""
        self.time = str(line.get("time", self.time))
        event = line["event"]
        if event == "start":
            self.about = {k: v for k, v in line.items() if k not in ("event", "time")}
            self.ended, self.pace = None, Pace()
        elif event == "end":
            self.ended = bool(line.get("ok"))
        elif event == "block":
            self._add_block(_block(line))
        elif event != "checkpoint":
            self.events.append((event, str(line.get("message", ""))))

    def _add_block(self, report: BlockReport) -> None:
        if self.report is not None and report.block <= self.report.block:  # another run since
            self.blocks.clear()
        self.report = report
        self.pace.add(report)
        if report.by_chain is not None:
            self.blocks.append((report.steps, report.by_chain))

    @property
    def temperature(self) -> float | None:
        """T of the sampler, if it says."""
        T = self.about.get("temperature")
        return _number(T) if isinstance(T, int | float) else None

    def convergence(self) -> Convergence | None:
        """Running mean, R-hat and ESS of U, and the temperature; None without a draw that counts.

        All sampling blocks count, from the first draw after the burn-in.
        """
        if not self.blocks:
            return None
        chains = self.blocks[-1][1].chain
        parts = [part for _, part in self.blocks if part.chain == chains]
        weight, u, variance = (
            np.concatenate([np.asarray(getattr(part, name), float) for part in parts], axis=1)
            for name in ("weight", "potential", "variance")
        )
        if not weight.sum() > 0:
            return None
        counted = weight > 0
        u, variance = np.where(counted, u, 0.0), np.where(counted, variance, 0.0)
        potential = _mean(weight, u)
        spread = _average(weight, variance + (u - potential.value) ** 2)
        squared_error = potential.error**2
        temperature = None
        if all(part.temperature and part.temperature[0] for part in parts):
            T = np.concatenate([np.asarray(part.temperature, float) for part in parts], axis=1)
            temperature = _mean(weight, np.where(counted, T, 0.0))
        alive = weight.sum(axis=1) > 0
        means = [_average(weight[i], u[i]) if alive[i] else math.nan for i in range(len(chains))]
        return Convergence(
            draws=int(sum(np.sum(part.draws) for part in parts)),
            potential=potential,
            rhat=_split_rhat(weight, u, variance),
            ess=spread / squared_error if squared_error > 0 else math.nan,
            temperature=temperature,
            of_chain=dict(zip(chains, means, strict=True)),
        )


def _enough(weight: np.ndarray) -> bool:
    counted = weight > 0
    return counted.sum() >= _FEWEST and counted.sum(axis=1).max() >= _FEWEST_PER_CHAIN


def _average(weight: np.ndarray, values: np.ndarray) -> float:
    return float(np.sum(weight * values) / np.sum(weight))


def _mean(weight: np.ndarray, values: np.ndarray) -> Estimate:
    """The weighted mean over the stretches of all chains, (chain, stretch), and its error."""
    mean = _average(weight, values)
    if not _enough(weight):
        return Estimate(mean, math.nan)
    sums = (weight * values)[..., None]
    variance = long_run_variance(sums, weight, np.array([mean]))[0]
    return Estimate(mean, float(np.sqrt(weight.size * variance) / weight.sum()))


def _split_rhat(weight: np.ndarray, u: np.ndarray, variance: np.ndarray) -> float:
    """Split R-hat as :func:`sundman.estimate.split_rhat` has it, from stretches."""
    half = weight.shape[1] // 2
    if not _enough(weight):
        return math.nan
    halves = [
        (weight[chain, part], u[chain, part], variance[chain, part])
        for part in (slice(None, half), slice(-half, None))
        for chain in range(len(weight))
        if weight[chain, part].sum() > 0
    ]
    means = [_average(w, m) for w, m, _ in halves]
    within = [_average(w, v + (m - x) ** 2) for (w, m, v), x in zip(halves, means, strict=True)]
    if len(means) < 2 or not np.mean(within) > 0:
        return math.nan
    return float(np.sqrt(1.0 + np.var(means, ddof=1) / np.mean(within)))


def _number(value: Json) -> float:
    """A number of a log, which writes null for one that is not finite; raises ValueError."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r:.50} is not a number")
    return float(value) if abs(value) < _LARGEST else math.nan


def _count(value: Json) -> int:
    """A whole number of a log; raises ValueError."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r:.50} is not a whole number")
    return value


def _table(rows: Json, chains: int) -> list[list[float]]:
    """A number for each chain and stretch; raises ValueError."""
    if not isinstance(rows, list) or len(rows) not in (0, chains):
        raise ValueError(f"there are {chains} chains")
    table = [[_number(value) for value in row] for row in rows]
    if len({len(row) for row in table}) > 1:
        raise ValueError("chains have stretches of different number")
    return table


def _stretches(stored: Json) -> Stretches:
    """What a block has of each chain; raises ValueError."""
    chain = [_count(number) for number in stored["chain"]]
    tables = {name: _table(stored[name], len(chain)) for name in _TABLES}
    weight = tables["weight"]
    shape = [len(row) for row in weight]
    of_all = [tables["potential"], tables["variance"], stored["draws"]]
    if any(tables["temperature"]):
        of_all.append(tables["temperature"])
    if not all(shape) or any([len(row) for row in table] != shape for table in of_all):
        raise ValueError("its numbers per chain do not fit each other")
    draws = [[_count(number) for number in row] for row in stored["draws"]]
    return Stretches(chain=chain, draws=draws, **tables)


def _block(line: Settings) -> BlockReport:
    """A block as it was before it was a line of a log."""
    try:
        fields = {name: line[name] for name in BlockReport._fields if name in line}
        fields |= {name: _count(line[name]) for name in _COUNTS}
        if line["total_steps"] is not None:
            _count(line["total_steps"])
        fields["stage"], fields["seconds"] = str(line["stage"]), _number(line["seconds"])
        if math.isnan(fields["seconds"]):
            raise ValueError("its seconds are no number")
        fields["stats"] = {
            name: Summary(*(_number(summary[part]) for part in Summary._fields))
            for name, summary in line["stats"].items()
        }
        if line.get("by_chain") is not None:
            fields["by_chain"] = _stretches(line["by_chain"])
        if line.get("look") is not None:
            seen = {name: line["look"][name] for name in Look._fields}
            seen |= {name: str(seen[name]) for name in ("rule", "ess_of", "rhat_of")}
            seen |= {name: _number(seen[name]) for name in ("ess", "rhat")}
            fields["look"] = Look(**{**seen, "draws": _count(seen["draws"])})
        return BlockReport(**fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(
            f"block {line.get('block')!r:.50} of the log lacks what a block has "
            f"({type(error).__name__}: {error!s:.200})"
        ) from None
