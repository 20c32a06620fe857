"""Units of work: each leaves a small JSON file, and is not done twice.

A unit is one row, seed or step size. Its file holds the settings it was made with; if they are
those asked for, its numbers are read, else the unit is done (again).
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Numbers = dict[str, Any]


class Console(Protocol):
    """What a line of progress is printed on, such as ``rich.console.Console``."""

    def print(self, *objects: Any) -> None:
        """Print a line."""
        ...


def plain(value: Any) -> Any:
    """``value`` as JSON gives it back, so that it compares equal after a round trip.

    JSON has no infinities: what is not finite becomes None.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return json.loads(json.dumps(value))


def digest(settings: Mapping[str, Any]) -> str:
    """Eight letters that tell settings apart."""
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.write_text(text)
    part.replace(path)


@dataclass(frozen=True)
class Bench:
    """Where one experiment works: a directory, a scale's name, and a console to tell.

    Attributes:
      directory: holds the units and the chains of all experiments and scales.
      scale: the scale's name.
      console: told of each unit that is done, if there is one.
      make: whether to do units that are missing; else only read those that are there.
      before: seconds that the units took which were there already, by name.
    """

    directory: Path
    scale: str
    console: Console | None = None
    make: bool = True
    before: dict[str, float] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """The file of a unit."""
        return self.directory / "units" / self.scale / f"{name}.json"

    def store(self, name: str, settings: Mapping[str, Any]) -> Path:
        """The directory of a chain with these settings."""
        return self.directory / "chains" / self.scale / f"{name}-{digest(plain(settings))}"

    def known(self, name: str, settings: Mapping[str, Any]) -> Numbers | None:
        """The numbers of a unit that was done with these settings."""
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            written = json.loads(path.read_text())
        except json.JSONDecodeError:
            return None
        if written.get("settings") != plain(settings):
            return None
        self.before.setdefault(name, written.get("seconds", 0.0))
        return written["numbers"]

    def unit(
        self, name: str, settings: Mapping[str, Any], work: Callable[[], Numbers]
    ) -> Numbers | None:
        """The numbers of a unit, read or made; None if it is missing and not to be made."""
        numbers = self.known(name, settings)
        if numbers is not None or not self.make:
            return numbers
        if self.console is not None:
            self.console.print(f"{self.scale} {name} ...")
        began = time.perf_counter()
        numbers = plain(work())
        seconds = round(time.perf_counter() - began, 2)
        self.before[name] = 0.0  # it counts in the time of this run
        content = {
            "name": name, "seconds": seconds, "settings": plain(settings), "numbers": numbers,
        }  # fmt: skip
        write_text(self.path(name), json.dumps(content, indent=1) + "\n")
        return numbers
