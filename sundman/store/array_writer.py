"""Draws in zarr, written: one array per leaf, filled block by block.

A chunk is replaced as a whole, and is durable before anything says that its draws count. Files are
written here and not by zarr, which does not make them durable.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import DTypeLike

from sundman._files import sync_directories, write_bytes, write_with
from sundman._optional import needs_extra
from sundman.store.arrays import (
    CHECKSUM_BYTES,
    ArrayInfo,
    Arrays,
    check_number,
    metadata_sum,
    read_metadata,
    sum_of,
)

with needs_extra("store", "a stored run"):
    import google_crc32c
    import zarr
    from zarr.codecs import BytesCodec, Crc32cCodec

_CHUNK_BYTES = 4 * 2**20
_LEAST_DRAWS = 4096  # in a chunk, if they fit: a short run may be made long
_WRITERS = 8


def create(
    path: Path, shapes: Mapping[str, tuple[tuple[int, ...], DTypeLike]], group: int | None = None
) -> dict[str, ArrayInfo]:
    """Empty arrays, by name; shapes are (chain, draw, ...), ``group`` chains are in a chunk."""
    root = zarr.create_group(store=str(path))
    infos = {}
    for name, (shape, given) in shapes.items():
        dtype = np.dtype(given)
        chains = shape[0] if group is None else group
        one = dtype.itemsize * chains * math.prod(shape[2:])
        least = max(shape[1], _LEAST_DRAWS)
        length = max(1, min(least, _CHUNK_BYTES // max(one, 1)))
        info = ArrayInfo(name, tuple(shape), dtype, length, chains, "")
        bits = dtype.kind == "V"
        root.create_array(
            name,
            shape=shape,
            chunks=tuple(max(size, 1) for size in info.chunk_shape),
            dtype=info.stored_dtype,
            fill_value=np.nan if dtype.kind in "fc" else None,
            attributes={"bits of": dtype.name} if bits else None,
            serializer=BytesCodec(endian=None if dtype.itemsize == 1 else "little"),
            compressors=[Crc32cCodec()],
            chunk_key_encoding={"name": "default", "separator": "."},
        )
        metadata = metadata_sum(path / name / "zarr.json")[0]
        infos[name] = replace(info, metadata=metadata)
    check_number(infos)
    return infos


def longer(infos: Mapping[str, ArrayInfo], draws: int) -> dict[str, ArrayInfo]:
    """What arrays with room for ``draws`` draws would be; raises if they cannot have it."""
    infos = {
        name: replace(info, shape=(info.shape[0], draws, *info.shape[2:]))
        for name, info in infos.items()
    }
    check_number(infos)
    return infos


def lengthen(path: Path, infos: Mapping[str, ArrayInfo], draws: int) -> dict[str, ArrayInfo]:
    """The arrays with room for ``draws`` draws; those that are there stay."""
    lengthened = longer(infos, draws)
    for name in infos:
        file = path / name / "zarr.json"
        content = read_metadata(file)
        content["shape"][1] = draws
        write_bytes(file, json.dumps(content, indent=2).encode(), sync="content")
    sync_directories(path / name for name in infos)
    return lengthened


class ArrayWriter(Arrays):
    """The arrays of a run, to be filled: see :class:`Arrays`."""

    def write(self, columns: Mapping[str, np.ndarray], groups: Sequence[int] | None = None) -> None:
        """Add columns, axes (chain, draw, ...), after the draws that count, and make them durable.

        They count from now on here; on disk, once their number and checksums are written.

        Args:
          columns: by name, of the chains of ``groups``.
          groups: those to write, all if not given; others are written by other processes.
        """
        end = self.draws + next((column.shape[1] for column in columns.values()), 0)
        parts = [
            (self.infos[name], group, part)
            for name, column in columns.items()
            for group, part in zip(
                range(self.infos[name].groups) if groups is None else groups,
                _parts(column, self.infos[name].group),
                strict=True,
            )
        ]
        chunks = [
            (info, group, part, index)
            for info, group, part in parts
            for index in range(self.draws // info.length, info.chunks(end))
        ]
        with ThreadPoolExecutor(_WRITERS) as writers:  # most of it is waiting for the disk
            sums = list(writers.map(lambda chunk: self._write_chunk(*chunk), chunks))
        sync_directories({self.path / info.name for info, *_ in chunks})
        for (info, group, _, index), one in zip(chunks, sums, strict=True):
            self.sums[info.name][group][index:] = [one]
        self.draws = end

    def _write_chunk(self, info: ArrayInfo, group: int, column: np.ndarray, index: int) -> int:
        """A chunk with its draws of a group's column after those that count; its checksum."""
        begin, end = index * info.length, self.draws + column.shape[1]
        chunk = np.zeros(info.chunk_shape, info.dtype)
        before = max(0, self.draws - begin)
        if before:
            chunk[:, :before] = self.group_chunk(info, group, index)
        part = column[:, max(0, begin - self.draws) : begin + info.length - self.draws]
        chunk[:, before : before + part.shape[1]] = part
        content = chunk.view(info.stored_dtype).tobytes()
        checksum = google_crc32c.value(content).to_bytes(CHECKSUM_BYTES, "little")

        def write(file: BinaryIO) -> None:
            file.write(content)
            file.write(checksum)

        write_with(info.file(self.path, group, index), write, sync="content")
        return sum_of(info, group, index, chunk[:, : end - begin])

    def share_sums(self, own: Sequence[int], add_up: Callable[[np.ndarray], np.ndarray]) -> None:
        """Take over the checksums of the groups that other processes have written.

        Args:
          own: the groups that were written here.
          add_up: the sum over all processes of what each gives; it has zeros for groups of others.
        """
        for name, groups in self.sums.items():
            chunks = self.infos[name].chunks(self.draws)
            table = np.zeros((len(groups), chunks), np.uint32)
            for group in own:
                table[group] = groups[group]
            self.sums[name] = add_up(table).tolist()

    def cut(self, draws: int) -> None:
        """Let only the first ``draws`` draws count."""
        for name, info in self.infos.items():
            last = info.chunks(draws) - 1
            for group, sums in enumerate(self.sums[name]):
                if last >= 0 and draws < (last + 1) * info.length:
                    rows = self.group_chunk(info, group, last)[:, : draws - last * info.length]
                    sums[last:] = [sum_of(info, group, last, rows)]
                del sums[last + 1 :]
        self.draws = draws

    def drop_rest(self) -> None:
        """Remove the chunks after the draws that count."""
        for name, info in self.infos.items():
            chunks = itertools.product(range(info.groups), range(info.chunks(self.draws)))
            kept = {info.file(self.path, *place).name for place in chunks}
            for file in (self.path / name).glob("c.*"):
                if file.name not in kept:
                    file.unlink()
        sync_directories(self.path / name for name in self.infos)


def _parts(column: np.ndarray, group: int) -> list[np.ndarray]:
    """A column in groups of chains."""
    return [column[first : first + group] for first in range(0, len(column), group)]
