"""The directory of a command's results.

settings.toml    every setting; ``sundman COMMAND --config settings.toml`` repeats it
runs/NAME        a run on disk for each sampler or seed
results.json     the numbers of the table
report.html      the report
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sundman.cli.errors import Stopped, UserError

SETTINGS, RUNS, RESULTS, REPORT = "settings.toml", "runs", "results.json", "report.html"
FIGURE = "demo.png"


def prepare(path: Path, force: bool) -> Path:
    """An empty directory that can be written; results in it are only replaced by ``force``."""
    path = path.expanduser().absolute()
    try:
        if path.is_dir() and any(path.iterdir()):
            _clear(path, force)
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write to {path}: {reason}; use another --output") from None
    return path


def _clear(path: Path, force: bool) -> None:
    ours = {SETTINGS, RUNS, RESULTS, REPORT, FIGURE}
    if not force:
        raise UserError(f"{path} exists; use another --output, or --force to replace it")
    if not {entry.name for entry in path.iterdir()} <= ours:
        raise UserError(f"{path} holds files that are not results of sundman; use another --output")
    for entry in path.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def free(base: Path) -> Path:
    """``base``, or the first of base-2, base-3, ... that does not exist."""
    found, number = base, 1
    while found.exists():
        number += 1
        found = base.with_name(f"{base.name}-{number}")
    return found


def runs_in(path: Path) -> dict[str, Path]:
    """The runs in a directory of results, by name; or the run that ``path`` itself is."""
    if (path / "run.json").is_file():
        return {path.name: path}
    found = sorted((path / RUNS).glob("*/run.json"))
    return {run.parent.name: run.parent for run in found}


def write_results(path: Path, results: Any) -> None:
    """The numbers as JSON."""
    (path / RESULTS).write_text(json.dumps(results, indent=1, default=float), encoding="utf-8")


@contextmanager
def resumable(path: Path | None) -> Iterator[None]:
    """Ctrl-C inside leaves a run that can be gone on with, and says how."""
    try:
        yield
    except KeyboardInterrupt:
        if path is None:
            raise
        raise Stopped(f"stopped; go on with: sundman resume {shlex.quote(str(path))}") from None
