"""An experiment by its name: run, or gone on with, and its result written down as JSON."""

from __future__ import annotations

import base64
import importlib
import json
import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import jax

import sundman
from studies.sa_sgld.experiment import (
    SCALES,
    Console,
    Findings,
    Numbers,
    ResultCache,
    Task,
    to_json,
    write_text,
)
from sundman import check
from sundman.report.model import Figure, Report, Section, Table, Verdict

# By name: an experiment that draws needs matplotlib, which not everyone has.
_MODULES = {
    "fig-star": "star",
    "fig-muller-brown": "muller_brown",
    "table1": "table1",
    "fig-logprob": "logprob",
    "fig-robustness": "robustness",
    "theory": "theory",
    "posterior-accuracy": "posterior_accuracy",
}
NAMES = tuple(_MODULES)
# Short experiments mostly compile, which takes one core each, so they are run beside each other.
# The longest come first; the curves are made from the chains of the table.
_BESIDE = (
    ("table1", "fig-logprob"),
    ("theory",),
    ("posterior-accuracy",),
    ("fig-star",),
    ("fig-robustness",),
    ("fig-muller-brown",),
)
_CONFIG = (
    "jax_enable_compilation_cache",
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)
PAPER = """@article{rajpal2025adaptive,
  title = {Adaptive Stepsizing for Stochastic Gradient {Langevin} Dynamics in {Bayesian} Neural
           Networks},
  author = {Rajpal, Rajit and Leimkuhler, Benedict and Jiang, Yuanhao},
  journal = {arXiv preprint arXiv:2511.11666},
  year = {2025}
}"""


@dataclass(frozen=True)
class Result:
    """One experiment at one scale and seed.

    Attributes:
      name: which experiment.
      scale: its budget.
      seed: the first seed.
      settings: every setting, by name.
      numbers: everything measured, as JSON has it.
      verdicts: the paper's claims, one by one.
      figures: pictures.
      tables: the numbers in rows.
      wall_seconds: how long it took, in one go or in several.
      version: of sundman.
      date: when it was made.
      command: what makes it again.
    """

    name: str
    scale: str
    seed: int
    settings: Numbers
    numbers: Numbers
    verdicts: Sequence[Verdict] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    wall_seconds: float = 0.0
    version: str = ""
    date: str = ""
    command: str = ""
    citations: Sequence[str] = field(default=(PAPER,))

    def to_json(self, *, pictures: bool = True) -> str:
        """All of it as text; without ``pictures`` these are named by file and not contained."""
        content = {name: getattr(self, name) for name in self.__dataclass_fields__}
        content["verdicts"] = [asdict(verdict) for verdict in self.verdicts]
        content["tables"] = [asdict(table) for table in self.tables]
        content["figures"] = [
            {
                "title": figure.title,
                "alt": figure.alt,
                "caption": figure.caption,
                "file": self.file_of(i),
                **({"png": base64.b64encode(figure.png).decode()} if pictures else {}),
            }
            for i, figure in enumerate(self.figures)
        ]
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, directory: str | Path | None = None) -> Result:
        """The result that ``to_json`` wrote; pictures it only names are read from ``directory``."""
        content = json.loads(text)

        def picture(entry: dict[str, str]) -> bytes:
            if "png" in entry:
                return base64.b64decode(entry["png"])
            path = None if directory is None else Path(directory) / entry["file"]
            return path.read_bytes() if path is not None and path.is_file() else b""

        content["figures"] = tuple(
            Figure(entry["title"], entry["alt"], picture(entry), entry["caption"])
            for entry in content["figures"]
        )
        content["verdicts"] = tuple(Verdict(**entry) for entry in content["verdicts"])
        content["tables"] = tuple(Table(**entry) for entry in content["tables"])
        content["citations"] = tuple(content["citations"])
        return cls(**content)

    @property
    def stem(self) -> str:
        """How its files are called; a result of another seed than 0 has its seed in the name."""
        return f"{self.name}-{self.scale}" + (f"-seed-{self.seed}" if self.seed else "")

    def file_of(self, number: int) -> str:
        """The file name of a figure."""
        return f"{self.stem}-{number + 1}.png"

    def write(self, directory: str | Path) -> Path:
        """Write the JSON file and the pictures; the former's path."""
        where = Path(directory)
        where.mkdir(parents=True, exist_ok=True)
        for i, figure in enumerate(self.figures):
            (where / self.file_of(i)).write_bytes(figure.png)
        path = where / f"{self.stem}.json"
        write_text(path, self.to_json(pictures=False))
        return path

    @classmethod
    def read(cls, path: str | Path) -> Result:
        """A result that was written, with its pictures."""
        return cls.from_json(Path(path).read_text(), Path(path).parent)

    def report(self) -> Report:
        """The result as a report, to be written as a page."""
        counts = {
            outcome: sum(verdict.outcome == outcome for verdict in self.verdicts)
            for outcome in ("reproduces", "partly", "does not reproduce", "not tested")
        }
        outcomes = ", ".join(f"{number} {outcome}" for outcome, number in counts.items() if number)
        return Report(
            title=f"{self.name}, scale {self.scale}",
            summary=f"{len(self.verdicts)} claims examined: {outcomes}." if outcomes else "",
            command=self.command,
            settings=self.settings,
            made={
                "version": self.version,
                "date": self.date,
                "seed": self.seed,
                "wall seconds": round(self.wall_seconds, 1),
            },
            verdicts=self.verdicts,
            sections=[
                *(Section(table.title, tables=[table]) for table in self.tables),
                *(Section(figure.title, figures=[figure]) for figure in self.figures),
            ],
            citations=self.citations,
        )


def run(
    name: str,
    *,
    scale: str = "quick",
    seed: int = 0,
    directory: str | Path | None = None,
    data: str | Path | None = None,
    console: Console | None = None,
    rows: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
) -> Result:
    """Run an experiment and return its result; the same seed gives the same numbers.

    Args:
      name: one of ``NAMES``; or ``"all"``, which runs each and returns them joined.
      scale: ``"quick"``, ``"standard"`` or ``"paper"``.
      seed: of everything random.
      directory: where the result is written, with its runs and its chains; what is
        there already is not done again. None: nothing is kept.
      data: the directory of MNIST; None to look for it, ``"digits"`` for scikit-learn's digits.
      console: told of every run that is begun.
      rows: run only these rows of the table; the result has those that are there.
      seeds: run only these seeds.

    Returns:
      The result, with a verdict for each claim.
    """
    check.choice("name", name, (*NAMES, "all"))
    check.choice("scale", scale, tuple(SCALES))
    check.count("seed", seed, least=0)
    if directory is None:
        with tempfile.TemporaryDirectory() as temporary:
            return run(
                name,
                scale=scale,
                seed=seed,
                directory=temporary,
                data=data,
                console=console,
                rows=rows,
                seeds=seeds,
            )
    where = Path(directory).expanduser().absolute()
    task = Task(ResultCache(where, scale, console), SCALES[scale], seed, data, rows, seeds)
    if name != "all":
        return _one(name, task)
    if scale == "quick" and (processes := min(len(_BESIDE), os.cpu_count() or 1)) > 1:
        return joined(_all_in_processes(task, processes))
    return joined([_one(each, task) for each in NAMES])


def _one(name: str, task: Task) -> Result:
    began = time.perf_counter()
    task = replace(task, cache=replace(task.cache, earlier_seconds={}))
    module = importlib.import_module(f"studies.sa_sgld.{_MODULES[name]}")
    findings: Findings = module.run(task)
    scale = task.cache.scale
    options = f" --seed {task.seed}" if task.seed else ""
    for option, values in (("--rows", task.rows), ("--seeds", task.seeds)):
        if values is not None:
            options += f" {option} {' '.join(map(str, values))}"
    result = Result(
        name=name,
        scale=scale,
        seed=task.seed,
        settings=to_json(findings.settings),
        numbers=to_json(findings.numbers),
        verdicts=tuple(findings.verdicts),
        figures=tuple(findings.figures),
        tables=tuple(findings.tables),
        wall_seconds=time.perf_counter() - began + sum(task.cache.earlier_seconds.values()),
        version=sundman.__version__,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=f"python -m studies.sa_sgld {name} --scale {scale}{options}",
    )
    result.write(task.cache.directory)
    return result


def _configure(values: dict[str, object]) -> None:
    """The compilation cache of this process is that of the one which began it."""
    warnings.filterwarnings("ignore", message="Error .* persistent compilation cache entry")
    for name, value in values.items():
        jax.config.update(name, value)


def _several(names: Sequence[str], task: Task) -> list[Result]:
    """Experiments one after the other, in a process of their own."""
    return [_one(name, task) for name in names]


def _all_in_processes(task: Task, processes: int) -> list[Result]:
    """Every experiment; some at the same time, silently, told of when they are done."""
    console, silent = task.cache.console, replace(task, cache=replace(task.cache, console=None))
    done: dict[str, Result] = {}
    spawned = multiprocessing.get_context("spawn")
    config = {name: getattr(jax.config, name) for name in _CONFIG}
    with ProcessPoolExecutor(processes, spawned, _configure, (config,)) as pool:
        futures = [pool.submit(_several, names, silent) for names in _BESIDE]
        try:
            for future in as_completed(futures):
                for result in future.result():
                    done[result.name] = result
                    if console is not None:
                        seconds = f"{result.wall_seconds:.0f} s"
                        console.print(f"{task.cache.scale} {result.name}: done, {seconds}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [done[name] for name in NAMES]


def joined(results: Sequence[Result]) -> Result:
    """Several results as one, named ``all``: numbers and settings by experiment."""
    first = results[0]
    return replace(
        first,
        name="all",
        settings={result.name: result.settings for result in results},
        numbers={result.name: result.numbers for result in results},
        verdicts=tuple(verdict for result in results for verdict in result.verdicts),
        figures=tuple(figure for result in results for figure in result.figures),
        tables=tuple(table for result in results for table in result.tables),
        wall_seconds=sum(result.wall_seconds for result in results),
        command=first.command.replace(f" {first.name} ", " all "),
    )
