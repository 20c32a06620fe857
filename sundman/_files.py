"""Files that are whole or not there, also after a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

Sync: TypeAlias = Literal["all", "content", "none"]
_SYNCERS = 8


def open_regular(path: Path, *, as_writer: bool = False) -> BinaryIO:
    """Open a regular file for reading: a link is not followed, a pipe is not waited for.

    Args:
      path: the file.
      as_writer: only if it could be written, too, which some file systems need to lock it.

    Returns:
      The open file.

    Raises:
      OSError: if it is not there, cannot be read, or is another kind of file.
    """
    flags = os.O_RDWR if as_writer else os.O_RDONLY
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return open(descriptor, "rb")


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system can."""
    if os.name == "nt":  # which has no handle of a directory to flush
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make the content of a file durable."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def sync_directories(paths: Iterable[Path]) -> None:
    """Make the names in several directories durable: at once, which most disks do in one go."""
    with ThreadPoolExecutor(_SYNCERS) as syncers:
        list(syncers.map(sync_directory, paths))


def sync_tree(root: Path) -> None:
    """Make every file and directory below ``root`` durable, and itself; in any order."""
    with ThreadPoolExecutor(_SYNCERS) as syncers:
        waiting = []
        for directory, _, files in os.walk(root):
            waiting += [syncers.submit(sync_file, Path(directory, name)) for name in files]
            waiting.append(syncers.submit(sync_directory, Path(directory)))
        for each in waiting:
            each.result()


def write_with(path: Path, write: Callable[[BinaryIO], object], *, sync: Sync = "all") -> None:
    """Replace a file at once by what ``write(file)`` puts into it.

    A crash leaves the old file or the new one, never a part. When this returns, the new one
    survives a power cut. With ``sync="content"`` its content does, and its name once
    :func:`sync_directory` was called. With ``sync="none"`` nothing does before
    :func:`sync_tree`: for files of a directory that has no name yet.

    Args:
      path: the file.
      write: is given the open file.
      sync: what to make durable.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            if sync != "none":
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if sync == "all":
        sync_directory(path.parent)


def write_bytes(path: Path, content: bytes, *, sync: Sync = "all") -> None:
    """Replace a file at once by ``content``: see :func:`write_with`."""
    write_with(path, lambda file: file.write(content), sync=sync)
