"""Complete states of a run: one file each, durable before its name is. The first and the last two.

A state is an archive of arrays by name, ``group/name``, with a checksum for each, the number of
pieces it was made after and the id of its run, so that one from another run or another place is
not taken for it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np

from sundman._files import sync_directory, write_with
from sundman.store.files import StoreError, read_archive, write_archive

Tree: TypeAlias = dict[str, dict[str, np.ndarray]]
_KEPT = 2
_FILE = re.compile(r"(\d{9})\.npz")


def _file(directory: Path, number: int) -> Path:
    return directory / f"{number:09d}.npz"


def _stamp(run: str, number: int) -> np.ndarray:
    return np.frombuffer(f"{run} {number}".encode(), np.uint8)


def save(directory: Path, run: str, number: int, tree: Tree) -> None:
    """Write a state, and remove those that are not kept.

    Args:
      directory: of the checkpoints.
      run: the id of the run.
      number: how many pieces were done.
      tree: {group: {name: array}}.
    """
    arrays = {
        f"{group}/{name}": np.asarray(leaf)
        for group, parts in tree.items()
        for name, leaf in parts.items()
    }
    directory.mkdir(exist_ok=True)
    arrays["run"] = _stamp(run, number)
    write_with(_file(directory, number), lambda file: write_archive(file, arrays))
    for old in numbers(directory)[1:-_KEPT]:
        _remove(_file(directory, old))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def remove_from(directory: Path, number: int) -> None:
    """Remove states from ``number`` on, as the run goes back there, and unfinished ones."""
    for path in list(directory.iterdir()) if directory.is_dir() else ():
        match = _FILE.fullmatch(path.name)
        if match is None or int(match[1]) >= number:
            _remove(path)
    sync_directory(directory)


def numbers(directory: Path) -> list[int]:
    """The states there are, oldest first; an unfinished one has another name."""
    try:
        names = os.listdir(directory)
    except OSError:
        return []
    return sorted(int(match[1]) for match in map(_FILE.fullmatch, names) if match)


def load(directory: Path, run: str, number: int) -> Tree:
    """One state, checked.

    Raises:
      StoreError: if it is damaged, or that of another run or another place.
    """
    path = _file(directory, number)
    try:
        arrays = read_archive(path)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    stamp = arrays.pop("run", None)
    if stamp is None or stamp.tobytes() != _stamp(run, number).tobytes():
        raise StoreError(f"{path} is damaged: it is not state {number} of this run")
    tree: Tree = {}
    for name, array in arrays.items():
        group, _, rest = name.partition("/")
        tree.setdefault(group, {})[rest] = array
    return tree


def newest_first(directory: Path, run: str) -> Iterator[tuple[int, Tree | StoreError]]:
    """Each state with its number, or what is wrong with it."""
    for number in reversed(numbers(directory)):
        try:
            yield number, load(directory, run, number)
        except StoreError as error:
            yield number, error


def load_latest(directory: Path, run: str) -> Tree:
    """The newest state that is whole."""
    failures: list[str] = []
    for _, state in newest_first(directory, run):
        if not isinstance(state, StoreError):
            return state
        failures.append(str(state))
    reason = "; ".join(failures) or f"there is none in {directory}"
    raise StoreError(f"no usable checkpoint: {reason}. The run has to be started again")
