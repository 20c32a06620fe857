"""Files that are whole or not there, and a lock that dies with its process."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any


class StoreError(RuntimeError):
    """A run on disk cannot be written, read or resumed; the message says why and what to do."""


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file at once: a crash leaves the old one or the new one, never a part."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: Any) -> None:
    """JSON, atomically; what JSON does not know is written as its repr."""
    text = json.dumps(content, indent=1, default=repr)
    write_bytes(path, text.encode())


def read_json(path: Path, needed: Sequence[str] = ()) -> Any:
    """JSON with the fields ``needed``, or a :class:`StoreError` that names the file."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        raise StoreError(f"there is no {path.name} in {path.parent}: it is not a run") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    missing = [name for name in needed if not isinstance(found, dict) or name not in found]
    if missing:
        raise StoreError(f"{path} is damaged: it does not say {', '.join(missing)}")
    return found


class Lock:
    """An exclusive lock on a run's directory, released when the process ends, however it ends."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "lock"
        try:
            self._file = self.path.open("a+")
        except OSError as error:
            raise StoreError(f"{directory} cannot be written: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.truncate(0)
            self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
            self._file.flush()
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise StoreError(
                f"{directory} is being written by {holder}: wait for it, stop it, or use "
                "another store"
            ) from None
        except OSError as error:
            with contextlib.suppress(OSError):  # what could not be written is tried again
                self._file.close()
            raise StoreError(f"{directory} cannot be locked: {error}") from error

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
