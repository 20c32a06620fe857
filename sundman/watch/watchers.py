"""Those who watch a run: started before it, closed however it ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from sundman._types import Settings
from sundman.watch.events import Watcher
from sundman.watch.log import JsonLines
from sundman.watch.progress import ProgressOption, progress_watcher


@contextmanager
def watched(
    watchers: Sequence[Watcher], about: Settings, note: str | None = None
) -> Iterator[None]:
    """Start the watchers, and close them however the run ends."""
    ok = False
    with ExitStack() as started:
        for watcher in watchers:
            watcher.start(about)
            started.callback(lambda watcher=watcher: watcher.close(ok))
            if note is not None:
                watcher.event("resumed", note)
        yield
        ok = True


def check_watchers(watchers: object) -> None:
    """Raise unless it is a sequence of watchers."""
    if isinstance(watchers, (str, Mapping)) or not isinstance(watchers, Sequence):
        raise TypeError(f"watchers is a sequence of watchers, such as [log]; got {watchers!r}")
    for watcher in watchers:
        lacks = [
            name for name in ("start", "block", "event", "close") if not hasattr(watcher, name)
        ]
        if lacks:
            raise TypeError(
                f"a watcher has start, block, event and close, such as sundman.JsonLines(path); "
                f"{watcher!r} has no {lacks[0]}"
            )


def all_watchers(
    progress: ProgressOption, watchers: Sequence[Watcher], log: JsonLines | None = None
) -> list[Watcher]:
    """The display, the log and the user's own."""
    everyone: list[Watcher | None] = [progress_watcher(progress), log, *watchers]
    return [watcher for watcher in everyone if watcher is not None]
