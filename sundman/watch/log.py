"""How a run goes, in files: one JSON object per line, or TensorBoard scalars."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from sundman._files import open_regular, write_bytes
from sundman._optional import needs_extra
from sundman._types import Json, Settings
from sundman.watch.events import BlockReport, ScalarLogger, Watcher

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter


LONGEST_LINE = 4 * 2**20  # bytes; one of ours has some thousands


def _plain(value: Json) -> Json:
    """The value as JSON can hold it: null for NaN and infinity, text for what is no data."""
    if isinstance(value, float):  # first, since there are many in a block
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__array__"):
        return _plain(np.asarray(value).tolist())
    return str(value)


def parse_line(text: bytes) -> Settings | None:
    """The object on a line, or None if the line is torn or nested too deeply."""
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def read_log(path: str | os.PathLike[str]) -> list[Settings]:
    """The objects of a log, in order; a torn last line, as a kill leaves it, is left out."""
    objects = []
    with open_regular(Path(path).resolve()) as file:
        number = 0
        while text := file.readline(LONGEST_LINE):
            number += 1
            line = parse_line(text)
            if line is not None:
                objects.append(line)
            elif text.endswith(b"\n") or len(text) == LONGEST_LINE:
                raise ValueError(f"path={os.fspath(path)!r}: line {number} is not a JSON object")
    return objects


def _beyond(line: Settings | None, draws: float, steps: float) -> bool:
    if line is None or line.get("event") != "block":
        return False
    return line.get("draws", 0) > draws or line.get("steps", 0) > steps


def truncate_log(
    path: str | os.PathLike[str], draws: float = math.inf, steps: float = math.inf
) -> None:
    """Drop the blocks beyond a checkpoint, and a torn last line; keep all other lines as they are.

    ``draws`` and ``steps`` are those of the checkpoint, per chain. The file is replaced in one go.
    A file that is not there is left alone.
    """
    file = Path(path).resolve()
    if not file.exists():
        return
    before = file.read_bytes()
    *lines, last = before.split(b"\n")
    if parse_line(last) is not None:
        lines.append(last)
    remaining = [text for text in lines if not _beyond(parse_line(text), draws, steps)]
    after = b"".join(text + b"\n" for text in remaining)
    if after == before:
        return
    write_bytes(file, after)


class JsonLines:
    """A watcher that appends to a file one JSON object per line, with the time in UTC.

    ``keep_draws`` and ``keep_steps`` are for a resumed run: blocks beyond them are dropped first.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        keep_draws: int | None = None,
        keep_steps: int | None = None,
    ) -> None:
        self._path = Path(path)
        self._draws = math.inf if keep_draws is None else keep_draws
        self._steps = math.inf if keep_steps is None else keep_steps
        self._file: IO[bytes] | None = None

    def start(self, about: Settings) -> None:
        """Open the file, mend its end if a kill left it torn, and write the settings."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        truncate_log(self._path, self._draws, self._steps)
        self._file = self._path.open("ab")
        self._write("start", about)

    def block(self, report: BlockReport) -> None:
        """Write the report."""
        fields = report._asdict()
        missing = [name for name in ("by_chain", "look") if fields[name] is None]
        self._write("block", {k: v for k, v in fields.items() if k not in missing})

    def event(self, name: str, message: str, **fields: Json) -> None:
        """Write the event."""
        self._write(name, {"message": message, **fields})

    def close(self, ok: bool) -> None:
        """Write how it ended and close the file."""
        if self._file is None:
            return
        try:
            self._write("end", {"ok": ok})
        finally:
            self._file.close()
            self._file = None

    def _write(self, name: str, fields: Mapping[str, Json]) -> None:
        if self._file is None:
            raise RuntimeError(f"the log {os.fspath(self._path)!r} is not open: call start first")
        head = {"event": name, "time": datetime.now(UTC).isoformat(timespec="milliseconds")}
        rest = {key: _plain(value) for key, value in fields.items() if key not in head}
        # One write per line, so that a kill tears at most the last one.
        self._file.write(json.dumps({**head, **rest}, allow_nan=False).encode() + b"\n")
        self._file.flush()


def scalars(report: BlockReport) -> dict[str, float]:
    """The finite numbers of a report by their tags, such as ``potential/mean``."""
    tagged: dict[str, float] = {"run/diverged": report.diverged, "run/draws": report.draws}
    for name, summary in report.stats.items():
        tagged |= {f"{name}/{part}": value for part, value in summary._asdict().items()}
    if report.look is not None:
        tagged |= {"run/ess": report.look.ess, "run/rhat": report.look.rhat}
    return {tag: value for tag, value in tagged.items() if math.isfinite(value)}


class TensorBoard:
    """A watcher that writes scalars for TensorBoard, with the number of steps as the abscissa.

    ``keep_steps`` is for a resumed run: TensorBoard hides what was written beyond it.
    """

    def __init__(self, directory: str | os.PathLike[str], keep_steps: int | None = None) -> None:
        with needs_extra("tensorboard", "TensorBoard logging"):
            from tensorboardX import SummaryWriter
        purge = None if keep_steps is None else keep_steps + 1
        self._open = partial(SummaryWriter, os.fspath(directory), purge_step=purge)
        self._writer: SummaryWriter | None = None
        self._steps = 0 if keep_steps is None else keep_steps

    def start(self, about: Settings) -> None:
        """Open the directory and write the settings as text."""
        self._writer = self._open()
        settings = json.dumps(_plain(about), indent=2)
        self._writer.add_text("settings", f"<pre>{settings}</pre>", self._steps)

    def block(self, report: BlockReport) -> None:
        """Write mean and range of each statistic, the chains lost and the draws done."""
        assert self._writer is not None, "start comes first"
        self._steps = report.steps
        for tag, value in scalars(report).items():
            self._writer.add_scalar(tag, value, report.steps)

    def event(self, name: str, message: str, **fields: Json) -> None:
        """Write the event as text."""
        assert self._writer is not None, "start comes first"
        self._writer.add_text(name, message, self._steps)

    def close(self, ok: bool) -> None:
        """Write out what is left."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class ScalarWatcher:
    """Passes the numbers of each block on to any object with ``log(dict, step)``.

    Such objects are given to ``sample(..., watchers=[...])`` as they are. If one fails, it is told
    nothing more, with a warning, and the run goes on.

        sundman.sample(posterior, key=key, watchers=[wandb.init(project="digits")])
    """

    def __init__(self, logger: ScalarLogger) -> None:
        self._logger, self._failed = logger, False

    def start(self, about: Settings) -> None:
        """Nothing: the object's own settings are its user's."""

    def block(self, report: BlockReport) -> None:
        """Log mean and range of each statistic, the chains lost and the draws done."""
        if self._failed:
            return
        try:
            self._logger.log(scalars(report), report.steps)
        except Exception as error:
            self._failed = True
            warnings.warn(
                f"the watcher {type(self._logger).__name__} failed with {type(error).__name__}: "
                f"{error}. It is told nothing more, the run goes on",
                stacklevel=2,
            )

    def event(self, name: str, message: str, **fields: Json) -> None:
        """Nothing: what can be counted of it is in the blocks."""

    def close(self, ok: bool) -> None:
        """Nothing: the object may be used for more than one run."""


def as_watchers(watchers: Sequence[Watcher | ScalarLogger]) -> list[Watcher]:
    """The watchers; those with ``log(dict, step)`` alone are told by that."""
    return [each if isinstance(each, Watcher) else ScalarWatcher(each) for each in watchers]


class RunLog(JsonLines):
    """The log of a run on disk: if it cannot be written, it ends with a warning; the run goes on.

    A disk that is full stops the run when its draws cannot be written.
    """

    _ended = False

    def start(self, about: Settings) -> None:
        """As the log does; a link or a pipe in its place is left alone."""
        try:
            if self._path.is_symlink() or (self._path.exists() and not self._path.is_file()):
                raise OSError("it is not a regular file")
            super().start(about)
        except OSError as error:
            self._end(error)

    def _write(self, name: str, fields: Mapping[str, Json]) -> None:
        if self._ended:
            return
        try:
            super()._write(name, fields)
        except OSError as error:
            self._end(error)

    def close(self, ok: bool) -> None:
        """As the log does."""
        try:
            super().close(ok)
        except OSError as error:
            self._end(error)

    def _end(self, error: OSError) -> None:
        if not self._ended:
            self._ended = True
            warnings.warn(
                f"the log {self._path} cannot be written: {error}. It ends here, the run goes on",
                stacklevel=2,
            )
