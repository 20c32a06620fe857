"""Compare the ratios of the last benchmarks with the stored ones.

    python -m studies.speed.compare             # exit 1 if a ratio worsened by more than 15%
    python -m studies.speed.compare --goals     # or if a goal is missed
    python -m studies.speed.compare --update    # store the last ones

Ratios of times within one interleaved run, so that they mean something on another machine of the
same kind. A stored ratio that was not measured counts as worsened: something is not there any more.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
BENCHMARKS = ("toys", "network", "update")
TOLERANCE = 0.15
BUSY = 0.2


class Line(NamedTuple):
    """One ratio: what it was, what it is, how much worse that is, and its goal."""

    name: str
    stored: float | None
    found: float | None
    worse: float | None
    goal: str
    met: bool | None

    def worsened(self, tolerance: float = TOLERANCE) -> bool:
        """Whether it is worse than stored by more than the tolerance, or missing."""
        if self.stored is None:
            return False
        return self.worse is None or self.worse > tolerance

    def verdict(self) -> str:
        """What there is to say about it."""
        words = []
        if self.stored is None:
            words.append("new")
        elif self.found is None:
            words.append("[bold]not measured[/bold]")
        elif self.worsened():
            words.append("[bold]worsened[/bold]")
        if self.met is False:
            words.append("goal missed")
        return ", ".join(words)


def worse_by(stored: float, found: float, better: str) -> float:
    """By which fraction a ratio is worse than stored; negative if it is better."""
    return found / stored - 1.0 if better == "lower" else stored / found - 1.0


def compare(baseline: Mapping[str, Any], results: Mapping[str, Any]) -> list[Line]:
    """A line for each ratio in either; both are name -> {"ratio" or "median", "better", ...}."""
    lines = []
    for name in [*baseline, *(name for name in results if name not in baseline)]:
        stored = baseline[name]["ratio"] if name in baseline else None
        row = results.get(name, {})
        found = row.get("median")
        worse = None
        if stored is not None and found is not None:
            worse = worse_by(stored, found, baseline[name]["better"])
        lines.append(Line(name, stored, found, worse, row.get("goal", ""), row.get("met")))
    return lines


def read(results: Path) -> dict[str, Any]:
    """The ratios of all benchmarks that have results, named ``benchmark: ratio``."""
    found = {}
    for benchmark in BENCHMARKS:
        file = results / f"{benchmark}.json"
        if file.exists():
            result = json.loads(file.read_text())
            others = result.get("settings", {}).get("cores_of_others") or 0.0
            if others > BUSY:
                print(f"{benchmark}: other programs used {others:.2f} cores, do not trust it")
            found |= {f"{benchmark}: {name}": row for name, row in result["ratios"].items()}
    return found


def store(baseline: Path, results: Mapping[str, Any]) -> None:
    """Write the ratios as the ones to compare with."""
    kept = {
        name: {"ratio": round(row["median"], 3), "better": row["better"]}
        for name, row in results.items()
    }
    baseline.write_text(json.dumps(kept, indent=1) + "\n")


def show(lines: list[Line]) -> None:
    table = Table(title="Ratios against the stored ones", title_justify="left")
    table.add_column("")
    for column in ("stored", "now", "worse by", "goal"):
        table.add_column(column, justify="right")
    table.add_column("")
    for line in lines:
        stored, found = ("-" if x is None else f"{x:.2f}" for x in (line.stored, line.found))
        worse = "-" if line.worse is None else f"{100 * line.worse:+.0f}%"
        table.add_row(line.name, stored, found, worse, line.goal, line.verdict())
    console = Console()
    (console if console.is_terminal else Console(width=150)).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="store the last results")
    parser.add_argument("--goals", action="store_true", help="a missed goal counts, too")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--baseline", type=Path, default=HERE / "baseline.json")
    options = parser.parse_args()
    results = read(options.results)
    if not results:
        raise SystemExit("there are no results to compare: run `make bench`")
    if options.update:
        store(options.baseline, results)
    baseline = json.loads(options.baseline.read_text()) if options.baseline.exists() else {}
    if not baseline:
        print("Nothing is stored yet: store these with `python -m studies.speed.compare --update`")
    lines = compare(baseline, results)
    show(lines)
    worsened = sum(line.worsened() for line in lines)
    missed = sum(line.met is False for line in lines)
    print(f"{worsened} of {len(lines)} worsened by over {TOLERANCE:.0%}; {missed} goals missed")
    return 1 if worsened or (options.goals and missed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
