"""Eleven posteriors of textbook models, as potentials U = -log p on unconstrained space.

Data are classics (breast cancer, diabetes, eight schools, Longley, coal mining) or simulated with a
fixed seed. A scale is sampled as its logarithm, with the Jacobian in U. Potentials follow the
precision of the position: single in the benchmark, double in the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

Position = Any


class Problem(NamedTuple):
    """A posterior.

    Attributes:
      about: what it is, in a line.
      potential: U(position).
      unit: a position whose size says how far around 0 the chains are started.
      via: another form of the same posterior that its reference is run in, and the map from its
        positions to those of this one.
    """

    about: str
    potential: Callable[[Position], Array]
    unit: Position
    via: tuple[Problem, Callable[[Position], Position]] | None = None


def first_positions(problem: Problem, key: Array, chains: int) -> Position:
    """Where the chains start: uniform in (-2, 2), as in Stan, times the unit of each coordinate."""
    leaves, tree = jax.tree.flatten(problem.unit)
    keys = jax.random.split(key, len(leaves))
    drawn = [
        jax.random.uniform(k, (chains, *np.shape(leaf)), minval=-2.0, maxval=2.0) * leaf
        for k, leaf in zip(keys, leaves, strict=True)
    ]
    return jax.tree.unflatten(tree, drawn)


def coordinate_names(problem: Problem) -> list[str]:
    """A name for every number of a position, in the order of ``ravel_pytree``."""
    names = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(problem.unit):
        name = "".join(str(getattr(part, "key", part)) for part in path) or "w"
        size = np.size(leaf)
        names += [name] if np.ndim(leaf) == 0 else [f"{name}[{i}]" for i in range(size)]
    return names


def _normal(x: Array | np.ndarray, mean: Any = 0.0, sd: Any = 1.0) -> Array:
    """-log of a normal density, without what is constant in x and mean."""
    return 0.5 * jnp.sum(jnp.square((x - mean) / sd))


# Regressions


def _breast_cancer() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_breast_cancer

    data: Any = load_breast_cancer()
    return data.data[:, :10], data.target


def _diabetes() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    data: Any = load_diabetes(scaled=False)
    return data.data, data.target


def _logistic(design: np.ndarray, y: np.ndarray, prior_sd: np.ndarray, w: Array) -> Array:
    logits = design @ w
    return jnp.sum(jax.nn.softplus(logits) - y * logits) + _normal(w, 0.0, prior_sd)


def logistic_standardised() -> Problem:
    """Ten features of breast cancer, standardised, and an intercept; prior N(0, 1)."""
    x, y = _breast_cancer()
    design = np.column_stack([(x - x.mean(0)) / x.std(0), np.ones(len(x))])
    one = np.ones(11)
    about = "logistic regression, breast cancer, standardised, d = 11"
    return Problem(about, partial(_logistic, design, y, one), one)


def logistic_raw() -> Problem:
    """The same in raw units: prior N(0, 1) in units of 1 / sd of each feature, intercept 20."""
    x, y = _breast_cancer()
    design = np.column_stack([x, np.ones(len(x))])
    sd = np.append(1.0 / x.std(0), 20.0)
    unit = np.append(1.0 / x.std(0), 1.0)
    about = "logistic regression, breast cancer, raw units, d = 11"
    return Problem(about, partial(_logistic, design, y, sd), unit)


def _linear(design: np.ndarray, y: np.ndarray, prior_sd: np.ndarray, at: Position) -> Array:
    """Normal noise of unknown sd, which has an exponential prior of mean sd(y)."""
    log_sigma, scale = at["log_sigma"], y.std()
    misfit = _normal(y, design @ at["beta"], jnp.exp(log_sigma)) + len(y) * log_sigma
    prior = _normal(at["beta"], 0.0, prior_sd) + jnp.exp(log_sigma) / scale - log_sigma
    return misfit + prior


def linear_raw() -> Problem:
    """Diabetes in raw units, noise unknown; slopes N(0, 2.5 sd(y)/sd(x)), as in rstanarm."""
    x, y = _diabetes()
    design = np.column_stack([x, np.ones(len(x))])
    sd = np.append(2.5 * y.std() / x.std(0), 10.0 * y.std())
    unit = {"beta": np.append(y.std() / x.std(0), y.std()), "log_sigma": 1.0}
    about = "linear regression with unknown noise, diabetes, raw units, d = 12"
    return Problem(about, partial(_linear, design, y, sd), unit)


# Total employment, then price deflator, GNP, unemployed, armed forces, population, year; Longley,
# Journal of the American Statistical Association 62 (1967) 819.
_LONGLEY = """
60323 83.0 234289 2356 1590 107608 1947
61122 88.5 259426 2325 1456 108632 1948
60171 88.2 258054 3682 1616 109773 1949
61187 89.5 284599 3351 1650 110929 1950
63221 96.2 328975 2099 3099 112075 1951
63639 98.1 346999 1932 3594 113270 1952
64989 99.0 365385 1870 3547 115094 1953
63761 100.0 363112 3578 3350 116219 1954
66019 101.2 397469 2904 3048 117388 1955
67857 104.6 419180 2822 2857 118734 1956
68169 108.4 442769 2936 2798 120445 1957
66513 110.8 444546 4681 2637 121950 1958
68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960
69331 115.7 518173 4806 2572 127852 1961
70551 116.9 554894 4007 2827 130081 1962
"""


def longley() -> np.ndarray:
    """Longley's table: employment and its six predictors in 16 years."""
    return np.array(_LONGLEY.split(), float).reshape(16, 7)


def collinear() -> Problem:
    """Longley's regression, columns standardised, flat-ish prior: condition 1e4."""
    table = longley()
    table = (table - table.mean(0)) / table.std(0)
    design = np.column_stack([table[:, 1:], np.ones(16)])
    unit = {"beta": np.ones(7), "log_sigma": 1.0}
    about = "collinear regression, Longley, standardised, d = 8"
    return Problem(about, partial(_linear, design, table[:, 0], np.full(7, 5.0)), unit)


def student_t() -> Problem:
    """Diabetes, standardised, noise of Student's t with unknown scale and degrees of freedom."""
    x, y = _diabetes()
    design = np.column_stack([(x - x.mean(0)) / x.std(0), np.ones(len(x))])
    y = (y - y.mean()) / y.std()

    def potential(at: Position) -> Array:
        log_sigma, log_nu = at["log_sigma"], at["log_nu"]
        nu = jnp.exp(log_nu)
        z = (y - design @ at["beta"]) * jnp.exp(-log_sigma)
        each = 0.5 * (nu + 1.0) * jnp.log1p(z * z / nu) + log_sigma + 0.5 * log_nu
        norm = jax.lax.lgamma(0.5 * nu) - jax.lax.lgamma(0.5 * (nu + 1.0))
        prior = _normal(at["beta"]) + jnp.exp(log_sigma) - log_sigma
        prior += 0.1 * nu - 2.0 * log_nu  # nu: gamma(2, 0.1)
        return jnp.sum(each) + len(y) * norm + prior

    unit = {"beta": np.ones(11), "log_sigma": 1.0, "log_nu": 1.0}
    return Problem("Student-t regression with unknown df, diabetes, d = 13", potential, unit)


def poisson() -> Problem:
    """Claims of 300 drivers by age, income, kilometres, and power, in raw units, with exposure."""
    random = np.random.default_rng(11)
    rows = 300
    age, income = random.uniform(18, 80, rows), random.lognormal(10.4, 0.5, rows) / 1000
    km, power = random.gamma(4.0, 4000.0, rows) / 1000, random.normal(90, 25, rows)
    exposure = random.uniform(0.2, 3.0, rows)
    x = np.column_stack([age, income, km, power])
    rate = exposure * np.exp(0.3 - 0.02 * age - 0.006 * income + 0.03 * km)
    y = random.poisson(rate)
    design = np.column_stack([x, np.ones(rows)])
    sd = np.append(2.5 / x.std(0), 10.0)

    def potential(w: Array) -> Array:
        log_rate = design @ w + np.log(exposure)
        return jnp.sum(jnp.exp(log_rate) - y * log_rate) + _normal(w, 0.0, sd)

    unit = np.append(0.1 / x.std(0), 0.1)  # further out the rates overflow
    return Problem("Poisson regression, raw units, d = 5", potential, unit)


# Hierarchies

_EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
_ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def _schools(at: Position, theta: Array) -> Array:
    """The data and the priors mu ~ N(0, 5), tau ~ half Cauchy(5)."""
    tau = jnp.exp(at["log_tau"])
    prior = _normal(at["mu"], 0.0, 5.0) + jnp.log1p(jnp.square(tau / 5.0)) - at["log_tau"]
    return _normal(theta, _EFFECTS, _ERRORS) + prior


def schools_non_centred() -> Problem:
    """Eight schools, theta = mu + tau eta."""

    def potential(at: Position) -> Array:
        return _schools(at, at["mu"] + jnp.exp(at["log_tau"]) * at["eta"]) + _normal(at["eta"])

    unit = {"mu": 1.0, "log_tau": 1.0, "eta": np.ones(8)}
    return Problem("eight schools, non-centred, d = 10", potential, unit)


def schools_centred() -> Problem:
    """Eight schools in theta itself: a funnel towards small tau."""

    def potential(at: Position) -> Array:
        apart = _normal(at["theta"], at["mu"], jnp.exp(at["log_tau"])) + 8.0 * at["log_tau"]
        return _schools(at, at["theta"]) + apart

    def from_non_centred(at: Position) -> Position:
        theta = at["mu"] + jnp.exp(at["log_tau"]) * at["eta"]
        return {"mu": at["mu"], "log_tau": at["log_tau"], "theta": theta}

    unit = {"mu": 1.0, "log_tau": 1.0, "theta": np.ones(8)}
    via = (schools_non_centred(), from_non_centred)
    return Problem("eight schools, centred, d = 10", potential, unit, via)


def varying_intercepts() -> Problem:
    """40 groups of 2 to 30 rows, as radon in counties: intercepts around a line in a covariate."""
    random = np.random.default_rng(7)
    groups = 40
    sizes = np.clip(np.round(random.lognormal(1.8, 0.8, groups)).astype(int), 2, 30)
    group = np.repeat(np.arange(groups), sizes)
    soil, floor = random.normal(0, 0.4, groups), random.binomial(1, 0.2, len(group))
    truth = 1.4 + 0.7 * soil + 0.25 * random.normal(size=groups)
    y = truth[group] - 0.65 * floor + 0.75 * random.normal(size=len(group))

    def level(at: Position) -> Array:
        return at["level"][0] + at["level"][1] * soil

    def without_intercepts(at: Position, intercept: Array) -> Array:
        tau, sigma = jnp.exp(at["log_tau"]), jnp.exp(at["log_sigma"])
        mean = intercept[group] + at["floor"] * floor
        misfit = _normal(y, mean, sigma) + len(y) * at["log_sigma"]
        prior = _normal(at["level"], 0.0, 2.5) + _normal(at["floor"], 0.0, 2.5)
        return misfit + prior + tau - at["log_tau"] + sigma - at["log_sigma"]

    def potential(at: Position) -> Array:
        apart = _normal(at["intercept"], level(at), jnp.exp(at["log_tau"]))
        return apart + groups * at["log_tau"] + without_intercepts(at, at["intercept"])

    def centred(at: Position) -> Position:
        return at | {"intercept": level(at) + jnp.exp(at["log_tau"]) * at["intercept"]}

    def non_centred(at: Position) -> Array:
        return _normal(at["intercept"]) + without_intercepts(at, centred(at)["intercept"])

    unit = {
        "intercept": np.ones(groups),
        "level": np.ones(2),
        "floor": 1.0,
        "log_tau": 1.0,
        "log_sigma": 1.0,
    }
    via = (Problem("varying intercepts, non-centred", non_centred, unit), centred)
    return Problem("varying intercepts, 40 groups, centred, d = 45", potential, unit, via)


# Time series

# British coal mining disasters a year, 1851-1961.
_COAL = """
4 5 4 0 1 4 3 4 0 6 3 3 4 0 2 6 3 3 5 4 5 3 1 4 4 1 5 5 3 4 2 5 2 2 3 4 2 1 3 2 2 1 1 1 1 3 0 0
1 0 1 1 0 0 3 1 0 3 2 2 0 1 1 1 0 1 0 1 0 0 0 2 1 0 0 0 1 1 0 2 3 3 1 1 2 1 1 1 1 2 4 2 0 0 1 4
0 0 0 1 0 0 0 0 0 1 0 0 1 0 1
"""


def gaussian_process() -> Problem:
    """Coal mining disasters in 55 pairs of years: Poisson counts, log rate a Gaussian process."""
    counts = np.array(_COAL.split(), float)[:110].reshape(55, 2).sum(1)
    year = 2.0 * np.arange(55)
    kernel = np.exp(-0.5 * np.square((year[:, None] - year) / 15.0)) + 1e-4 * np.eye(55)
    root = np.linalg.cholesky(kernel)

    def potential(at: Position) -> Array:
        log_rate = at["mean"] + jnp.exp(at["log_amplitude"]) * (root @ at["z"])
        prior = _normal(at["z"]) + _normal(at["mean"], 0.0, 2.0) + _normal(at["log_amplitude"])
        return jnp.sum(jnp.exp(log_rate) - counts * log_rate) + prior

    unit = {"mean": 1.0, "log_amplitude": 1.0, "z": np.ones(55)}
    return Problem("Gaussian process of Poisson counts, coal mining, d = 57", potential, unit)


def stochastic_volatility() -> Problem:
    """100 simulated returns whose log variance is an AR(1) process, in its innovations."""
    random = np.random.default_rng(3)
    days, log_variance = 100, np.zeros(100)
    for t in range(1, days):
        log_variance[t] = 0.95 * log_variance[t - 1] + 0.35 * random.normal()
    y = np.exp(0.5 * (log_variance - 0.5)) * random.normal(size=days)

    def potential(at: Position) -> Array:
        phi, sigma = jnp.tanh(0.5 * at["logit_phi"]), jnp.exp(at["log_sigma"])
        first = at["z"][:1] / jnp.sqrt(1.0 - phi * phi)
        pushes = sigma * jnp.concatenate([first, at["z"][1:]])

        def next_day(before: Array, push: Array) -> tuple[Array, Array]:
            return (phi * before + push,) * 2

        log_variance = at["mu"] + jax.lax.scan(next_day, 0.0 * sigma, pushes)[1]
        misfit = 0.5 * jnp.sum(y * y * jnp.exp(-log_variance) + log_variance)
        up, down = jax.nn.softplus(-at["logit_phi"]), jax.nn.softplus(at["logit_phi"])
        prior = 20.0 * up + 1.5 * down  # (1 + phi) / 2: beta(20, 1.5)
        prior += _normal(at["z"]) + _normal(at["mu"], 0.0, 3.0)
        prior += 5.0 * sigma - at["log_sigma"]  # exponential of mean 0.2
        return misfit + prior

    unit = {"mu": 1.0, "logit_phi": 1.0, "log_sigma": 1.0, "z": np.ones(days)}
    return Problem("stochastic volatility, 100 days, non-centred, d = 103", potential, unit)


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "logistic_standardised": logistic_standardised,
    "logistic_raw": logistic_raw,
    "linear_raw": linear_raw,
    "collinear": collinear,
    "student_t": student_t,
    "poisson": poisson,
    "schools_non_centred": schools_non_centred,
    "schools_centred": schools_centred,
    "varying_intercepts": varying_intercepts,
    "gaussian_process": gaussian_process,
    "stochastic_volatility": stochastic_volatility,
}
