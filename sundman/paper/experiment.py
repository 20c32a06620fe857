"""What an experiment is given and what it gives back: budget, task, findings.

``quick`` takes minutes for all experiments and ``standard`` about an hour, on two cores; ``paper``
is the published setting, some 17 minutes for each of the table's rows and seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from jax import Array

import sundman
from sundman._types import PyTree
from sundman.paper.result_cache import ResultCache
from sundman.report.model import Figure, Table, Verdict
from sundman.run.inputs import TargetLike


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
class Scale:
    """The budget of every experiment.

    Attributes:
      toy: the runs on star, Mueller-Brown and quartic.
      sweep: how many step sizes, each half of the one before.
      table: the rows of the table, and the curves made from them.
      robustness: the chains at each step of the robustness figure, and its steps h.
      path: steps of the one long path of the theory's convergence.
      ablation: whether the scales are frozen although SGLD survives with free ones.
    """

    toy: ToyBudget
    sweep: int
    table: NetworkBudget
    robustness: NetworkBudget
    steps: tuple[float, ...]
    path: int
    ablation: bool = True


_STEPS = (0.3, 0.4, 0.45, 0.5, 0.55)

SCALES = {
    "test": Scale(
        toy=ToyBudget(chains=8, steps=2_000, burn_in=100, thin=10),
        sweep=2,
        table=NetworkBudget(width=8, epochs=4, burn_in=2, thin=5, seeds=2, keep_all=True),
        robustness=NetworkBudget(width=8, epochs=2, burn_in=1, thin=5, seeds=1),
        steps=(0.2, 0.5),
        path=2_000,
    ),
    "quick": Scale(
        toy=ToyBudget(chains=64, steps=200_000, burn_in=10_000, thin=20),
        sweep=3,
        table=NetworkBudget(width=50, epochs=6, burn_in=3, thin=50, seeds=2, keep_all=True),
        robustness=NetworkBudget(width=50, epochs=4, burn_in=2, thin=50, seeds=1),
        steps=(0.1, 0.5, 0.8),
        path=500_000,
        ablation=False,
    ),
    "standard": Scale(
        toy=ToyBudget(chains=64, steps=1_000_000, burn_in=10_000, thin=50),
        sweep=4,
        table=NetworkBudget(width=400, epochs=30, burn_in=15, thin=100, seeds=5),
        robustness=NetworkBudget(width=400, epochs=10, burn_in=5, thin=100, seeds=1),
        steps=(0.1, 0.2, 0.3, 0.45, 0.5, 0.55, 0.8),
        path=2_000_000,
    ),
    "paper": Scale(
        toy=ToyBudget(chains=64, steps=4_000_000, burn_in=10_000, thin=100),
        sweep=5,
        table=NetworkBudget(width=1200, epochs=200, burn_in=100, thin=100, seeds=5),
        robustness=NetworkBudget(width=1200, epochs=40, burn_in=20, thin=100, seeds=1),
        steps=_STEPS,
        path=20_000_000,
    ),
}


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
    batch_size: int
    collect: Callable[[PyTree], PyTree]
    weighting: str
    stats: Sequence[str]
    progress: bool | None
    resume: bool


def sample(
    target: TargetLike,
    sampler: sundman.Sampler,
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
      sampler: by which sampler.
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
        draws = sundman.sample(
            target, sampler, key=key, steps=steps, burn_in=burn_in, thin=thin, store=store,
            **options,
        )  # fmt: skip
    return draws[dropped:] if dropped else draws
