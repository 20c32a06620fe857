"""Runs side by side: their verdicts, the settings in which they differ, diagnoses, figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sundman.draws import Draws
from sundman.gradients import GradientEstimator, Potential
from sundman.posterior import Posterior
from sundman.report.model import Figure, Report, Section, Table, flat, shown
from sundman.report.run import Origin, of_run
from sundman.targets import Target

_OUTCOME = {"path", "seconds", "diverged_step", "references"}  # of a run; they differ anyway
_UNSET = {"–", "not set"}  # a setting that a run does not have, or has not set
_MARKS = {"good": "✓ good", "bad": "✗ bad", "unknown": "○ unknown"}
_DIAGNOSIS, _AVERAGES = "Diagnosis", "Averages and their exact values"


@dataclass(frozen=True)
class _Run:
    draws: Draws
    report: Report
    settings: Mapping[str, str]


def of_runs(
    runs: Mapping[str, str | os.PathLike[str] | Draws],
    *,
    targets: Mapping[str, Target | Posterior | GradientEstimator | Potential] | None = None,
    settings: Mapping[str, Mapping[str, object]] | None = None,
    tables: Sequence[Table] = (),
    command: str = "",
) -> Report:
    """The report of two or more runs side by side. Needs matplotlib.

        report = sundman.report.of_runs({"small": "runs/small", "large": "runs/large"})
        sundman.report.write(report, "both.html")

    Args:
      runs: directories of stored runs, finished or going on, or draws, by the names to show.
      targets: what was sampled, by the same names, as in :func:`sundman.report.of_run`.
      settings: by the same names, settings that the runs themselves do not know, such as the data.
      tables: more tables that compare them, such as scores, shown first.
      command: the command that makes the report again.

    Returns:
      The report, for :func:`sundman.report.write` or :func:`sundman.report.render`.
    """
    if len(runs) < 2:
        raise ValueError(f"runs must have two runs or more to compare, got {list(runs)}")
    extra = settings or {}
    opened = {
        name: _open(run, (targets or {}).get(name), extra.get(name, {}))
        for name, run in runs.items()
    }
    names = list(opened)
    same, differing = _settings(opened)
    short = "\n\n".join(f"{name}: {_short_verdict(run)}." for name, run in opened.items())
    return Report(
        title=" and ".join([", ".join(names[:-1]), names[-1]]),
        summary=f"{len(names)} runs side by side.\n\n{short}",
        command=command,
        settings=same,
        made={name: run.report.made for name, run in opened.items()},
        sections=tuple(_sections(opened, differing, tables)),
        citations=tuple(
            dict.fromkeys(entry for run in opened.values() for entry in run.report.citations)
        ),
    )


def _open(
    run: str | os.PathLike[str] | Draws,
    target: Target | Posterior | GradientEstimator | Potential | None,
    settings: Mapping[str, object],
) -> _Run:
    draws = run if isinstance(run, Draws) else Draws.open(run)
    target_name = Origin.of(draws).target
    named = {"target": target_name} if target_name else {}
    known = {**named, **settings, **draws.settings}
    texts = {name: shown(value) for name, value in flat(known) if name not in _OUTCOME}
    return _Run(draws, of_run(draws, target=target), texts)


def _verdict(run: _Run) -> tuple[str, str]:
    """Its mark, and its text."""
    verdict = run.draws.verdict
    if verdict is None:
        finished = run.draws.facts.finished
        text = "It was not judged." if finished else "It is not finished, and not judged yet."
        return "○ unknown", text
    return _MARKS[verdict.status], str(verdict)


def _short_verdict(run: _Run) -> str:
    verdict = run.draws.verdict
    if verdict is None or verdict.status == "unknown":
        return "too little is known to trust it"
    if verdict.status == "good":
        return "no reason was found to distrust it"
    return f"not to be trusted yet ({', '.join(dict.fromkeys(r.check for r in verdict.reasons))})"


def _settings(runs: Mapping[str, _Run]) -> tuple[dict[str, object], list[list[str]]]:
    """The settings that all runs share, and rows of those in which they differ."""
    names = dict.fromkeys(name for run in runs.values() for name in run.settings)
    same: dict[str, object] = {}
    differing = []
    for name in sorted(names):
        values = [run.settings.get(name, "–") for run in runs.values()]
        if len(set(values)) == 1 or set(values) <= _UNSET:
            same[name] = values[0]
        else:
            differing.append([name, *values])
    return same, differing


def _sections(
    runs: Mapping[str, _Run], differing: list[list[str]], tables: Sequence[Table]
) -> Iterator[Section]:
    rows = [[name, *_verdict(run)] for name, run in runs.items()]
    verdicts = Table("Verdict on each run", ("run", "verdict", "why, and what to do"), rows)
    yield Section("Can they be trusted?", tables=[verdicts])
    if tables:
        yield Section("Scores", tables=tables)
    if differing:
        table = Table("Settings", ("setting", *runs), differing)
        yield Section("Where they differ", "All other settings are the same.", [table])
    else:
        yield Section("Where they differ", "Every setting that is recorded is the same.")
    yield Section(
        "Diagnosis",
        "✓ is good, ◐ is to be looked into, ✗ is bad; the reports of the runs say why.",
        [_joined(runs, _DIAGNOSIS, "check", _checked)],
    )
    exact = _joined(runs, _AVERAGES, "observable", _against_exact)
    if exact.rows:
        text = "In brackets: off the exact value by so many standard errors."
        yield Section("Averages beside the exact values", text, [exact])
    yield from _figures(runs)


def _checked(row: Sequence[str]) -> str:
    """A check of a diagnosis in one cell: its mark and its value."""
    _, value, verdict, _ = row
    return f"{verdict[0]} {value or verdict[2:]}" if verdict else value


def _against_exact(row: Sequence[str]) -> str:
    """An average in one cell."""
    _, _, measured, error, off = row
    return f"{measured} ± {error} ({off})"


def _joined(
    runs: Mapping[str, _Run], title: str, first: str, cell: Callable[[Sequence[str]], str]
) -> Table:
    """The tables of this title of all runs as one: a row for each of their rows, a column a run."""
    by_run = {
        name: {
            row[0]: cell(row)
            for section in run.report.sections
            for table in section.tables
            if table.title == title
            for row in table.rows
        }
        for name, run in runs.items()
    }
    names = dict.fromkeys(row for rows in by_run.values() for row in rows)
    rows = [[name, *(rows.get(name, "–") or "–" for rows in by_run.values())] for name in names]
    return Table(title, (first, *runs), rows)


def _figures(runs: Mapping[str, _Run]) -> Iterator[Section]:
    """A section for each kind of figure, with that of each run which has it."""
    by_title: dict[str, list[Figure]] = {}
    for name, run in runs.items():
        for section in run.report.sections:
            for figure in section.figures:
                titled = replace(figure, title=f"{name}.")
                by_title.setdefault(figure.title.rstrip("."), []).append(titled)
    for title, figures in by_title.items():
        yield Section(title, "Each figure has axes of its own.", figures=figures)
