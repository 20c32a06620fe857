"""The report of one run: what ran, whether to trust it, its steps, its draws."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from sundman.diagnosis import Diagnosis, diagnose
from sundman.diagnosis.checks import some_components
from sundman.draws import Draws
from sundman.report import run_facts, run_tables
from sundman.report.model import Report, Section
from sundman.report.run_tables import Average
from sundman.report.values import duration
from sundman.targets import Target

_COMPONENTS = 4
_SIGMAS = 3.0
_LOW = 10  # components up to which pairs are drawn


def of_run(
    path_or_draws: str | os.PathLike[str] | Draws,
    *,
    target: Any = None,
    command: str | None = None,
) -> Report:
    """The report of a run. Needs matplotlib.

    Args:
      path_or_draws: the directory of a stored run, finished or going on, or draws.
      target: what was sampled, for the diagnosis as in :func:`sundman.diagnose`. A stored run on
        one of :mod:`sundman.targets` knows its target.
      command: the command that makes the report again; by default, for a stored run, one that
        makes it from the stored draws.
    """
    _need_matplotlib()
    draws = path_or_draws if isinstance(path_or_draws, Draws) else Draws.open(path_or_draws)
    stored = run_facts.about(draws)
    if target is None:
        target = run_facts.stored_target(draws, stored)
    found = diagnose(draws, target, show=False)
    averages = run_tables.averages(draws, target)
    name = run_facts.target_name(target)
    return Report(
        title=f"{run_facts.sampler(draws.settings)}{f' on {name}' if name else ''}",
        summary=" ".join((_what_ran(draws), _how_it_went(draws, found), *_biased(averages))),
        command=run_facts.command(draws) if command is None else command,
        settings=dict(sorted(draws.settings.items())),
        made=run_facts.made(draws, stored),
        sections=tuple(_sections(draws, target, found, averages)),
        citations=run_facts.cited(draws),
    )


def _need_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "the figures of a report are drawn by matplotlib: pip install 'sundman[demo]'"
        ) from error


def _what_ran(draws: Draws) -> str:
    settings = draws.settings
    chains = "One chain" if draws.chains == 1 else f"{draws.chains} chains"
    text = f"{chains} of {len(draws):,} draw{'' if len(draws) == 1 else 's'}"
    if settings.get("burn_in"):
        text += f" after a burn-in of {settings['burn_in']:,} steps"
    if settings.get("seconds"):
        text += f", in {duration(settings['seconds'])}"
    lost = int(np.sum(draws.diverged >= 0))
    if lost:
        text += f"; {lost} of {draws.chains} ran away, and what came after has no weight"
    ending = "" if settings.get("finished", True) else " The run is not finished."
    return f"{text}.{ending}"


def _how_it_went(draws: Draws, found: Diagnosis) -> str:
    def listed(verdict: str) -> list[str]:
        return [row.name for row in found if row.verdict == verdict]

    bad, look = listed("bad"), listed("look")
    if not bad and not (draws.weight > 0).any():
        return "There are no draws to judge."
    if not bad and not look:
        return "Every check of the diagnosis is good."
    parts = [f"bad: {', '.join(bad)}"] if bad else []
    parts += [f"to look into: {', '.join(look)}"] if look else []
    lead = "Not to be trusted as it is" if bad else "No check is bad"
    return f"{lead}; {'; '.join(parts)}."


def _biased(averages: Sequence[Average]) -> Iterator[str]:
    """A sentence on the averages that are off by more than chance, if the exact ones are known."""
    if not averages:
        return
    off = [f"{each.name} by {each.off:+.1f}" for each in averages if abs(each.off) > _SIGMAS]
    if off:
        known = f"{len(off)} of {len(averages)} averages with known exact values"
        yield f"Off by more than {_SIGMAS:g} standard errors: {known} ({', '.join(off)})."
    else:
        yield f"All {len(averages)} averages are within {_SIGMAS:g} errors of their exact values."


def _sections(
    draws: Draws, target: Any, found: Diagnosis, averages: Sequence[Average]
) -> Iterator[Section]:
    yield Section(
        "Can it be trusted?",
        "Each check says good, look (look into it) or bad, and what to do about it.",
        tables=[run_tables.of_diagnosis(found)],
    )
    yield Section("The chains", tables=[run_tables.of_chains(draws)])
    if not (draws.weight > 0).any():
        yield Section("The draws", "No draw counts, so there is nothing to show.")
        return
    from sundman.report import figures

    shown = []
    if _varies(draws, "dt"):
        shown += [figures.along(draws, "dt", title="The step", label="dt", log=True)]
    if "potential" in draws.stats:
        shown += [figures.along(draws, "potential", title="The potential", label="U")]
    if shown:
        text = "Level and rough is right; a slope means that the burn-in was too short."
        yield Section("Along the run", text, figures=shown)
    yield _weights(draws)
    if jax.tree.leaves(draws.values):
        yield _values(draws, target, averages)


def _varies(draws: Draws, name: str) -> bool:
    if name not in draws.stats:
        return False
    column = np.asarray(draws.stats[name])[draws.weight > 0]
    return bool(column.max() > column.min() * (1 + 1e-6))


def _weights(draws: Draws) -> Section:
    from sundman.report import figures

    shown, text = [], []
    if "dt" in draws.stats:
        dt = np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0]
        if _varies(draws, "dt"):
            shown += [figures.stepsizes(draws)]
            text += [f"The step is {dt.mean():.4g} on average, {dt.min():.3g} to {dt.max():.3g}."]
        else:
            text += [f"The step is {dt.mean():.4g} at every draw."]
    weight = draws.weight[draws.weight > 0]
    if weight.max() > weight.min() * (1 + 1e-6):
        shown += [figures.weights(draws)]
        text += ["A draw weighs as much as the time that the chain spends there, its step."]
    else:
        text += ["Every draw weighs the same."]
    return Section("The step and the weights", " ".join(text), figures=shown)


def _values(draws: Draws, target: Any, averages: Sequence[Average]) -> Section:
    from sundman.report import components, figures

    total = sum(math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(draws.values))
    values, labels = some_components(draws, _COMPONENTS)
    tables = [run_tables.against_exact(averages)] if averages else []
    shown = []
    known = isinstance(target, Target) and draws.has_position and "dt" in draws.stats
    if known and target.window is not None and target.dim == 2:
        shown += [figures.over_contours(draws, target)]
    shown += [components.traces(draws, values, labels, total)]
    finite = np.isfinite(values).all(axis=2) & (draws.weight > 0)
    if total <= _LOW and finite.any() and not (shown[1:] and total == 2):
        shown += [components.pairs(draws, values, labels)]
    kept = "positions" if draws.has_position else "values of `collect`"
    text = f"The {kept} have {total:,} component{'s' if total > 1 else ''}."
    return Section("The draws", text, tables, shown)
