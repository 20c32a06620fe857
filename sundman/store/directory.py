"""A run's directory: made as a whole, opened for writing by one process, read by any."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import DTypeLike

from sundman._files import (
    Sync,
    sync_directory,
    sync_file,
    sync_tree,
    write_bytes,
    write_with,
)
from sundman._types import Settings
from sundman.store import array_writer, checkpoint
from sundman.store.array_writer import ArrayWriter
from sundman.store.arrays import ArrayInfo, Arrays, sums_from_json
from sundman.store.encoding import Decoder, Encoder, NotByName
from sundman.store.files import (
    Lock,
    StoreError,
    check_archive,
    read_archive,
    read_file,
    read_json,
    remove_partial,
    whole_numbers,
    write_archive,
    write_json,
    writing,
)
from sundman.store.structure import leaf_count

FORMAT = 4
_READ = (3, 4)  # since 4 a chunk may have some of the chains
AGAIN = "sundman.sample(..., store=..., resume=True)"
_FIELDS = {
    "format": int,
    "id": str,
    "arrays": dict,
    "chains": int,
    "draws": int,
    "has_position": bool,
    "identity": dict,
    "probe": dict,
    "resumable": dict,
    "settings": dict,
    "size": dict,
    "structure": dict,
    "versions": dict,
    "weighting": str,
}
_PROGRESS = {"run": str, "draws": int, "finished": bool, "sums": dict}
_VERDICT = {"status": str, "reasons": list, "note": str}
_CALL, _DATA, _DRAWS = "call.json", "data.npz", "draws.zarr"


@dataclass
class Run:
    """A run's directory, opened; ``lock`` is held by the process that writes."""

    path: Path
    about: Settings
    infos: Mapping[str, ArrayInfo]
    lock: Lock | None = None

    @property
    def id(self) -> str:
        """What its checkpoints and its progress carry, too."""
        return self.about["id"]

    @property
    def log(self) -> Path:
        """The JSON-lines log."""
        return self.path / "log.jsonl"

    @property
    def checkpoints(self) -> Path:
        """The directory of the checkpoints."""
        return self.path / "checkpoints"

    def arrays(self, progress: Settings) -> Arrays:
        """The draws that count at this progress, for reading."""
        return Arrays(self.path / _DRAWS, self.infos, progress["draws"], self._sums(progress))

    def writer(self, progress: Settings) -> ArrayWriter:
        """The draws that count at this progress, for adding others; the lock is held."""
        return ArrayWriter(self.path / _DRAWS, self.infos, progress["draws"], self._sums(progress))

    def _sums(self, progress: Settings) -> dict[str, list[list[int]]]:
        try:
            return sums_from_json(progress["sums"], self.infos, progress["draws"])
        except (KeyError, ValueError, TypeError) as error:
            raise StoreError(f"{self.path / 'progress.json'} is damaged: {error}") from None

    def file(self, name: str) -> bytes | None:
        """The content of an archive of the run, checked; None if it is not there."""
        try:
            content = read_file(self.path / name)
        except FileNotFoundError:
            return None
        check_archive(content, str(self.path / name))
        return content

    def write_file(self, name: str, content: bytes) -> None:
        """Write a file of the run, whole or not at all."""
        with writing(name, self.path):
            write_bytes(self.path / name, content)

    def progress(self) -> Settings:
        """How far the run is, as last written."""
        file = self.path / "progress.json"
        progress = read_json(file, _PROGRESS)
        chains = self.about["chains"]
        if progress["run"] != self.id:
            raise StoreError(f"{file} is damaged: it is that of another run")
        if not 0 <= progress["draws"] <= self.about["draws"]:
            raise StoreError(f"{file} is damaged: there cannot be {progress['draws']:,} draws")
        for name in ("diverged", "diverged_step", "diverged_times"):
            if not whole_numbers(progress.get(name, [-1] * chains), chains):
                raise StoreError(f"{file} is damaged: {name} makes no sense")
        for name in ("steps", "seconds", "pieces"):
            if not isinstance(progress.get(name, 0), int | float):
                raise StoreError(f"{file} is damaged: {name} makes no sense")
        return progress

    def write_progress(self, draws: Arrays, progress: Settings, sync: Sync = "all") -> None:
        """Say how far the run is; readers see these draws from now on."""
        content = {**progress, "run": self.id, "draws": draws.draws, "sums": draws.to_json()}
        write_json(self.path / "progress.json", content, sync)

    def verdict(self) -> Settings | None:
        """The verdict on the run, as last written; None if it was not judged."""
        path = self.path / "verdict.json"
        if not path.exists():
            return None
        verdict = read_json(path, _VERDICT)
        pairs = [r for r in verdict["reasons"] if isinstance(r, list) and len(r) == 2]
        known = ("good", "bad", "unknown")
        sound = len(pairs) == len(verdict["reasons"]) and verdict["status"] in known
        if not sound or not isinstance(verdict.get("ended", ""), str):
            raise StoreError(f"{path} is damaged: it is not a verdict")
        return verdict

    def write_verdict(self, verdict: Settings) -> None:
        """Say whether the run can be trusted; a verdict that a power cut took is made again."""
        write_json(self.path / "verdict.json", verdict, "content")

    def write_about(
        self, about: Settings, infos: Mapping[str, ArrayInfo], sync: Sync = "all"
    ) -> None:
        """Say what the run is; or say it anew, of one that goes on for longer."""
        tables = {name: info.to_json() for name, info in infos.items()}
        write_json(self.path / "run.json", {**about, "arrays": tables}, sync)
        self.about, self.infos = about, infos

    def call(
        self, given: Mapping[str, object] | None = None, *, ours: bool = False
    ) -> dict[str, Any]:
        """The arguments of the call that made the run, by name.

        Args:
          given: those that are given again.
          ours: import nothing but this library, for whoever only looks at the run.

        Raises:
          StoreError: if they cannot be had so; the message says what to do.
        """
        given = {} if given is None else given
        reasons = {n: why for n, why in self.about["resumable"].items() if n not in given}
        if reasons:
            again = ", ".join(f"{name}=..." for name in reasons)
            raise StoreError(
                f"{self.path} cannot be resumed by its path alone: {'; '.join(reasons.values())}. "
                f'Give it again: sundman.resume("{self.path}", {again}), or the whole call: {AGAIN}'
            )
        file = self.path / _CALL
        content = read_json(file, {"run": str})
        if content.pop("run") != self.id:
            raise StoreError(f"{file} is damaged: it is that of another run")
        content = {name: value for name, value in content.items() if name not in given}
        try:
            data = read_archive(self.path / _DATA)
        except FileNotFoundError:
            raise StoreError(f"{self.path / _DATA} is missing: the store was damaged") from None
        decoder = Decoder(data, ours=ours)
        return {name: decoder.decode(value) for name, value in content.items()} | {**given}


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
    file = where / "run.json"
    about = read_json(file, {"format": int})
    if about["format"] not in _READ:
        newer = about["format"] > FORMAT
        raise StoreError(
            f"{where} was written by sundman {about.get('sundman')!s:.40} in format "
            f"{about['format']}, {'newer' if newer else 'older'} than the {FORMAT} of this "
            f"version: {'update sundman' if newer else 'open it with that version'}"
        )
    about = read_json(file, _FIELDS)
    if about["chains"] < 1 or about["draws"] < 0:
        raise StoreError(f"{file} is damaged: it has {about['chains']} chains")
    try:
        infos = {str(n): ArrayInfo.from_json(str(n), t) for n, t in about["arrays"].items()}
        sizes = {info.shape[:2] for info in infos.values()}
        if sizes != {(about["chains"], about["draws"])} or "weight" not in infos:
            raise ValueError("its arrays do not fit its chains and draws")
        values = sum(name.startswith("values/") for name in infos)
        if leaf_count(about["structure"]["values"]) != values:
            raise ValueError("the structure of its values does not fit its arrays")
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"{file} is damaged: {error}") from None
    return Run(where, about, infos)


def encoded(arguments: Mapping[str, object]) -> tuple[Settings, dict[str, str], Encoder]:
    """A call as JSON, why some of its arguments are not in it, and the encoder with its arrays."""
    encoder, call, reasons = Encoder(), {}, {}
    for name, value in arguments.items():
        try:
            call[name] = encoder.encode(value, name)
        except NotByName as error:
            reasons[name] = str(error)
    return call, reasons, encoder


def create(
    path: str | os.PathLike[str],
    about: Settings,
    arguments: Mapping[str, object],
    left_out: Mapping[str, str],
    shapes: Mapping[str, tuple[tuple[int, ...], DTypeLike]],
    state: checkpoint.Tree,
    group: int | None = None,
) -> Run:
    """A new run's directory, complete and durable or not there at all; the lock is held.

    Args:
      path: where.
      about: what ``run.json`` says.
      arguments: what the run can be resumed with by its path.
      left_out: arguments that are not kept, and why.
      shapes: of its arrays, by name.
      state: the first one.
      group: chains in a chunk; all if not given.
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
            call, reasons, encoder = encoded(arguments)
            data = building / _DATA
            write_with(data, lambda file: write_archive(file, encoder.arrays), sync="none")
            with ThreadPoolExecutor(1) as syncer:  # most of the bytes, while the rest is made
                synced = syncer.submit(sync_file, data)
                infos = array_writer.create(building / _DRAWS, shapes, group)
                run_id = uuid.uuid4().hex
                write_json(building / _CALL, {**call, "run": run_id}, "none")
                written = {"format": FORMAT, "id": run_id, "created": datetime.now(UTC).isoformat()}
                missing = {**left_out, **reasons}
                how = {"resumable": missing, "in_main": encoder.in_main}
                run = Run(building, {**written, **about, **how}, infos, lock)
                run.write_progress(Arrays(building / _DRAWS, infos), {"finished": False}, "none")
                checkpoint.save(run.checkpoints, run_id, 0, state, sync="none")
                run.write_about(run.about, infos, "none")
                synced.result()
            sync_tree(building)
            building.rename(where)
            sync_directory(where.parent)
    except BaseException:
        if lock is not None:
            lock.release()
        shutil.rmtree(building, ignore_errors=True)
        raise
    lock.moved_to(where)
    opened = open_run(where)
    opened.lock = lock
    return opened


def _remove_litter(where: Path) -> None:
    """Remove what runs that were killed while being created left beside ``where``."""
    for left in where.parent.glob(f".{glob.escape(where.name)}.*.building"):
        try:
            lock = Lock(left)
        except StoreError:  # it is being created just now
            continue
        shutil.rmtree(left, ignore_errors=True)
        lock.release()


def clean(run: Run) -> None:
    """Remove what a killed writer left half written; the lock is held."""
    with contextlib.suppress(OSError):
        remove_partial(run.path)
