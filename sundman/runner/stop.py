"""Ctrl-C and SIGTERM ask a run to stop at the end of its block; a second one stops it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """While entered, remembers the first signal instead of acting on it."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        """Take over the signals, if this is the main thread; one that is ignored stays ignored.

        A shell lets its background jobs ignore SIGINT, which Ctrl-C sends to all of them.
        """
        if threading.current_thread() is threading.main_thread():
            handlers = {number: signal.getsignal(number) for number in _SIGNALS}
            self._before = {n: h for n, h in handlers.items() if h is not signal.SIG_IGN}
            for number in self._before:
                signal.signal(number, self._ask)
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal = signal.Signals(number)
        self._give_back()

    def _give_back(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the signals back; one that came too late to stop the run is passed on."""
        self._give_back()
        if error is None and self.signal is not None:
            signal.raise_signal(self.signal)


class Interrupted(KeyboardInterrupt):
    """A run was asked to stop and did, after saving its state."""


def interruption(number: signal.Signals, message: str) -> BaseException:
    """What to raise for a signal: as Python would, with the message."""
    if number == signal.SIGTERM:
        return SystemExit(128 + number)
    return Interrupted(message)
