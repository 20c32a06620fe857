"""``sundman report A B``: stored runs side by side, with the settings and scores of commands."""

from __future__ import annotations

import json
import math
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sundman._types import Json
from sundman.cli.errors import UserError
from sundman.cli.output import RESULTS, runs_in
from sundman.cli.settings import SETTINGS
from sundman.report import Report, Table, of_runs
from sundman.run.inputs import TargetLike

COMPARED = "compared.html"
_OF_SAMPLERS = "settings"  # the table of a settings file that the runs know themselves


def compare(
    paths: Sequence[Path], page: Path, target_of: Callable[[Path], TargetLike | None]
) -> Report:
    """The report of the runs in these directories side by side.

    Args:
      paths: of stored runs, or of the results of a command, all of whose runs are compared.
      page: the file that it will be written to, for the command that makes it again.
      target_of: what was sampled in a stored run, if it can tell.

    Returns:
      The report.
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
    targets = {name: target_of(run) for name, run in runs.items()}
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
