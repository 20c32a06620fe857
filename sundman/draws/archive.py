"""Draws as one file, for another machine or another tool."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import IO, BinaryIO

import jax
import numpy as np
from numpy.typing import DTypeLike

from sundman import _chunks
from sundman._files import write_with
from sundman._trees import leaf_names
from sundman._types import DrawsArray
from sundman.draws.draws import Draws


def export(
    draws: Draws,
    path: str | os.PathLike[str],
    *,
    thin: int = 1,
    dtype: DTypeLike | None = None,
) -> Path:
    """Write draws as one file that ``numpy.load`` opens, for another machine or another tool.

    It has ``values/<leaf>``, ``weight`` and ``stats/<name>`` with axes (chain, draw, ...), and
    ``settings`` and ``verdict`` as JSON in bytes. Draws on disk are read a piece at a time.

        sundman.export(sundman.Draws.open("runs/mnist"), "mnist.npz", thin=10, dtype="float16")

    Args:
      draws: in memory or on disk.
      path: the file, which is replaced.
      thin: keep every thin-th draw.
      dtype: that of the values, such as ``"float16"``; as they are if not given.

    Returns:
      The path of the file.
    """
    part = draws.thin(thin)
    names, leaves = leaf_names(part.values), jax.tree.leaves(part.values)
    columns: dict[str, tuple[DrawsArray, np.dtype]] = {
        f"values/{name}": (leaf, np.dtype(leaf.dtype if dtype is None else dtype))
        for name, leaf in zip(names, leaves, strict=True)
    }
    plain = {"weight": part.weight, **{f"stats/{k}": v for k, v in part.stats.items()}}
    columns |= {name: (column, column.dtype) for name, column in plain.items()}
    verdict = None if draws.verdict is None else draws.verdict.as_json()
    texts = {"settings": part.settings, "verdict": verdict}
    where = Path(path).expanduser().absolute()

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, (leaf, kind) in columns.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_leaf(member, leaf, kind)
            for name, content in texts.items():
                text = json.dumps(content, default=repr).encode()
                with archive.open(f"{name}.npy", "w") as member:
                    np.save(member, np.frombuffer(text, np.uint8), allow_pickle=False)

    write_with(where, write)
    return where


def _write_leaf(file: IO[bytes], leaf: DrawsArray, dtype: np.dtype) -> None:
    """An array in the format of numpy, a piece at a time; types it does not know as float32."""
    stored = np.dtype(np.float32) if dtype.kind == "V" else dtype
    header = {"descr": stored.str, "fortran_order": False, "shape": leaf.shape}
    np.lib.format.write_array_header_2_0(file, header)
    size = _chunks.draws_per_block(leaf)
    for chain in range(leaf.shape[0]):
        for some in _chunks.draw_slices(leaf.shape[1], size):
            file.write(np.ascontiguousarray(leaf[chain, some]).astype(stored).tobytes())
