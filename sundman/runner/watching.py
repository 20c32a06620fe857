"""Those who watch a run: started before it, closed however it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sundman.runner.log import JsonLines
from sundman.runner.progress import progress_watcher
from sundman.runner.report import Watcher


@contextmanager
def watched(
    watchers: Sequence[Watcher], about: dict[str, Any], note: str | None = None
) -> Iterator[None]:
    """Start the watchers, and close them however the run ends."""
    started: list[Watcher] = []
    ok = False
    try:
        for watcher in watchers:
            watcher.start(about)
            started.append(watcher)
            if note is not None:
                watcher.event("resumed", note)
        yield
        ok = True
    finally:
        for watcher in started:
            watcher.close(ok)


def all_watchers(
    progress: Any, watchers: Sequence[Watcher], log: JsonLines | None = None
) -> list[Watcher]:
    """The display, the log and the user's own."""
    found: list[Any] = [progress_watcher(progress), log, *watchers]
    return [watcher for watcher in found if watcher is not None]
