"""The files of a run: regular, bounded, checked, or a :class:`StoreError`; and its lock.

A run may come from anyone. Nothing that is read here runs code, waits, or takes more memory than
the file is long: links, pipes, JSON beyond a few megabytes and archives that unpack to more than
they are have no place in a run.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import socket
import stat
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from sundman._files import Sync, write_bytes
from sundman._optional import needs_extra
from sundman._types import Json

_MOST_JSON = 4 * 2**20
_MOSTLY_EMPTY = 64 * 2**20  # a longer file with holes for its most part would fill the memory
_CHECKSUM = "checksum"
_NUMBER = "number"  # {"number": "inf"}: JSON has no infinity and no NaN


class StoreError(RuntimeError):
    """A run on disk cannot be written, read or resumed; the message says why and what to do."""


class StoreWarning(UserWarning):
    """Something about a run on disk that its owner should know; the run goes on."""


def read_file(path: Path, most: int | None = None) -> bytes:
    """The content of a regular file.

    Args:
      path: the file; a link is not followed.
      most: how many bytes it may have; any number if not given.

    Returns:
      The content.

    Raises:
      FileNotFoundError: if it is not there.
      StoreError: if it cannot be read, is not a regular file or is longer.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    with open(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise StoreError(f"{path} cannot be read: it is not a regular file")
        if most is not None and about.st_size > most:
            raise StoreError(
                f"{path} is damaged: it has {about.st_size:,} bytes, more than {most:,}"
            )
        blocks = getattr(about, "st_blocks", about.st_size)
        if about.st_size > _MOSTLY_EMPTY and 512 * blocks < about.st_size // 8:
            raise StoreError(f"{path} is damaged: most of it was never written")
        try:
            return file.read(about.st_size)
        except (OSError, MemoryError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error


def _plain(content: Json) -> Json:
    """The content as strict JSON has it: infinity and NaN in words, arrays as lists."""
    if isinstance(content, float) and not math.isfinite(content):
        return {_NUMBER: repr(content)}
    if isinstance(content, Mapping):
        return {str(name): _plain(item) for name, item in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(item) for item in content]
    if isinstance(content, np.generic | np.ndarray):
        return _plain(content.tolist())
    return content


def _number(item: dict[str, Json]) -> Json:
    """A number that JSON does not know, back from its words."""
    if item.keys() == {_NUMBER} and item[_NUMBER] in ("inf", "-inf", "nan"):
        return float(item[_NUMBER])
    return item


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _sum_of(content: Mapping[str, Json]) -> str:
    """The checksum of what a JSON file says."""
    text = json.dumps(content, sort_keys=True, default=repr, allow_nan=False)
    return f"{zlib.crc32(text.encode()):08x}"


def write_json(path: Path, content: Mapping[str, Json], sync: Sync = "all") -> None:
    """A JSON object with a checksum, whole and durable; what JSON does not know as its repr."""
    plain = _plain(content)
    text = json.dumps(
        {**plain, _CHECKSUM: _sum_of(plain)}, indent=1, default=repr, allow_nan=False
    ).encode()
    if len(text) > _MOST_JSON:
        raise OSError(f"{path.name} would have {len(text):,} bytes, more than {_MOST_JSON:,}")
    write_bytes(path, text, sync=sync)


def parse_json(text: bytes, where: str) -> Json:
    """JSON from a stranger; ``where`` it is from is for the error."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError, MemoryError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise StoreError(f"{where} is damaged: {reason}") from None


def read_json(path: Path, needed: Mapping[str, type | tuple[type, ...]]) -> dict[str, Json]:
    """What :func:`write_json` wrote, checked.

    Args:
      path: the file.
      needed: the fields it must have, and the type of each.

    Returns:
      The fields by name, without the checksum.

    Raises:
      StoreError: that names the file and what is wrong with it.
    """
    try:
        text = read_file(path, _MOST_JSON)
    except FileNotFoundError:
        raise StoreError(f"there is no {path.name} in {path.parent}: it is not a run") from None
    content = parse_json(text, str(path))
    missing = [name for name in needed if not isinstance(content, dict) or name not in content]
    if missing:
        raise StoreError(f"{path} is damaged: it does not say {', '.join(missing)}")
    try:
        stored_sum = content.pop(_CHECKSUM, None)
        if stored_sum is not None and stored_sum != _sum_of(content):
            raise StoreError(f"{path} is damaged: its checksum does not fit; restore a copy of it")
        content = _with_numbers(content)
    except RecursionError:
        raise StoreError(f"{path} is damaged: it is nested too deeply") from None
    for name, kind in needed.items():
        if not isinstance(content[name], kind) or (kind is int and content[name] is True):
            raise StoreError(f"{path} is damaged: {name} is {content[name]!r:.50}")
    return content


def _with_numbers(content: Json) -> Json:
    if isinstance(content, dict):
        return _number({name: _with_numbers(item) for name, item in content.items()})
    return [_with_numbers(item) for item in content] if isinstance(content, list) else content


def whole_numbers(values: Json, length: int, least: int = -1) -> bool:
    """Whether a value from JSON is a list of ``length`` whole numbers from ``least`` on."""
    return (
        isinstance(values, list)
        and len(values) == length
        and all(type(value) is int and value >= least for value in values)
    )


def check_archive(content: bytes, where: str) -> None:
    """Raise unless an ``.npz`` archive holds plain arrays, each as long as it says and no more.

    Args:
      content: of the file.
      where: its path, for the error.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                    raise ValueError(f"{member.filename} is compressed")
                with archive.open(member) as file:
                    _check_array(file, member.file_size)
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, MemoryError) as error:
        raise StoreError(f"{where} is damaged: {error}") from None


def _check_array(file: IO[bytes], size: int) -> None:
    version = np.lib.format.read_magic(file)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read(file)
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != size - file.tell():
        raise ValueError(f"an array of shape {shape} and type {dtype} does not fit {size} bytes")


def write_archive(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Named arrays as an ``.npz`` archive; numbers that NumPy does not save as their bits."""
    bits = {
        name: array.dtype.name for name, array in arrays.items() if array.dtype.kind == "V"
    }  # bfloat16 and its like
    stored = {
        name: array.view(f"u{array.dtype.itemsize}") if name in bits else array
        for name, array in arrays.items()
    }
    note = np.frombuffer(json.dumps(bits).encode(), np.uint8)
    np.savez(file, allow_pickle=False, **{**stored, "": note})  # type: ignore[arg-type]


def read_archive(path: Path) -> dict[str, np.ndarray]:
    """The arrays of :func:`write_archive`, checked.

    Raises:
      FileNotFoundError: if the file is not there.
      StoreError: if it is damaged.
    """
    content = read_file(path)
    check_archive(content, str(path))
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        bits = parse_json(arrays.pop("").tobytes(), str(path))
        return {
            name: array.view(np.dtype(bits[name])) if name in bits else array
            for name, array in arrays.items()
        }
    except (ValueError, KeyError, TypeError, OSError, zipfile.BadZipFile, MemoryError) as error:
        raise StoreError(f"{path} is damaged: {error}") from None


_HELD: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """An exclusive lock on a run's directory, released when the process ends, however it ends.

    A forked child does not have it: it would keep the run locked beyond its parent's end.
    """

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
        _HELD.add(self)

    def _held(self) -> StoreError:
        """The error that names the process which holds the lock, and closes our file."""
        holder = ""
        with contextlib.suppress(OSError):  # Windows does not let others read a locked file
            self._file.seek(0)
            holder = self._file.read(200).strip()
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
                f"{self.path.parent} was moved, deleted or replaced while the run was writing to "
                "it, or its lock was: if it is still there under some name, go on with "
                "sundman.resume; otherwise start again with sundman.sample(..., store=...)"
            )

    def release(self) -> None:
        """Let others write."""
        self._file.close()
        _HELD.discard(self)


def _let_go() -> None:
    """In a forked child: close what it inherited, which does not unlock it for the parent."""
    for lock in list(_HELD):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


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


def remove_partial(directory: Path) -> None:
    """Remove what writers that were killed left half written."""
    for left in directory.rglob("*.partial"):
        with contextlib.suppress(OSError):
            left.unlink()
