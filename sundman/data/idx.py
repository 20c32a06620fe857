"""The IDX format of MNIST, plain or gzipped.

A file is two zero bytes, a byte for the type, a byte for the number d of axes, d sizes as
big-endian 32-bit integers, and then the values, big-endian, the last axis fastest.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GZIP = b"\x1f\x8b"
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def unpack(raw: bytes, where: object) -> bytes:
    """``raw`` itself, or what is in it if it is gzipped."""
    if raw[:2] != _GZIP:
        return raw
    try:
        return gzip.decompress(raw)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{where}: the gzip data is truncated or corrupt: {error}") from None


def verify(content: bytes, md5: str, where: object) -> None:
    """The md5 of the unpacked ``content`` must be the one expected."""
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != md5:
        raise ValueError(
            f"{where}: wrong checksum: expected md5 {md5} of the unpacked content, found {found}; "
            "delete the file and get it anew"
        )


def decode(content: bytes, where: object) -> NDArray[Any]:
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
    expected, found = dtype.itemsize * math.prod(shape), len(content) - header
    if found != expected:
        what = "truncated" if found < expected else "too long"
        raise ValueError(
            f"{where}: {what}: expected {expected} bytes after the header, for shape {shape} of "
            f"{dtype.name}, found {found}"
        )
    values = np.frombuffer(content, dtype, offset=header).reshape(shape)
    return values.astype(dtype.newbyteorder("="))


def read(path: str | Path, *, md5: str | None = None) -> NDArray[Any]:
    """The array in an IDX file; with ``md5``, only if its unpacked content has that checksum."""
    content = unpack(Path(path).read_bytes(), path)
    values = decode(content, path)
    if md5 is not None:
        verify(content, md5, path)
    return values
