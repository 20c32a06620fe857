"""The files of a data set: where they are looked for, and the IDX format of MNIST.

They are looked for, in this order, in the argument ``directory``, in the environment variable
``SUNDMAN_DATA_DIR`` and in the user's cache ($XDG_CACHE_HOME/sundman or ~/.cache/sundman); then
they are downloaded to the cache. A place counts only if it has all the files asked for, so that
no set is pieced together.

A file in IDX format, plain or gzipped, is two zero bytes, a byte for the type, a byte for the
number d of axes, d sizes as big-endian 32-bit integers, and then the values, big-endian, the last
axis fastest.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import os
import sys
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_VARIABLE = "SUNDMAN_DATA_DIR"
_TIMEOUT = 30.0
_MOST_BYTES = 2**29  # ten times the largest file of a data set


@dataclass(frozen=True)
class Source:
    """The folder a data set lives in, and the mirrors (addresses of folders) it comes from.

    ``packed`` says that the mirrors have the files gzipped, their names ending in .gz.
    """

    folder: str
    mirrors: tuple[str, ...]
    packed: bool = False

    def md5(self, name: str) -> str:
        """The checksum of a file's unpacked content."""
        return _checksums()[f"{self.folder}/{name}"]


@cache
def _checksums() -> dict[str, str]:
    """The table that ships with the package, in the format of md5sum."""
    lines = (
        resources.files("sundman.data").joinpath("checksums.md5").read_text("ascii").splitlines()
    )
    return {name: md5 for md5, name in (line.split() for line in lines)}


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/sundman, or ~/.cache/sundman."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "sundman"


def _in_folder(folder: Path, name: str) -> Path | None:
    """The file in ``folder``, plain or gzipped."""
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _places(source: Source, directory: str | Path | None) -> list[tuple[str, Path]]:
    """The folders to look in, each with how it came to be looked in."""
    places = []
    if directory is not None:
        folder = Path(directory).expanduser()
        if not folder.is_dir():
            raise FileNotFoundError(f"directory={str(directory)!r} is not a directory")
        places.append(("directory", folder / source.folder))
        if folder.resolve().name == Path(source.folder).name:
            places.append(("directory", folder))
    if variable := os.environ.get(_VARIABLE):
        places.append((_VARIABLE, Path(variable).expanduser() / source.folder))
    return [*places, ("the cache", cache_directory() / source.folder)]


def _download(source: Source, name: str, folder: Path) -> list[str]:
    """Fetch one file into ``folder``; if no mirror serves, what each of them answered."""
    import urllib.request  # here, because it is slow to import and seldom needed
    from http.client import HTTPException

    served = f"{name}.gz" if source.packed else name
    answers = []
    for mirror in source.mirrors:
        url = f"{mirror}/{served}"
        print(f"sundman: downloading {url} to {folder}", file=sys.stderr, flush=True)
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
                raw = answer.read(_MOST_BYTES + 1)
            if len(raw) > _MOST_BYTES:
                raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
            verify(unpack(raw, url), source.md5(name), url)
            _write(folder / served, raw)
        except (OSError, HTTPException, ValueError) as error:
            reason = str(getattr(error, "reason", error)).removeprefix(f"{url}: ")
            answers.append(f"{url}: {reason or type(error).__name__}")
        else:
            return []
    return answers


def _write(path: Path, raw: bytes) -> None:
    """Write the whole file or nothing, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def locate(
    source: Source,
    names: Sequence[str],
    directory: str | Path | None = None,
    *,
    download: bool = True,
) -> dict[str, Path]:
    """The path of each named file, all in the first place that has them all.

    Args:
      source: the data set's folder and mirrors.
      names: of the files, all of them needed.
      directory: where to look first; None leaves it to the environment and the cache.
      download: whether to fetch what is found nowhere.

    Returns:
      The path of each file by its name.
    """
    looked = []
    for how, folder in _places(source, directory):
        paths = {name: path for name in names if (path := _in_folder(folder, name))}
        if len(paths) == len(names):
            return paths
        missing = ", ".join(name for name in names if name not in paths)
        looked.append(f"{how}: {folder} has no {missing}")
    if not os.environ.get(_VARIABLE):
        looked.insert(-1, f"{_VARIABLE}: not set")

    cached = cache_directory() / source.folder
    absent = [name for name in names if not _in_folder(cached, name)]
    if not download:
        looked.append("no download: download=False")
    else:
        for name in absent:
            if answers := _download(source, name, cached):
                looked += answers
                break
        else:
            return {name: path for name in names if (path := _in_folder(cached, name))}
    raise FileNotFoundError(
        f"the data set {source.folder} was not found:\n  "
        + "\n  ".join(looked)
        + "\nTo get it, call with download=True where there is a network; or put the files of "
        f"{source.mirrors[0]} into the folder {source.folder} of some directory, and give that "
        f"directory as directory= or {_VARIABLE}."
    )


_GZIP = b"\x1f\x8b"
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def unpack(raw: bytes, where: object) -> bytes:
    """``raw`` itself, or what is in it if it is gzipped."""
    if raw[:2] != _GZIP:
        return raw
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"{where}: it unpacks to more than {_MOST_BYTES:,} bytes")
        return content
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{where}: the gzip data is truncated or corrupt: {error}") from None


def verify(content: bytes, md5: str, where: object) -> None:
    """The md5 of the unpacked ``content`` must be the one expected.

    Args:
      content: the unpacked bytes.
      md5: what their checksum must be.
      where: the file or address they came from, for errors.
    """
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if actual != md5:
        raise ValueError(
            f"{where}: wrong checksum: expected md5 {md5} of the unpacked content, found {actual}; "
            "delete the file and get it anew"
        )


def decode_idx(content: bytes, where: object) -> NDArray[np.generic]:
    """The array in an unpacked IDX file, in the machine's byte order."""
    if len(content) < 4:
        raise ValueError(f"{where}: expected an IDX header of 4 bytes, found {len(content)}")
    zeros, kind, axes = content[:2], content[2], content[3]
    if zeros != b"\0\0" or kind not in _TYPES:
        known = ", ".join(f"{code:02x}" for code in _TYPES)
        raise ValueError(
            f"{where}: not an IDX file: expected the first bytes 00 00 and a type out of "
            f"{known}, found {content[:4].hex(' ')}"
        )
    header = 4 + 4 * axes
    if len(content) < header:
        raise ValueError(
            f"{where}: truncated: expected a header of {header} bytes for {axes} axes, "
            f"found {len(content)} bytes in all"
        )
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", axes, 4))
    dtype = np.dtype(_TYPES[kind])
    expected, length = dtype.itemsize * math.prod(shape), len(content) - header
    if length != expected:
        what = "truncated" if length < expected else "too long"
        raise ValueError(
            f"{where}: {what}: expected {expected} bytes after the header, for shape {shape} of "
            f"{dtype.name}, found {length}"
        )
    values = np.frombuffer(content, dtype, offset=header).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def read_idx(path: str | Path, *, md5: str | None = None) -> NDArray[np.generic]:
    """The array in an IDX file; with ``md5``, only if its unpacked content has that checksum."""
    content = unpack(Path(path).read_bytes(), path)
    values = decode_idx(content, path)
    if md5 is not None:
        verify(content, md5, path)
    return values
