"""Where every sampler is tried: targets, the steps that suit them, and what is averaged.

A sampler is run at a step and at half of it over the same physical time. Its bias at the half step
must be what is left of a bias that falls with the step:

    |b(h/2)| <= 5 standard errors + 1.5 |b(h) - b(h/2)|

For a scheme of order one b(h/2) equals the difference, for order two it is a third of it. A law
that is wrong in the limit, too, does not move and fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np
from battery import CHAINS, SIGMAS, Floats, Observable, average, run
from samplers import SAMPLERS

from sundman.targets import Target, funnel, gaussian, mixture, star

EXPLAINED = 1.5
PRECISIONS = np.geomspace(1.0, 100.0, 20)


class Place(NamedTuple):
    """A target at temperature T, its stiffness, averages with their truths, and gradient noise."""

    target: Callable[[float], Target]
    stiffness: float
    averages: Callable[[Target], Mapping[str, tuple[Observable, float]]]
    sigma: float
    steps: int


def _gaussian_averages(target: Target) -> dict[str, tuple[Observable, float]]:
    precisions = PRECISIONS if target.dim == 20 else np.ones(target.dim)
    T = target.temperature
    return {
        "energy": (lambda x: (x**2 @ precisions) / (T * target.dim), 1.0),
        "softest": (lambda x: x[..., 0] ** 2 / T, 1.0),
    }


def _named(*names: str) -> Callable[[Target], dict[str, tuple[Observable, float]]]:
    def averages(target: Target) -> dict[str, tuple[Observable, float]]:
        def of(name: str) -> Observable:
            many = jax.jit(jax.vmap(jax.vmap(target.observables[name])))
            return lambda x: np.asarray(many(x.astype(np.float32)), np.float64)

        return {name: (of(name), target.truth[name]) for name in names}

    return averages


def _within_modes(target: Target) -> dict[str, tuple[Observable, float]]:
    """Chains hardly cross: the variance of y within each mode, 1 and .3 times T, is what mixes."""

    def excess(x: Floats, variance: float) -> Floats:
        return x[..., 1] ** 2 / (variance * target.temperature) - 1.0

    return {
        "left": (lambda x: excess(x, 1.0) * (x[..., 0] < 0), 0.0),
        "right": (lambda x: excess(x, 0.3) * (x[..., 0] > 0), 0.0),
    }


PLACES = {
    "line": Place(lambda T: gaussian(1, temperature=T), 1.0, _gaussian_averages, 2.0, 20_000),
    "plane": Place(lambda T: gaussian(2, temperature=T), 1.0, _gaussian_averages, 2.0, 20_000),
    "twenty": Place(
        lambda T: gaussian(20, 100.0, temperature=T), 100.0, _gaussian_averages, 5.0, 20_000
    ),
    "star": Place(lambda T: star(temperature=T), 1500.0, _named("x2y2", "virial"), 15.0, 20_000),
    "funnel": Place(
        lambda T: funnel(2, 1.0, temperature=T), 6.0, _named("v", "v2", "scaled_x2"), 1.0, 20_000
    ),
    "mixture": Place(lambda T: mixture(temperature=T), 4.0, _within_modes, 2.0, 20_000),
}


class Bias(NamedTuple):
    """An average's bias at the half step, its standard error, and how far it fell from h."""

    at_half: float
    error: float
    fell: float
    fell_error: float

    @property
    def explained(self) -> float:
        """How large the bias may be."""
        chance = np.hypot(self.error, EXPLAINED * self.fell_error)
        return SIGMAS * chance + EXPLAINED * abs(self.fell)

    def __str__(self) -> str:
        """The numbers."""
        return (
            f"{self.at_half:+.4f} ± {self.error:.4f} at h/2, fell by {self.fell:+.4f} ± "
            f"{self.fell_error:.4f}"
        )


def biases(name: str, where: str, T: float, noisy: bool) -> dict[str, Bias]:
    """The bias of every average of a place, relative to the size of its truth or 1."""
    place, row = PLACES[where], SAMPLERS[name]
    target = place.target(T)
    sigma = place.sigma * np.sqrt(T) if noisy else 0.0
    averages = place.averages(target)
    observables = {key: observable for key, (observable, _) in averages.items()}
    stiffness = np.sqrt(place.stiffness) if row.kinetic else place.stiffness
    sharpness = row.sharpness / (4.0 if noisy else 1.0)
    chains = CHAINS * (4 if row.biased else 1)  # to tell a bias that stays from one that falls
    g_ref = _squared_gradient(target) + target.dim * sigma**2
    found: list[dict[str, tuple[float, float]]] = []
    for divide in (1, 2):
        h = sharpness / stiffness / divide
        draws = run(
            target,
            row.build(h, T, g_ref),
            observables,
            steps=place.steps * divide,
            chains=chains,
            drop=max(1000 if row.kinetic else 0, row.learns) * divide,
            seed=70 + divide,
            thin=5 * divide,
            sigma=sigma,
        )
        found.append({key: tuple(map(float, average(draws, key))) for key in observables})
    jax.clear_caches()  # a process can map only so many compiled programs
    result = {}
    for key, (_, truth) in averages.items():
        (whole, whole_error), (half, half_error) = found[0][key], found[1][key]
        scale = abs(truth) if abs(truth) > 1e-6 else 1.0
        result[key] = Bias(
            (half - truth) / scale,
            half_error / scale,
            (whole - half) / scale,
            float(np.hypot(whole_error, half_error)) / scale,
        )
    return result


def _squared_gradient(target: Target) -> float:
    if "grad2" in target.truth:
        return target.truth["grad2"]
    assert target.exact is not None
    exact = target.exact(jax.random.key(0), 4096)
    gradients: Floats = np.asarray(jax.vmap(jax.grad(target.potential))(exact))
    return float(np.median(np.sum(gradients**2, axis=1)))
