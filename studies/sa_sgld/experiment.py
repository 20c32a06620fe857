"""What an experiment is given and what it gives back: budget, runs that are done, task, findings.

``quick`` takes minutes for all experiments and ``standard`` about an hour, on two cores; ``paper``
is the published setting, some 17 minutes for each of the table's rows and seeds.

The numbers of each run are in a small JSON file, so that no run is done twice. A run is one row,
seed or step size of an experiment. Its file holds the settings it was made with: if they are those
asked for, the numbers are read, else the run is done (again).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack

from jax import Array

import sundman
from sundman.report.model import Figure, Table, Verdict


@dataclass(frozen=True)
class NetworkBudget:
    """A network's size and length of its chains.

    Attributes:
      width: of both hidden layers.
      epochs: in total.
      burn_in: epochs before the first draw.
      thin: steps between draws.
      seeds: chains of each row.
      keep_all: whether the draws of the burn-in are made too, and then left out; one loop less to
        compile, which takes most of a short run.
    """

    width: int
    epochs: int
    burn_in: int
    thin: int
    seeds: int
    keep_all: bool = False


@dataclass(frozen=True)
class ToyBudget:
    """Chains, steps after the burn-in, and steps between draws, on a target in the plane."""

    chains: int
    steps: int
    burn_in: int
    thin: int


@dataclass(frozen=True)
class AccuracyBudget:
    """Chains whose predictive is compared with the true one.

    Attributes:
      budgets: (gradients, chains that share them), the last the longest.
      chains: of each row.
      thin: steps between draws, of a minibatch sampler.
      seeds: repetitions of a row.
      rows: the rows by name; None: all.
    """

    budgets: tuple[tuple[int, int], ...]
    chains: int
    thin: int
    seeds: int
    rows: tuple[str, ...] | None = None

    @property
    def gradients_of_chain(self) -> int:
        """How long a chain is."""
        return max(gradients // chains for gradients, chains in self.budgets)


@dataclass(frozen=True)
class Scale:
    """The budget of every experiment.

    Attributes:
      toy: the runs on star, Mueller-Brown and quartic.
      sweep: how many step sizes, each half of the one before.
      table: the rows of the table, and the curves made from them.
      robustness: the chains at each step of the robustness figure, and its steps h.
      path: steps of the one long path of the theory's convergence.
      accuracy: the chains that are compared with the true posterior.
      ablation: whether the scales are frozen although SGLD survives with free ones.
    """

    toy: ToyBudget
    sweep: int
    table: NetworkBudget
    robustness: NetworkBudget
    steps: tuple[float, ...]
    path: int
    accuracy: AccuracyBudget
    ablation: bool = True


_ACCURACY = AccuracyBudget(((5_000, 1), (20_000, 1), (100_000, 4)), chains=4, thin=20, seeds=3)
_STEPS = (0.3, 0.4, 0.45, 0.5, 0.55)

SCALES = {
    "test": Scale(
        toy=ToyBudget(chains=8, steps=2_000, burn_in=100, thin=10),
        sweep=2,
        table=NetworkBudget(width=8, epochs=4, burn_in=2, thin=5, seeds=2, keep_all=True),
        robustness=NetworkBudget(width=8, epochs=2, burn_in=1, thin=5, seeds=1),
        steps=(0.2, 0.5),
        path=2_000,
        accuracy=AccuracyBudget(
            ((100, 1), (200, 1), (600, 2)),
            chains=2,
            thin=20,
            seeds=1,
            rows=("SGLD", "SA-SGLD", "SGLD, mean step of SA-SGLD", "low-rank BAOAB", "auto"),
        ),
    ),
    "quick": Scale(
        toy=ToyBudget(chains=64, steps=200_000, burn_in=10_000, thin=20),
        sweep=3,
        table=NetworkBudget(width=50, epochs=6, burn_in=3, thin=50, seeds=2, keep_all=True),
        robustness=NetworkBudget(width=50, epochs=4, burn_in=2, thin=50, seeds=1),
        steps=(0.1, 0.5, 0.8),
        path=500_000,
        accuracy=AccuracyBudget(
            ((2_000, 1), (5_000, 1), (20_000, 4)),
            chains=4,
            thin=20,
            seeds=1,
            rows=("SGLD", "SA-SGLD", "SGLD, mean step of SA-SGLD"),
        ),
        ablation=False,
    ),
    "standard": Scale(
        toy=ToyBudget(chains=64, steps=1_000_000, burn_in=10_000, thin=50),
        sweep=4,
        table=NetworkBudget(width=400, epochs=30, burn_in=15, thin=100, seeds=5),
        robustness=NetworkBudget(width=400, epochs=10, burn_in=5, thin=100, seeds=1),
        steps=(0.1, 0.2, 0.3, 0.45, 0.5, 0.55, 0.8),
        path=2_000_000,
        accuracy=_ACCURACY,
    ),
    "paper": Scale(
        toy=ToyBudget(chains=256, steps=4_000_000, burn_in=10_000, thin=400),
        sweep=5,
        table=NetworkBudget(width=1200, epochs=200, burn_in=100, thin=100, seeds=5),
        robustness=NetworkBudget(width=1200, epochs=40, burn_in=20, thin=100, seeds=2),
        steps=_STEPS,
        path=20_000_000,
        accuracy=_ACCURACY,
    ),
}


PyTree: TypeAlias = Any
Numbers: TypeAlias = dict[str, Any]
"""Numbers by name, nested as JSON has them."""


class Console(Protocol):
    """What a line of progress is printed on, such as ``rich.console.Console``."""

    def print(self, *objects: object) -> None:
        """Print a line."""
        ...


def to_json(values: Mapping[str, object]) -> Numbers:
    """``values`` as JSON gives them back, so that they compare equal after a round trip.

    JSON has no infinities: what is not finite becomes None.
    """
    return {str(key): _item_to_json(item) for key, item in values.items()}


def _item_to_json(value: object) -> object:
    if isinstance(value, Mapping):
        return to_json(value)
    if isinstance(value, (list, tuple)):
        return [_item_to_json(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return json.loads(json.dumps(value))


def digest(settings: Mapping[str, object]) -> str:
    """Eight letters that tell settings apart."""
    text = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def write_text(path: Path, text: str) -> None:
    """Write a whole file or none, in a directory that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(path)


@dataclass(frozen=True)
class ResultCache:
    """The runs of one scale that are done, in a directory.

    Attributes:
      directory: holds the numbers and the chains of all experiments and scales.
      scale: the scale's name.
      console: told of each run that is begun, if there is one.
      earlier_seconds: seconds that the runs took which were there already, by name.
    """

    directory: Path
    scale: str
    console: Console | None = None
    earlier_seconds: dict[str, float] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """The file of a run's numbers."""
        return self.directory / "units" / self.scale / f"{name}.json"

    def chain_directory(self, name: str, settings: Mapping[str, object]) -> Path:
        """The directory of a chain with these settings."""
        return self.directory / "chains" / self.scale / f"{name}-{digest(to_json(settings))}"

    def get(self, name: str, settings: Mapping[str, object]) -> Numbers | None:
        """The numbers of a run that was done with these settings, or None."""
        path = self.path(name)
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text())
        except json.JSONDecodeError:
            return None
        if content.get("settings") != to_json(settings):
            return None
        self.earlier_seconds.setdefault(name, content.get("seconds", 0.0))
        return content["numbers"]

    def get_or_run(
        self,
        name: str,
        settings: Mapping[str, object],
        work: Callable[[], Mapping[str, object]],
    ) -> Numbers:
        """The numbers of a run, read if it was done and else made.

        Args:
          name: of the run, such as ``"fig-star/SGLD"``.
          settings: everything that makes the run what it is.
          work: does the run and returns its numbers.

        Returns:
          The numbers, as JSON has them.
        """
        numbers = self.get(name, settings)
        if numbers is not None:
            return numbers
        if self.console is not None:
            self.console.print(f"{self.scale} {name} ...")
        began = time.perf_counter()
        numbers = to_json(work())
        seconds = round(time.perf_counter() - began, 2)
        self.earlier_seconds[name] = 0.0  # it counts in the time of this run
        content = {
            "name": name, "seconds": seconds, "settings": to_json(settings), "numbers": numbers,
        }  # fmt: skip
        write_text(self.path(name), json.dumps(content, indent=1) + "\n")
        return numbers


@dataclass(frozen=True)
class Task:
    """What an experiment is given.

    Attributes:
      cache: the runs that are done already, and where the others are written.
      scale: its budget.
      seed: the first seed.
      data: the directory of MNIST, None to look for it, or ``"digits"``.
      rows: which rows to run, of an experiment that has rows; None: all.
      seeds: which seeds to run; None: all of the budget.
    """

    cache: ResultCache
    scale: Scale
    seed: int = 0
    data: str | Path | None = None
    rows: Sequence[str] | None = None
    seeds: Sequence[int] | None = None


@dataclass(frozen=True)
class Findings:
    """What an experiment gives back: the part of a result that is its own."""

    settings: Mapping[str, object]
    numbers: Mapping[str, object]
    verdicts: Sequence[Verdict] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


class SampleOptions(TypedDict, total=False):
    """The options of :func:`sundman.sample` that experiments use as they are."""

    init: PyTree
    per_chain: bool | None
    chains: int
    batch_size: int | None
    collect: Callable[[PyTree], PyTree]
    weighting: str
    stats: Sequence[str]
    progress: bool | None
    resume: bool


def sample(
    target: Any,
    sampler: sundman.Sampler | None,
    *,
    key: Array,
    steps: int,
    burn_in: int = 0,
    thin: int = 1,
    store: Path | None = None,
    **options: Unpack[SampleOptions],
) -> sundman.Draws:
    """As :func:`sundman.sample`, without warnings and with one loop to compile.

    A chain that diverged is told of in the draws alone. Compiling takes most of a short run, and
    burn-in is a loop of its own: in memory the draws of the burn-in are made like all others, and
    dropped.

    Args:
      target: what to sample.
      sampler: by which sampler; None tunes itself.
      key: a JAX random key.
      steps: after the burn-in.
      burn_in: steps made first and not kept.
      thin: steps between draws.
      store: the directory to write to; None keeps the draws in memory.
      **options: as those of :func:`sundman.sample`.

    Returns:
      The draws after the burn-in.
    """
    dropped = 0
    if store is None and burn_in:
        dropped, burn_in = divmod(burn_in, thin)
        steps += dropped * thin
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.DivergenceWarning)
        warnings.simplefilter("ignore", sundman.TrustWarning)
        draws = sundman.sample(
            target, sampler, key=key, steps=steps, burn_in=burn_in, thin=thin, store=store,
            **options,
        )  # fmt: skip
    return draws[dropped:] if dropped else draws
