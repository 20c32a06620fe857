"""What a benchmark prints and writes: times, ratios with their goals, and the settings."""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
from rich.console import Console
from rich.table import Table

from studies.timing import Case, Measured, Ratio, summary

PACKAGES = (
    "sundman",
    "jax",
    "jaxlib",
    "numpy",
    "numba",
    "torch",
    "blackjax",
    "sgmcmcjax",
    "posteriors",
)
BUSY = 0.2
UNITS = {"ns": 1e9, "us": 1e6, "ms": 1e3}


def settings(**more: Any) -> dict[str, Any]:
    """The day, the cores in use, the versions, and what else the benchmark says of itself."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "device": jax.devices()[0].platform,
        "versions": versions,
        **more,
    }


def console() -> Console:
    """Where tables go: wide enough for them if it is a file."""
    found = Console()
    return found if found.is_terminal else Console(width=140)


def table(title: str, *columns: str) -> Table:
    """An empty table: names to the left, numbers to the right."""
    made = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        made.add_column(column, justify="right" if i else "left", no_wrap=i > 0)
    return made


def spread(found: Mapping[str, float], digits: int = 2) -> tuple[str, str, str]:
    """Median, quartiles and range as text."""
    middle, low, high, least, most = (
        f"{found[name]:.{digits}f}"
        for name in ("median", "quarter", "three_quarters", "min", "max")
    )
    return middle, f"{low} - {high}", f"{least} - {most}"


def times(spent: Measured, title: str, unit: str, base: str | None = None) -> dict[str, Any]:
    """Print the times per step, and the ratios to ``base``; the numbers in the table."""
    relative = () if base is None else (f"/ {base}", "quartiles", "range")
    shown = table(f"{title}, {unit} per step", "", "median", "quartiles", "range", *relative)
    rows: dict[str, Any] = {}
    for name, values in spent.times.items():
        found = summary(values * UNITS[unit])
        rows[name] = {unit: found}
        cells = spread(found)
        if base is not None:
            rows[name]["ratio"] = summary(values / spent.times[base])
            cells += spread(rows[name]["ratio"])
        shown.add_row(name, *cells)
    console().print(shown)
    return rows


def ratios(spent: Measured, wanted: Sequence[Ratio]) -> dict[str, Any]:
    """Print the ratios and whether each goal is met; the numbers in the table."""
    shown = table("Ratios within a round", "", "median", "quartiles", "range", "goal", "")
    rows: dict[str, Any] = {}
    for ratio in wanted:
        if ratio.top not in spent.times or ratio.bottom not in spent.times:
            continue
        found = summary(spent.times[ratio.top] / spent.times[ratio.bottom])
        met = ratio.met(found["median"])
        rows[ratio.name] = {**found, "better": ratio.better}
        if met is not None:
            rows[ratio.name] |= {"goal": ratio.bound(), "met": met}
        verdict = {None: "", True: "met", False: "[bold]missed[/bold]"}[met]
        shown.add_row(ratio.name, *spread(found), ratio.bound(), verdict)
    console().print(shown)
    return rows


def publish(
    options: argparse.Namespace,
    cases: Mapping[str, Case],
    spent: Measured,
    wanted: Sequence[Ratio],
    title: str,
    unit: str,
    base: str | None,
    **more: Any,
) -> None:
    """Print the times and ratios of a measurement, and write them to ``options.output``."""
    shown = times(spent, title, unit, base)
    compared = ratios(spent, wanted)
    if spent.others is not None and spent.others > BUSY:
        print(f"Other programs used {spent.others:.2f} cores meanwhile: do not trust this.")
    steps = {name: case.steps for name, case in cases.items()}
    made = settings(rounds=options.rounds, cores_of_others=spent.others, steps=steps, **more)
    write(options.output, settings=made, times=shown, ratios=compared)


def write(path: Path, **parts: Any) -> None:
    """Write the parts as one JSON object."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(parts, indent=1) + "\n")
