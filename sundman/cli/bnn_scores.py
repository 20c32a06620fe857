"""Scores over seeds: each, their mean, and its 95% interval by Student's t."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import sundman
from sundman.cli.bnn_plan import Plan
from sundman.report import Table


def interval(values: np.ndarray) -> float:
    """Half the width of the 95% t-interval of a mean; NaN for one value."""
    from scipy.special import stdtrit

    n = len(values)
    if n < 2:
        return float("nan")
    return float(stdtrit(n - 1, 0.975) * values.std(ddof=1) / np.sqrt(n))


@dataclass(frozen=True)
class Seeds:
    """The runs by seed and their scores, the seeds whose chain was lost, and what was run."""

    runs: Mapping[str, sundman.Draws]
    scores: Mapping[str, Mapping[str, float]]
    lost: Sequence[str]
    plan: Plan

    def steps(self, name: str) -> float:
        """The mean step of a run, as a learning rate."""
        draws = self.runs[name]
        dt = float(np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0].mean())
        return self.plan.posterior.learning_rate(dt, kinetic=self.plan.sampler.kinetic)

    def summary(self) -> dict[str, tuple[float, float]]:
        """Mean and half interval of every score."""
        names = next(iter(self.scores.values()))
        columns = {key: np.array([row[key] for row in self.scores.values()]) for key in names}
        return {key: (float(values.mean()), interval(values)) for key, values in columns.items()}

    def table(self) -> Table:
        """The table of all seeds, the mean in the last row."""
        summary = self.summary()
        rows = [
            [
                name,
                *(f"{value:.4g}" for value in row.values()),
                f"{self.steps(name):.3g}",
                f"{self.runs[name].settings['seconds']:.1f} s",
            ]
            for name, row in self.scores.items()
        ]
        rows += [[name, *("lost" for _ in summary), "", ""] for name in self.lost]
        if len(self.scores) > 1:
            means = [f"{mean:.4g} ± {half:.2g}" for mean, half in summary.values()]
            rows.append(["mean ± 95% interval", *means, "", ""])
        prior = self.plan.settings["prior"]
        return Table(
            title=f"{self.plan.data.name}, {prior} prior, {self.plan.name}: test scores",
            columns=["", *summary, "mean step h", "wall time"],
            rows=rows,
            caption="" if len(self.scores) > 1 else "One seed; --seeds 5 gives an interval.",
        )

    def numbers(self) -> dict[str, Any]:
        """All numbers, for a file."""
        return {
            "scores": self.scores,
            "mean": {key: mean for key, (mean, _) in self.summary().items()},
            "half_interval_95": {key: half for key, (_, half) in self.summary().items()},
            "mean_step": {name: self.steps(name) for name in self.scores},
            "seconds": {name: draws.settings["seconds"] for name, draws in self.runs.items()},
            "lost": self.lost,
        }
