"""Complete states of a run: one file each, durable before its name is. The first and the last two.

A state is an archive of arrays by name, ``group/name``, with a checksum for each, the number of
pieces it was made after and the id of its run, so that one from another run or another place is
not taken for it. Where several processes write, each has a file of its own with its chains, and a
state is there once all of them are.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from sundman._files import Sync, sync_directory, write_with
from sundman.store.files import StoreError, read_archive, write_archive

Tree: TypeAlias = dict[str, dict[str, np.ndarray]]
_KEPT = 2
_BY_CHAIN = ("chains", "averages", "position")  # groups whose arrays have a leading axis of chains
_FILE = re.compile(r"(\d{9})(?:\.part-(\d+)-of-(\d+))?\.npz")


class Part(NamedTuple):
    """The part of a state that one of several processes writes.

    Attributes:
      number: of the process.
      of: how many there are.
      chains: the numbers of its chains.
    """

    number: int
    of: int
    chains: np.ndarray


def _file(directory: Path, number: int, part: tuple[int, int] | None = None) -> Path:
    ending = "" if part is None else ".part-{}-of-{}".format(*part)
    return directory / f"{number:09d}{ending}.npz"


def _stamp(run: str, number: int) -> np.ndarray:
    return np.frombuffer(f"{run} {number}".encode(), np.uint8)


def save(
    directory: Path,
    run: str,
    number: int,
    tree: Tree,
    part: Part | None = None,
    sync: Sync = "all",
) -> None:
    """Write a state, and remove those that are not kept.

    Args:
      directory: of the checkpoints.
      run: the id of the run.
      number: how many pieces were done.
      tree: {group: {name: array}}.
      part: which part of the state it is; all of it if None.
      sync: what to make durable: see :func:`sundman._files.write_with`.
    """
    arrays = {
        f"{group}/{name}": np.asarray(leaf)
        for group, parts in tree.items()
        for name, leaf in parts.items()
    }
    directory.mkdir(exist_ok=True)
    arrays["run"] = _stamp(run, number)
    if part is not None:
        arrays["part"] = np.asarray(part.chains, np.int64)
    place = None if part is None else (part.number, part.of)
    file = _file(directory, number, place)
    write_with(file, lambda opened: write_archive(opened, arrays), sync=sync)
    if part is None or part.number == 0:
        states = _states(directory)
        for old in sorted(states)[1:-_KEPT]:
            for path in states[old]:
                _remove(path)


def _states(directory: Path) -> dict[int, list[Path]]:
    """The files of every state that is whole, by its number; an unfinished one has other names."""
    try:
        names = os.listdir(directory)
    except OSError:
        return {}
    parts: dict[int, dict[int, list[int]]] = {}
    for match in filter(None, map(_FILE.fullmatch, names)):
        number, part, of = int(match[1]), int(match[2] or 0), int(match[3] or 1)
        parts.setdefault(number, {}).setdefault(of, []).append(part)
    states = {}
    for number, ways in parts.items():
        for of, there in sorted(ways.items()):
            if sorted(there) == list(range(of)):
                places = [None] if of == 1 else [(part, of) for part in range(of)]
                states[number] = [_file(directory, number, place) for place in places]
                break
    return states


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
    """The states there are, oldest first."""
    return sorted(_states(directory))


def load(directory: Path, run: str, number: int) -> Tree:
    """One state, checked.

    Raises:
      StoreError: if it is damaged, or that of another run or another place.
    """
    files = _states(directory).get(number, [_file(directory, number)])
    parts = [_load_file(path, run, number) for path in files]
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([chains for chains, _ in parts]))

    def whole(group: str, name: str) -> np.ndarray:
        if group not in _BY_CHAIN:
            return parts[0][1][group][name]
        return np.concatenate([tree[group][name] for _, tree in parts])[order]

    try:
        return {
            group: {name: whole(group, name) for name in names}
            for group, names in parts[0][1].items()
        }
    except (KeyError, ValueError, IndexError) as error:
        raise StoreError(f"{files[0]} is damaged: its parts do not fit ({error})") from None


def _load_file(path: Path, run: str, number: int) -> tuple[np.ndarray, Tree]:
    """The state in a file, and the chains that it is of."""
    try:
        arrays = read_archive(path)
    except FileNotFoundError:
        raise StoreError(f"{path} is missing") from None
    stamp = arrays.pop("run", None)
    if stamp is None or stamp.tobytes() != _stamp(run, number).tobytes():
        raise StoreError(f"{path} is damaged: it is not state {number} of this run")
    chains = arrays.pop("part", np.zeros(0, np.int64))
    tree: Tree = {}
    for name, array in arrays.items():
        group, _, rest = name.partition("/")
        tree.setdefault(group, {})[rest] = array
    return chains, tree


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
