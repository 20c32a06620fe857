"""Tables of a run: its chains, its diagnosis, and its averages against exact values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sundman import estimate
from sundman.diagnosis import Diagnosis
from sundman.draws import Draws
from sundman.report.model import Table
from sundman.targets import Target

_MOST_CHAINS = 16
_MARKS = {"good": "✓ good", "look": "◐ look", "bad": "✗ bad", "": ""}


def of_chains(draws: Draws) -> Table:
    """What became of each chain; the lost ones first if there are too many to show."""
    order = np.argsort(draws.diverged < 0, kind="stable")
    some = order[:_MOST_CHAINS] if draws.chains > _MOST_CHAINS else np.arange(draws.chains)
    rows = [_chain(draws, int(chain)) for chain in some]
    caption = ""
    if len(some) < draws.chains:
        caption = f"{len(some)} of {draws.chains} chains, lost ones first."
    columns = ("chain", "draws that count", "mean step", "mean potential", "time covered", "end")
    return Table("Chain by chain", columns, rows, caption)


def _chain(draws: Draws, chain: int) -> list[str]:
    counted = draws.weight[chain] > 0
    lost = draws.diverged[chain] >= 0
    return [
        str(chain),
        f"{int(counted.sum()):,}",
        _mean(draws, "dt", chain, counted),
        _mean(draws, "potential", chain, counted),
        _last(draws, "time", chain, counted),
        f"✗ lost{_where(draws, chain)}" if lost else "✓ sound",
    ]


def _where(draws: Draws, chain: int) -> str:
    steps = draws.settings.get("diverged_step")
    if steps is not None and len(steps) > chain and steps[chain] >= 0:
        return f" at step {steps[chain]:,}"
    return f" by draw {int(draws.diverged[chain]):,}"


def _mean(draws: Draws, name: str, chain: int, counted: np.ndarray) -> str:
    if name not in draws.stats or not counted.any():
        return "–"
    return f"{np.mean(np.asarray(draws.stats[name][chain], np.float64)[counted]):.4g}"


def _last(draws: Draws, name: str, chain: int, counted: np.ndarray) -> str:
    if name not in draws.stats or not counted.any():
        return "–"
    return f"{float(np.asarray(draws.stats[name][chain])[counted][-1]):.4g}"


def of_diagnosis(found: Diagnosis) -> Table:
    """The rows of a diagnosis with their verdicts and hints."""
    rows = [[row.name, row.text, _MARKS[row.verdict], row.note] for row in found]
    return Table("Diagnosis", ("check", "value", "verdict", "what it says"), rows)


def against_exact(draws: Draws, target: Target) -> Table:
    """Weighted averages of the target's observables next to their exact values."""
    rows: list[list[str]] = []
    for name, exact in target.truth.items():
        found: Any = estimate.mean(draws, target.observables[name])
        value, error = float(found.value), float(found.error)
        off = (value - exact) / error if error > 0 else math.nan
        rows.append(
            [
                name,
                f"{exact:.4g}",
                f"{value:.4g}",
                f"{float(f'{error:.2g}'):g}",
                f"{off:+.1f}" if math.isfinite(off) else "–",
            ]
        )
    columns = ("observable", "exact", "found", "standard error", "off by, in errors")
    caption = "Beyond about 3 errors the difference is a bias, of the step or of the mixing."
    return Table(f"Averages against the exact ones of {target.name}", columns, rows, caption)
