"""The check every law test uses: averages of a run against what they must be.

An average passes when it lies within ``SIGMAS`` of its own Monte Carlo standard errors, plus an
allowance for discretisation bias where no exact value of the biased average is known. Each test
that gives an allowance says where it comes from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

import sundman
from sundman.estimate import Estimate
from sundman.targets import Target

SIGMAS = 5.0
CHAINS = 64

Floats = NDArray[np.float64]
Observable = Callable[[Floats], Floats]


class Expected(NamedTuple):
    """The value an average must have, and how far bias or its own error may move it."""

    value: Any
    allowance: Any = 0.0


def run(
    target: Target,
    sampler: sundman.Sampler,
    observables: Mapping[str, Observable],
    *,
    steps: int,
    seed: int,
    chains: int = CHAINS,
    thin: int = 10,
    drop: int = 0,
    sigma: float = 0.0,
    weighting: str = "leaving",
) -> sundman.Draws:
    """Chains from exact draws of the target, their values the observables.

    An observable is a function of positions, axes (chain, draw, coordinate), in numpy: that
    compiles nothing. ``sigma`` is the standard deviation of the gradient noise. ``drop`` first
    steps are not kept: momenta start at rest, so a kinetic chain needs a while although its
    positions do not.
    """
    first, key = jax.random.split(jax.random.key(seed))
    draws = sundman.sample(
        sundman.gradients.noisy(target.potential, sigma) if sigma else target,
        sampler,
        init=target.exact(first, chains),
        per_chain=True,
        key=key,
        chains=chains,
        steps=drop + steps,
        thin=thin,
        weighting=weighting,
    )
    return observe(_without_first(draws, drop // thin), observables)


def _without_first(draws: sundman.Draws, drop: int) -> sundman.Draws:
    values, stats = jax.tree.map(lambda leaf: leaf[:, drop:], (draws.values, draws.stats))
    return dataclasses.replace(draws, values=values, stats=stats, weight=draws.weight[:, drop:])


def observe(draws: sundman.Draws, observables: Mapping[str, Observable]) -> sundman.Draws:
    """The draws with their positions replaced by functions of them."""
    position = np.asarray(draws.position, np.float64)
    values = {name: f(position) for name, f in observables.items()}
    return dataclasses.replace(draws, values=values, has_position=False)


def average(draws: sundman.Draws, name: str) -> Estimate:
    """Weighted mean of one observable, with its standard error."""
    return sundman.estimate.mean(dataclasses.replace(draws, values=draws.values[name]))


def relative_bias(draws: sundman.Draws, name: str, truth: float) -> Estimate:
    """average / truth - 1, with its standard error."""
    value, error = average(draws, name)
    return Estimate(value / truth - 1.0, error / abs(truth))


def mean_step(draws: sundman.Draws) -> float:
    """Mean dt over the steps."""
    return float(np.mean(draws.stats["dt"], dtype=np.float64))


def lost(draws: sundman.Draws) -> int:
    """How many chains diverged."""
    return int(np.sum(draws.diverged))


def check_law(draws: sundman.Draws, expected: Mapping[str, Expected]) -> None:
    """Raise AssertionError, with a line for each average that is off, unless all are right."""
    failures = []
    for name, (value, allowance) in expected.items():
        found, error = (np.atleast_1d(part) for part in average(draws, name))
        value, allowance = (np.broadcast_to(part, found.shape) for part in (value, allowance))
        right = np.abs(found - value) <= SIGMAS * error + allowance
        failures += [
            f"{name}[{i}]: found {found[i]:.6g} ± {error[i]:.2g}, "
            f"expected {value[i]:.6g} ± {allowance[i]:.2g}"
            for i in np.flatnonzero(~right)
        ]
    assert not failures, "\n".join(failures)
