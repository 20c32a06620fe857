"""The report of a toy run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sundman.cli import made
from sundman.cli.toy_table import Found
from sundman.report import Report, Section


def report(found: Found, settings: Mapping[str, Any], path: Path) -> Report:
    """The table of the estimates, and what each run looked like."""
    numbers = found.numbers()["samplers"]
    names = ", ".join(found.runs)
    lost = sum(n["chains_lost"] for n in numbers.values())
    summary = (
        f"{settings['chains']} chains of {settings['steps']:,} steps, the first "
        f"{settings['burn_in']:,} not kept. "
    )
    summary += "No chain diverged." if not lost else f"{lost} chains diverged."
    if settings["noise_sigma"] > 0:
        summary += f" Gradient noise of standard deviation {settings['noise_sigma']:g}."
    return Report(
        title=f"{names} on {found.target.name}, T = {found.target.temperature:g}",
        summary=summary,
        command=made.again("toy", path),
        settings=settings,
        made=made.facts(settings["seed"], sum(n["seconds"] for n in numbers.values())),
        sections=[
            Section("Estimates beside the exact values", tables=found.tables()),
            *made.of_each(found.runs, found.target),
        ],
        citations=made.cited(found.runs),
    )
