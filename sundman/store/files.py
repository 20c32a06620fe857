"""Files that are whole or not there, and a lock that dies with its process."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from sundman._optional import needs_extra
from sundman._types import Json


class StoreError(RuntimeError):
    """A run on disk cannot be written, read or resumed; the message says why and what to do."""


def read_json(path: Path, needed: Sequence[str] = ()) -> Json:
    """JSON with the fields ``needed``, or a :class:`StoreError` that names the file."""
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise StoreError(f"there is no {path.name} in {path.parent}: it is not a run") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    missing = [name for name in needed if not isinstance(content, dict) or name not in content]
    if missing:
        raise StoreError(f"{path} is damaged: it does not say {', '.join(missing)}")
    return content


class Lock:
    """An exclusive lock on a run's directory, released when the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        with needs_extra("store", "a stored run"):
            import filelock
        self.path = directory / "lock"
        try:
            self._file = self.path.open("a+")
        except OSError as error:
            raise StoreError(f"{directory} cannot be written: {error}") from error
        try:
            if not filelock.lock_descriptor(self._file.fileno(), blocking=False):
                raise self._held()
            self._file.truncate(0)
            self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            self._file.flush()
        except OSError as error:
            with contextlib.suppress(OSError):  # what could not be written is tried again
                self._file.close()
            raise StoreError(f"{directory} cannot be locked: {error}") from error

    def _held(self) -> StoreError:
        """The error that names the process which holds the lock, and closes our file."""
        holder = ""
        with contextlib.suppress(OSError):  # Windows does not let others read a locked file
            self._file.seek(0)
            holder = self._file.read().strip()
        self._file.close()
        return StoreError(
            f"{self.path.parent} is being written by {holder or 'another process'}: wait for it, "
            "stop it, or use another store"
        )

    def moved_to(self, directory: Path) -> None:
        """The directory was renamed."""
        self.path = directory / "lock"

    def check(self) -> None:
        """Raise if the directory is no longer the one that was locked."""
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno()))
        except OSError:
            same = False
        if not same:
            raise StoreError(
                f"{self.path.parent} was deleted or replaced while the run was writing to it; "
                "its draws are gone. Start again with sundman.sample(..., store=...)"
            )

    def release(self) -> None:
        """Let others write."""
        self._file.close()


@contextlib.contextmanager
def writing(what: str, path: Path, safe: int | None = None) -> Iterator[None]:
    """Turn an OS error in the block into a :class:`StoreError` that says what is ``safe``."""
    try:
        yield
    except OSError as error:
        rest = "Nothing was written"
        if safe is not None:
            rest = (
                f"The first {safe} draws are safe there; put it right and go on with "
                f'sundman.resume("{path}")'
            )
        raise StoreError(f"cannot write {what} to {path}: {error}. {rest}") from error
