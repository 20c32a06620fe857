"""Those who watch a run: started before it, closed however it ends."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from sundman.watch.events import Watcher
from sundman.watch.log import JsonLines
from sundman.watch.progress import progress_watcher


@contextmanager
def watched(
    watchers: Sequence[Watcher], about: dict[str, Any], note: str | None = None
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


class RunLog(JsonLines):
    """The log of a run on disk: if it cannot be written, it ends with a warning; the run goes on.

    A disk that is full stops the run when its draws cannot be written.
    """

    _ended = False

    def start(self, about: Mapping[str, Any]) -> None:
        """As the log does."""
        try:
            super().start(about)
        except OSError as error:
            self._end(error)

    def _write(self, name: str, fields: Mapping[str, Any]) -> None:
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


def check_watchers(watchers: Any) -> None:
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
    progress: Any, watchers: Sequence[Watcher], log: JsonLines | None = None
) -> list[Watcher]:
    """The display, the log and the user's own."""
    found: list[Any] = [progress_watcher(progress), log, *watchers]
    return [watcher for watcher in found if watcher is not None]
