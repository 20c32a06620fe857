"""The tables of laws.md: what holds for schemes, clocks and gradient noise.

The set-ups are those of ``tests/law``; see the test that the page names for each.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import chi2

import sundman
from studies.samplers.laws_runs import (
    ROOT,
    Floats,
    Part,
    Settings,
    Value,
    Values,
    average,
    coordinates,
    extrapolated,
    mean_dt,
    ratio,
    relative,
    run,
    slope,
    unweighted,
)
from sundman import likelihoods, priors
from sundman.targets import Target, gaussian, quartic, star
from sundman.targets.base import namespace
from sundman.targets.from_potential import by_quadrature


def scale_free(dtau: float, a: float, omega: float, **more: Any) -> dict[str, Any]:
    """A clock with psi(1) = 1 and a memory of 1/a steps."""
    return {"alpha": a / dtau, "M": 10.0, "omega": omega, "psi": "scale_free", **more}


def research(dtau: float) -> sundman.Sampler:
    """SA-SGLD with the settings of the research code for the star."""
    return sundman.sa_sgld(dtau, alpha=0.5, m=0.1, M=10.0, r=0.5, omega=100.0, psi="research_code")


def star_bias(settings: Settings) -> Values:
    """Relative bias of E[x² + y²] on the star, with and without weights."""
    target = star()
    omega = target.truth["grad2"]

    def clock(dtau: float, a: float) -> dict[str, Any]:
        return scale_free(dtau, a, omega, m=0.1, r=0.5)

    samplers = {
        "SGLD, h = 4e-4": sundman.sgld(4e-4),
        "SGLD, h = 8e-4": sundman.sgld(8e-4),
        "SA-SGLD, research settings, dtau = 1e-3": research(1e-3),
        "SA-SGLD, research settings, dtau = 2.5e-4": research(2.5e-4),
        "SA-SGLD, scale-free clock, a = .1": sundman.sa_sgld(3.18e-4, **clock(3.18e-4, 0.1)),
        "SA-LM, scale-free clock, a = .01": sundman.sa_lm(6.4e-4, **clock(6.4e-4, 0.01)),
    }
    rows = {}
    for seed, (name, sampler) in enumerate(samplers.items(), 101):
        draws = run(target, sampler, settings, seed=seed)
        x, y = coordinates(draws)
        rows[name] = {
            "sampler": repr(sampler),
            "lost": int(draws.diverged.sum()),
            "mean_dt": mean_dt(draws),
            "weighted": relative(average(x**2 + y**2, draws.weight), target.truth["r2"]),
        }
        if sampler.settings["clock"] == "sundman":
            plain = average(x**2 + y**2, unweighted(draws))
            rows[name]["unweighted"] = relative(plain, target.truth["r2"])
    return {"truth": target.truth["r2"], "rows": rows}


def rippled() -> Target:
    """U = x²/2 + cos(2x)/2, of bounded curvature."""
    return by_quadrature(
        "rippled",
        lambda x: x[0] ** 2 / 2 + namespace(x).cos(2 * x[0]) / 2,
        lambda x: [x[0] - np.sin(2 * x[0])],
        {"ripple": lambda x: namespace(x).cos(2 * x[0])},
        temperature=1.0,
        start=[0.0],
        box=[(-9.0, 9.0)],
        longest=0.3,
    )


def order(settings: Settings) -> Values:
    """How the bias falls with the step: E[x²] on the quartic, E[cos 2x] on the rippled well."""
    from transfer import leimkuhler_matthews

    target = quartic()
    clock = {"alpha": 5.0, "m": 0.1, "M": 10.0, "r": 0.5, "psi": "published"}
    schemes = {
        "SA-SGLD": (sundman.sa_sgld, {}, (0.04, 0.02, 0.01, 0.005)),
        "SA-SGLD, three-point noise": (
            sundman.sa_sgld,
            {"noise": "three_point"},
            (0.02, 0.01, 0.005),
        ),
        "SA-LM": (sundman.sa_lm, {}, (0.04, 0.02, 0.01)),
    }
    rows: Values = {}
    for name, (recipe, more, dtaus) in schemes.items():
        weighted, plain = {}, {}
        for dtau in dtaus:
            draws = run(target, recipe(dtau, **more, **clock), settings, seed=111)
            x2 = coordinates(draws)[0] ** 2
            weighted[dtau] = relative(average(x2, draws.weight), target.truth["x2"])
            plain[dtau] = relative(average(x2, unweighted(draws)), target.truth["x2"])
        below = [dtau for dtau in dtaus if dtau <= 0.02 or name == "SA-LM"]
        rows[name] = {"biases": weighted, "slope": slope(below, [weighted[d] for d in below])}
        if name == "SA-SGLD":
            limit = extrapolated(plain[0.01], plain[0.005])
            rows["SA-SGLD, unweighted"] = {"biases": plain, "limit": limit}
    euler, lm = (rows[name]["biases"][0.02] for name in ("SA-SGLD", "SA-LM"))
    well = rippled()
    truth, steps, biases = well.truth["ripple"], (0.4, 0.28, 0.2), []
    for h in steps:
        draws = run(well, sundman.lm(h), settings, seed=112, steps=settings["fixed_steps"])
        mean = average(np.cos(2 * coordinates(draws)[0]), draws.weight)
        biases.append(Value(mean.value - truth, mean.error))
    exact = {
        h: leimkuhler_matthews(
            lambda x: x - np.sin(2 * x),
            lambda x: 1 - 2 * np.cos(2 * x),
            lambda x: np.cos(2 * x),
            h,
        )
        - truth
        for h in (*steps, 0.1, 0.05)
    }
    return {
        "truth": target.truth["x2"],
        "rows": rows,
        "euler_over_lm": ratio(euler, Value(abs(lm.value), lm.error)),
        "fixed_lm": {
            "biases": dict(zip(steps, biases, strict=True)),
            "slope": slope(steps, biases),
            "exact": exact,
            "exact_slope": float(np.log2(exact[0.1] / exact[0.05])),
        },
    }


def balance(d: int, dtau: float, sigma: float, M: float, r: float) -> tuple[float, float]:
    """E[x_i²] to leading order in |x|/sigma: in the published order, and with the lagged clock."""
    from transfer import panels

    q, width = panels(np.append(np.linspace(0, 1, 40) ** 4, np.linspace(2, 80, 79)), 10)
    chance = width * chi2.pdf(q, d)
    chance /= chance.sum()
    z = (q * sigma**2 / (d * (sigma**2 + 1))) ** r
    dt = dtau * (M + z) / (1 + M * z)
    heat = sigma**2 / 2
    published = (chance @ dt + heat * (chance @ (dt**2 * q)) / d) / (chance @ (dt * q)) * d
    return float(published), float(1 + heat * (chance @ dt**2) / (chance @ dt))


def clock_noise(settings: Settings) -> Values:
    """E[x²] of N(0, I) when the clock and the drift share a noisy gradient."""
    sigma, M, r = (settings[name] for name in ("sigma", "M", "r"))

    def measured(d: int, lag: str, a: float, dtau: float, seed: int) -> Value:
        omega = d * (sigma**2 + 1)
        sampler = sundman.sa_sgld(dtau, r=r, lag=lag, **scale_free(dtau, a, omega) | {"M": M})
        steps, burn_in = (round(settings[name] / dtau) for name in ("time", "burn_in_time"))
        size = {"chains": settings["chains"] // d, "steps": steps, "burn_in": burn_in}
        draws = run(gaussian(d), sampler, settings, seed=seed, sigma=sigma, **size)
        return average(np.mean(np.asarray(draws.position, np.float64) ** 2, axis=-1), draws.weight)

    rows = {}
    for d in (1, 2, 5, 10):
        dtau = settings["dtau"]
        published, lagged = balance(d, dtau, sigma, M, r)
        rows[d] = {
            "limit": balance(d, 1e-9, sigma, M, r)[0] - 1,
            "published": measured(d, "none", settings["memoryless"], dtau, 120 + d),
            "published_predicted": published,
            "full": measured(d, "full", settings["memoryless"], dtau, 140 + d),
            "full_predicted": lagged,
        }
    dtau = settings["coarse_dtau"]
    lags = {
        lag: {
            "memoryless": measured(1, lag, settings["memoryless"], dtau, 161),
            "memory": measured(1, lag, settings["memory"], dtau, 162),
        }
        for lag in ("none", "full", "guarded")
    }
    heated = (1 + dtau * sigma**2 / 2) / (1 - dtau / 2)
    return {"rows": rows, "lags": lags, "sgld": heated}


def operators(settings: Settings) -> Values:
    """E[x²] on the quartic with a memoryless clock: from the operator and from the sampler."""
    from transfer import lagged, paper_psi, same_step

    target = quartic()
    dtau, psi = settings["dtau"], {"m": 0.1, "M": 10.0, "r": 0.5}

    def drift(x: Floats) -> Floats:
        return x**3 + x

    def measured(lag: str, sigma: float, weighting: str) -> Value:
        clock = {"alpha": 1e4, "omega": 1e-4, "psi": "published", "lag": lag, **psi}
        sampler = sundman.sa_sgld(dtau, **clock)
        draws = run(target, sampler, settings, seed=171, sigma=sigma, weighting=weighting)
        return average(coordinates(draws)[0] ** 2, draws.weight)

    rows: Values = {}
    for sigma in (0.0, settings["sigma"]):
        law = same_step(drift, paper_psi(**psi), dtau, sigma=sigma)
        rows[f"sigma = {sigma:g}"] = {
            weighting: {"operator": exact, "sampler": measured("none", sigma, weighting)}
            for weighting, exact in zip(("leaving", "arriving", "equal"), law[:3], strict=True)
        }
    sigma = settings["sigma"]
    late = [lagged(drift, paper_psi(**psi), dtau / k, sigma=sigma)[0] for k in (1, 2)]
    rows[f"sigma = {sigma:g}, full lag"] = {
        "leaving": {"operator": late[0], "sampler": measured("full", sigma, "leaving")}
    }
    same = [same_step(drift, paper_psi(**psi), dtau / k, sigma=sigma).leaving for k in (2, 4)]
    truth = target.truth["x2"]
    limits = {
        "published": (2 * same[1] - same[0]) / truth - 1,
        "full": (2 * late[1] - late[0]) / truth - 1,
    }
    return {"truth": truth, "rows": rows, "limits": limits}


def stability(settings: Settings) -> Values:
    """Chains lost on the star."""
    target = star()
    omega = target.truth["grad2"]

    def sa_sgld(lag: str) -> sundman.Sampler:
        return sundman.sa_sgld(4e-3, r=0.5, lag=lag, **scale_free(4e-3, 0.01, omega))

    def samadams(lag: str) -> sundman.Sampler:
        clock = scale_free(0.0385, 0.01, omega, m=0.1)
        return sundman.samadams(0.0385, r=0.25, lag=lag, **clock)

    samplers = {
        "SGLD, h = 8e-4": sundman.sgld(8e-4),
        "SGLD, h = 9e-4": sundman.sgld(9e-4),
        "SGLD, h = 1.6e-3": sundman.sgld(1.6e-3),
        "SA-SGLD, m = .001, M = 1, dtau = .32": sundman.sa_sgld(
            0.32, m=0.001, M=1.0, alpha=0.5, r=0.5, psi="published"
        ),
        "SA-SGLD, scale-free, a = .01, dtau = .004, same step": sa_sgld("none"),
        "SA-SGLD, scale-free, a = .01, dtau = .004, full lag": sa_sgld("full"),
        "SA-SGLD, scale-free, a = .01, dtau = .004, guarded lag": sa_sgld("guarded"),
        "BAOAB, dt = .015, gamma = 1": sundman.baoab(0.015),
        "BAOAB, dt = .02, gamma = 1": sundman.baoab(0.02),
        "SamAdams, scale-free, a = .01, dtau = .0385, same step": samadams("none"),
        "SamAdams, scale-free, a = .01, dtau = .0385, guarded lag": samadams("guarded"),
    }
    rows = {}
    for name, sampler in samplers.items():
        row: Values = {"sampler": repr(sampler)}
        try:
            draws = run(target, sampler, settings, seed=181)
            row["lost"] = int(draws.diverged.sum())
        except sundman.AllDivergedError:
            row["lost"] = settings["chains"]
        share = row["lost"] / settings["chains"]
        row["error"] = float(np.sqrt(settings["chains"] * share * (1 - share)))
        row["mean_dt"] = None if share == 1 else mean_dt(draws)
        rows[name] = row
    return {"rows": rows}


def blockwise(settings: Settings) -> Values:
    """E[x² + y²] with one zeta for each of two tensors, and with one for both."""

    def potential(params: dict[str, jax.Array]) -> jax.Array:
        x2, y2 = params["x"] ** 2, params["y"] ** 2
        return (x2 + y2) / 2 + 2 * x2 * y2

    random = np.random.default_rng(191)
    points = random.normal(size=(4 * settings["chains"], 2))
    accepted = random.random(len(points)) < np.exp(-2 * points.prod(axis=1) ** 2)
    x, y = jnp.asarray(points[accepted][: settings["chains"]].T, jnp.float32)

    def moment(block: bool, dtau: float, steps: int, **clock: float) -> Value:
        clock = {"m": 0.1, "M": 10.0, **clock}
        sampler = sundman.sa_sgld(dtau, psi="published", blockwise=block, **clock)
        start = {"x": x, "y": y}
        draws = run(potential, sampler, settings, seed=192, init=start, per_chain=True, steps=steps)
        position = {name: np.asarray(draws.position[name], np.float64) for name in start}
        return average(position["x"] ** 2 + position["y"] ** 2, draws.weight)

    def limit(block: bool, r: float) -> Value:
        dtau, steps = settings["dtau"], settings["steps"]
        both = (moment(block, h, steps, alpha=5.0, r=r) for h in (dtau, dtau / 2))
        return extrapolated(*both)

    def without_memory(block: bool) -> Value:
        steps = settings["memoryless_steps"]
        return moment(block, settings["dtau"], steps, alpha=1e4, omega=1e-4, r=0.5)

    grid = np.meshgrid(*[np.linspace(-8, 8, 801)] * 2)
    density = np.exp(-(grid[0] ** 2 + grid[1] ** 2) / 2 - 2 * (grid[0] * grid[1]) ** 2)
    names = {True: "blockwise", False: "one"}
    return {
        "truth": float(np.average(grid[0] ** 2 + grid[1] ** 2, weights=density)),
        "rows": {
            f"memoryless, r = .5, dtau = {settings['dtau']:g}": {
                name: without_memory(block) for block, name in names.items()
            },
            "alpha = 5, r = 1, dtau → 0": {n: limit(block, 1.0) for block, n in names.items()},
            "alpha = 5, r = .5, dtau → 0": {n: limit(block, 0.5) for block, n in names.items()},
        },
    }


class Regression(NamedTuple):
    """The data of a linear regression and its exact posterior at T = 1."""

    x: Floats
    y: Floats
    mean: Floats
    precision: Floats
    noise: Floats  # the covariance of the gradient of a batch drawn with replacement


@cache
def regression(rows: int, batch: int, sd: float, prior_sd: float, d: int = 5) -> Regression:
    """Made data, in single precision as the sampler sees them."""
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(rows, d)) @ (np.eye(d) + 0.1)).astype(np.float32).astype(np.float64)
    y = (x @ rng.normal(size=d) + sd * rng.normal(size=rows)).astype(np.float32).astype(np.float64)
    precision = x.T @ x / sd**2 + np.eye(d) / prior_sd**2
    mean = np.linalg.solve(precision, x.T @ y / sd**2)
    each = x * (x @ mean - y)[:, None] / sd**2
    return Regression(x, y, mean, precision, rows**2 / batch * np.cov(each.T))


def linear_model(w: jax.Array, x: jax.Array) -> jax.Array:
    """x w: one function for all runs, so that they share their programs."""
    return x @ w


def minibatches(settings: Settings) -> Values:
    """Excess of the posterior variance by minibatch noise, with replacement and in epochs."""
    names = ("rows", "batch", "sd", "prior_sd")
    problem = regression(*(settings[name] for name in names))
    d = len(problem.mean)
    thin = settings["thin"]

    def sampler(name: str, dt: float, jumpy: bool) -> sundman.Sampler:
        if name == "SGLD":
            return sundman.sgld(dt)
        clock = sundman.clocks.scale_free(
            dt,
            g_ref=np.trace(problem.noise) + np.trace(problem.precision),
            a=1.0 if jumpy else 0.01,
            M=10.0,
            r=1.0 if jumpy else 0.5,
            lag="full" if jumpy else "guarded",
        )
        return sundman.compose(sundman.integrators.euler_maruyama(), clock)

    def excess(name: str, T: float, step: float, replace: bool) -> tuple[Value, float]:
        """The mean excess over the coordinates, measured and by the law of Euler-Maruyama."""
        posterior = sundman.Posterior(
            linear_model,
            likelihood=likelihoods.gaussian(settings["sd"]),
            prior=priors.gaussian(settings["prior_sd"]),
            data=(problem.x, problem.y),
            temperature=T,
        )
        root = np.linalg.cholesky(T * np.linalg.inv(problem.precision))
        first = np.random.default_rng(6).normal(size=(settings["chains"], d)) @ root.T
        draws = run(
            posterior,
            sampler(name, step * d / np.trace(problem.precision), replace),
            settings,
            seed=201,
            init=(problem.mean + first).astype(np.float32),
            per_chain=True,
            steps=int(settings["relaxations"] / step) // thin * thin,
            burn_in=int(2 / step) // thin * thin,
            batch_size=settings["batch"],
            replace=replace,
        )
        offset = (np.asarray(draws.position, np.float64) - problem.mean) @ np.linalg.inv(root).T
        mean = average(np.mean(offset**2, axis=-1), draws.weight)
        dt = np.asarray(draws.stats["dt"], np.float64)
        dt = (dt**2).sum() / dt.sum()
        A = np.eye(d) - dt * problem.precision
        law = solve_discrete_lyapunov(A, 2 * T * dt * np.eye(d) + dt**2 * problem.noise)
        exact = np.trace(np.linalg.solve(root, np.linalg.solve(root, law).T)) / d
        return Value(mean.value - 1, mean.error), float(exact - 1)

    rows: Values = {}
    for name in ("SGLD", "SA-SGLD"):
        for T in (1.0, 0.5):
            whole, half = (
                excess(name, T, s, True) for s in (settings["step"], settings["step"] / 2)
            )
            rows[f"{name}, T = {T:g}"] = {
                "whole": whole[0],
                "whole_predicted": whole[1],
                "half": half[0],
                "half_predicted": half[1],
                "ratio": ratio(whole[0], half[0]),
            }
    shuffled = {
        name: excess(name, 1.0, settings["step"] / 2, False)[0] for name in ("SGLD", "SA-SGLD")
    }
    return {"rows": rows, "shuffled": shuffled}


def logistic(settings: Settings) -> Values:
    """Means and standard deviations of a logistic regression by minibatches, against NUTS."""
    from sklearn.datasets import load_breast_cancer

    reference = json.loads((ROOT / "tests" / "law" / "logistic_reference.json").read_text())
    x, y = load_breast_cancer(return_X_y=True)
    x = x[:, :10]
    posterior = sundman.Posterior(
        lambda params, x: x @ params[:10] + params[10],
        likelihood=likelihoods.bernoulli(),
        prior=priors.gaussian(1.0),
        data=((x - x.mean(axis=0)) / x.std(axis=0), y),
    )
    dt = settings["dt"]
    clock = sundman.clocks.scale_free(dt, g_ref=2000.0, a=0.1, r=1.0)
    samplers = {
        "SGLD": sundman.sgld(dt),
        "SA-SGLD": sundman.compose(sundman.integrators.euler_maruyama(), clock),
    }
    sd = np.array(reference["sd"])
    first = np.random.default_rng(16).normal(size=(settings["chains"], 11)).astype(np.float32)
    rows = {}
    for name, sampler in samplers.items():
        draws = run(
            posterior,
            sampler,
            settings,
            seed=211,
            init=first,
            per_chain=True,
            batch_size=settings["batch"],
        )
        z = (np.asarray(draws.position, np.float64) - reference["mean"]) / sd
        means = [average(z[..., i], draws.weight) for i in range(11)]
        # the error of a root of a second moment, by that of the moment
        squares = [average((z[..., i] - means[i].value) ** 2, draws.weight) for i in range(11)]
        sds = [Value(s.value**0.5 - 1, s.error / 2 / s.value**0.5) for s in squares]
        rows[name] = {
            "sampler": repr(sampler),
            "mean": max(means, key=lambda each: abs(each.value)),
            "sd": max(sds, key=lambda each: abs(each.value)),
            "means": means,
            "sds": sds,
        }
    return {"rows": rows}


PARTS = {
    "star": Part(star_bias, {"chains": 128, "steps": 1_000_000, "burn_in": 20_000, "thin": 20}),
    "order": Part(
        order,
        {"chains": 512, "steps": 300_000, "fixed_steps": 200_000, "burn_in": 5000, "thin": 10},
    ),
    "clock": Part(
        clock_noise,
        {
            "chains": 4096,
            "time": 6,
            "burn_in_time": 4,
            "thin": 20,
            "sigma": 10.0,
            "M": 10.0,
            "r": 0.25,
            "dtau": 2.5e-4,
            "coarse_dtau": 1e-3,
            "memoryless": 50.0,
            "memory": 0.01,
        },
    ),
    "operators": Part(
        operators,
        {
            "chains": 256,
            "steps": 300_000,
            "burn_in": 2000,
            "thin": 10,
            "dtau": 0.0125,
            "sigma": 2.0,
        },
    ),
    "stability": Part(stability, {"chains": 64, "steps": 500_000, "thin": 50}),
    "blockwise": Part(
        blockwise,
        {
            "chains": 256,
            "steps": 600_000,
            "memoryless_steps": 200_000,
            "burn_in": 5000,
            "thin": 20,
            "dtau": 0.005,
        },
    ),
    "minibatches": Part(
        minibatches,
        {
            "chains": 96,
            "relaxations": 48,
            "thin": 25,
            "rows": 10_000,
            "batch": 100,
            "sd": 0.5,
            "prior_sd": 0.5,
            "step": 0.008,
        },
    ),
    "logistic": Part(
        logistic,
        {"chains": 160, "steps": 10_000, "burn_in": 1200, "thin": 20, "batch": 57, "dt": 2e-3},
    ),
}
