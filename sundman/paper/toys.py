"""Runs on targets whose expectations are known: the bias of each average, with its error.

bias = (found - exact) / |exact|
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import jax
import numpy as np

import sundman
from sundman import estimate, gradients, targets
from sundman.paper import quiet
from sundman.paper.measured import Measured
from sundman.paper.scales import ToyBudget
from sundman.paper.units import Bench, Numbers

OBSERVABLES = {
    "star": ("r2", "x2y2", "outer", "U", "virial", "grad2"),
    "muller-brown": ("right", "top", "left", "U", "virial", "grad2"),
    "quartic": ("x2",),
}
CELLS = 60


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
    clock: dict[str, Any] = field(default_factory=dict)
    temperature: float = 1.0
    sigma: float = 0.0
    weighting: str = "leaving"
    start: str = "exact"
    seed: int = 0


def target_of(toy: Toy) -> targets.Target:
    """The target at its temperature."""
    return targets.named(toy.target, temperature=toy.temperature)


def sampler_of(toy: Toy) -> sundman.Sampler:
    """SGLD, or SA-SGLD where there is a clock."""
    if toy.clock:
        return sundman.sa_sgld(toy.step, temperature=toy.temperature, **toy.clock)
    return sundman.sgld(toy.step, toy.temperature)


def sample(toy: Toy, **options: Any) -> sundman.Draws:
    """The draws; a chain that runs away is frozen and counted."""
    target, budget = target_of(toy), toy.budget
    first, second = jax.random.split(jax.random.key(toy.seed))
    init = target.start
    if toy.start == "exact":
        assert target.exact is not None
        init = target.exact(first, budget.chains)
    noisy = gradients.noisy(target.potential, toy.sigma) if toy.sigma else target
    return quiet.sample(
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
        **options,
    )


def run(bench: Bench, name: str, toy: Toy, *, keep: bool = False) -> Numbers:
    """The unit of one run; with ``keep`` its draws stay on disk, for the figures."""
    settings = asdict(toy)

    def work() -> Numbers:
        disk = {"store": bench.store(name, settings), "resume": True} if keep else {}
        return biases(toy, sample(toy, **disk))

    numbers = bench.unit(name, settings, work)
    assert numbers is not None  # a bench that only reads is for the networks
    return numbers


def draws_of(bench: Bench, name: str, toy: Toy) -> sundman.Draws:
    """The draws of a run that was kept; run again if they are gone."""
    store = bench.store(name, asdict(toy))
    if not (store / "run.json").is_file():
        return sample(toy)
    return sundman.Draws.open(store)


def biases(toy: Toy, draws: sundman.Draws) -> Numbers:
    """Relative bias and error of each observable, weighted and not; steps; chains lost."""
    target = target_of(toy)
    dt = np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0]
    observed = observables_of(target, draws, OBSERVABLES[toy.target])
    found: Numbers = {
        "mean_dt": float(dt.mean()),
        "dt_1_99": np.percentile(dt, [1, 99]).tolist(),
        "lost": int(np.count_nonzero(draws.diverged >= 0)),
        "weighted": _means(target, observed),
        "unweighted": _means(target, equal_weights(observed)),
    }
    if target.dim == 2:
        edges = edges_of(target)
        found["total_variation"] = estimate.total_variation(draws, target, edges)
    return found


def equal_weights(draws: sundman.Draws) -> sundman.Draws:
    """The draws unweighted; those of a lost chain still count for nothing."""
    return sundman.Draws(
        values=draws.values,
        weight=(np.asarray(draws.weight) > 0).astype(np.float32),
        stats=draws.stats,
        diverged=draws.diverged,
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


def _means(target: targets.Target, observed: sundman.Draws) -> Numbers:
    """Average, bias and error of each observable."""
    value, error = estimate.mean(observed)
    exact = {name: float(target.truth[name]) for name in value}
    return {
        name: {
            "value": value[name],
            "exact": exact[name],
            "bias": (value[name] - exact[name]) / abs(exact[name]),
            "error": error[name] / abs(exact[name]),
        }
        for name in value
    }


def edges_of(target: targets.Target) -> tuple[np.ndarray, np.ndarray]:
    """The cells of the density maps."""
    assert target.window is not None
    x, y = (np.linspace(*side, CELLS + 1) for side in target.window)
    return x, y


def bias(numbers: Numbers, observable: str, kind: str = "weighted") -> Measured:
    """The relative bias of an average."""
    found = numbers[kind][observable]
    return Measured(found["bias"], found["error"])


def found(numbers: Numbers, observable: str, kind: str = "weighted") -> Measured:
    """The average itself."""
    entry = numbers[kind][observable]
    return Measured(entry["value"], entry["error"] * abs(entry["exact"]))


def magnitude_difference(one: Measured, other: Measured) -> Measured:
    """|one| - |other|, negative where the first bias is the smaller."""
    return Measured(abs(one.value), one.error) - Measured(abs(other.value), other.error)


def row_of(name: str, numbers: Numbers, kind: str, observables: Sequence[str]) -> list[str]:
    """A line of a table: mean step, and each bias in percent with its error."""
    cells = [bias(numbers, observable, kind) for observable in observables]
    return [
        name,
        f"{numbers['mean_dt']:.3g}",
        *(f"{100 * b.value:+.2f} ± {100 * b.error:.2f}" for b in cells),
        f"{numbers['total_variation']:.4f}" if kind == "weighted" else "",
        str(numbers["lost"]),
    ]


def significant(value: float, digits: int = 4) -> float:
    """A number to so many digits: steps that are matched are given as they are printed."""
    return round(value, digits - 1 - math.floor(math.log10(abs(value))))
