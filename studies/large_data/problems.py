"""The posteriors of many rows, with data made from a seed, and their densities for the truth.

    problem = problems.make("logistic-20-raw-2e5")
    draws = sundman.sample(problem.posterior(), init=problem.init, key=key)

``posterior()`` is what a user would write. ``log_likelihood`` and ``log_prior`` say the same once
more, by hand and in any precision: the truth does not go through the library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

import sundman
from sundman import likelihoods, priors

GROUPS, TRAITS = 50, 5
PRIOR_SD = {"standard": 2.5, "raw": 250.0}  # of coefficients
DOF_SD = 2.0


class Problem(NamedTuple):
    """A posterior of many rows.

    Attributes:
      name: such as ``"logistic-20-raw-2e5"``.
      about: a line for tables.
      posterior: makes the posterior that is sampled, in single precision.
      init: where chains begin: zeros.
      x: inputs, for the truth.
      y: outcomes of each row, for the truth.
      count: how many rows each row of ``x`` and ``y`` stands for, where some are alike.
      rows: N.
      log_likelihood: of each row, (position, x, y, count) -> (rows,).
      log_prior: (position) -> scalar.
    """

    name: str
    about: str
    posterior: Callable[[], sundman.Posterior]
    init: Any
    x: Any
    y: np.ndarray
    count: np.ndarray
    rows: int
    log_likelihood: Callable[[Any, Any, Array, Array], Array]
    log_prior: Callable[[Any], Array]

    @property
    def size(self) -> int:
        """The number of coordinates."""
        return ravel_pytree(self.init)[0].size


def _normal(x: Array, sd: float) -> Array:
    return -0.5 * jnp.sum(jnp.square(x / sd))


# Regressions on numbers


def columns(rows: int, size: int, units: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated columns after a constant one, and coefficients of about unit effect in all.

    In raw units columns have scales from 0.01 to 100, and means up to 5 of their own sds from 0.
    """
    random = np.random.default_rng(seed)
    mix = random.normal(size=(size - 1, size - 1)) / np.sqrt(size - 1) + np.eye(size - 1)
    x = random.normal(size=(rows, size - 1)) @ mix
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    w = 0.3 * np.sqrt(20 / size) * random.normal(size=size)
    if units == "raw":
        scale = 10.0 ** random.uniform(-2.0, 2.0, size - 1)
        offset = scale * random.uniform(-5.0, 5.0, size - 1)
        x = offset + scale * x
        w[1:] /= scale
        w[0] -= offset @ w[1:]
    x = np.column_stack([np.ones(rows), x]).astype(np.float32)
    return x, w


def _linear(w: Array, x: Array) -> Array:
    return x @ w


def _bernoulli(w: Array, x: Array, y: Array, count: Array) -> Array:
    z = x @ w
    return y * z - count * jax.nn.softplus(z)


def _regression(
    name: str,
    about: str,
    x: np.ndarray,
    y: np.ndarray,
    likelihood: sundman.likelihoods.Likelihood,
    sd: float,
    log_likelihood: Callable[..., Array],
) -> Problem:
    def posterior() -> sundman.Posterior:
        return sundman.Posterior(
            _linear, data=(x, y), likelihood=likelihood, prior=priors.gaussian(sd)
        )

    zeros, count = np.zeros(x.shape[1], np.float32), np.ones(len(y), np.float32)
    return Problem(
        name, about, posterior, zeros, x, y, count, len(y), log_likelihood, partial(_normal, sd=sd)
    )


def logistic(name: str, rows: int, size: int, units: str, seed: int) -> Problem:
    """Logistic regression."""
    x, w = columns(rows, size, units, seed)
    chance = 1.0 / (1.0 + np.exp(-(x.astype(np.float64) @ w)))
    y = (np.random.default_rng(seed + 1).random(rows) < chance).astype(np.int32)
    about = f"logistic, {size} columns, {units} units"
    return _regression(name, about, x, y, likelihoods.bernoulli(), PRIOR_SD[units], _bernoulli)


def poisson(
    name: str, rows: int, size: int, units: str, seed: int, *, spread: float = 0.5
) -> Problem:
    """Poisson regression; log rates have an sd of about 1.4 times ``spread``."""
    x, w = columns(rows, size, units, seed)
    w *= spread
    w[0] += 0.5
    y = np.random.default_rng(seed + 1).poisson(np.exp(x.astype(np.float64) @ w)).astype(np.int32)

    def log_likelihood(w: Array, x: Array, y: Array, count: Array) -> Array:
        return y * (x @ w) - count * jnp.exp(x @ w)

    bursts = ", rates far apart" if spread == 1.0 else ""
    about = f"Poisson, {size} columns, {units} units{bursts}"
    return _regression(name, about, x, y, likelihoods.poisson(), PRIOR_SD[units], log_likelihood)


def _t_model(at: dict[str, Array], x: Array) -> tuple[Array, Array, Array]:
    return x @ at["beta"], at["log_scale"], at["log_dof"]


def _t_log_density(outputs: tuple[Array, Array, Array], y: Array) -> Array:
    """log density of Student's t with a scale and degrees of freedom."""
    mean, log_scale, log_dof = outputs
    dof = jnp.exp(log_dof)
    z = (y - mean) * jnp.exp(-log_scale)
    norm = jax.lax.lgamma(0.5 * (dof + 1.0)) - jax.lax.lgamma(0.5 * dof)
    tail = 0.5 * (dof + 1.0) * jnp.log1p(z * z / dof)
    return norm - 0.5 * jnp.log(jnp.pi * dof) - log_scale - tail


def student_t(name: str, rows: int, size: int, units: str, seed: int) -> Problem:
    """Regression with the noise of Student's t, its scale and degrees of freedom unknown."""
    x, w = columns(rows, size, units, seed)
    noise = np.random.default_rng(seed + 1).standard_t(4.0, size=rows)
    y = (x.astype(np.float64) @ w + 0.7 * noise).astype(np.float32)
    sd = PRIOR_SD[units]
    prior = {
        "beta": priors.gaussian(sd),
        "log_scale": priors.gaussian(1.0),
        "log_dof": priors.gaussian(DOF_SD),
    }

    def posterior() -> sundman.Posterior:
        return sundman.Posterior(_t_model, data=(x, y), likelihood=_t_log_density, prior=prior)

    def log_likelihood(at: Any, x: Array, y: Array, count: Array) -> Array:
        dof = jnp.exp(at["log_dof"])
        square = jnp.square((y - x @ at["beta"]) * jnp.exp(-at["log_scale"]))
        gammas = jax.scipy.special.gammaln(0.5 * jnp.stack([dof + 1.0, dof]))
        each = gammas[0] - gammas[1] - 0.5 * at["log_dof"] - at["log_scale"]
        return count * (each - 0.5 * (dof + 1.0) * jnp.log1p(square / dof))

    def log_prior(at: Any) -> Array:
        other = _normal(at["log_scale"], 1.0) + _normal(at["log_dof"], DOF_SD)
        return _normal(at["beta"], sd) + other

    init = {
        "beta": np.zeros(size, np.float32),
        "log_scale": np.float32(0.0),
        "log_dof": np.float32(0.0),
    }
    about = f"Student's t noise, {size} columns, {units} units, scale and dof unknown"
    count = np.ones(rows, np.float32)
    return Problem(name, about, posterior, init, x, y, count, rows, log_likelihood, log_prior)


# A hierarchy


class CentredHierarchy(sundman.Posterior):
    """Group effects with the prior N(0, tau^2), log tau sampled with them."""

    def log_prior(self, position: Any) -> Array:
        """Of the coefficients, of log tau, and of the effects given tau."""
        return _centred_log_prior(position)


def _centred_log_prior(at: Any) -> Array:
    other = _normal(at["beta"], 2.5) + _normal(at["log_tau"], 1.0)
    effect = at["effect"]
    return other + _normal(effect * jnp.exp(-at["log_tau"]), 1.0) - effect.size * at["log_tau"]


def _centred_model(at: Any, x: Any) -> Array:
    return x["traits"] @ at["beta"] + at["effect"][x["group"]]


def _non_centred_log_prior(at: Any) -> Array:
    other = _normal(at["beta"], 2.5) + _normal(at["log_tau"], 1.0)
    return other + _normal(at["effect"], 1.0)


def _non_centred_model(at: Any, x: Any) -> Array:
    return x["traits"] @ at["beta"] + jnp.exp(at["log_tau"]) * at["effect"][x["group"]]


def hierarchical(name: str, rows: int, form: str, seed: int) -> Problem:
    """Logistic regression on five yes-or-no traits in 50 groups with effects of their own.

    Rows that are alike are counted for the truth, 1,600 kinds of them.
    """
    random = np.random.default_rng(seed)
    sizes = random.lognormal(0.0, 0.7, GROUPS)
    group = random.choice(GROUPS, rows, p=sizes / sizes.sum()).astype(np.int32)
    traits = random.random((rows, TRAITS)) < random.uniform(0.2, 0.8, TRAITS)
    beta, effects = 0.5 * random.normal(size=TRAITS + 1), 0.5 * random.normal(size=GROUPS)
    z = beta[0] + traits @ beta[1:] + effects[group]
    y = (random.random(rows) < 1.0 / (1.0 + np.exp(-z))).astype(np.int32)
    x = {"traits": np.column_stack([np.ones(rows), traits]).astype(np.float32), "group": group}
    centred = form == "centred"
    model = _centred_model if centred else _non_centred_model

    def posterior() -> sundman.Posterior:
        data, likelihood = (x, y), likelihoods.bernoulli()
        if centred:
            return CentredHierarchy(model, data=data, likelihood=likelihood)
        prior = {
            "beta": priors.gaussian(2.5),
            "log_tau": priors.gaussian(1.0),
            "effect": priors.gaussian(1.0),
        }
        return sundman.Posterior(model, data=data, likelihood=likelihood, prior=prior)

    def log_likelihood(at: Any, x: Any, y: Array, count: Array) -> Array:
        z = model(at, x)
        return y * z - count * jax.nn.softplus(z)

    kind = group * 2**TRAITS + traits @ 2 ** np.arange(TRAITS)
    trials, yes = (np.bincount(kind, each, GROUPS * 2**TRAITS) for each in (np.ones(rows), y))
    there = np.flatnonzero(trials)
    bits = (there[:, None] // 2 ** np.arange(TRAITS)) % 2
    kinds = {
        "traits": np.column_stack([np.ones(len(there)), bits]).astype(np.float32),
        "group": (there // 2**TRAITS).astype(np.int32),
    }
    init = {
        "beta": np.zeros(TRAITS + 1, np.float32),
        "effect": np.zeros(GROUPS, np.float32),
        "log_tau": np.float32(0.0),
    }
    return Problem(
        name,
        f"logistic in {GROUPS} groups, effects and their scale sampled, {form}",
        posterior,
        init,
        kinds,
        yes[there],
        trials[there],
        rows,
        log_likelihood,
        _centred_log_prior if centred else _non_centred_log_prior,
    )


_REGRESSIONS: dict[str, Callable[..., Problem]] = {
    "logistic": logistic,
    "poisson": poisson,
    "bursts": partial(poisson, spread=1.0),
    "student": student_t,
}
_ROWS = {"1e4": 10_000, "2e4": 20_000, "1e5": 100_000, "2e5": 200_000, "1e6": 1_000_000}

NAMES = (
    *(
        f"logistic-{size}-{units}-{rows}"
        for rows in ("2e4", "2e5", "1e6")
        for size in (20, 100)
        for units in ("standard", "raw")
    ),
    *(f"poisson-20-{units}-{rows}" for rows in ("2e4", "2e5") for units in ("standard", "raw")),
    *(f"student-20-{units}-{rows}" for rows in ("2e4", "2e5") for units in ("standard", "raw")),
    *(f"hierarchical-{form}-{rows}" for rows in ("2e4", "2e5") for form in ("centred", "free")),
    "bursts-20-standard-2e5",
)
"""What the table has. ``free`` is the form that is not centred."""


def make(name: str, seed: int = 0) -> Problem:
    """The problem of this name: kind-columns-units-rows, or hierarchical-form-rows."""
    kind, *middle, rows = name.split("-")
    if kind == "hierarchical":
        form = {"centred": "centred", "free": "not centred"}[middle[0]]
        return hierarchical(name, _ROWS[rows], form, seed)
    size, units = middle
    return _REGRESSIONS[kind](name, _ROWS[rows], int(size), units, seed)
