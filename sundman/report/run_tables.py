"""Tables of a run: its chains, its diagnosis, and its averages against exact values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from sundman import estimate
from sundman.diagnosis import Diagnosis
from sundman.draws import Draws
from sundman.report.model import Table
from sundman.targets import Target
from sundman.tune import Tuning

_MOST_CHAINS = 16
_MARKS = {"good": "✓ good", "look": "◐ look", "bad": "✗ bad", "": ""}


def of_chains(draws: Draws) -> Table:
    """What became of each chain; the lost ones first if there are too many to show."""
    order = np.argsort(~draws.diverged, kind="stable")
    some = order[:_MOST_CHAINS] if draws.chains > _MOST_CHAINS else np.arange(draws.chains)
    rows = [_chain(draws, int(chain)) for chain in some]
    caption = ""
    if len(some) < draws.chains:
        caption = f"{len(some)} of {draws.chains} chains, lost ones first."
    columns = ("chain", "draws that count", "mean step", "mean potential", "time covered", "end")
    return Table("Chain by chain", columns, rows, caption)


def _chain(draws: Draws, chain: int) -> list[str]:
    counted = draws.weight[chain] > 0
    lost = draws.diverged[chain]
    return [
        str(chain),
        f"{int(counted.sum()):,}",
        _mean(draws, "dt", chain, counted),
        _mean(draws, "potential", chain, counted),
        _last(draws, "time", chain, counted),
        f"✗ lost{_where(draws, chain)}" if lost else "✓ sound",
    ]


def _where(draws: Draws, chain: int) -> str:
    steps = draws.facts.diverged_step
    if steps is not None and len(steps) > chain and steps[chain] >= 0:
        return f" at step {steps[chain]:,}"
    return f" by draw {int(draws.diverged_at[chain]):,}"


def _mean(draws: Draws, name: str, chain: int, counted: np.ndarray) -> str:
    if name not in draws.stats or not counted.any():
        return "–"
    return f"{np.mean(np.asarray(draws.stats[name][chain], np.float64)[counted]):.4g}"


def _last(draws: Draws, name: str, chain: int, counted: np.ndarray) -> str:
    if name not in draws.stats or not counted.any():
        return "–"
    return f"{float(np.asarray(draws.stats[name][chain])[counted][-1]):.4g}"


def of_diagnosis(diagnosis: Diagnosis) -> Table:
    """The rows of a diagnosis with their verdicts and hints."""
    rows = [[row.name, row.text, _MARKS[row.verdict], row.note] for row in diagnosis]
    return Table("Diagnosis", ("check", "value", "verdict", "what it says"), rows)


def of_tuning(tuning: Tuning) -> Table:
    """The windows of a warm-up."""
    rows = [
        [
            window.stage,
            f"{window.steps:,}",
            f"{window.h:.3g}",
            f"{window.v:.2g}" if window.v > 0 else "–",
            f"{window.gamma:.3g}",
            f"{window.noise:.3g}" if window.noise > 0 else "–",
            f"{window.potential:.5g}",
            str(window.rejected),
        ]
        for window in tuning.windows
    ]
    columns = ("stage", "steps", "h", "energy error", "friction", "noise", "U", "not taken")
    return Table("Window by window", columns, rows)


class Average(NamedTuple):
    """An average of the run next to its exact value."""

    name: str
    exact: float
    measured: float
    error: float

    @property
    def off(self) -> float:
        """How far it is off, in standard errors; NaN if the error is not known."""
        return (self.measured - self.exact) / self.error if self.error > 0 else math.nan


def averages(draws: Draws, target: object) -> list[Average]:
    """Weighted averages of a target's observables; none if nothing exact is known."""
    counts = draws.has_position and bool((draws.weight > 0).any())
    if not counts or not isinstance(target, Target) or not target.truth:
        return []
    observables = {name: target.observables[name] for name in target.truth}
    means = estimate.mean(draws, lambda x: {name: f(x) for name, f in observables.items()})
    return [
        Average(name, exact, float(means.value[name]), float(means.error[name]))
        for name, exact in target.truth.items()
    ]


def against_exact(compared: Sequence[Average]) -> Table:
    """The averages of a run and their exact values."""
    rows = [
        [
            each.name,
            f"{each.exact:.4g}",
            f"{each.measured:.4g}",
            f"{float(f'{each.error:.2g}'):g}",
            f"{each.off:+.1f}" if math.isfinite(each.off) else "–",
        ]
        for each in compared
    ]
    columns = ("observable", "exact", "found", "standard error", "off by, in errors")
    caption = "Beyond about 3 errors the difference is a bias, of the step or of the mixing."
    return Table("Averages and their exact values", columns, rows, caption)
