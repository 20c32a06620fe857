"""What commands show and leave behind: lines and tables, a directory, the parts of all reports.

The directory of the results has in it

    settings.toml    every setting; ``sundman COMMAND --config settings.toml`` repeats it
    runs/NAME        a run on disk for each sampler or seed
    results.json     the numbers of the table
    report.html      the report

and, of a network, predictions and what ``sundman predict`` needs:

    test-predictions.csv, split.json, preprocessing.json
"""

from __future__ import annotations

import json
import math
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich import box
from rich import table as rich_table
from rich.console import Console
from rich.text import Text

import sundman
from sundman import citations
from sundman.cli.errors import Stopped, UserError, as_user_error
from sundman.cli.settings import SETTINGS, CommandSettings, same_settings
from sundman.report import Section, Table, of_run
from sundman.run import hosts

RUNS, RESULTS, REPORT, FIGURE = "runs", "results.json", "report.html", "demo.png"
HOUSES = "houses.csv"  # the made-up table of the demo, beside its networks in digits and houses
PREDICTIONS, SPLIT = "test-predictions.csv", "split.json"
PREPROCESSING = "preprocessing.json"
_WIDTH = 120


def prepare_directory(path: Path, force: bool) -> Path:
    """An empty directory that can be written; results in it are only replaced by ``force``."""
    path = path.expanduser().absolute()
    try:
        if path.is_dir() and any(path.iterdir()):
            _clear(path, force)
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".write-test"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write to {path}: {reason}; use another --output") from None
    return path


def path_of_first(make: Callable[[], Path]) -> Path:
    """The directory that the first of several processes makes, in all of them."""
    made = hosts.on_first(make)
    return Path(hosts.texts(str(made or ""))[0])


def join_directory(path: Path, settings: CommandSettings) -> Path:
    """The directory of results of several tasks, made by the first; all have the same settings."""
    path = path.expanduser().absolute()
    if not (path / SETTINGS).is_file():
        with as_user_error():
            path.mkdir(parents=True, exist_ok=True)
            settings.write(path)
        return path
    with tempfile.TemporaryDirectory() as beside:
        settings.write(Path(beside))
        if not same_settings(path / SETTINGS, Path(beside) / SETTINGS):
            raise UserError(
                f"{path} holds results of other settings; use another --output, or the settings of "
                f"{path / SETTINGS}"
            )
    return path


def _clear(path: Path, force: bool) -> None:
    ours = {SETTINGS, RUNS, RESULTS, REPORT, PREDICTIONS, SPLIT, PREPROCESSING}
    ours |= {FIGURE, HOUSES, "digits", "houses"}
    if not force:
        raise UserError(f"{path} exists; use another --output, or --force to replace it")
    if not {entry.name for entry in path.iterdir()} <= ours:
        raise UserError(f"{path} holds files that are not results of sundman; use another --output")
    for entry in path.iterdir():
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


def first_free_directory(base: Path) -> Path:
    """``base``, or the first of base-2, base-3, ... that does not exist."""
    path, number = base, 1
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


def runs_in(path: Path) -> dict[str, Path]:
    """The runs in a directory of results, by name; or the run that ``path`` itself is."""
    if (path / "run.json").is_file():
        return {path.name: path}
    runs = sorted((path / RUNS).glob("*/run.json"))
    return {run.parent.name: run.parent for run in runs}


def write_results(path: Path, results: Mapping[str, object]) -> None:
    """The numbers as JSON; one that is not finite, which JSON does not know, is null."""
    text = json.dumps(_for_json(results), indent=1, allow_nan=False)
    (path / RESULTS).write_text(text, encoding="utf-8")


def _for_json(value: object) -> object:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {key: _for_json(each) for key, each in value.items()}
    if isinstance(value, Sequence):
        return [_for_json(each) for each in value]
    number = float(value)  # type: ignore[arg-type]  # a number of NumPy or JAX
    return number if math.isfinite(number) else None


def make_writable(page: Path, force: bool) -> None:
    """Make sure that a file can be written; one that exists is only replaced by ``force``."""
    if page.exists() and (page.is_dir() or not force):
        remedy = "a file" if page.is_dir() else "another --output, or --force to replace it"
        raise UserError(f"{page} exists; use {remedy}")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        page.touch()
    except OSError as error:
        raise UserError(f"cannot write {page}: {error.strerror}; use another --output") from None


@contextmanager
def resumable(path: Path | None) -> Iterator[None]:
    """Ctrl-C inside leaves a run that can be gone on with, and says how."""
    try:
        yield
    except KeyboardInterrupt:
        if path is None:
            raise
        raise Stopped(f"stopped; go on with: sundman resume {shlex.quote(str(path))}") from None


def repeat_command(command: str, path: Path) -> str:
    """The command that makes the results in a directory again."""
    return f"sundman {command} --config {shlex.quote(str(path / SETTINGS))}"


def console() -> Console:
    """The console for results: as wide as the terminal, or 120 characters where there is none.

    Of several processes, the first one speaks.
    """
    width = None if sys.stdout.isatty() else _WIDTH
    return Console(width=width, highlight=False, soft_wrap=False, quiet=not hosts.is_first())


def print_table(out: Console, table: Table) -> None:
    """Print a table of a report."""
    shown = rich_table.Table(
        title=Text(table.title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    for i, column in enumerate(table.columns):
        shown.add_column(Text(column), justify="right" if i else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row))
    out.print(shown)
    if table.caption:
        out.print(Text(table.caption))


def print_line(out: Console, text: str) -> None:
    """Print a line as it is, paths unbroken."""
    out.print(text, markup=False, soft_wrap=True)


def verdict_text(runs: Mapping[str, sundman.Draws]) -> str:
    """Whether the runs can be trusted, and what to do if not; one paragraph."""
    verdicts = {name: draws.verdict for name, draws in runs.items() if draws.verdict is not None}
    if len(verdicts) == 1:
        return str(next(iter(verdicts.values())))
    good = [name for name, verdict in verdicts.items() if verdict.ok]
    texts = [f"{name}: {verdict}" for name, verdict in verdicts.items() if name not in good]
    if not texts:
        texts = ["No reason was found to distrust these runs."]
    return " ".join(
        [*texts, *(f"{name}: {verdicts[name].ended}" for name in good if verdicts[name].ended)]
    )


def tuning_sentences(runs: Mapping[str, sundman.Draws]) -> list[str]:
    """What the samplers that tuned themselves found, a sentence each."""
    tuned = {name: draws.tuning for name, draws in runs.items() if draws.tuning is not None}
    lead = "Tuned" if len(runs) == 1 else "{name}, tuned"
    return [f"{lead.format(name=name)}: {tuning}" for name, tuning in tuned.items()]


def report_facts(seed: int, seconds: float) -> dict[str, object]:
    """Version, date, seed and wall time."""
    return {
        "sundman": sundman.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seed": seed,
        "seconds of sampling": round(seconds, 2),
    }


def report_citations(samplers: Iterable[str | sundman.Draws]) -> Sequence[str]:
    """The BibTeX entries of all samplers, by name or by their draws, each once."""
    entries = (entry for sampler in samplers for entry in citations.entries(sampler))
    return tuple(dict.fromkeys(entries))


def run_sections(runs: Mapping[str, sundman.Draws]) -> list[Section]:
    """The sections of each run's own report, under its name."""
    return [
        replace(section, title=f"{name}: {section.title}")
        for name, draws in runs.items()
        for section in of_run(draws, command="").sections
    ]
