"""``sundman toy``: samplers on targets whose moments are known exactly.

Their estimates are shown beside the exact values; with a directory, runs and report are kept there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer

import sundman
from sundman import estimate, gradients
from sundman.cli import options
from sundman.cli.errors import RunFailed
from sundman.cli.output import (
    REPORT,
    RUNS,
    console,
    path_of_first,
    prepare_directory,
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
from sundman.cli.samplers import AUTO, sample_or_none
from sundman.cli.settings import SETTINGS, Request
from sundman.cli.toy.plan import Plan, ToySettings, make_plan
from sundman.report import Report, Section, Table, write
from sundman.run import hosts
from sundman.targets import Target

_SAMPLERS_PER_TABLE = 4


@options.with_sampler_settings
def toy(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="One of {targets}.",
            show_default=False,
        ),
    ] = None,
    sampler: options.Sampler = None,
    compare: Annotated[
        options.Text,
        options.run("--compare", text="Several samplers side by side: auto,sgld,sa-sgld."),
    ] = None,
    steps: Annotated[
        options.Count,
        options.run("--steps", text="Steps of each chain, burn-in included. [default: 200,000]"),
    ] = None,
    burn_in: Annotated[
        options.Count,
        options.run("--burn-in", text="The first of them, not kept. [default: 20,000]"),
    ] = None,
    thin: options.Thin = None,
    until: options.Until = None,
    chains: Annotated[
        options.Count, options.run("--chains", text="Independent chains. [default: 16]")
    ] = None,
    seed: options.Seed = None,
    temperature: options.Temperature = None,
    noise_sigma: Annotated[
        options.Number,
        options.run("--noise-sigma", text="Gradient noise, its sd per coordinate. [default: 0]"),
    ] = None,
    target_set: Annotated[
        list[str] | None,
        options.run("--target-set", text="A setting of the target, as dim=20; may be repeated."),
    ] = None,
    config: options.Config = None,
    output: options.Output = None,
    force: options.Force = False,
    no_cache: options.NoCache = False,
    *,
    sampler_settings: Mapping[str, object],
) -> None:
    """Run samplers on a target whose moments are known, and compare with them.

    Samplers, {samplers}. Settings that are not given suit the target; the sampler auto finds its
    own in a warm-up, which takes the place of the burn-in.

    With --output the run is stored, may be stopped and resumed, and ends in a report.

    For example:

    sundman toy star

    sundman toy star --compare auto,sgld,sa-sgld,sa-lm,samadams --output star

    sundman toy funnel --sampler samadams --dtau 0.02 --set kappa=5 --target-set dim=5

    sundman toy star --sampler sgld --step 1e-4 --noise-sigma 20 --chains 64
    """
    options.use_compilation_cache(not no_cache)
    in_options = options.without_unset(
        target=target,
        sampler=sampler,
        compare=compare,
        steps=steps,
        burn_in=burn_in,
        thin=thin,
        until=until,
        chains=chains,
        seed=seed,
        temperature=temperature,
        noise_sigma=noise_sigma,
        target_settings=options.assignments(target_set, "--target-set") if target_set else None,
    )
    plan = make_plan(Request(ToySettings.read(config), in_options, sampler_settings))
    path = None if output is None else path_of_first(lambda: prepare_directory(output, force))
    run_samplers(plan, path)


def repeat(path: Path, page: Path | None) -> None:
    """Go on with the command whose results are in a directory; what is finished is only read."""
    request = Request(ToySettings.read(path / SETTINGS))
    run_samplers(make_plan(request), path, resuming=True, page=page)


@dataclass(frozen=True)
class SamplerNumbers:
    """The numbers of one sampler: estimates of the observables with their errors, and its steps."""

    estimate: dict[str, float]
    error: dict[str, float]
    mean_step: float
    ess_of_potential: float
    seconds: float
    chains_lost: int


@dataclass(frozen=True)
class ToyResults:
    """The target and the runs on it, by the sampler's name."""

    target: Target
    runs: Mapping[str, sundman.Draws]

    def all_lost(self) -> bool:
        """Whether every chain of every run diverged."""
        return all(_chains_lost(draws) == draws.chains for draws in self.runs.values())

    @cached_property
    def numbers(self) -> dict[str, SamplerNumbers]:
        """The numbers of each sampler."""
        return {name: self._numbers_of(draws) for name, draws in self.runs.items()}

    def _numbers_of(self, draws: sundman.Draws) -> SamplerNumbers:
        observables = self.target.observables
        values = dict.fromkeys(observables, np.nan)
        errors, mean_step, ess = dict(values), np.nan, np.nan
        alive = draws.weight > 0
        if alive.any():
            mean = estimate.mean(draws, lambda x: jnp.stack([f(x) for f in observables.values()]))
            values, errors = (
                dict(zip(observables, map(float, part), strict=True)) for part in mean
            )
            mean_step = float(draws.stats["dt"][alive].mean())
            ess = float(estimate.ess(draws, self.target.potential))
        return SamplerNumbers(
            estimate=values,
            error=errors,
            mean_step=mean_step,
            ess_of_potential=ess,
            seconds=np.nan if draws.facts.seconds is None else draws.facts.seconds,
            chains_lost=_chains_lost(draws),
        )

    def as_json(self) -> dict[str, object]:
        """All numbers, for a file."""
        return {
            "target": self.target.name,
            "temperature": self.target.temperature,
            "exact": dict(self.target.truth),
            "samplers": {name: dataclasses.asdict(each) for name, each in self.numbers.items()},
        }

    def tables(self) -> list[Table]:
        """One table for every few samplers: observables down, samplers across."""
        names = list(self.runs)
        firsts = range(0, len(names), _SAMPLERS_PER_TABLE)
        return [self._table(names[first : first + _SAMPLERS_PER_TABLE]) for first in firsts]

    def _table(self, names: list[str]) -> Table:
        truth, numbers = self.target.truth, [self.numbers[name] for name in names]
        rows = [
            [
                key,
                f"{truth[key]:.5g}",
                *(_cell(n.estimate[key], n.error[key], truth[key]) for n in numbers),
            ]
            for key in self.target.observables
        ]
        facts = {
            "mean step dt": [f"{n.mean_step:.3g}" for n in numbers],
            "ESS of U": [f"{n.ess_of_potential:,.0f}" for n in numbers],
            "wall time": [f"{n.seconds:.2f} s" for n in numbers],
            "chains lost": [f"{n.chains_lost}" for n in numbers],
        }
        rows += [[key, "", *cells] for key, cells in facts.items()]
        return Table(
            title=f"{self.target.name}, T = {self.target.temperature:g}: estimate ± standard error",
            columns=["E[...]", "exact", *names],
            rows=rows,
            caption="In brackets: how far the estimate is from the exact value, in percent of it. "
            "The wall time has the compilation in it.",
        )


def _chains_lost(draws: sundman.Draws) -> int:
    return int(np.count_nonzero(draws.diverged))


def _cell(value: float, error: float, exact: float) -> str:
    if not np.isfinite(value):
        return "lost"
    off = f" ({100 * (value - exact) / abs(exact):+.1f})" if abs(exact) > 1e-12 else ""
    return f"{value:.4g} ± {error:.1g}{off}"


def _sample(plan: Plan, name: str, path: Path | None, resuming: bool) -> sundman.Draws | None:
    """The draws of one sampler, on disk if there is a directory; None if there are none."""
    settings, target = plan.settings, plan.target
    sigma = settings.noise_sigma
    warms_up = name == AUTO  # in place of the burn-in
    return sample_or_none(
        gradients.noisy(target.potential, sigma) if sigma > 0 else target,
        plan.samplers[name],
        key=jax.random.key(settings.seed),
        init=target.start,
        per_chain=False,
        chains=settings.chains,
        steps=settings.steps - settings.burn_in,
        burn_in=0 if warms_up else settings.burn_in,
        thin=settings.thin,
        until=plan.until,
        store=None if path is None else path / RUNS / name,
        resume=resuming and path is not None,
    )


def run_samplers(
    plan: Plan, path: Path | None, *, resuming: bool = False, page: Path | None = None
) -> None:
    """Run all samplers, print the table, and write results and report if there is a directory.

    Args:
      plan: what to run.
      path: the directory of the results, if there is one.
      resuming: go on with what is there.
      page: the file of the report, if not in the directory.
    """
    out = console()
    if path is not None and not resuming and hosts.is_first():
        plan.settings.write(path)
    with resumable(path):
        tried = {name: _sample(plan, name, path, resuming) for name in plan.samplers}
    if not hosts.is_first():
        return
    runs = {name: draws for name, draws in tried.items() if draws is not None}
    if not runs:
        raise RunFailed("all chains diverged; use a smaller step")
    for name in tried.keys() - runs.keys():
        print_line(out, f"{name}: all chains diverged in the burn-in; use a smaller step")
    results = ToyResults(plan.target, runs)
    for table in results.tables():
        print_table(out, table)
    for sentence in tuning_sentences(runs):
        print_line(out, sentence)
    if path is not None:
        write_results(path, results.as_json())
        page = page or path / REPORT
        write(_report(results, plan.settings, path), page)
        print_line(out, f"Report: {page}")
    if results.all_lost():
        raise RunFailed("all chains diverged; use a smaller step")
    print_line(out, f"Verdict: {verdict_text(runs)}")


def _report(results: ToyResults, settings: ToySettings, path: Path) -> Report:
    """The table of the estimates, and what each run looked like."""
    numbers = results.numbers.values()
    lost = sum(n.chains_lost for n in numbers)
    at_most = "" if settings.until is None else "at most "
    summary = (
        f"{settings.chains} chains of {at_most}{settings.steps:,} steps, the first "
        f"{settings.burn_in:,} not kept. "
    )
    summary += "No chain diverged." if not lost else f"{lost} chains diverged."
    if settings.noise_sigma > 0:
        summary += f" Gradient noise of standard deviation {settings.noise_sigma:g}."
    if tuned := tuning_sentences(results.runs):
        summary += " The sampler auto had a warm-up in place of that."
        summary += "\n\n" + " ".join(tuned)
    summary += f"\n\n{verdict_text(results.runs)}"
    return Report(
        title=f"{', '.join(results.runs)} on {results.target.name}, "
        f"T = {results.target.temperature:g}",
        summary=summary,
        command=repeat_command("toy", path),
        settings=settings.as_dict(),
        made=report_facts(settings.seed, sum(n.seconds for n in numbers)),
        sections=[
            Section("Estimates beside the exact values", tables=results.tables()),
            *run_sections(results.runs, results.target),
        ],
        citations=report_citations(results.runs.values()),
    )
