"""comparison.md, from the result of family.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEAD = """# Comparison

What every sampler of the library does on five problems, at a step of its own. Each was started
from exact draws (for the regression from a normal around the reference) at a small step,
doubled until one of 64 chains was lost within 20,000 steps. **Largest step** is the mean dt of
the last run without a loss; `>` where eleven doublings lost none. Stable is not accurate, so
**accurate step** is the mean dt of the longest step up to which every error is within 10% (funnel:
0.3) and two standard errors; the **error** of the average named, ± its standard error, and the
**effective draws** for it per thousand gradients are those of that run (replica exchange makes
several gradients a step, and they count).

Samplers marked † are biased by design, however small the step; those in cycles (of 1000 steps, half
of them exploration) in the weights of modes. Nothing here is tuned beyond the step: friction 2,
clocks with a memory of 100 steps and bounds 1/4 and 4. Do not edit: `python -m
studies.samplers.family` writes this page from `results/family.json`.
"""
TITLES = {
    "star": "Star: error of E[x² + y²], relative",
    "muller-brown": "Müller-Brown: error of E[U], relative",
    "funnel": "Funnel, 10 dimensions, s = 3: error of E[v], in absolute units (its sd is 3)",
    "mixture": "Two-mode mixture: error of E[y²], relative",
    "regression": "Logistic regression, batches of 57 of 569: error of the variances, relative",
}


def judged(runs: list[dict[str, Any]], where: str) -> tuple[dict | None, dict | None, bool]:
    """The run at the largest stable step; the last run that is accurate, of those from the
    smallest step on; whether a larger step failed.
    """
    stable = [run for run in runs if not run["lost"]]
    accurate = None
    for run in stable:
        if abs(run["bias"]) > (0.3 if where == "funnel" else 0.1) + 2.0 * run["error"]:
            break
        accurate = run
    return stable[-1] if stable else None, accurate, len(stable) < len(runs)


def _row(name: str, found: dict[str, Any], where: str) -> str:
    shown = name.replace("_", "-") + (" †" if found["biased"] else "")
    largest, accurate, ended = judged(found["runs"], where)
    if largest is None:
        return f"| {shown} | none tried | | | |"
    step = f"{'' if ended else '> '}{largest['dt']:.2g}"
    if accurate is None:
        return f"| {shown} | {step} | none tried | | |"
    if where == "funnel":
        error = f"{accurate['bias']:+.2f} ± {accurate['error']:.2f}"
    else:
        error = f"{100 * accurate['bias']:+.1f} ± {100 * accurate['error']:.1f}%"
    return f"| {shown} | {step} | {accurate['dt']:.2g} | {error} | {accurate['ess']:.3g} |"


def write_page(result: dict[str, Any], path: Path) -> None:
    """The page, a table for each problem."""
    parts = [HEAD]
    everywhere = dict.fromkeys(name for each in result["problems"].values() for name in each)
    for where, samplers in result["problems"].items():
        parts.append(f"## {TITLES[where]}\n")
        columns = ("sampler", "largest step", "accurate step", "error", "effective draws")
        parts += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
        parts += [_row(name, found, where) for name, found in samplers.items()]
        absent = [name.replace("_", "-") for name in everywhere if name not in samplers]
        if absent:
            parts += ["", f"Not run yet: {', '.join(absent)}."]
        parts.append("")
    path.write_text("\n".join(parts))
