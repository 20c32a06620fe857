"""Complete states of a run, written by orbax: each appears at once, the last two are kept."""

from __future__ import annotations

import logging
import shutil
import threading
import warnings
import zlib
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import numpy as np

from sundman._optional import needs_extra
from sundman.store.files import StoreError

_KEPT = 2
_ONE_AT_A_TIME = threading.Lock()  # orbax in two threads may wait for itself
Tree: TypeAlias = dict[str, dict[str, np.ndarray]]


def _checksum(tree: Tree) -> int:
    total = 0
    for group in sorted(tree):
        for name in sorted(tree[group]):
            array = np.ascontiguousarray(tree[group][name])
            label = f"{group}/{name}:{array.dtype.str}:{array.shape}".encode()
            total = zlib.crc32(array.tobytes(), zlib.crc32(label, total))
    return total


def _orbax() -> ModuleType:
    with needs_extra("store", "a stored run"):
        import orbax.checkpoint as orbax

    logging.getLogger("absl").setLevel(logging.ERROR)
    return orbax


def save(directory: Path, number: int, tree: Tree) -> None:
    """Write the state after ``number`` pieces; {group: {name: array}}."""
    host: Tree = {
        group: {name: np.asarray(leaf) for name, leaf in parts.items()}
        for group, parts in tree.items()
        if parts
    }
    host["checksum"] = {"crc32": np.asarray(_checksum(host), np.uint32)}
    host = _without_empty(host)
    path = directory / f"{number:09d}"
    remove_from(directory, number)
    try:
        with _ONE_AT_A_TIME, _orbax().StandardCheckpointer() as writer:
            writer.save(path, host)
    except OSError:
        raise
    except Exception as error:  # tensorstore has errors of its own
        raise OSError(str(error)) from error
    for old in numbers(directory)[:-_KEPT]:
        shutil.rmtree(directory / f"{old:09d}", ignore_errors=True)


def remove_from(directory: Path, number: int) -> None:
    """Remove states from ``number`` on, as the run goes back there, and unfinished ones."""
    for path in directory.iterdir() if directory.is_dir() else ():
        if not path.name.isdigit() or int(path.name) >= number:
            shutil.rmtree(path, ignore_errors=True)


def _without_empty(tree: Tree) -> Tree:
    """Arrays without elements, which orbax does not take, as one number, and their shapes."""
    full: Tree = {group: dict(parts) for group, parts in tree.items()}
    shapes = {}
    for group, parts in tree.items():
        for name, array in parts.items():
            if array.size == 0:
                full[group][name] = np.zeros((), array.dtype)
                shapes[f"{group}/{name}"] = np.asarray(array.shape)
    return {**full, "empty": shapes} if shapes else full


def _with_empty(tree: Tree) -> Tree:
    for where, shape in tree.pop("empty", {}).items():
        group, name = where.split("/")
        tree[group][name] = np.zeros(tuple(shape), tree[group][name].dtype)
    return tree


def numbers(directory: Path) -> list[int]:
    """The states there are, oldest first; an unfinished one has another name."""
    if not directory.is_dir():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())


def load(directory: Path, number: int) -> Tree:
    """One state, checked."""
    with (
        _ONE_AT_A_TIME,
        _orbax().StandardCheckpointer() as reader,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # no target tree is given: plain arrays are wanted
        tree = _with_empty(reader.restore(directory / f"{number:09d}"))
    stored_sum = int(tree.pop("checksum")["crc32"])
    if stored_sum != _checksum(tree):
        raise ValueError("the checksum does not fit the contents")
    return tree


def load_latest(directory: Path) -> tuple[int, Tree]:
    """The newest state that is whole; a damaged one is passed over with a warning."""
    failures = []
    for number in reversed(numbers(directory)):
        try:
            tree = load(directory, number)
        except Exception as error:
            failures.append(f"{directory / f'{number:09d}'}: {error}")
            continue
        if failures:
            warnings.warn(
                f"a checkpoint is damaged, going back to the one before. {failures[0]}",
                stacklevel=2,
            )
        return number, tree
    reason = "; ".join(failures) or f"there is none in {directory}"
    raise StoreError(f"no usable checkpoint: {reason}. The run has to be started again")
