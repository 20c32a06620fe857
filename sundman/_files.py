"""Files that are whole or not there, also after a power cut."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system can."""
    if os.name == "nt":  # which has no handle of a directory to flush
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_with(path: Path, write: Callable[[BinaryIO], object], *, sync: bool = True) -> None:
    """Replace a file at once by what ``write(file)`` puts into it.

    A crash leaves the old file or the new one, never a part. When this returns, the new one
    survives a power cut; with ``sync=False`` its content does, and its name once
    :func:`sync_directory` was called.

    Args:
      path: the file.
      write: is given the open file.
      sync: whether to sync the directory, too.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if sync:
        sync_directory(path.parent)


def write_bytes(path: Path, content: bytes, *, sync: bool = True) -> None:
    """Replace a file at once by ``content``: see :func:`write_with`."""
    write_with(path, lambda file: file.write(content), sync=sync)
