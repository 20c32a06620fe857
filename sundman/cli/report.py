"""``sundman report``: the page about one run, or about several side by side.

Beside other runs stand the settings and the scores of the commands that made them.
"""

from __future__ import annotations

import json
import math
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from sundman._types import Json
from sundman.cli import options
from sundman.cli.bnn import repeat
from sundman.cli.errors import UserError, as_user_error
from sundman.cli.output import REPORT, RESULTS, console, make_writable, print_line, runs_in
from sundman.cli.runs import made_by_command, stored_target
from sundman.cli.settings import SETTINGS
from sundman.report import Report, Table, of_run, of_runs, write

_COMPARED = "compared.html"
_OF_SAMPLERS = "settings"  # the table of a settings file that the runs know themselves


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="What --output was, or the store= of a run in Python; several are compared.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        options.output(
            "--output", "-o", text="The file. [default: RUN/report.html; of several, compared.html]"
        ),
    ] = None,
    force: options.Force = False,
    no_cache: options.NoCache = False,
) -> None:
    """Write the report of a run, or of several side by side: one page that needs no other file.

    For example:

    sundman report star --output star.html

    sundman report small large --output both.html
    """
    options.use_compilation_cache(not no_cache)
    for each in runs[1:]:
        made_by_command(each)
    run = runs[0]
    page = run / REPORT if len(runs) == 1 else Path(_COMPARED)
    if output is not None or len(runs) > 1:
        page = page if output is None else output.expanduser()
        make_writable(page, force)
    if len(runs) > 1:
        _write_compared(runs, page)
        return
    if made_by_command(run):
        if not (run / RESULTS).is_file():
            raise UserError(f"{run} is not finished; go on with: sundman resume {run}")
        repeat(run.expanduser().absolute(), page)
        return
    with as_user_error():
        write(of_run(run, target=stored_target(run)), page)
    print_line(console(), f"Report: {page}")


def _write_compared(runs: list[Path], page: Path) -> None:
    try:
        with as_user_error():
            write(_compared(runs, page), page)
    except BaseException:
        if page.stat().st_size == 0:  # made to see whether it can be written
            page.unlink()
        raise
    print_line(console(), f"Report: {page}")


def _compared(paths: Sequence[Path], page: Path) -> Report:
    """The report of runs side by side, which will be written to ``page``.

    The paths are those of stored runs, or of results of a command, all of whose runs are compared.
    """
    labels = _labels(paths)
    runs: dict[str, Path] = {}
    settings: dict[str, Mapping[str, object]] = {}
    for label, path in labels.items():
        of_path = runs_in(path)
        if not of_path:
            raise UserError(f"{path} has no run yet; go on with: sundman resume {path}")
        for name, run in of_path.items():
            full = label if len(of_path) == 1 else f"{label}/{name}"
            runs[full], settings[full] = run, _settings(path)
    targets = {name: stored_target(run) for name, run in runs.items()}
    return of_runs(
        runs,
        targets={name: target for name, target in targets.items() if target is not None},
        settings=settings,
        tables=_scores(labels),
        command=shlex.join(["sundman", "report", *map(str, paths), "--output", str(page)]),
    )


def _labels(paths: Sequence[Path]) -> dict[str, Path]:
    """The directories by short names: their own, or as they were given if two have the same."""
    resolved = [path.expanduser().resolve() for path in paths]
    for i, path in enumerate(resolved):
        if path in resolved[:i]:
            raise UserError(f"{paths[i]} is given twice; give two runs or more to compare")
    names = [path.name for path in resolved]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    return dict(zip(names, paths, strict=True))


def _settings(path: Path) -> dict[str, object]:
    """The settings of the command whose results are there; none for a run made in Python."""
    file = path / SETTINGS
    if not file.is_file():
        return {}
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{file} cannot be read: {error}; restore it, or leave it out") from None
    return {name: value for name, value in settings.items() if name != _OF_SAMPLERS}


def _results(path: Path) -> Mapping[str, Json]:
    file = path / RESULTS
    if not file.is_file():
        return {}
    try:
        results = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{file} cannot be read: {error}; write it anew with sundman resume"
        ) from None
    return results if isinstance(results, dict) else {}


def _scores(labels: Mapping[str, Path]) -> list[Table]:
    """The test scores of networks, averaged over seeds; no table if there are none."""
    scores: dict[str, dict[str, str]] = {}
    for label, path in labels.items():
        results = _results(path)
        means, halves = results.get("mean", {}), results.get("half_interval_95", {})
        if isinstance(means, dict) and isinstance(halves, dict):
            scores[label] = {key: _score(each, halves.get(key)) for key, each in means.items()}
    names = dict.fromkeys(key for own in scores.values() for key in own)
    if not names:
        return []
    columns = ("score", *(label for label, own in scores.items() if own))
    rows = [[key, *(own.get(key, "–") for own in scores.values() if own)] for key in names]
    caption = "With several seeds: the mean, and half of its 95% interval."
    return [Table("Test scores", columns, rows, caption)]


def _score(mean: Json, half: Json) -> str:
    if not isinstance(mean, int | float):
        return "–"
    if isinstance(half, int | float) and math.isfinite(half):
        return f"{mean:.4g} ± {half:.2g}"
    return f"{mean:.4g}"
