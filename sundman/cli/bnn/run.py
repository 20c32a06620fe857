"""Networks: a run per seed, the table of their scores, and the report."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from scipy.special import stdtrit

import sundman
from sundman import models
from sundman.cli import farm
from sundman.cli.bnn.plan import Plan
from sundman.cli.bnn.predictions import Predictive, pooled, write_data_files, write_test_predictions
from sundman.cli.bnn.scores import (
    RecordedPredictions,
    Temperature,
    calibration_figure,
    in_function_space,
    predictive,
    recorded_predictions,
    scores_of,
    temperature_of,
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
from sundman.report import Report, Section, Table, write
from sundman.run import hosts


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
        until=plan.until,
        store=path / RUNS / f"seed-{seed}",
        resume=resuming,
    )


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
    """The runs by seed, scores and predictives, the seeds that were lost, and what was run."""

    runs: Mapping[str, sundman.Draws]
    scores: Mapping[str, Mapping[str, float]]
    lost: Sequence[str]
    plan: Plan
    temperatures: Mapping[str, Temperature]
    predictives: Mapping[str, Predictive]

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
            "seconds": {name: draws.facts.seconds for name, draws in self.runs.items()},
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
    plan: Plan,
    path: Path,
    *,
    resuming: bool = False,
    page: Path | None = None,
    part: farm.Task | None = None,
) -> SeedScores | None:
    """Run every seed, print the scores, write results and report.

    Args:
      plan: what to run.
      path: the directory of the results.
      resuming: go on with what is there.
      page: the file of the report, if not in the directory.
      part: the seeds of one task of several, of which the last makes results and report.

    Returns:
      The runs and their scores; None if they are another process's or task's to make.
    """
    out, settings = console(), plan.settings
    seeds = range(settings.seed, settings.seed + settings.seeds)
    for sentence in plan.decisions:
        print_line(out, sentence)
    print_line(out, _what_will_run(plan))
    if not resuming and part is None and hosts.is_first():
        settings.write(path)
    recorded = recorded_predictions(plan)
    again = resuming or part is not None  # a task that was killed is begun again
    with resumable(path):
        tried = {
            f"seed-{seed}": _sample_seed(plan, seed, recorded, path, again)
            for seed in (seeds if part is None else part.share(seeds))
        }
    if part is not None:
        missing = farm.unfinished(path, [f"seed-{seed}" for seed in seeds])
        if missing:
            print_line(out, f"Task {part.number} of {part.of} is done; {len(missing)} seeds to go.")
            return None
        with farm.by_one(path) as mine:
            if mine:
                return run_networks(plan, path, resuming=True, page=page)
        return None
    if not hosts.is_first():
        return None
    write_data_files(path, plan.loaded)
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
    runs = {name: in_function_space(plan, draws) for name, draws in runs.items()}
    lost = [name for name in tried if name not in runs]
    results = SeedScores(runs, scores, lost, plan, temperatures, predictives)
    print_table(out, results.table())
    for sentence in results.sentences():
        print_line(out, sentence)
    write_results(path, results.as_json())
    write_test_predictions(path, plan.loaded, pooled(list(predictives.values())))
    page = page or path / REPORT
    write(_report(results, path), page)
    print_line(out, f"Report: {page}")
    if all(draws.diverged.all() for draws in runs.values()):
        raise RunFailed("all chains diverged; use a smaller step")
    print_line(out, f"Verdict: {verdict_text(runs)}")
    return results


def _what_will_run(plan: Plan) -> str:
    lengths = plan.lengths
    chains = f"{lengths.chains} chains of " if lengths.chains > 1 else ""
    text = f"Network {plan.network}, {plan.prior} prior, {plan.name}; "
    if plan.tunes_itself:
        text += "after a warm-up, "
    at_most = "" if plan.until is None else "at most "
    text += f"{chains}{at_most}{lengths.epochs} epochs of {lengths.steps_per_epoch} steps"
    if lengths.burn_in_epochs or not plan.tunes_itself:
        text += f", {lengths.burn_in_epochs} of them burn-in"
    return f"{text}." if plan.until is None else f"{text}, until {plan.until}."


def _report(results: SeedScores, path: Path) -> Report:
    """Scores, calibration, and how the chains of all seeds went."""
    plan, runs = results.plan, results.runs
    means = [f"{key} {each.mean:.4g}" for key, each in results.means().items()]
    each = plan.lengths.chains
    chains = "One chain" if len(runs) == 1 else f"{len(runs)} chains, one per seed"
    if each > 1:
        chains = f"{each} chains" if len(runs) == 1 else f"{len(runs)} seeds of {each} chains"
    sentences = "".join(f"\n\n{sentence}" for sentence in results.sentences())
    seconds = sum(draws.facts.seconds or 0.0 for draws in runs.values())
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
            Section("Calibration", figures=[calibration_figure(plan, results.predictives)]),
            Section("The data", " ".join(plan.decisions)),
            *run_sections(runs),
        ],
        citations=report_citations(runs.values() if plan.tunes_itself else [plan.name]),
    )
