"""Draws in zarr, read: one array per leaf, chunk by chunk.

A chunk is a file that holds a stretch of draws of all chains, or of a group of them where several
processes write, each its own chains. Which draws count, and the checksum of those in each chunk, is
written elsewhere: a chunk that was swapped, doubled or comes from another run is found, and one
that holds more draws than count by now is not damaged. Any zarr reader opens the arrays; ours does
without zarr, which would take a missing chunk for NaN, follow links, and run whatever codec a file
asks for.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
import stat
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sundman._types import Json
from sundman.store.files import (
    MOST_EMPTY,
    StoreError,
    bytes_on_disk,
    is_empty,
    parse_json,
    read_file,
)

CHECKSUM_BYTES = 4
MOST_CHUNKS = 3 * 2**17  # whose checksums fit into the file that says how many draws count
_MOST_METADATA = 2**16
_MOST_AXES = 32
_PART = re.compile(r"[\w\- ]+")
_TYPES = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
_BITS = re.compile(r"bfloat16|float[48]_\w+|u?int[24]")  # which zarr does not know


@dataclass(frozen=True)
class ArrayInfo:
    """What ``run.json`` says of an array.

    Attributes:
      name: such as ``values/w``.
      shape: axes (chain, draw, ...); the draws are those of the whole run.
      dtype: of its numbers.
      length: draws in a chunk.
      group: chains in a chunk; it divides their number.
      metadata: the checksum of its ``zarr.json``, but for the number of draws.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    length: int
    group: int
    metadata: str

    @property
    def groups(self) -> int:
        """How many groups of chains there are."""
        return self.shape[0] // self.group

    @property
    def stored_dtype(self) -> np.dtype:
        """The type on disk: that of the bits, of a type that zarr does not know."""
        return np.dtype(f"<u{self.dtype.itemsize}") if self.dtype.kind == "V" else self.dtype

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """The axes of a chunk."""
        return self.group, self.length, *self.shape[2:]

    @property
    def chunk_bytes(self) -> int:
        """The length of a chunk's file."""
        rows = tuple(max(size, 1) for size in self.chunk_shape)
        return math.prod(rows) * self.dtype.itemsize + CHECKSUM_BYTES

    def chunks(self, draws: int) -> int:
        """How many chunks of a group hold its first ``draws`` draws; none if a draw is empty."""
        if self.shape[0] * math.prod(self.shape[2:]) == 0:
            return 0
        return -(-draws // self.length)

    def file(self, root: Path, group: int, index: int) -> Path:
        """The file of a chunk."""
        key = ".".join(["c", str(group), str(index), *["0"] * (len(self.shape) - 2)])
        return root / self.name / key

    def to_json(self) -> Json:
        """For ``run.json``."""
        return {
            "shape": list(self.shape),
            "dtype": self.dtype.name,
            "chunk": self.length,
            **({"group": self.group} if self.groups > 1 else {}),
            "metadata": self.metadata,
        }

    @classmethod
    def from_json(cls, name: str, content: Json) -> ArrayInfo:
        """Back again, checked; raises ValueError."""
        shape, dtype, length = (content[key] for key in ("shape", "dtype", "chunk"))
        group = content.get("group", max(1, shape[0]) if shape else 1)
        sizes = isinstance(shape, list) and all(type(s) is int and 0 <= s < 2**48 for s in shape)
        parts = name.split("/")
        if not (
            sizes
            and 2 <= len(shape) <= _MOST_AXES
            and all(map(_PART.fullmatch, parts))
            and type(length) is int
            and length > 0
            and type(group) is int
            and group > 0
            and shape[0] % group == 0
            and isinstance(dtype, str)
            and (_TYPES.fullmatch(dtype) or _BITS.fullmatch(dtype))
            and isinstance(content["metadata"], str)
        ):
            raise ValueError(f"the array {name!r:.50} makes no sense")
        return cls(name, tuple(shape), np.dtype(dtype), length, group, content["metadata"])


def check_number(infos: Mapping[str, ArrayInfo]) -> None:
    """Raise if the draws of a run would be more chunks than can be kept track of."""
    chunks = sum(info.groups * info.chunks(info.shape[1]) for info in infos.values())
    if chunks > MOST_CHUNKS:
        raise StoreError(
            f"the run would have {chunks:,} files of draws, more than {MOST_CHUNKS:,}: keep fewer "
            "draws (thin=) or less of each (collect=); a run that was begun much shorter has small "
            "files: begin another one that is as long as it is to be"
        )


def read_metadata(file: Path) -> dict[str, Json]:
    """What a ``zarr.json`` says."""
    content = parse_json(read_file(file, _MOST_METADATA), str(file))
    shape = content.get("shape") if isinstance(content, dict) else None
    if not (isinstance(shape, list) and len(shape) > 1 and type(shape[1]) is int):
        raise StoreError(f"{file} is damaged: it does not describe an array")
    return content


def metadata_sum(file: Path) -> tuple[str, int]:
    """The checksum of what a ``zarr.json`` says but for the number of draws; and that number."""
    content = read_metadata(file)
    draws, content["shape"][1] = content["shape"][1], 0
    return f"{zlib.crc32(json.dumps(content, sort_keys=True).encode()):08x}", draws


def _label(info: ArrayInfo, group: int, index: int) -> int:
    """A checksum to begin with, of the chunk's place."""
    place = f"{info.name}:{index}" if group == 0 else f"{info.name}:{group}:{index}"
    return zlib.crc32(place.encode())


def sum_of(info: ArrayInfo, group: int, index: int, rows: np.ndarray) -> int:
    """The checksum of the draws of a chunk, and of its place."""
    total = _label(info, group, index)
    for chain in np.ascontiguousarray(rows).view(info.stored_dtype):
        total = zlib.crc32(np.ascontiguousarray(chain).view(np.uint8).data, total)
    return total


class Arrays:
    """The arrays of a run.

    Args:
      path: of the zarr group.
      infos: what the run says they are, by name.
      draws: how many count.
      sums: the checksum of each chunk, group by group, by the name of its array.
    """

    def __init__(
        self,
        path: Path,
        infos: Mapping[str, ArrayInfo],
        draws: int = 0,
        sums: Mapping[str, list[list[int]]] | None = None,
    ) -> None:
        self.path, self.infos, self.draws = path, infos, draws
        if sums is None:
            sums = {name: [[] for _ in range(info.groups)] for name, info in infos.items()}
        self.sums = {name: [*map(list, sums[name])] for name in infos}

    def check_metadata(self) -> None:
        """Raise if a ``zarr.json`` is not the one that was written with the run."""
        for name, info in self.infos.items():
            file = self.path / name / "zarr.json"
            try:
                checksum, draws = metadata_sum(file)
            except FileNotFoundError:
                raise StoreError(f"{file} is missing: restore it from a copy") from None
            if checksum != info.metadata or draws < info.shape[1]:
                raise StoreError(f"{file} is damaged: it is not that of {name!r} in this run")

    def check_sizes(self) -> None:
        """Raise if a chunk that counts is missing, cut short or no regular file.

        Or if nearly all of them were never written, which makes a small directory fill the memory.
        """
        counted, on_disk, files = 0, 0, list[Path]()
        for info in self.infos.values():
            for group, index in itertools.product(
                range(info.groups), range(info.chunks(self.draws))
            ):
                file = info.file(self.path, group, index)
                with contextlib.suppress(OSError):
                    about = file.lstat()
                    if about.st_size == info.chunk_bytes and stat.S_ISREG(about.st_mode):
                        rows = min(info.length, self.draws - index * info.length)
                        counted += about.st_size * rows // info.length
                        on_disk += bytes_on_disk(about)
                        files.append(file)
                        continue
                self._read(info, group, index)  # which says what is wrong
        if counted > MOST_EMPTY and 8 * on_disk < counted and all(map(is_empty, files)):
            raise StoreError(f"{self.path} is damaged: most of its draws were never written")

    def sound_draws(self) -> tuple[int, StoreError | None]:
        """How many draws from the first on are whole in every array; and what is wrong after."""
        least, reason = self.draws, None
        for info in self.infos.values():
            for index in range(info.chunks(least)):
                try:
                    self.chunk(info, index)
                except StoreError as error:
                    least, reason = index * info.length, error
                    break
        return least, reason

    def chunk(self, info: ArrayInfo, index: int) -> np.ndarray:
        """The draws of all chains in a stretch that count, checked, axes (chain, draw, ...)."""
        if info.groups == 1:
            return self.group_chunk(info, 0, index)
        return np.concatenate(
            [self.group_chunk(info, group, index) for group in range(info.groups)]
        )

    def group_chunk(self, info: ArrayInfo, group: int, index: int) -> np.ndarray:
        """Those of a group of chains."""
        begin = index * info.length
        rows = self._read(info, group, index)[:, : max(0, self.draws - begin)]
        sums = self.sums[info.name][group]
        if index >= len(sums) or sum_of(info, group, index, rows) != sums[index]:
            raise self._damaged(info, group, index, "is not what was written there")
        return rows

    def _read(self, info: ArrayInfo, group: int, index: int) -> np.ndarray:
        """What is in a chunk's file."""
        file, size = info.file(self.path, group, index), info.chunk_bytes
        try:
            content = read_file(file, size)
        except FileNotFoundError:
            raise self._damaged(info, group, index, "is missing") from None
        if len(content) != size:
            state = f"is {len(content)} bytes long instead of {size}"
            raise self._damaged(info, group, index, state)
        numbers = np.frombuffer(memoryview(content)[:-CHECKSUM_BYTES], info.stored_dtype)
        return numbers.view(info.dtype).reshape(info.chunk_shape)

    def _damaged(self, info: ArrayInfo, group: int, index: int, state: str) -> StoreError:
        first, last = index * info.length, min(self.draws, (index + 1) * info.length) - 1
        file = info.file(self.path, group, index)
        return StoreError(
            f"draws {first} to {last} of {info.name!r} are damaged: {file} {state}. Restore it "
            "from a copy; or remove it, and sundman.resume makes its draws again"
        )

    def to_json(self) -> Json:
        """The checksums of the chunks, for the file that says how many draws count."""
        return {
            name: "".join(f"{one:08x}" for one in itertools.chain(*groups))
            for name, groups in self.sums.items()
        }


def sums_from_json(
    content: Json, infos: Mapping[str, ArrayInfo], draws: int
) -> dict[str, list[list[int]]]:
    """The checksums of :meth:`Arrays.to_json`, checked; raises ValueError."""
    sums = {}
    for name, info in infos.items():
        text = content[name]
        if not isinstance(text, str) or not re.fullmatch("[0-9a-f]*", text):
            raise ValueError(f"the checksums of {name!r} make no sense")
        each = info.chunks(draws)
        if len(text) != 8 * each * info.groups:
            raise ValueError(f"there are {len(text) // 8} checksums of {name!r}")
        all_sums = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
        sums[name] = [all_sums[i * each : (i + 1) * each] for i in range(info.groups)]
    return sums


assert sys.byteorder == "little", "runs on disk are little-endian, and so must be the machine"
