"""A run's directory: made as a whole, opened for writing by one process, read by any."""

from __future__ import annotations

import glob
import io
import os
import pickle
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from numpy.typing import DTypeLike

from sundman._files import write_bytes, write_json
from sundman._optional import needs_extra
from sundman._types import PyTree, Settings
from sundman.store import arrays, checkpoint
from sundman.store.files import Lock, StoreError, read_json, writing

with needs_extra("store", "a stored run"):
    import cloudpickle

FORMAT = 2
_MOVED = {"sundman.runner.online": "sundman.draws.online"}
_FIELDS = (
    "arrays",
    "chains",
    "first_potential",
    "has_position",
    "identity",
    "jax",
    "resumable",
    "settings",
    "size",
)


def differences(stored: Settings, given: Settings) -> list[str]:
    """What differs between two flat mappings, in words."""
    differing = []
    for name in sorted({*stored, *given}):
        a, b = stored.get(name, "nothing"), given.get(name, "nothing")
        if a != b:
            differing.append(f"{name}: the stored run has {a}, this one {b}")
    return differing


@dataclass
class Run:
    """A run's directory, opened; ``lock`` is held by the process that writes."""

    path: Path
    about: Settings
    lock: Lock | None = None

    @property
    def log(self) -> Path:
        """The JSON-lines log."""
        return self.path / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The directory of the checkpoints."""
        return self.path / "checkpoints"

    def arrays(self, mode: str = "r") -> arrays.Arrays:
        """The draws."""
        return arrays.Arrays(self.path / "draws.zarr", mode)

    def file(self, name: str) -> bytes | None:
        """The content of a file of the run; None if it is not there."""
        where = self.path / name
        return where.read_bytes() if where.is_file() else None

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file of the run, whole or not at all."""
        with writing(name, self.path):
            write_bytes(self.path / name, content)

    def progress(self) -> Settings:
        """How far the run is, as last written."""
        return read_json(self.path / "progress.json", ("draws", "finished"))

    def write_progress(self, progress: Settings) -> None:
        """Say how far the run is; readers see these draws from now on."""
        write_json(self.path / "progress.json", dict(progress))

    def verdict(self) -> Settings | None:
        """The verdict on the run, as last written; None if it was not judged."""
        path = self.path / "verdict.json"
        return read_json(path, ("status", "reasons", "note")) if path.exists() else None

    def write_verdict(self, verdict: Settings) -> None:
        """Say whether the run can be trusted."""
        write_json(self.path / "verdict.json", verdict)

    def structure(self) -> dict[str, PyTree]:
        """The skeletons of values, positions and online averages."""
        return _unpickle(self.path / "structure.pkl")

    def call(self) -> object:
        """The call that made the run."""
        if not self.about["resumable"]["by_path"]:
            raise StoreError(
                f"{self.path} cannot be resumed by its path alone: "
                f"{self.about['resumable']['reason']}. Give the arguments again: "
                "sundman.sample(..., store=..., resume=True)"
            )
        return _unpickle(self.path / "call.pkl")


class _Unpickler(pickle.Unpickler):
    """Finds classes that have moved since the format before."""

    def find_class(self, module: str, name: str) -> object:
        """The class of this name, where it is now."""
        return super().find_class(_MOVED.get(module, module), name)


def _unpickle(path: Path) -> PyTree:
    try:
        return _Unpickler(io.BytesIO(path.read_bytes())).load()
    except FileNotFoundError:
        raise StoreError(f"{path} is missing: the store was damaged") from None
    except Exception as error:
        raise StoreError(
            f"{path} cannot be loaded: {type(error).__name__}: {error}. The modules that define "
            "the model must be importable here"
        ) from error


def absolute(path: str | os.PathLike[str]) -> Path:
    """Where a run is, also after a change of directory; ~ is the home directory."""
    return Path(path).expanduser().absolute()


def exists(path: Path) -> bool:
    """Whether there is a run."""
    return (path / "run.json").is_file()


def open_run(path: str | os.PathLike[str]) -> Run:
    """A run, for reading."""
    where = absolute(path)
    if not exists(where):
        raise StoreError(
            f"there is no run at {where}: run.json is missing. Start one with "
            "sundman.sample(..., store=...)"
        )
    about = read_json(where / "run.json", ("format",))
    if about["format"] > FORMAT:
        raise StoreError(
            f"{where} was written by sundman {about.get('sundman')} in format "
            f"{about['format']}, newer than the {FORMAT} of this version: update sundman"
        )
    return Run(where, read_json(where / "run.json", _FIELDS))


def create(
    path: str | os.PathLike[str],
    about: Settings,
    call: object,
    structure: Mapping[str, PyTree],
    shapes: Mapping[str, tuple[tuple[int, ...], DTypeLike]],
    state: checkpoint.Tree,
) -> Run:
    """A new run's directory, complete or not there at all; the lock is held.

    ``call`` is what the run can be resumed with by its path, None if it is to be given again.
    """
    where = absolute(path)
    if where.exists() and (not where.is_dir() or any(where.iterdir())):
        what = "a run" if exists(where) else "something else"
        raise StoreError(
            f"{where} exists and holds {what}: resume it with sundman.resume, use another store, "
            "or delete it"
        )
    building = where.with_name(f".{where.name}.{uuid.uuid4().hex[:12]}.building")
    lock = None
    try:
        with writing("a new run", where):
            _remove_litter(where)
            building.mkdir(parents=True)
            lock = Lock(building)
            arrays.create(building / "draws.zarr", shapes)
            write_bytes(building / "structure.pkl", cloudpickle.dumps(dict(structure)))
            resumable = _save_call(building / "call.pkl", call)
            written = {"format": FORMAT, "created": datetime.now(UTC).isoformat()}
            full = {**written, **about, "resumable": resumable, "arrays": list(shapes)}
            write_json(building / "progress.json", {"draws": 0, "finished": False})
            checkpoint.save(building.resolve() / "checkpoints", 0, state)
            write_json(building / "run.json", full)
            building.rename(where)
    except BaseException:
        if lock is not None:
            lock.release()
        shutil.rmtree(building, ignore_errors=True)
        raise
    lock.moved_to(where)
    return Run(where, read_json(where / "run.json"), lock)


def _remove_litter(where: Path) -> None:
    """Remove what runs that were killed while being created left beside ``where``."""
    for left in where.parent.glob(f".{glob.escape(where.name)}.*.building"):
        try:
            lock = Lock(left)
        except StoreError:  # it is being created just now
            continue
        shutil.rmtree(left, ignore_errors=True)
        lock.release()


def _save_call(path: Path, call: object) -> Settings:
    if call is None:
        return {"by_path": False, "reason": "it was begun with resume=True"}
    try:
        content = cloudpickle.dumps(call)
    except Exception as error:
        return {"by_path": False, "reason": f"its arguments cannot be saved ({error})"}
    write_bytes(path, content)
    return {"by_path": True, "reason": ""}
