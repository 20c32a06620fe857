"""What the user asked for: the settings of a command, on the command line and in a file.

The settings file is TOML; ``sundman COMMAND --config settings.toml`` repeats what made it.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from sundman import __version__
from sundman._files import write_bytes
from sundman.cli.errors import UserError, nearest, one_line

SETTINGS = "settings.toml"
_KEYS_OF_EVERY_FILE = ("command", "sundman")  # which command it is for, and the version


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


def same_settings(one: Path, other: Path) -> bool:
    """Whether two settings files say the same."""
    first, second = (_load(path) for path in (one, other))
    versions = {"sundman": ""}  # which may be any
    return {**first, **versions} == {**second, **versions}


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
    write_bytes(path, ("\n".join(lines) + "\n").encode())


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
