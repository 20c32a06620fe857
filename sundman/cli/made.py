"""What the reports of commands have in common."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sundman
from sundman import citations
from sundman.cli import folder
from sundman.report import Section, of_run


def again(command: str, path: Path) -> str:
    """The command that makes the results in a directory again."""
    return f"sundman {command} --config {shlex.quote(str(path / folder.SETTINGS))}"


def facts(seed: Any, seconds: float) -> dict[str, Any]:
    """Version, date, seed and wall time."""
    return {
        "sundman": sundman.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seed": seed,
        "seconds of sampling": round(seconds, 2),
    }


def cited(samplers: Iterable[Any]) -> Sequence[str]:
    """The entries of all samplers, each once."""
    found = (entry for sampler in samplers for entry in citations.entries(sampler))
    return tuple(dict.fromkeys(found))


def of_each(runs: Mapping[str, sundman.Draws], target: Any = None) -> list[Section]:
    """The sections of each run's own report, under its name."""
    found = []
    for name, draws in runs.items():
        own = of_run(draws, target=target, command="").sections
        found += [replace(section, title=f"{name}: {section.title}") for section in own]
    return found
