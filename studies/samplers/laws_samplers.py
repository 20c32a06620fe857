"""The tables of README.md: single samplers.

The set-ups are those of the tests that the pages name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from studies.samplers.laws_runs import (
    Floats,
    Part,
    Settings,
    Value,
    Values,
    average,
    coordinates,
    extrapolated,
    mean_dt,
    relative,
    run,
    unweighted,
)
from sundman import clocks, contrib, integrators
from sundman.contrib import curvature, metric_tensors, monitors
from sundman.estimate.moments import moments
from sundman.noise import Stream, substream
from sundman.noise import gaussian as normals
from sundman.targets import Target, double_well, gaussian, quartic, star
from sundman.targets.from_potential import by_quadrature


def square(x: Floats) -> Floats:
    """x²."""
    return x**2


def euler_and_lm(settings: Settings) -> Values:
    """Relative error of E[x² + y²] on the star."""
    target = star()
    omega = target.truth["grad2"]

    def clock(dtau: float) -> dict[str, Any]:
        psi = {"M": 10.0, "r": 0.5, "omega": omega, "psi": "scale_free", "lag": "guarded"}
        return {"alpha": 0.01 / dtau, **psi}

    samplers = {
        "`sgld`": sundman.sgld(4e-4),
        "`sa_sgld`, published settings": sundman.sa_sgld(
            1e-3, alpha=0.5, m=0.1, M=10.0, r=0.5, omega=100.0
        ),
        "`sa_sgld`, scale-free clock": sundman.sa_sgld(3.4e-4, **clock(3.4e-4)),
        "`lm`": sundman.lm(4e-4),
    }
    for dtau in (3.4e-4, 6.8e-4, 1.28e-3):
        samplers[f"`sa_lm`, scale-free clock, dtau = {dtau:g}"] = sundman.sa_lm(dtau, **clock(dtau))
    rows = {}
    for seed, (name, sampler) in enumerate(samplers.items(), 301):
        draws = run(target, sampler, settings, seed=seed)
        x, y = coordinates(draws)
        rows[name] = {
            "sampler": repr(sampler),
            "lost": int(draws.diverged.sum()),
            "mean_dt": mean_dt(draws),
            "bias": relative(average(x**2 + y**2, draws.weight), target.truth["r2"]),
        }
    return {"rows": rows}


def samadams(settings: Settings) -> Values:
    """Relative errors of SamAdams on the star."""
    target, dtau = star(), settings["dtau"]
    clock = {"alpha": 0.01 / dtau, "m": 0.1, "M": 10.0, "r": 0.25, "psi": "scale_free"}
    sampler = sundman.samadams(dtau, gamma=settings["gamma"], omega=target.truth["grad2"], **clock)
    draws = run(target, sampler, settings, seed=311)
    x, y = coordinates(draws)
    product = (x * y) ** 2
    observables = {"x2y2": product, "virial": 2 * (x**2 + y**2) + 4000 * product}
    return {
        "sampler": repr(sampler),
        "mean_dt": mean_dt(draws),
        **{
            name: relative(average(values, draws.weight), target.truth[name])
            for name, values in observables.items()
        },
    }


def noise_clock(h: float, omega: float) -> dict[str, Any]:
    """The clock of the samplers that meet white gradient noise."""
    clock = {"alpha": 0.01 / h, "m": 0.25, "M": 4.0, "r": 0.25, "omega": omega}
    return {**clock, "psi": "scale_free", "lag": "guarded"}


def thermostats(settings: Settings) -> Values:
    """Relative error of E[x²y²] on the star with gradient noise."""
    target, dtau, gamma = star(), settings["dtau"], settings["gamma"]
    rows: Values = {}
    for sigma in (20.0, 60.0):
        clock = noise_clock(dtau, target.truth["grad2"] + 2 * sigma**2)
        samplers = {
            "sa_sgnht": sundman.sa_sgnht(dtau, gamma=gamma, **clock),
            "sa_sghmc": sundman.sa_sghmc(dtau, gamma=gamma, **clock),
            "sgld": sundman.sgld(settings["h"]),
        }
        row: Values = {}
        for name, sampler in samplers.items():
            draws = run(target, sampler, settings, seed=321, sigma=sigma)
            x, y = coordinates(draws)
            bias = relative(average((x * y) ** 2, draws.weight), target.truth["x2y2"])
            row[name] = {"sampler": repr(sampler), "mean_dt": mean_dt(draws), "bias": bias}
        rows[f"{sigma:g}"] = row
    return {"rows": rows}


def noise_temperatures(settings: Settings) -> Values:
    """E[x . grad U] / d under white gradient noise, T = 1."""
    cases = {
        "gaussian": (gaussian(10), (2.0, 4.0, 8.0), 0.1, 0.1, 2.0),
        "star": (star(), (30.0, 45.0, 60.0), 4e-4, 5e-3, 5.0),
    }

    def temperature(
        where: str, sampler: sundman.Sampler, sigma: float, burn_in: int | None = None
    ) -> Value:
        size = {name: settings[f"{where}_{name}"] for name in ("chains", "steps", "burn_in")}
        if burn_in is not None:
            size["burn_in"] = burn_in
        draws = run(cases[where][0], sampler, settings, seed=331, sigma=sigma, **size)
        position = np.asarray(draws.position, np.float64)
        virial = np.square(position).mean(axis=-1)
        if where == "star":
            virial = 2 * virial + 2000 * position.prod(axis=-1) ** 2
        return average(virial, draws.weight)

    rows: Values = {}
    for where, (target, sigmas, h, kinetic, gamma) in cases.items():
        omega = target.truth["grad2"] + target.dim * sigmas[1] ** 2
        samplers = {
            "SGLD": sundman.sgld(h),
            "SGHMC, not told of it": sundman.sghmc(kinetic, gamma=gamma),
            "SGNHT": sundman.sgnht(kinetic, gamma=gamma),
            "SA-SGNHT": sundman.sa_sgnht(kinetic, gamma=gamma, **noise_clock(kinetic, omega)),
        }
        for name, sampler in samplers.items():
            row = rows.setdefault(name, {})
            row[where] = {f"{sigma:g}": temperature(where, sampler, sigma) for sigma in sigmas}
    sampler = sundman.sgnht(5e-3, gamma=5.0)
    burn_ins = [settings["star_burn_in"] * factor // 6 for factor in (1, 6, 30)]
    return {
        "rows": rows,
        "at_120": {n: temperature("star", sampler, 120.0, burn_in=n) for n in burn_ins},
    }


class Uneven(sundman.gradients.GradientEstimator):
    """U = |x|²/2 in the plane with gradient noise of another size in each coordinate."""

    sizes: jax.Array

    def __call__(self, stream: Stream, position: Any, batch: Any = None) -> tuple[Any, Any]:
        """U and its noisy gradient."""
        noise = self.sizes * normals(substream(stream, 1), position)
        return 0.5 * jnp.sum(position**2), position + noise


def per_coordinate(settings: Settings) -> Values:
    """The temperature of two coordinates with one thermostat and with one for each."""
    h, gamma, sizes = settings["h"], settings["gamma"], np.array(settings["sigmas"])
    rows = {}
    for name, each in (("each", True), ("one", False)):
        integrator = integrators.sgnht(1.0, gamma=gamma, mass=1.0, per_coordinate=each)
        sampler = sundman.compose(integrator, clocks.constant(h))
        gradient = Uneven(jnp.asarray(sizes, jnp.float32))
        draws = run(gradient, sampler, settings, seed=341, init=jnp.zeros(2), per_chain=False)
        rows[name] = [average(x**2, draws.weight) for x in coordinates(draws)]
    heat = h * sizes**2 / 2
    return {"rows": rows, "predicted": ((gamma + heat) / (gamma + heat.mean())).tolist()}


def psgld(settings: Settings) -> Values:
    """pSGLD: its law on the quartic without Monte Carlo, its errors on the star."""
    from euler_operator import by_density, limit

    well, eps = quartic(), settings["eps"]
    with jax.enable_x64(True):
        operator = limit(
            lambda noise: contrib.integrators.psgld(1.0, decay=0.0, eps=eps, noise=noise),
            well.potential,
            square,
            0.04,
        )
    predicted = by_density(
        lambda x: -(x**4 / 4 + x**2 / 2) + np.log(np.abs(x**3 + x) + eps), square
    )
    target = star()
    exact = curvature.exact(target.potential)
    corrections = {
        "no $\\Gamma$": {},
        '`"step"`, as published': {"curvature": exact},
        '`"limit"`': {"curvature": exact, "divergence": "limit"},
    }
    rows: Values = {name: {} for name in corrections}
    for name, correction in corrections.items():
        for h in (4e-3, 1e-3, 2.5e-4):
            sampler = sundman.contrib.psgld(h, decay=settings["decay"], eps=eps, **correction)
            draws = run(target, sampler, settings, seed=351, steps=round(settings["time"] / h))
            x, y = coordinates(draws)
            rows[name][f"{h:g}"] = relative(
                average((x * y) ** 2, draws.weight), target.truth["x2y2"]
            )
    return {
        "quartic": {"truth": well.truth["x2"], "operator": operator, "predicted": predicted},
        "rows": rows,
    }


def adam_sgld(settings: Settings) -> Values:
    """Relative error of E[x²] on the quartic."""
    target = quartic()
    rows: Values = {}
    for betas in ((0.9, 0.9), (0.9, 0.999)):
        row = rows.setdefault(f"{betas[0]:g} and {betas[1]:g}", {})
        for h in (0.04, 0.01):
            sampler = sundman.contrib.adam_sgld(
                h, beta1=betas[0], beta2=betas[1], eps=settings["eps"]
            )
            steps, thin = round(settings["time"] / h), round(0.2 / h)
            draws = run(target, sampler, settings, seed=361, steps=steps, thin=thin)
            mean = average(coordinates(draws)[0] ** 2, draws.weight)
            row[f"{h:g}"] = relative(mean, target.truth["x2"])
    return {"rows": rows}


def metrics(settings: Settings) -> Values:
    """E[x²] on the quartic with the metric 1 + x², without its divergence."""
    from euler_operator import by_density, limit

    target = quartic()
    metric = metric_tensors.diagonal(lambda x: 1.0 + x**2, slope="elementwise")
    with jax.enable_x64(True):
        operator = limit(
            lambda noise: contrib.integrators.sgrld(
                1.0, metric=metric, divergence=False, noise=noise
            ),
            target.potential,
            square,
            0.04,
            reach=3.6,
        )

    def predicted(power: float) -> float:
        return by_density(
            lambda x: -(x**4 / 4 + x**2 / 2) + power * np.log(1 + x**2), square, reach=5.0
        )

    def measured(h: float) -> Value:
        sampler = sundman.contrib.sgrhmc(h, 1.0, metric=metric, gamma=2.0, divergence=False)
        size = {"steps": round(settings["time"] / h), "burn_in": round(20 / h)}
        draws = run(target, sampler, settings, seed=371, thin=round(0.2 / h), **size)
        return average(coordinates(draws)[0] ** 2, draws.weight)

    return {
        "truth": target.truth["x2"],
        "sgrld": {"operator": operator, "predicted": predicted(1.0)},
        "sgrhmc": {
            "sampler": extrapolated(measured(0.2), measured(0.1), order=2),
            "predicted": predicted(0.5),
        },
    }


def one_swap(noise: float, told: float, pairs: int, ratio: float = 3.0) -> Value:
    """The change of E[U], U = x²/2, of the first copy by one attempt to swap."""
    integrator = integrators.replica_exchange(
        1.0, ratios=(1.0, ratio), swap_rate=1e30, energy_variance=told**2
    )
    positions, errors = jax.random.split(jax.random.key(91))
    x = jax.random.normal(positions, (pairs, 2, 1)) * jnp.sqrt(jnp.array([[1.0], [ratio]]))
    energy = 0.5 * x[..., 0] ** 2
    estimated = energy + noise * jax.random.normal(errors, energy.shape)

    def attempt(number: jax.Array, x: jax.Array, value: jax.Array) -> jax.Array:
        stream = Stream(jnp.array([5, 6], jnp.uint32), number)
        state, dt = integrator.init(x), jnp.float32(1e-20)
        return x + integrator.move(stream, 0.0 * x, state, x, dt, value=value)[0]

    moved = jax.jit(jax.vmap(attempt))(np.arange(pairs, dtype=np.uint32), x, estimated)
    change = np.asarray(0.5 * moved[:, 0, 0] ** 2 - energy[:, 0], np.float64)
    return Value(float(change.mean()), float(change.std(ddof=1) / math.sqrt(pairs)))


def replica_exchange(settings: Settings) -> Values:
    """Two wells, the left deeper by 1.2 T; and a single swap with noisy energies."""
    target = double_well(10.0, tilt=0.6)

    def measured(sampler: sundman.Sampler, h: float, init: Any = None) -> sundman.Draws:
        steps = round(settings["time"] / h)
        return run(target, sampler, settings, seed=381, init=init, steps=steps, burn_in=steps // 4)

    def exchange(h: float) -> sundman.Sampler:
        return sundman.replica_exchange_sgld(h, 1.0, ratios=(1.0, 5.0), swap_every=3)

    biases = {}
    for h in (0.004, 0.002, 0.001):
        draws = measured(exchange(h), h)
        mean = average(coordinates(draws)[0] ** 2, draws.weight)
        biases[f"{h:g}"] = Value(mean.value - target.truth["x2"], mean.error)
    shares = {}
    for name, sampler in (("replica_exchange", exchange(0.002)), ("sgld", sundman.sgld(0.002))):
        draws = measured(sampler, 0.002, jnp.ones(1))
        shares[name] = average(coordinates(draws)[0] > 0, draws.weight)
    noise, pairs = settings["noise"], settings["pairs"]
    return {
        "truth": target.truth["x2"],
        "biases": biases,
        "right": {"truth": target.truth["right"], **shares},
        "swap": {
            "corrected": one_swap(noise, noise, pairs),
            "uncorrected": one_swap(noise, 0.0, pairs),
        },
    }


def cycles(settings: Settings) -> Values:
    """The share of the right well, begun in the left one."""

    def share(target: Target, sampler: sundman.Sampler) -> Value:
        draws = run(target, sampler, settings, seed=391, init=jnp.array(target.start))
        return average(coordinates(draws)[0] > 0, draws.weight)

    equal, tilted = double_well(10.0), double_well(10.0, tilt=1.0)
    sampler = sundman.cyclical_sgld(0.045, cycle=500, explore=0.8)
    return {
        "sampler": repr(sampler),
        "equal": share(equal, sampler),
        "sgld": share(equal, sundman.sgld(0.0043)),
        "tilted": share(tilted, sampler),
        "tilted_truth": tilted.truth["right"],
    }


def tilted_wells() -> Target:
    """Two wells in x, the left deeper by T, a barrier of 6 T between them; a parabola in y."""
    return by_quadrature(
        "tilted",
        lambda x: 6.0 * (x[0] ** 2 - 1.0) ** 2 + 0.5 * x[0] + 5.0 * x[1] ** 2,
        lambda x: [24.0 * x[0] * (x[0] ** 2 - 1.0) + 0.5, 10.0 * x[1]],
        {"right": lambda x: np.asarray(x[0] > 0, np.float64) + 0.0 * x[1]},
        temperature=1.0,
        start=[-1.0, 0.0],
        box=[(-2.2, 2.2), (-3.0, 3.0)],
        cuts=[[0.0], []],
        longest=0.1,
    )


def contour(settings: Settings) -> Values:
    """The share of a well and how often high energies are met; a range with empty bins."""
    target, h, learn = tilted_wells(), settings["h"], settings["burn_in"]
    build = partial(sundman.contour_sgld, h, low=-0.6, high=10.0, bins=20, flatness=0.9)
    samplers = {
        "default": build(),
        "learn": build(learn=learn),
        "gain_power": build(gain_power=0.75),
        "sgld": sundman.sgld(h),
    }
    rows = {}
    for name, sampler in samplers.items():
        draws = run(target, sampler, settings, seed=401, init=jnp.array([-1.0, 0.0]))
        rows[name] = {
            "sampler": repr(sampler),
            "right": average(coordinates(draws)[0] > 0, draws.weight),
            "above_4T": average(np.asarray(draws.stats["potential"]) > 4.0, unweighted(draws)),
        }
    line, step, sigma = gaussian(1), settings["trap_h"], settings["trap_sigma"]
    sgld = (1 + step * sigma**2 / 2) / (1 - step / 2)
    trap = {}
    for low in (-5.0, 0.0):
        sampler = sundman.contour_sgld(step, low=low, high=25.0, learn=learn)
        draws = run(line, sampler, settings, seed=402, sigma=sigma)
        trap[f"{low:g}"] = relative(average(coordinates(draws)[0] ** 2, draws.weight), sgld)
    return {"truth": target.truth["right"], "rows": rows, "trap": trap}


def monitor_bias(settings: Settings) -> Values:
    """Relative error of E[x²] on the quartic by monitor; mean steps under gradient noise."""
    target = quartic()
    every = {
        "norm": (None, 1.5),
        "preconditioned": (monitors.preconditioned(decay=0.9), 1.0),
        "energy": (monitors.energy(target.potential), 0.4),
        "curvature": (monitors.curvature(target.potential), 2.4),
        "noise-corrected, known": (monitors.noise_corrected(0.0, average=0.5), 1.5),
        "noise-corrected, estimated": (monitors.noise_corrected(average=0.5), 1.5),
    }

    def sampler(monitor: Any, omega: float, dtau: float, **changes: float) -> sundman.Sampler:
        clock = {"alpha": 4.0, "m": 0.1, "M": 10.0, "r": 1.0, **changes}
        more = {"psi": "scale_free", "lag": "guarded", "monitor": monitor}
        return sundman.sa_sgld(dtau, omega=omega, **clock, **more)

    rows: Values = {name: {} for name in every}
    for name, (monitor, omega) in every.items():
        for part in (1, 2):
            size = {"steps": settings["steps"] * part, "thin": settings["thin"] * part}
            draws = run(target, sampler(monitor, omega, 0.08 / part), settings, seed=411, **size)
            mean = average(coordinates(draws)[0] ** 2, draws.weight)
            rows[name][f"{0.08 / part:g}"] = relative(mean, target.truth["x2"])
    sigma, steps = settings["sigma"], {}
    for name, monitor, noise in (
        ("exact", None, 0.0),
        ("norm", None, sigma),
        ("known", monitors.noise_corrected(sigma), sigma),
        ("estimated", monitors.noise_corrected(), sigma),
    ):
        size = {"chains": 64, "steps": settings["gaussian_steps"], "thin": 10}
        build = sampler(monitor, 10.0, 0.01, alpha=1.0, r=0.5)
        draws = run(gaussian(10), build, settings, seed=412, sigma=noise, **size)
        steps[name] = average(draws.stats["dt"], unweighted(draws))
    return {"rows": rows, "steps": steps}


def bounded_noise(settings: Settings) -> Values:
    """Bias of E[x²] on U = x⁴/4 by the law of the noise; with normals also without Monte Carlo."""
    from euler_operator import average as operator

    target = quartic(quadratic=0.0)
    truth = target.truth["x2"]
    rows: Values = {}
    for noise in ("gaussian", "three_point", "two_point"):
        rows[noise] = {}
        for h in (0.025, 0.05, 0.1):
            steps, thin = round(settings["time"] / h), round(0.5 / h)
            sampler = sundman.sgld(h, noise=noise)
            draws = run(target, sampler, settings, seed=421, steps=steps, thin=thin)
            mean = average(coordinates(draws)[0] ** 2, draws.weight)
            rows[noise][f"{h:g}"] = Value(mean.value - truth, mean.error)
    with jax.enable_x64(True):
        exact = {
            f"{h:g}": operator(
                lambda noise: integrators.euler_maruyama(1.0, noise=noise),
                target.potential,
                square,
                h,
            )
            - truth
            for h in (0.025, 0.05, 0.1)
        }
    return {"truth": truth, "rows": rows, "exact": exact}


def covered(
    target: Any,
    sampler: sundman.Sampler,
    functions: dict[str, Callable],
    truths: Sequence[float] | None,
    settings: Settings,
    seed: int,
    **size: int,
) -> Values:
    """How often the interval of a single chain covers the average, and effective draws of one.

    Without truths the average is that of all chains.
    """
    draws = run(
        target,
        sampler,
        settings,
        seed=seed,
        init=jnp.zeros(2),
        collect=lambda x: jnp.stack([f(x) for f in functions.values()]),
        **size,
    )
    weight = np.asarray(draws.weight, np.float64)
    values = np.asarray(draws.values)
    chains = [moments(values[c : c + 1], weight[c : c + 1]) for c in range(len(weight))]
    mean, error, spread = (np.stack(part) for part in zip(*chains, strict=True))
    if truths is None:
        truths = [average(values[..., i], weight).value for i in range(len(functions))]
    inside = np.mean(np.abs(mean - np.array(truths)) < 1.96 * error, axis=0)
    ess = np.mean(spread / error**2, axis=0)
    fair = np.sqrt(np.mean(error**2, axis=0)) / mean.std(axis=0, ddof=1)
    return {
        name: {
            "ess": float(ess[i]),
            "coverage": Value(
                float(inside[i]), float(np.sqrt(inside[i] * (1 - inside[i]) / len(mean)))
            ),
            "error_over_spread": Value(float(fair[i]), float(fair[i] / np.sqrt(2 * len(mean)))),
        }
        for i, name in enumerate(functions)
    }


def coverage(settings: Settings) -> Values:
    """Standard errors of single chains, on a Gaussian and on the star."""
    h, stiff, target = settings["h"], settings["stiffness"], star()

    def bowl(x: Any) -> Any:
        return 0.5 * (x[0] ** 2 + stiff * x[1] ** 2)

    def variance(precision: float) -> float:
        return 1.0 / (precision * (1.0 - 0.5 * h * precision))

    on_bowl = {"x": lambda x: x[0], "x²": lambda x: x[0] ** 2, "U": bowl}
    truths = [0.0, variance(1.0), 0.5 * (variance(1.0) + stiff * variance(stiff))]
    names = {"x²": "x2", "r²": "r2", "U": "U", "x⁴": "x4", "outer": "outer", "grad2": "grad2"}
    on_star = {shown: target.observables[name] for shown, name in names.items()}
    sa_sgld = sundman.sa_sgld(0.005, alpha=50.0, m=0.1, M=10.0, r=0.5)
    rows: Values = {}
    for factor in (1, 5):
        steps = settings["gaussian_steps"] * factor
        rows[f"gaussian, {factor}"] = covered(
            bowl, sundman.sgld(h), on_bowl, truths, settings, 431, steps=steps, thin=5
        )
        steps = settings["star_steps"] * factor
        size = {"steps": steps, "thin": 20, "burn_in": settings["star_burn_in"]}
        rows[f"star, {factor}"] = covered(target, sa_sgld, on_star, None, settings, 432, **size)
    return {"rows": rows}


PARTS = {
    "euler_and_lm": Part(
        euler_and_lm, {"chains": 128, "steps": 500_000, "burn_in": 20_000, "thin": 20}
    ),
    "samadams": Part(
        samadams,
        {
            "chains": 128,
            "steps": 400_000,
            "burn_in": 2000,
            "thin": 10,
            "dtau": 0.015,
            "gamma": 5.0,
        },
    ),
    "thermostats": Part(
        thermostats,
        {
            "chains": 256,
            "steps": 100_000,
            "burn_in": 20_000,
            "thin": 20,
            "dtau": 0.004,
            "gamma": 1.0,
            "h": 4e-4,
        },
    ),
    "noise_temperatures": Part(
        noise_temperatures,
        {
            "gaussian_chains": 512,
            "gaussian_steps": 8000,
            "gaussian_burn_in": 1000,
            "star_chains": 1024,
            "star_steps": 8000,
            "star_burn_in": 6000,
            "thin": 10,
        },
    ),
    "per_coordinate": Part(
        per_coordinate,
        {
            "chains": 512,
            "steps": 16_000,
            "burn_in": 500,
            "thin": 8,
            "h": 0.1,
            "gamma": 2.0,
            "sigmas": [0.0, 3.0],
        },
    ),
    "psgld": Part(
        # Without a burn-in the first steps, when there is no memory yet, rule E[x²y²].
        psgld,
        {
            "chains": 64,
            "time": 800,
            "burn_in": 2000,
            "thin": 40,
            "decay": 0.99,
            "eps": 1.0,
        },
    ),
    "adam_sgld": Part(adam_sgld, {"chains": 128, "time": 2000, "burn_in": 5000, "eps": 1.0}),
    "metrics": Part(metrics, {"chains": 512, "time": 1600}),
    "replica_exchange": Part(
        replica_exchange,
        {"chains": 512, "time": 128, "thin": 8, "noise": 1.5, "pairs": 400_000},
    ),
    "cycles": Part(cycles, {"chains": 512, "steps": 8000, "burn_in": 500, "thin": 1}),
    "contour": Part(
        contour,
        {
            "chains": 512,
            "steps": 24_000,
            "burn_in": 12_000,
            "thin": 8,
            "h": 0.002,
            "trap_h": 0.025,
            "trap_sigma": 2.0,
        },
    ),
    "monitors": Part(
        monitor_bias,
        {
            "chains": 1024,
            "steps": 16_000,
            "burn_in": 2000,
            "gaussian_steps": 4000,
            "thin": 4,
            "sigma": 3.0,
        },
    ),
    "bounded_noise": Part(bounded_noise, {"chains": 512, "time": 20_000}),
    "coverage": Part(
        coverage,
        {
            "chains": 1000,
            "gaussian_steps": 2000,
            "star_steps": 20_000,
            "burn_in": 1000,
            "star_burn_in": 20_000,
            "h": 0.05,
            "stiffness": 10.0,
        },
    ),
}
