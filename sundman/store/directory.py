"""A run's directory: made as a whole, opened for writing by one process, read by any."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import time
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
from sundman._types import Json, Settings
from sundman.store import array_writer, checkpoint
from sundman.store.array_writer import ArrayWriter
from sundman.store.arrays import MOST_CHUNKS, ArrayInfo, Arrays, sums_from_json
from sundman.store.encoding import Decoder, Encoder, NotByName
from sundman.store.files import (
    Lock,
    StoreError,
    check_archive,
    holder_of,
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

FORMAT = _ALL_HAVE_IDS = 5
_READ = (
    3,
    4,
    5,
)  # since 4 a chunk may have some of the chains, since 5 all files have the run's id
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
_OPTIONAL = {
    "created": str,
    "device": str,
    "first_draws": int,
    "in_main": list,
    "jax": str,
    "schedule_steps": list,
    "sundman": str,
}
_OF_TEXTS = ("identity", "resumable", "versions")
_COUNTS = ("batch_size", "burn_in", "chains", "draws", "thin")
_TEXTS = ("on_divergence", "sampler", "until", "weighting")
_MOST_CHAINS = 2**20
_JUST_MADE = 60.0  # seconds
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
        with writing(name, self.path, 0):
            write_bytes(self.path / name, content)

    def check_owner(self, name: str, owner: Json) -> None:
        """Raise if a file of the run says that it is of another one.

        Args:
          name: of the file, one that can be made again.
          owner: the id it carries; runs of earlier formats have files without.
        """
        if owner != self.id and (owner is not None or self.about["format"] >= _ALL_HAVE_IDS):
            raise StoreError(
                f"{self.path / name} is damaged: it is that of another run. Remove it, and "
                "sundman.resume makes it again"
            )

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
            number = progress.get(name, 0)
            if not isinstance(number, int | float) or not 0 <= number < 2**63:
                raise StoreError(f"{file} is damaged: {name} makes no sense")
        return progress

    def write_progress(self, draws: Arrays, progress: Settings, sync: Sync = "all") -> None:
        """Say how far the run is; readers see these draws from now on."""
        content = {**progress, "run": self.id, "draws": draws.draws, "sums": draws.to_json()}
        write_json(self.path / "progress.json", content, sync)

    def verdict(self, draws: int) -> Settings | None:
        """The verdict on the run with ``draws`` draws; None if it was not judged since it has."""
        path = self.path / "verdict.json"
        if not path.exists():
            return None
        verdict = read_json(path, _VERDICT)
        sound = verdict["status"] in ("good", "bad", "unknown")
        sound &= all(_are_texts(reason) and len(reason) == 2 for reason in verdict["reasons"])
        if not sound or not isinstance(verdict.get("ended", ""), str):
            raise StoreError(f"{path} is damaged: it is not a verdict")
        self.check_owner(path.name, verdict.get("run"))
        return verdict if verdict.get("draws", draws) == draws else None

    def write_verdict(self, verdict: Settings, draws: int) -> None:
        """Say whether the run can be trusted; a verdict that a power cut took is made again.

        Args:
          verdict: in words.
          draws: per chain that it is on: another process may be making the run longer.
        """
        whose = {"run": self.id, "draws": draws}
        write_json(self.path / "verdict.json", {**verdict, **whose}, "content")

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
            f"{about['format']!s:.40}, {'newer' if newer else 'older'} than the {FORMAT} of this "
            f"version: {'update sundman' if newer else 'open it with that version'}"
        )
    about = read_json(file, _FIELDS)
    try:
        _check_about(about)
        infos = {str(n): ArrayInfo.from_json(str(n), t) for n, t in about["arrays"].items()}
        sizes = {info.shape[:2] for info in infos.values()}
        if sizes != {(about["chains"], about["draws"])} or len(infos["weight"].shape) != 2:
            raise ValueError("its arrays do not fit its chains and draws")
        if sum(info.groups for info in infos.values()) > MOST_CHUNKS:
            raise ValueError("its arrays have too many groups of chains")
        leaves = {name: leaf_count(tree) for name, tree in about["structure"].items()}
        if leaves["values"] != sum(name.startswith("values/") for name in infos):
            raise ValueError("the structure of its values does not fit its arrays")
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"{file} is damaged: {error!s:.200}") from None
    return Run(where, about, infos)


def _are_texts(values: Json) -> bool:
    """Whether a value from JSON is a list of texts."""
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _check_about(about: Settings) -> None:
    """Raise ValueError if what a run says of itself is not of the kind it should be."""
    if not 1 <= about["chains"] <= _MOST_CHAINS or about["draws"] < 0:
        raise ValueError(f"it has {about['chains']!s:.40} chains")
    for name, kind in _OPTIONAL.items():
        if name in about and not isinstance(about[name], kind):
            raise ValueError(f"{name} is {about[name]!r:.50}")
    for name in _OF_TEXTS:
        if not _are_texts(list(about[name].values())):
            raise ValueError(f"{name} is not all texts")
    steps = about.get("schedule_steps", [])
    if not whole_numbers(steps, len(steps), 0):
        raise ValueError("schedule_steps are no numbers")
    check_settings(about["settings"], about["chains"])


def check_settings(settings: Settings, chains: int) -> None:
    """Raise ValueError if settings that others count with are not of the kind they should be."""
    for name in _COUNTS:
        number = settings.get(name)
        if number is not None and not whole_numbers([number], 1, 0):
            raise ValueError(f"{name} is {number!r:.50}")
    for name in _TEXTS:
        if not isinstance(settings.get(name, ""), str):
            raise ValueError(f"{name} is {settings[name]!r:.50}")
    if not _are_texts(settings.get("references", [])):
        raise ValueError("references are no texts")
    own = settings.get("per_chain", [])
    if not _are_texts(own) or any(len(settings[name]) != chains for name in own):
        raise ValueError("per_chain does not name settings of each chain")


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
        if not exists(where):
            raise StoreError(f"{where} exists and holds something else: use another store")
        raise StoreError(
            f"{where} exists and holds a run: resume it with sundman.resume, use another store, or "
            "delete it"
        )
    building = where.with_name(f".{where.name}.{uuid.uuid4().hex[:12]}.building")
    made = [parent for parent in where.parents if not parent.exists()]
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
            for named in (where, *made):
                sync_directory(named.parent)
        lock.moved_to(where)
        opened = open_run(where)
    except BaseException:
        if lock is not None:
            lock.release()
        shutil.rmtree(building, ignore_errors=True)
        raise
    opened.lock = lock
    return opened


def _remove_litter(where: Path) -> None:
    """Remove what runs that were killed while being created left beside ``where``."""
    for left in where.parent.glob(f".{glob.escape(where.name)}.*.building"):
        if left.is_symlink() or _is_just_made(left):
            continue
        try:
            lock = Lock(left)
        except StoreError:  # it is being created just now
            continue
        shutil.rmtree(left, ignore_errors=True)
        lock.release()


def _is_just_made(building: Path) -> bool:
    """Whether a process may have made it that has not come to lock it yet."""
    try:
        age = time.time() - building.stat().st_mtime
    except OSError:  # it has its name by now
        return True
    return age < _JUST_MADE and holder_of(building) is None


def clean(run: Run) -> None:
    """Remove what a killed writer left half written; the lock is held.

    Raises:
      StoreError: if a directory of the run is a link: what is removed there is of someone else.
    """
    for where, inside, _ in os.walk(run.path):
        for name in inside:
            if Path(where, name).is_symlink():
                raise StoreError(f"{Path(where, name)} is a link, and a run has none")
    with contextlib.suppress(OSError):
        remove_partial(run.path)
