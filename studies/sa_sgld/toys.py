"""Runs on targets whose expectations are known: the bias of each average, with its error.

bias = (average - exact) / |exact|
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, Self

import jax
import numpy as np

import sundman
from studies.sa_sgld import experiment
from studies.sa_sgld.experiment import Numbers, ResultCache, ToyBudget
from studies.sa_sgld.statistics import Measurement, over_seeds
from sundman import estimate, gradients, targets
from sundman.clocks import SundmanSettings

OBSERVABLES = {
    "star": ("r2", "x2y2", "outer", "U", "virial", "grad2"),
    "muller-brown": ("right", "top", "left", "U", "virial", "grad2"),
    "quartic": ("x2",),
}
CELLS = 60
Weighting = Literal["weighted", "unweighted"]


@dataclass(frozen=True)
class Toy:
    """Everything that makes one run what it is.

    Attributes:
      target: its name in :mod:`sundman.targets`.
      step: h of SGLD, or dtau of SA-SGLD if there is a ``clock``.
      budget: chains, steps, burn-in, thinning.
      clock: settings of the Sundman clock; none for a fixed step.
      temperature: T.
      sigma: standard deviation of white noise added to each gradient.
      weighting: ``"leaving"`` or ``"arriving"``.
      start: ``"exact"``, independent draws of the law, or ``"default"``, the target's own.
      seed: of everything random.
    """

    target: str
    step: float
    budget: ToyBudget
    clock: SundmanSettings = field(default_factory=SundmanSettings)
    temperature: float = 1.0
    sigma: float = 0.0
    weighting: str = "leaving"
    start: str = "exact"
    seed: int = 0


@dataclass(frozen=True)
class Average:
    """An average beside the exact expectation; ``bias`` and ``error`` are relative to it."""

    value: float
    exact: float
    bias: float
    error: float


@dataclass(frozen=True)
class ToyRun:
    """What one run gave.

    Attributes:
      mean_dt: the mean step.
      dt_1_99: the first and the last percentile of the steps.
      lost: how many chains diverged.
      weighted: the averages weighted by dt, by observable.
      unweighted: the same with equal weights.
      total_variation: the distance from the exact law over the cells of the plane, if in a plane.
    """

    mean_dt: float
    dt_1_99: tuple[float, float]
    lost: int
    weighted: dict[str, Average]
    unweighted: dict[str, Average]
    total_variation: float | None = None

    @classmethod
    def from_json(cls, numbers: Numbers) -> Self:
        """The run whose numbers ``to_json`` gave."""
        averages = {
            kind: {name: Average(**entry) for name, entry in numbers[kind].items()}
            for kind in ("weighted", "unweighted")
        }
        return cls(**{**numbers, "dt_1_99": tuple(numbers["dt_1_99"]), **averages})

    def to_json(self) -> Numbers:
        """The numbers by name, without those that there are not."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def _of(self, observable: str, kind: Weighting) -> Average:
        return (self.weighted if kind == "weighted" else self.unweighted)[observable]

    def bias(self, observable: str, kind: Weighting = "weighted") -> Measurement:
        """The relative bias of an average."""
        average = self._of(observable, kind)
        return Measurement(average.bias, average.error)

    def average(self, observable: str, kind: Weighting = "weighted") -> Measurement:
        """The average itself."""
        average = self._of(observable, kind)
        return Measurement(average.value, average.error * abs(average.exact))


def target_of(toy: Toy) -> targets.Target:
    """The target at its temperature."""
    return targets.named(toy.target, temperature=toy.temperature)


def sampler_of(toy: Toy) -> sundman.Sampler:
    """SGLD, or SA-SGLD where there is a clock."""
    if toy.clock:
        return sundman.sa_sgld(toy.step, temperature=toy.temperature, **toy.clock)
    return sundman.sgld(toy.step, toy.temperature)


def sample(toy: Toy, store: Path | None = None) -> sundman.Draws:
    """The draws, on disk if there is a ``store``; a chain that runs away is frozen and counted."""
    target, budget = target_of(toy), toy.budget
    first, second = jax.random.split(jax.random.key(toy.seed))
    init = target.start
    if toy.start == "exact":
        assert target.exact is not None
        init = target.exact(first, budget.chains)
    noisy = gradients.noisy(target.potential, toy.sigma) if toy.sigma else target
    return experiment.sample(
        noisy,
        sampler_of(toy),
        key=second,
        init=init,
        per_chain=toy.start == "exact",
        chains=budget.chains,
        steps=budget.steps,
        burn_in=budget.burn_in,
        thin=budget.thin,
        weighting=toy.weighting,
        stats=(),
        progress=False,
        store=store,
        resume=store is not None,
    )


def run(cache: ResultCache, name: str, toy: Toy, *, keep: bool = False) -> ToyRun:
    """Do a run, or read its numbers if it was done.

    Args:
      cache: the runs that are done.
      name: of this one.
      toy: its settings.
      keep: whether its draws stay on disk, for the figures.

    Returns:
      Its biases and steps.
    """
    settings = asdict(toy)

    def work() -> Numbers:
        store = cache.chain_directory(name, settings) if keep else None
        return biases(toy, sample(toy, store)).to_json()

    return ToyRun.from_json(cache.get_or_run(name, settings, work))


def draws_of(cache: ResultCache, name: str, toy: Toy) -> sundman.Draws:
    """The draws of a run that was kept; run again if they are gone."""
    store = cache.chain_directory(name, asdict(toy))
    if not (store / "run.json").is_file():
        return sample(toy)
    return sundman.Draws.open(store)


def biases(toy: Toy, draws: sundman.Draws) -> ToyRun:
    """Relative bias and error of each observable, weighted and not; steps; chains lost."""
    target = target_of(toy)
    dt = np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0]
    observed = observables_of(target, draws, OBSERVABLES[toy.target])
    low, high = np.percentile(dt, [1, 99]).tolist()
    plane = target.dim == 2
    return ToyRun(
        mean_dt=float(dt.mean()),
        dt_1_99=(low, high),
        lost=int(np.count_nonzero(draws.diverged)),
        weighted=_averages(target, observed),
        unweighted=_averages(target, equal_weights(observed)),
        total_variation=estimate.total_variation(draws, target, edges_of(target))
        if plane
        else None,
    )


def equal_weights(draws: sundman.Draws) -> sundman.Draws:
    """The draws unweighted; those of a lost chain still count for nothing."""
    return sundman.Draws(
        values=draws.values,
        weight=(np.asarray(draws.weight) > 0).astype(np.float32),
        stats=draws.stats,
        diverged_at=draws.diverged_at,
        last=None,
        settings=draws.settings,
    )


def observables_of(
    target: targets.Target, draws: sundman.Draws, names: Sequence[str]
) -> sundman.Draws:
    """The draws with the named observables in place of their positions."""

    def observe(x: jax.Array) -> dict[str, jax.Array]:
        return {name: target.observables[name](x) for name in names}

    return replace(draws, values=estimate.evaluate(draws, observe), has_position=False)


def _averages(target: targets.Target, observed: sundman.Draws) -> dict[str, Average]:
    """Average, bias and error of each observable."""
    value, error = estimate.mean(observed)
    exact = {name: float(target.truth[name]) for name in value}
    return {
        name: Average(
            value=value[name],
            exact=exact[name],
            bias=(value[name] - exact[name]) / abs(exact[name]),
            error=error[name] / abs(exact[name]),
        )
        for name in value
    }


def edges_of(target: targets.Target) -> tuple[np.ndarray, np.ndarray]:
    """The cells of the density maps."""
    assert target.window is not None
    x, y = (np.linspace(*side, CELLS + 1) for side in target.window)
    return x, y


def magnitude_difference(one: Measurement, other: Measurement) -> Measurement:
    """|one| - |other|, negative where the first bias is the smaller."""
    return Measurement(abs(one.value), one.error) - Measurement(abs(other.value), other.error)


def paired_magnitude_differences(
    target: targets.Target, one: sundman.Draws, other: sundman.Draws, names: Sequence[str]
) -> dict[str, Measurement]:
    """|bias of one| - |bias of the other| of two runs on the same noise, as shares of the truth.

    Runs of one seed have the same noise, so that much of what chance does to both is the same. The
    error is that of the mean over chains of the differences between their averages; as if the runs
    were independent it would be several times as large.

    Args:
      target: with exact values.
      one: the first run.
      other: the second one, with as many chains and the same seed.
      names: of the observables.

    Returns:
      The difference for each of them, negative where the first run is the more accurate; of the
      chains that neither run has lost.
    """
    exact = {name: float(target.truth[name]) for name in names}
    both = np.flatnonzero(~(np.asarray(one.diverged) | np.asarray(other.diverged)))

    def of_chains(draws: sundman.Draws) -> dict[str, np.ndarray]:
        observed = observables_of(target, draws, names)
        weight = np.asarray(observed.weight, np.float64)[both]
        return {
            name: np.average(np.asarray(values, np.float64)[both], axis=1, weights=weight)
            - exact[name]
            for name, values in observed.values.items()
        }

    def difference(name: str) -> Measurement:
        first, second = (np.sign(bias[name].mean()) * bias[name] for bias in biases)
        return over_seeds(((first - second) / abs(exact[name])).tolist())

    biases = (of_chains(one), of_chains(other))
    return {name: difference(name) for name in names}


def row_of(name: str, run: ToyRun, kind: Weighting, observables: Sequence[str]) -> list[str]:
    """A line of a table.

    Args:
      name: the first cell.
      run: whose numbers are shown.
      kind: weighted averages or unweighted ones.
      observables: whose biases are shown.

    Returns:
      The name, the mean step, each bias in percent with its error, total variation, chains lost.
    """
    cells = [run.bias(observable, kind) for observable in observables]
    return [
        name,
        f"{run.mean_dt:.3g}",
        *(f"{100 * b.value:+.2f} ± {100 * b.error:.2f}" for b in cells),
        f"{run.total_variation:.4f}" if kind == "weighted" else "",
        str(run.lost),
    ]


def significant(value: float, digits: int = 4) -> float:
    """A number to so many digits: steps that are matched are given as they are printed."""
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
