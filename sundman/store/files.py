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
import re
import socket
import stat
import time
import weakref
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from sundman._files import Sync, open_regular, write_bytes
from sundman._optional import needs_extra
from sundman._types import Json

_MOST_JSON = 4 * 2**20
MOST_EMPTY = 64 * 2**20  # longer files that are holes for their most part would fill the memory
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
    try:
        opened = open_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from error
    with opened as file:
        about = os.fstat(file.fileno())
        if most is not None and about.st_size > most:
            raise StoreError(
                f"{path} is damaged: it has {about.st_size:,} bytes, more than {most:,}"
            )
        suspect = about.st_size > MOST_EMPTY and 8 * bytes_on_disk(about) < about.st_size
        if suspect and not _has_data(file, about):
            raise StoreError(f"{path} is damaged: most of it was never written")
        try:
            return file.read(about.st_size)
        except (OSError, MemoryError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from error


def bytes_on_disk(about: os.stat_result) -> int:
    """What a file takes on the disk; less than it holds if it is compressed, or has holes."""
    return 512 * about.st_blocks if hasattr(about, "st_blocks") else about.st_size


def is_empty(path: Path) -> bool:
    """Whether most of a file was never written."""
    with open_regular(path) as file:
        return not _has_data(file, os.fstat(file.fileno()))


def _has_data(file: BinaryIO, about: os.stat_result) -> bool:
    """Whether at least an eighth of a file was written; True where the system cannot tell."""
    if not hasattr(os, "SEEK_DATA"):
        return True
    end, written = 0, 0
    with contextlib.suppress(OSError):  # there is no data after the last hole
        while end < about.st_size and 8 * written < about.st_size:
            begin = os.lseek(file.fileno(), end, os.SEEK_DATA)
            end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            written += end - begin
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    return 8 * written >= about.st_size


def plain_json(content: Json) -> Json:
    """The content as strict JSON has it: infinity and NaN in words, arrays as lists."""
    if isinstance(content, float) and not math.isfinite(content):
        return {_NUMBER: repr(content)}
    if isinstance(content, Mapping):
        return {str(name): plain_json(item) for name, item in content.items()}
    if isinstance(content, list | tuple):
        return [plain_json(item) for item in content]
    if isinstance(content, np.generic | np.ndarray):
        return plain_json(content.tolist())
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
    plain = plain_json(content)
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
        content = with_numbers(content)
    except RecursionError:
        raise StoreError(f"{path} is damaged: it is nested too deeply") from None
    for name, kind in needed.items():
        if not isinstance(content[name], kind) or (kind is int and content[name] is True):
            raise StoreError(f"{path} is damaged: {name} is {content[name]!r:.50}")
    return content


def with_numbers(content: Json) -> Json:
    """What :func:`plain_json` was given, as far as JSON can tell."""
    if isinstance(content, dict):
        return _number({name: with_numbers(item) for name, item in content.items()})
    return [with_numbers(item) for item in content] if isinstance(content, list) else content


def whole_numbers(values: Json, length: int, least: int = -1) -> bool:
    """Whether a value from JSON is a list of ``length`` whole numbers from ``least`` on."""
    return (
        isinstance(values, list)
        and len(values) == length
        and all(type(value) is int and least <= value < 2**63 for value in values)
    )


def check_archive(content: bytes, where: str) -> None:
    """Raise unless an ``.npz`` archive holds plain arrays, each as long as it says and no more.

    Args:
      content: of the file.
      where: its path, for the error.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sum(member.file_size for member in members) > len(content):
                raise ValueError("it unpacks to more than it is")
            for member in members:
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
_HOLDER = re.compile(rb"process ([1-9]\d{0,9}) on ([^\n]+)\n")
_LONGEST_HOLDER = 300
_WAITS = (0.02, 0.05)  # seconds
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"):
    _LOCK_FLAGS |= getattr(os, _name, 0)


def holder_of(directory: Path) -> tuple[int, str] | None:
    """The process that wrote to a run last, and its machine, as the lock says; None else."""
    try:
        with open_regular(directory / "lock") as file:
            said = _HOLDER.fullmatch(file.read(_LONGEST_HOLDER + 1))
    except OSError:
        return None
    return None if said is None else (int(said[1]), said[2].decode(errors="replace"))


def is_held(directory: Path) -> bool:
    """Whether a process writes to a run; nothing is written to find out."""
    with needs_extra("store", "a stored run"):
        import filelock
    for as_writer in (True, False):
        with (
            contextlib.suppress(OSError),  # there is none, or it cannot be opened or locked so
            open_regular(directory / "lock", as_writer=as_writer) as file,
        ):
            return not filelock.lock_descriptor(file.fileno(), blocking=False)
    return False


class Lock:
    """An exclusive lock on a run's directory, released when the process ends, however it ends.

    A forked child does not have it: it would keep the run locked beyond its parent's end.
    """

    def __init__(self, directory: Path) -> None:
        with needs_extra("store", "a stored run"):
            import filelock
        self.path = directory / "lock"
        try:
            self._file = os.fdopen(os.open(self.path, _LOCK_FLAGS, 0o666), "r+b", buffering=0)
        except OSError as error:
            raise StoreError(f"{directory} cannot be written: {error}") from error
        try:
            self._refuse_another_file()
            waits = iter(_WAITS)  # whoever asks whether a run is written holds the lock meanwhile
            while not filelock.lock_descriptor(self._file.fileno(), blocking=False):
                if (wait := next(waits, None)) is None:
                    raise self._held()
                time.sleep(wait)
            self._refuse_another_file()
            self._file.truncate(0)
            self._file.seek(0)
            self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        except (OSError, StoreError) as error:
            with contextlib.suppress(OSError):  # what could not be written is tried again
                self._file.close()
            if isinstance(error, StoreError):
                raise
            raise StoreError(f"{directory} cannot be locked: {error}") from error
        _HELD.add(self)

    def _refuse_another_file(self) -> None:
        """Raise if the file is none of ours: one has nothing in it, or the name of a process."""
        said = b""
        if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            with contextlib.suppress(OSError):  # Windows does not let others read a locked file
                said = self._file.read(_LONGEST_HOLDER + 1)
                self._file.seek(0)
            if not said or _HOLDER.fullmatch(said):
                return
        raise StoreError(f"{self.path} is not the lock of a run: remove it, if it is of no use")

    def _held(self) -> StoreError:
        """The error that names the process which holds the lock."""
        holder = ""
        with contextlib.suppress(OSError):
            self._file.seek(0)
            holder = self._file.read(_LONGEST_HOLDER).decode(errors="replace").strip()
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
    """Turn an OS error in the block into a :class:`StoreError` that says what is ``safe``.

    Args:
      what: is written.
      path: of the run.
      safe: how many draws are; None if there is no run yet.
    """
    try:
        yield
    except OSError as error:
        rest = "Nothing was written"
        if safe is not None:
            kept = f"The first {safe} draws are safe there; put" if safe else "Put"
            rest = f'{kept} it right and go on with sundman.resume("{path}")'
        raise StoreError(f"cannot write {what} to {path}: {error}. {rest}") from error


def remove_partial(directory: Path) -> None:
    """Remove what writers that were killed left half written."""
    for left in directory.rglob("*.partial"):
        with contextlib.suppress(OSError):
            left.unlink()
