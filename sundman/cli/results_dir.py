"""The directory of a command's results, and the settings file in it that repeats them.

settings.toml    every setting; ``sundman COMMAND --config settings.toml`` repeats it
runs/NAME        a run on disk for each sampler or seed
results.json     the numbers of the table
report.html      the report
"""

from __future__ import annotations

import json
import shlex
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from sundman import __version__
from sundman.cli.errors import Stopped, UserError, nearest, one_line

SETTINGS, RUNS, RESULTS, REPORT = "settings.toml", "runs", "results.json", "report.html"
FIGURE = "demo.png"
_KEYS_OF_EVERY_FILE = ("command", "sundman")  # which command it is for, and the version


def prepare(path: Path, force: bool) -> Path:
    """An empty directory that can be written; results in it are only replaced by ``force``."""
    path = path.expanduser().absolute()
    try:
        if path.is_dir() and any(path.iterdir()):
            _clear(path, force)
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write to {path}: {reason}; use another --output") from None
    return path


def _clear(path: Path, force: bool) -> None:
    ours = {SETTINGS, RUNS, RESULTS, REPORT, FIGURE}
    if not force:
        raise UserError(f"{path} exists; use another --output, or --force to replace it")
    if not {entry.name for entry in path.iterdir()} <= ours:
        raise UserError(f"{path} holds files that are not results of sundman; use another --output")
    for entry in path.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def first_free(base: Path) -> Path:
    """``base``, or the first of base-2, base-3, ... that does not exist."""
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


def runs_in(path: Path) -> dict[str, Path]:
    """The runs in a directory of results, by name; or the run that ``path`` itself is."""
    if (path / "run.json").is_file():
        return {path.name: path}
    runs = sorted((path / RUNS).glob("*/run.json"))
    return {run.parent.name: run.parent for run in runs}


def write_results(path: Path, results: Mapping[str, object]) -> None:
    """The numbers as JSON."""
    (path / RESULTS).write_text(json.dumps(results, indent=1, default=float), encoding="utf-8")


@contextmanager
def resumable(path: Path | None) -> Iterator[None]:
    """Ctrl-C inside leaves a run that can be gone on with, and says how."""
    try:
        yield
    except KeyboardInterrupt:
        if path is None:
            raise
        raise Stopped(f"stopped; go on with: sundman resume {shlex.quote(str(path))}") from None


def repeat_command(command: str, path: Path) -> str:
    """The command that makes the results in a directory again."""
    return f"sundman {command} --config {shlex.quote(str(path / SETTINGS))}"


@dataclass(frozen=True)
class Request:
    """What the user asked for, by where it was said.

    Attributes:
      in_file: the settings of a file, by the keys of the command's :class:`CommandSettings`.
      in_options: those on the command line, which win.
      sampler_settings: the samplers' settings on the command line, which win, too.
    """

    in_file: Mapping[str, object] = field(default_factory=dict)
    in_options: Mapping[str, object] = field(default_factory=dict)
    sampler_settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class CommandSettings:
    """The settings of a command by the keys of its settings file: a dataclass with these fields."""

    command: ClassVar[str]

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys of a settings file."""
        return tuple(each.name for each in fields(cls))

    @classmethod
    def asked_in(cls, request: Request) -> Self:
        """Defaults, the settings of a file, and those on the command line, which win."""
        # The types in a file may be wrong.
        unchecked: dict[str, Any] = {**request.in_file, **request.in_options}
        return cls(**unchecked)

    @classmethod
    def read(cls, path: Path | None) -> dict[str, object]:
        """The settings of a file, by name and not checked yet; none if there is no file."""
        return {} if path is None else read_settings(path, cls.command, cls.keys())

    def write(self, directory: Path) -> None:
        """Write the settings file of a directory of results."""
        write_settings(directory / SETTINGS, self.command, self.as_dict())

    def as_dict(self) -> dict[str, object]:
        """The settings by their keys."""
        return {key: getattr(self, key) for key in self.keys()}


def read_settings(path: Path, command: str, keys: Collection[str]) -> dict[str, object]:
    """Read a settings file.

    Args:
      path: the file, in TOML.
      command: the command it has to be for.
      keys: the settings of that command; other keys are refused.

    Returns:
      The settings by name; their values are not checked yet.
    """
    settings = _load(path)
    written_for = settings.get("command", command)
    if written_for != command:
        raise UserError(
            f"{path} is for sundman {written_for}; use it as: sundman {written_for} --config"
        )
    for key in settings:
        if key not in keys and key not in _KEYS_OF_EVERY_FILE:
            raise UserError(f"{path} has an unknown key {key!r}; {nearest(key, keys)}")
    return {key: value for key, value in settings.items() if key not in _KEYS_OF_EVERY_FILE}


def command_of(path: Path) -> str:
    """The command that wrote a settings file."""
    return str(_load(path).get("command", ""))


def _load(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; give --config a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UserError(f"{path} cannot be read ({reason}); give --config a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {one_line(error)}; mend it there") from None


def write_settings(path: Path, command: str, settings: Mapping[str, object]) -> None:
    """The settings as a file that :func:`read_settings` reads; what is None is left out."""
    about = {"command": command, "sundman": __version__}
    head = f"# Repeat with: sundman {command} --config THIS-FILE"
    lines = [head, *_toml_lines({**about, **settings})]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml_lines(table: Mapping[str, object], name: str = "") -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and v is not None}
    lines = [f"{key} = {_toml_value(value)}" for key, value in plain.items()]
    for key, inner in table.items():
        if isinstance(inner, Mapping) and inner:
            full = f"{name}.{key}" if name else key
            inner_lines = _toml_lines(inner, full)
            bare = inner_lines[0] == ""  # only tables in it: its own head is not needed
            lines += inner_lines if bare else ["", f"[{full}]", *inner_lines]
    return lines


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Sequence):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    return repr(value)
