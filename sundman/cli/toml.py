"""Settings as TOML: read with unknown keys refused, and written so that they can be read again."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sundman.cli.errors import UserError, nearest, one_line

_ABOUT = ("command", "sundman")  # which command the settings are for, and the version


def read(path: Path, command: str, keys: Collection[str]) -> dict[str, Any]:
    """The settings in a file: those of ``command``, no other keys than ``keys``."""
    found = _load(path)
    made_by = found.get("command", command)
    if made_by != command:
        raise UserError(f"{path} is for sundman {made_by}; use it as: sundman {made_by} --config")
    for key in found:
        if key not in keys and key not in _ABOUT:
            raise UserError(f"{path} has an unknown key {key!r}; {nearest(key, keys)}")
    return {key: value for key, value in found.items() if key not in _ABOUT}


def command_of(path: Path) -> str:
    """The command that wrote a settings file."""
    return str(_load(path).get("command", ""))


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; give --config a TOML file") from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UserError(f"{path} cannot be read ({reason}); give --config a TOML file") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {one_line(error)}; mend it there") from None


def write(path: Path, command: str, settings: Mapping[str, Any]) -> None:
    """The settings as a file that :func:`read` reads; what is None is left out."""
    from sundman import __version__

    about = {"command": command, "sundman": __version__}
    lines = [f"# Repeat with: sundman {command} --config THIS-FILE", *_lines({**about, **settings})]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _lines(table: Mapping[str, Any], name: str = "") -> list[str]:
    plain = {k: v for k, v in table.items() if not isinstance(v, Mapping) and v is not None}
    lines = [f"{key} = {_value(value)}" for key, value in plain.items()]
    for key, inner in table.items():
        if isinstance(inner, Mapping) and inner:
            full = f"{name}.{key}" if name else key
            inner_lines = _lines(inner, full)
            bare = inner_lines[0] == ""  # only tables in it: its own head is not needed
            lines += inner_lines if bare else ["", f"[{full}]", *inner_lines]
    return lines


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Sequence):
        return f"[{', '.join(_value(item) for item in value)}]"
    return repr(value)


def assignments(given: Sequence[str], flag: str) -> dict[str, Any]:
    """``["r=0.5", "lag=full"]`` as a mapping; values as in TOML, or plain text."""
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{flag} {text!r} is not KEY=VALUE; write it as {flag} r=0.5")
        found[key.strip()] = _parsed(value.strip())
    return found


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
