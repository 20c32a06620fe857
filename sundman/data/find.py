"""Where the files of a data set are looked for.

In this order: the argument ``directory``, the environment variable ``SUNDMAN_DATA_DIR``, the
user's cache ($XDG_CACHE_HOME/sundman or ~/.cache/sundman); then they are downloaded to the cache.
A place counts only if it has all the files asked for, so that no set is pieced together.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from sundman.data.idx import unpack, verify

_VARIABLE = "SUNDMAN_DATA_DIR"
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Source:
    """The folder a data set lives in, and the mirrors (addresses of folders) it comes from.

    ``packed`` says that the mirrors have the files gzipped, their names ending in .gz.
    """

    folder: str
    mirrors: tuple[str, ...]
    packed: bool = False

    def md5(self, name: str) -> str:
        """The checksum of a file's unpacked content."""
        return _checksums()[f"{self.folder}/{name}"]


@cache
def _checksums() -> dict[str, str]:
    """The table that ships with the package, in the format of md5sum."""
    lines = files("sundman.data").joinpath("checksums.md5").read_text("ascii").splitlines()
    return {name: md5 for md5, name in (line.split() for line in lines)}


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/sundman, or ~/.cache/sundman."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "sundman"


def _in_folder(folder: Path, name: str) -> Path | None:
    """The file in ``folder``, plain or gzipped."""
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _places(source: Source, directory: str | Path | None) -> list[tuple[str, Path]]:
    """The folders to look in, each with how it came to be looked in."""
    found = []
    if directory is not None:
        given = Path(directory).expanduser()
        if not given.is_dir():
            raise FileNotFoundError(f"directory={str(directory)!r} is not a directory")
        found.append(("directory", given / source.folder))
        if given.resolve().name == Path(source.folder).name:
            found.append(("directory", given))
    if variable := os.environ.get(_VARIABLE):
        found.append((_VARIABLE, Path(variable).expanduser() / source.folder))
    return [*found, ("the cache", cache_directory() / source.folder)]


def _download(source: Source, name: str, folder: Path) -> list[str]:
    """Fetch one file into ``folder``; if no mirror serves, what each of them answered."""
    import urllib.request  # here, because it is slow to import and seldom needed
    from http.client import HTTPException

    served = f"{name}.gz" if source.packed else name
    answers = []
    for mirror in source.mirrors:
        url = f"{mirror}/{served}"
        print(f"sundman: downloading {url} to {folder}", file=sys.stderr, flush=True)
        try:
            with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
                raw = answer.read()
            verify(unpack(raw, url), source.md5(name), url)
            _write(folder / served, raw)
        except (OSError, HTTPException, ValueError) as error:
            reason = str(getattr(error, "reason", error)).removeprefix(f"{url}: ")
            answers.append(f"{url}: {reason or type(error).__name__}")
        else:
            return []
    return answers


def _write(path: Path, raw: bytes) -> None:
    """Write the whole file or nothing, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def locate(
    source: Source,
    names: Sequence[str],
    directory: str | Path | None = None,
    *,
    download: bool = True,
) -> dict[str, Path]:
    """The path of each named file, all in the first place that has them all."""
    looked = []
    for how, folder in _places(source, directory):
        paths = {name: path for name in names if (path := _in_folder(folder, name))}
        if len(paths) == len(names):
            return paths
        missing = ", ".join(name for name in names if name not in paths)
        looked.append(f"{how}: {folder} has no {missing}")
    if not os.environ.get(_VARIABLE):
        looked.insert(-1, f"{_VARIABLE}: not set")

    kept = cache_directory() / source.folder
    absent = [name for name in names if not _in_folder(kept, name)]
    if not download:
        looked.append("no download: download=False")
    else:
        for name in absent:
            if answers := _download(source, name, kept):
                looked += answers
                break
        else:
            return {name: path for name in names if (path := _in_folder(kept, name))}
    raise FileNotFoundError(
        f"the data set {source.folder} was not found:\n  "
        + "\n  ".join(looked)
        + "\nTo get it, call with download=True where there is a network; or put the files of "
        f"{source.mirrors[0]} into the folder {source.folder} of some directory, and give that "
        f"directory as directory= or {_VARIABLE}."
    )
