"""Networks: one chain per seed, the scores of its predictive on the test rows, and the report."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import stdtrit

import sundman
from sundman import metrics, models
from sundman._types import PyTree
from sundman.cli.bnn.plan import Plan
from sundman.cli.errors import RunFailed
from sundman.cli.output import (
    REPORT,
    RUNS,
    console,
    print_line,
    print_table,
    repeat_command,
    report_citations,
    report_facts,
    resumable,
    run_sections,
    verdict_text,
    write_results,
)
from sundman.cli.samplers import sample_or_none
from sundman.report import Figure, Report, Section, Table, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

Predictive: TypeAlias = np.ndarray | sundman.NormalMixture
"""Class probabilities (row, class), or a mixture of normals in the target's own units."""

_ROWS_AT_EVERY_DRAW = 100  # test rows whose predictive is kept at every draw, of a classification
_LEVELS = np.linspace(0.1, 0.9, 9)


class RecordedPredictions(NamedTuple):
    """The functions whose values are recorded along a chain: at each draw, and on average."""

    collect: functools.partial[PyTree]
    online: functools.partial[PyTree] | None


def recorded_predictions(plan: Plan) -> RecordedPredictions:
    """Predictives on the test rows; one object for all seeds, so that it compiles once.

    A regression keeps them at all test rows, a classification at some, and the average at all.
    """
    predict, x_test = plan.posterior.predict, jnp.asarray(plan.data.test.x)
    everywhere = functools.partial(predict, x=x_test)
    if plan.data.classes is None:
        return RecordedPredictions(everywhere, None)
    return RecordedPredictions(
        functools.partial(predict, x=x_test[:_ROWS_AT_EVERY_DRAW]), everywhere
    )


def _sample_seed(
    plan: Plan, seed: int, recorded: RecordedPredictions, path: Path, resuming: bool
) -> sundman.Draws | None:
    """The chain of one seed, on disk; None if it diverged in the burn-in."""
    posterior, lengths = plan.posterior, plan.lengths
    start, noise = jax.random.split(jax.random.key(seed))
    return sample_or_none(
        posterior,
        plan.sampler,
        init=models.mlp_init(start, plan.sizes),
        per_chain=False,
        key=noise,
        burn_in=lengths.burn_in_steps,
        steps=lengths.steps,
        thin=lengths.thin,
        batch_size=None if lengths.batch >= posterior.size else lengths.batch,
        collect=recorded.collect,
        online=recorded.online,
        store=path / RUNS / f"seed-{seed}",
        resume=resuming,
    )


def predictive(plan: Plan, draws: sundman.Draws) -> Predictive:
    """The predictive of a chain on the test rows."""
    if plan.data.classes is not None:
        assert draws.online is not None  # recorded_predictions has one
        return np.asarray(draws.online.weighted[0])
    data, weight = plan.data, np.asarray(draws.weight[0], np.float64)
    alive = np.flatnonzero(weight > 0)
    mean, sd = (np.asarray(leaf[0])[alive, :, 0].astype(np.float64) for leaf in draws.values)
    return sundman.NormalMixture(
        mean * data.y_scale + data.y_mean, sd * data.y_scale, weight[alive] / weight.sum()
    )


def scores_of(plan: Plan, predictive: Predictive) -> dict[str, float]:
    """The scores of a predictive on the test rows."""
    labels = plan.data.test.y
    if not isinstance(predictive, sundman.NormalMixture):
        return {
            "NLL": metrics.nll(predictive, labels),
            "accuracy %": 100 * metrics.accuracy(predictive, labels),
            "ECE % (15 bins)": 100 * metrics.ece(predictive, labels, bins=15),
            "Brier": metrics.brier(predictive, labels),
        }
    truth = _test_targets(plan)
    mean, sd, weight = predictive
    low, high = predictive.interval(0.9)
    return {
        "RMSE": float(metrics.rmse(predictive.centre, truth)),
        "NLL": float(metrics.normal_mixture_nll(mean, sd, weight, truth)),
        "coverage of 90% intervals, %": 100 * float(metrics.coverage(low, high, truth)),
    }


def _test_targets(plan: Plan) -> np.ndarray:
    """The test targets of a regression in their own units."""
    return plan.data.test.y.astype(np.float64) * plan.data.y_scale + plan.data.y_mean


def _half_interval(values: np.ndarray) -> float:
    """Half the width of the 95% interval of a mean, by Student's t; NaN for one value."""
    n = len(values)
    if n < 2:
        return float("nan")
    return float(stdtrit(n - 1, 0.975) * values.std(ddof=1) / np.sqrt(n))


class _Mean(NamedTuple):
    """The mean of a score over the seeds, and half its 95% interval."""

    mean: float
    half_interval: float


@dataclass(frozen=True)
class SeedScores:
    """The runs by seed and their scores, the seeds whose chain diverged, and what was run."""

    runs: Mapping[str, sundman.Draws]
    scores: Mapping[str, Mapping[str, float]]
    lost: Sequence[str]
    plan: Plan

    def mean_step(self, name: str) -> float:
        """The mean step of a run, as a learning rate."""
        draws = self.runs[name]
        dt = float(np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0].mean())
        return float(self.plan.posterior.learning_rate(dt, kinetic=self.plan.sampler.kinetic))

    def means(self) -> dict[str, _Mean]:
        """The mean of every score."""
        names = next(iter(self.scores.values()))
        columns = {key: np.array([row[key] for row in self.scores.values()]) for key in names}
        return {
            key: _Mean(float(values.mean()), _half_interval(values))
            for key, values in columns.items()
        }

    def table(self) -> Table:
        """The table of all seeds, the mean in the last row."""
        means = self.means()
        rows = [
            [
                name,
                *(f"{value:.4g}" for value in row.values()),
                f"{self.mean_step(name):.3g}",
                f"{self.runs[name].settings['seconds']:.1f} s",
            ]
            for name, row in self.scores.items()
        ]
        rows += [[name, *("lost" for _ in means), "", ""] for name in self.lost]
        if len(self.scores) > 1:
            cells = [f"{mean:.4g} ± {half:.2g}" for mean, half in means.values()]
            rows.append(["mean ± 95% interval", *cells, "", ""])
        plan = self.plan
        return Table(
            title=f"{plan.data.name}, {plan.prior} prior, {plan.name}: test scores",
            columns=["", *means, "mean step h", "wall time"],
            rows=rows,
            caption="" if len(self.scores) > 1 else "One seed; --seeds 5 gives an interval.",
        )

    def as_json(self) -> dict[str, object]:
        """All numbers, for a file."""
        means = self.means()
        return {
            "scores": self.scores,
            "mean": {key: each.mean for key, each in means.items()},
            "half_interval_95": {key: each.half_interval for key, each in means.items()},
            "mean_step": {name: self.mean_step(name) for name in self.scores},
            "seconds": {name: draws.settings["seconds"] for name, draws in self.runs.items()},
            "lost": self.lost,
        }


def run_networks(
    plan: Plan, path: Path, *, resuming: bool = False, page: Path | None = None
) -> None:
    """Run every seed, print the scores, write results and report.

    Args:
      plan: what to run.
      path: the directory of the results.
      resuming: go on with what is there.
      page: the file of the report, if not in the directory.
    """
    out, settings, lengths = console(), plan.settings, plan.lengths
    for sentence in plan.decisions:
        print_line(out, sentence)
    print_line(
        out,
        f"Network {plan.network}, {plan.prior} prior, {plan.name}; {lengths.epochs} epochs of "
        f"{lengths.steps_per_epoch} steps, {lengths.burn_in_epochs} of them burn-in.",
    )
    if not resuming:
        settings.write(path)
    recorded = recorded_predictions(plan)
    with resumable(path):
        tried = {
            f"seed-{seed}": _sample_seed(plan, seed, recorded, path, resuming)
            for seed in range(settings.seed, settings.seed + settings.seeds)
        }
    runs = {
        name: draws
        for name, draws in tried.items()
        if draws is not None and (draws.weight > 0).any()
    }
    if not runs:
        raise RunFailed("all chains diverged before their first draw; use a smaller step")
    predictives = {name: predictive(plan, draws) for name, draws in runs.items()}
    scores = {name: scores_of(plan, each) for name, each in predictives.items()}
    results = SeedScores(runs, scores, [name for name in tried if name not in runs], plan)
    print_table(out, results.table())
    write_results(path, results.as_json())
    page = page or path / REPORT
    write(_report(results, predictives, path), page)
    print_line(out, f"Report: {page}")
    if all(draws.diverged.all() for draws in runs.values()):
        raise RunFailed("all chains diverged; use a smaller step")
    print_line(out, f"Verdict: {verdict_text(runs)}")


def _report(results: SeedScores, predictives: Mapping[str, Predictive], path: Path) -> Report:
    """Scores, calibration, and how the chains of all seeds went."""
    plan, runs = results.plan, results.runs
    means = [f"{key} {each.mean:.4g}" for key, each in results.means().items()]
    chains = "One chain" if len(runs) == 1 else f"{len(runs)} chains, one per seed"
    seconds = sum(draws.settings["seconds"] for draws in runs.values())
    return Report(
        title=f"{plan.name} on {plan.data.name}",
        summary=f"{chains}. On the test rows: {', '.join(means)}.\n\n{verdict_text(runs)}",
        command=repeat_command("bnn", path),
        settings={
            key: value for key, value in plan.settings.as_dict().items() if value is not None
        },
        made=report_facts(plan.settings.seed, seconds),
        sections=[
            Section("Test scores", tables=[results.table()]),
            Section("Calibration", figures=[_calibration(plan, predictives)]),
            Section("The data", " ".join(plan.decisions)),
            *run_sections(runs),
        ],
        citations=report_citations([plan.name]),
    )


def _calibration(plan: Plan, predictives: Mapping[str, Predictive]) -> Figure:
    mixtures = {
        name: each for name, each in predictives.items() if isinstance(each, sundman.NormalMixture)
    }
    probabilities = {
        name: each for name, each in predictives.items() if isinstance(each, np.ndarray)
    }
    return _coverage(plan, mixtures) if mixtures else reliability(probabilities, plan.data.test.y)


def reliability(predictives: Mapping[str, np.ndarray], labels: np.ndarray) -> Figure:
    """Accuracy against confidence, a line for each array of class probabilities."""
    # Here and below: matplotlib takes half a second to load, and help does not need it.
    from sundman import plot
    from sundman.report.figures import draw

    def draw_on(canvas: Canvas) -> None:
        ax = canvas.subplots()
        for name, probabilities in predictives.items():
            plot.reliability(ax, probabilities, labels, label=name)
        if len(predictives) > 1:
            ax.legend(loc="lower right")

    errors = [
        f"{name} {100 * metrics.ece(probabilities, labels, bins=15):.2g}%"
        for name, probabilities in predictives.items()
    ]
    in_words = f"Expected calibration error: {', '.join(errors)}."
    return draw(
        draw_on,
        title="Reliability diagram.",
        alt=f"Accuracy against confidence in 15 bins. {in_words}",
        caption=f"{in_words} The dashed line is ideal; bars are two standard errors.",
    )


def _coverage(plan: Plan, predictives: Mapping[str, sundman.NormalMixture]) -> Figure:
    """How many test targets are in the central intervals, against how many should be."""
    from sundman.report.figures import draw

    truth = _test_targets(plan)
    lines = {
        name: [float(metrics.coverage(*mixture.interval(q), truth)) for q in _LEVELS]
        for name, mixture in predictives.items()
    }

    def draw_on(canvas: Canvas) -> None:
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
