"""The numbers of each run in a small JSON file, so that no run is done twice.

A run is one row, seed or step size of an experiment. Its file holds the settings it was made with:
if they are those asked for, the numbers are read, else the run is done (again).
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from sundman import _files

Numbers: TypeAlias = dict[str, Any]
"""Numbers by name, nested as JSON has them."""


class Console(Protocol):
    """What a line of progress is printed on, such as ``rich.console.Console``."""

    def print(self, *objects: object) -> None:
        """Print a line."""
        ...


def to_json(values: Mapping[str, object]) -> Numbers:
    """``values`` as JSON gives them back, so that they compare equal after a round trip.

    JSON has no infinities: what is not finite becomes None.
    """
    return {str(key): _item_to_json(item) for key, item in values.items()}


def _item_to_json(value: object) -> object:
    if isinstance(value, Mapping):
        return to_json(value)
    if isinstance(value, (list, tuple)):
        return [_item_to_json(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return json.loads(json.dumps(value))


def digest(settings: Mapping[str, object]) -> str:
    """Eight letters that tell settings apart."""
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none, in a directory that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _files.write_bytes(path, text.encode())


@dataclass(frozen=True)
class ResultCache:
    """The runs of one scale that are done, in a directory.

    Attributes:
      directory: holds the numbers and the chains of all experiments and scales.
      scale: the scale's name.
      console: told of each run that is begun, if there is one.
      earlier_seconds: seconds that the runs took which were there already, by name.
    """

    directory: Path
    scale: str
    console: Console | None = None
    earlier_seconds: dict[str, float] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """The file of a run's numbers."""
        return self.directory / "units" / self.scale / f"{name}.json"

    def chain_directory(self, name: str, settings: Mapping[str, object]) -> Path:
        """The directory of a chain with these settings."""
        return self.directory / "chains" / self.scale / f"{name}-{digest(to_json(settings))}"

    def get(self, name: str, settings: Mapping[str, object]) -> Numbers | None:
        """The numbers of a run that was done with these settings, or None."""
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text())
        except json.JSONDecodeError:
            return None
        if content.get("settings") != to_json(settings):
            return None
        self.earlier_seconds.setdefault(name, content.get("seconds", 0.0))
        return content["numbers"]

    def get_or_run(
        self,
        name: str,
        settings: Mapping[str, object],
        work: Callable[[], Mapping[str, object]],
    ) -> Numbers:
        """The numbers of a run, read if it was done and else made.

        Args:
          name: of the run, such as ``"fig-star/SGLD"``.
          settings: everything that makes the run what it is.
          work: does the run and returns its numbers.

        Returns:
          The numbers, as JSON has them.
        """
        numbers = self.get(name, settings)
        if numbers is not None:
            return numbers
        if self.console is not None:
            self.console.print(f"{self.scale} {name} ...")
        began = time.perf_counter()
        numbers = to_json(work())
        seconds = round(time.perf_counter() - began, 2)
        self.earlier_seconds[name] = 0.0  # it counts in the time of this run
        content = {
            "name": name, "seconds": seconds, "settings": to_json(settings), "numbers": numbers,
        }  # fmt: skip
        write_text(self.path(name), json.dumps(content, indent=1) + "\n")
        return numbers
