"""Networks: a run per seed, the scores of its predictive on the test rows, and the report."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import stdtrit

import sundman
from sundman import estimate, metrics, models
from sundman._types import PyTree
from sundman.cli.bnn.plan import Plan
from sundman.cli.bnn.predictions import (
    Predictive,
    pooled,
    write_data_files,
    write_test_predictions,
)
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
    tuning_sentences,
    verdict_text,
    write_results,
)
from sundman.cli.samplers import sample_or_none
from sundman.estimate import Estimate
from sundman.estimate.temperature import recomputed_temperatures
from sundman.report import Figure, Report, Section, Table, write

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

_ROWS_AT_EVERY_DRAW = 100  # test rows whose predictive is kept at every draw, or looked at
_LEVELS = np.linspace(0.1, 0.9, 9)
_FEWEST_FOR_TEMPERATURE = 20  # draws of a chain
_ALL_ROWS, _ROWS_OF_GRADIENT = 20_000, 2_000  # of larger data some rows for each gradient
_DRAWS_FOR_CURVATURE = 400
_SHARP = 0.5  # an error with which a temperature says something


class RecordedPredictions(NamedTuple):
    """The functions whose values are recorded along a chain: at each draw, and on average."""

    collect: functools.partial[PyTree] | None
    online: functools.partial[PyTree] | None


def recorded_predictions(plan: Plan) -> RecordedPredictions:
    """Predictives on the test rows; one object for all seeds, so that it compiles once.

    A regression keeps them at all test rows, a classification at some, and the average at all; a
    run that keeps its positions has no need to.
    """
    predict, x_test = plan.posterior.predict, jnp.asarray(plan.data.test.x)
    everywhere = functools.partial(predict, x=x_test)
    average = None if plan.data.classes is None else everywhere
    if plan.keeps_positions:
        return RecordedPredictions(None, average)
    if plan.data.classes is None:
        return RecordedPredictions(everywhere, None)
    return RecordedPredictions(functools.partial(predict, x=x_test[:_ROWS_AT_EVERY_DRAW]), average)


def _sample_seed(
    plan: Plan, seed: int, recorded: RecordedPredictions, path: Path, resuming: bool
) -> sundman.Draws | None:
    """The chains of one seed, on disk; None if they diverged in the burn-in."""
    posterior, lengths = plan.posterior, plan.lengths
    start, noise = jax.random.split(jax.random.key(seed))
    several = lengths.chains > 1
    init = models.mlp_init(start, plan.sizes)
    if several:
        keys = jax.random.split(start, lengths.chains)
        init = jax.vmap(functools.partial(models.mlp_init, sizes=plan.sizes))(keys)
    return sample_or_none(
        posterior,
        plan.sampler,
        init=init,
        per_chain=several,
        chains=lengths.chains,
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
    """The predictive of a run on the test rows, all its chains together."""
    if plan.data.classes is not None:
        assert draws.online is not None  # recorded_predictions has one
        average = draws.online
        share = np.asarray(average.weight, np.float64)
        share = np.where(np.asarray(draws.weight).max(axis=1) > 0, share, 0.0)
        return np.average(np.asarray(average.weighted), axis=0, weights=share)
    data = plan.data
    if plan.keeps_positions:
        mixture = sundman.predict(draws, plan.posterior, jnp.asarray(data.test.x))
        mean, sd, weight = mixture.mean[..., 0], mixture.sd[..., 0], mixture.weight
    else:
        weight = np.asarray(draws.weight, np.float64).ravel()
        mean, sd = (np.asarray(leaf).reshape(len(weight), -1)[weight > 0] for leaf in draws.values)
        weight = weight[weight > 0] / weight.sum()
    mean, sd = mean.astype(np.float64), sd.astype(np.float64)
    return sundman.NormalMixture(mean * data.y_scale + data.y_mean, sd * data.y_scale, weight)


class Temperature(NamedTuple):
    """The temperatures of a run that kept its positions.

    Attributes:
      mean: over all directions.
      last_layer: of the last layer by gradients and curvature, mostly that of stiff directions.
      stiffest: along the stiffest direction, as :func:`sundman.estimate.stiff_temperature` has it.
    """

    mean: Estimate
    last_layer: Estimate
    stiffest: Estimate

    def __str__(self) -> str:
        """All that are known well enough, with their errors."""
        parts = {
            "on average over all directions": self.mean,
            "in the last layer, by its stiff directions": self.last_layer,
            "along the stiffest direction": self.stiffest,
        }
        return ", ".join(
            f"{each.value:.3g} ± {each.error:.1g} {where}"
            for where, each in parts.items()
            if each is not self.stiffest or each.error < _SHARP
        )


def temperature_of(plan: Plan, draws: sundman.Draws) -> Temperature | None:
    """The temperatures of a run that tuned itself and kept its positions; None if too short."""
    if not (plan.tunes_itself and draws.has_position) or len(draws) < _FEWEST_FOR_TEMPERATURE:
        return None
    posterior, rows = plan.posterior, None
    if posterior.size > _ALL_ROWS:
        rows = _ROWS_OF_GRADIENT
    last = f"layer_{len(plan.sizes) - 2}"
    again = recomputed_temperatures(draws, posterior, directions=1, rows=rows)
    recorded = estimate.configurational_temperature(draws)
    return Temperature(
        # one has gradients of minibatches, the other few draws and a centre that must be known
        mean=min(recorded, again.mean, key=lambda each: each.error),
        last_layer=estimate.curvature_temperature(
            draws, posterior, part=last, most=_DRAWS_FOR_CURVATURE, rows=rows
        ),
        stiffest=Estimate(float(again.stiff.value[0]), float(again.stiff.error[0])),
    )


def _in_function_space(plan: Plan, draws: sundman.Draws) -> sundman.Draws:
    """The run with predictions at some test rows in place of positions, and judged by them, too.

    Weights move slowly when the predictions have long settled, so they are not looked at.
    """
    if not draws.has_position:
        return draws
    some = jnp.asarray(plan.data.test.x[:_ROWS_AT_EVERY_DRAW])
    values = estimate.evaluate(draws, functools.partial(plan.posterior.predict, x=some))
    seen = replace(draws, values=values, has_position=False, verdict=None)
    return replace(seen, verdict=_joined(sundman.judge(seen), draws.verdict))


def _joined(verdict: sundman.Verdict, other: sundman.Verdict | None) -> sundman.Verdict:
    """A verdict with the reasons of another one that it does not have."""
    if other is None:
        return verdict
    known = {reason.check for reason in verdict.reasons}
    reasons = (*verdict.reasons, *(each for each in other.reasons if each.check not in known))
    notes = [each.note for each in (verdict, other) if each.status == "unknown"]
    if reasons:
        return sundman.Verdict("bad", reasons, "")
    return sundman.Verdict("unknown", (), notes[0]) if notes else verdict


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
    temperatures: Mapping[str, Temperature]

    def mean_step(self, name: str) -> float:
        """The mean step of a run, as a learning rate; of one that tunes itself as it is."""
        draws, sampler = self.runs[name], self.plan.sampler
        dt = float(np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0].mean())
        if isinstance(sampler, sundman.Auto):
            return dt
        return float(self.plan.posterior.learning_rate(dt, kinetic=sampler.kinetic))

    def sentences(self) -> list[str]:
        """What the sampler found in its warm-up, and the temperatures, a sentence each."""
        asked = self.plan.settings.temperature
        lead = "Temperature" if len(self.runs) == 1 else "{name}, temperature"
        return [
            *tuning_sentences(self.runs),
            *(
                f"{lead.format(name=name)}: {each}; {asked:g} is right."
                for name, each in self.temperatures.items()
            ),
        ]

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
        caption = "" if len(self.scores) > 1 else "One seed; --seeds 5 gives an interval."
        if plan.tunes_itself:
            caption += " The step is in the coordinates of the warm-up, which is not in the time."
        return Table(
            title=f"{plan.data.name}, {plan.prior} prior, {plan.name}: test scores",
            columns=["", *means, "mean step h", "wall time"],
            rows=rows,
            caption=caption.strip(),
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
            "temperature": {name: each._asdict() for name, each in self.temperatures.items()},
            "tuning": {
                name: str(draws.tuning)
                for name, draws in self.runs.items()
                if draws.tuning is not None
            },
            "verdict": {
                name: draws.verdict.as_json()
                for name, draws in self.runs.items()
                if draws.verdict is not None
            },
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
    out, settings = console(), plan.settings
    for sentence in plan.decisions:
        print_line(out, sentence)
    print_line(out, _what_will_run(plan))
    if not resuming:
        settings.write(path)
    write_data_files(path, plan.loaded)
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
    measured = {name: temperature_of(plan, draws) for name, draws in runs.items()}
    temperatures = {name: each for name, each in measured.items() if each is not None}
    runs = {name: _in_function_space(plan, draws) for name, draws in runs.items()}
    lost = [name for name in tried if name not in runs]
    results = SeedScores(runs, scores, lost, plan, temperatures)
    print_table(out, results.table())
    for sentence in results.sentences():
        print_line(out, sentence)
    write_results(path, results.as_json())
    write_test_predictions(path, plan.loaded, pooled(list(predictives.values())))
    page = page or path / REPORT
    write(_report(results, predictives, path), page)
    print_line(out, f"Report: {page}")
    if all(draws.diverged.all() for draws in runs.values()):
        raise RunFailed("all chains diverged; use a smaller step")
    print_line(out, f"Verdict: {verdict_text(runs)}")


def _what_will_run(plan: Plan) -> str:
    lengths = plan.lengths
    chains = f"{lengths.chains} chains of " if lengths.chains > 1 else ""
    text = f"Network {plan.network}, {plan.prior} prior, {plan.name}; "
    if plan.tunes_itself:
        text += "after a warm-up, "
    text += f"{chains}{lengths.epochs} epochs of {lengths.steps_per_epoch} steps"
    if lengths.burn_in_epochs or not plan.tunes_itself:
        text += f", {lengths.burn_in_epochs} of them burn-in"
    return f"{text}."


def _report(results: SeedScores, predictives: Mapping[str, Predictive], path: Path) -> Report:
    """Scores, calibration, and how the chains of all seeds went."""
    plan, runs = results.plan, results.runs
    means = [f"{key} {each.mean:.4g}" for key, each in results.means().items()]
    each = plan.lengths.chains
    chains = "One chain" if len(runs) == 1 else f"{len(runs)} chains, one per seed"
    if each > 1:
        chains = f"{each} chains" if len(runs) == 1 else f"{len(runs)} seeds of {each} chains"
    sentences = "".join(f"\n\n{sentence}" for sentence in results.sentences())
    seconds = sum(draws.settings["seconds"] for draws in runs.values())
    return Report(
        title=f"{plan.name} on {plan.data.name}",
        summary=f"{chains}. On the test rows: {', '.join(means)}.\n\n{verdict_text(runs)}"
        f"{sentences}",
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
        citations=report_citations(runs.values() if plan.tunes_itself else [plan.name]),
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
