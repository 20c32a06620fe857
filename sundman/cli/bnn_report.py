"""The report of a network: scores, calibration, and how the chains went."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import sundman
from sundman.cli import made
from sundman.cli.bnn_plan import Plan
from sundman.cli.bnn_scores import Seeds
from sundman.report import Figure, Report, Section

_LEVELS = np.linspace(0.1, 0.9, 9)


def report(
    plan: Plan,
    runs: Mapping[str, sundman.Draws],
    found: Mapping[str, Any],
    scores: Seeds,
    path: Path,
) -> Report:
    """The report of all seeds; ``found`` are their predictives."""
    settings = plan.settings
    each = [f"{key} {mean:.4g}" for key, (mean, _) in scores.summary().items()]
    chains = "One chain" if len(runs) == 1 else f"{len(runs)} chains, one per seed"
    return Report(
        title=f"{plan.name} on {plan.data.name}",
        summary=f"{chains}. On the test rows: {', '.join(each)}.",
        command=made.again("bnn", path),
        settings={key: value for key, value in settings.items() if value is not None},
        made=made.facts(
            settings["seed"], sum(draws.settings["seconds"] for draws in runs.values())
        ),
        sections=[
            Section("Test scores", tables=[scores.table()]),
            Section("Calibration", figures=[_calibration(plan, found)]),
            Section("The data", " ".join(plan.decisions)),
            *made.of_each(runs),
        ],
        citations=made.cited([plan.name]),
    )


def _calibration(plan: Plan, found: Mapping[str, Any]) -> Figure:
    return reliability(found, plan.data.test.y) if plan.data.classes else _coverage(plan, found)


def reliability(found: Mapping[str, Any], labels: Any) -> Figure:
    """Accuracy against confidence, a line for each predictive."""
    from sundman import metrics, plot
    from sundman.report.figures import draw

    def draw_on(canvas: Any) -> None:
        ax = canvas.subplots()
        for name, probabilities in found.items():
            plot.reliability(ax, probabilities, labels, label=name)
        if len(found) > 1:
            ax.legend(loc="lower right")

    errors = [f"{name} {100 * metrics.ece(p, labels, bins=15):.2g}%" for name, p in found.items()]
    told = f"Expected calibration error: {', '.join(errors)}."
    return draw(
        draw_on,
        title="Reliability diagram.",
        alt=f"Accuracy against confidence in 15 bins. {told}",
        caption=f"{told} The dashed line is ideal; bars are two standard errors.",
    )


def _coverage(plan: Plan, found: Mapping[str, sundman.NormalMixture]) -> Figure:
    """How many test targets are in the central intervals, against how many should be."""
    from sundman import metrics
    from sundman.report.figures import draw

    data = plan.data
    truth = data.test.y.astype(np.float64) * data.y_scale + data.y_mean
    lines = {
        name: [float(metrics.coverage(*mixture.interval(q), truth)) for q in _LEVELS]
        for name, mixture in found.items()
    }

    def draw_on(canvas: Any) -> None:
        ax = canvas.subplots()
        ax.plot([0, 100], [0, 100], color="0.6", linewidth=0.8, linestyle="--")
        for name, line in lines.items():
            ax.plot(100 * _LEVELS, 100 * np.array(line), marker="o", markersize=3, label=name)
        ax.set(xlabel="probability of the interval (%)", ylabel="test targets in it (%)")
        if len(lines) > 1:
            ax.legend()

    first = next(iter(lines.values()))
    share = f"{first[0]:.0%} to {first[-1]:.0%}"
    alt = f"Share of test targets in central intervals of 10 to 90%: {share}."
    return draw(
        draw_on, title="Coverage of intervals.", alt=alt, caption="The dashed line is ideal."
    )
