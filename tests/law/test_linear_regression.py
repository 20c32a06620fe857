"""Bayesian linear regression by minibatches: N = 10,000, batches of 100, T = 1 and 1/2.

The posterior is normal with precision A/T. A run is held to its exact law at a finite step dt,
gradient noise included. With V the covariance of a minibatch gradient,

    with replacement:  Sigma = R Sigma R + 2 T dt + dt² V,    R = 1 - dt A

so that the noise heats by dt V / 2, which halves with dt. Within an epoch without replacement
the noises add up to nothing, and the heating is of second order.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

import sundman
from sundman import likelihoods, priors
from sundman.estimate import Estimate

N, BATCH, D = 10_000, 100, 5
NOISE, PRIOR = 0.5, 0.5
CHAINS, THIN, SIGMAS = 96, 25, 5.0
SLOW, FAST = 0.004, 0.008  # dt times the mean eigenvalue of A
TEMPERATURES = (1.0, 0.5)
SAMPLERS = ("sgld", "sa_sgld")
QUICK = (("sgld", 1.0), ("sa_sgld", 0.5))  # the others are the same programs at another number


def at_temperatures(quick: tuple):
    return pytest.mark.parametrize(
        ("name", "T"),
        [
            pytest.param(name, T, marks=() if (name, T) in quick else pytest.mark.slow)
            for name in SAMPLERS
            for T in TEMPERATURES
        ],
    )


Floats = np.ndarray


class Problem(NamedTuple):
    """The data and the exact posterior at T = 1, in double precision."""

    x: Floats
    y: Floats
    mean: Floats
    precision: Floats
    noise: Floats  # V of a batch drawn with replacement

    def step(self, relative: float) -> float:
        return relative * D / np.trace(self.precision)


@cache
def problem() -> Problem:
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(N, D)) @ (np.eye(D) + 0.1)).astype(np.float32).astype(np.float64)
    y = (x @ rng.normal(size=D) + NOISE * rng.normal(size=N)).astype(np.float32)
    y = y.astype(np.float64)
    precision = x.T @ x / NOISE**2 + np.eye(D) / PRIOR**2
    mean = np.linalg.solve(precision, x.T @ y / NOISE**2)
    each = x * (x @ mean - y)[:, None] / NOISE**2
    return Problem(x, y, mean, precision, N**2 / BATCH * np.cov(each.T))


def posterior(T: float, kind: type = sundman.Posterior) -> sundman.Posterior:
    return kind(
        lambda w, x: x @ w,
        likelihood=likelihoods.gaussian(NOISE),
        prior=priors.gaussian(PRIOR),
        data=problem()[:2],
        temperature=T,
    )


def with_replacement(dt: float, T: float) -> Floats:
    """The stationary covariance when every batch is drawn anew."""
    _, _, _, A, V = problem()
    return solve_discrete_lyapunov(np.eye(D) - dt * A, 2 * T * dt * np.eye(D) + dt**2 * V)


def shuffled(dt: float, T: float) -> Floats:
    """The covariance averaged over an epoch whose gradient noises add up to nothing."""
    _, _, _, A, V = problem()
    n = N // BATCH
    V = V * (1 - BATCH / N)
    R, power, P = np.eye(D) - dt * A, np.eye(D), np.zeros((D, D))
    added, spread = np.zeros((D, D)), [np.zeros((D, D))]
    for _ in range(n):
        # Cov(xi_i, xi_j) = -V / (n - 1): part for i = j, less the square of the sum's weights.
        added += power @ (2 * T * dt * np.eye(D) + dt**2 * V * n / (n - 1)) @ power
        P += power
        spread.append(added - dt**2 * P @ V @ P / (n - 1))
        power = R @ power
    first = solve_discrete_lyapunov(power, spread[-1])
    powers = [np.linalg.matrix_power(R, k) for k in range(n)]
    parts = zip(powers, spread[:-1], strict=True)
    return np.mean([Rk @ first @ Rk + part for Rk, part in parts], axis=0)


def sampler(name: str, dt: float, steady: bool) -> sundman.Sampler:
    """SGLD, or SA-SGLD with a clock that is slow, or that jumps from step to step."""
    if name == "sgld":
        return sundman.sgld(dt)
    _, _, _, A, V = problem()
    clock = sundman.clocks.scale_free(
        dt,
        g_ref=np.trace(V) + np.trace(A),
        a=0.01 if steady else 1.0,
        M=10.0,
        r=0.5 if steady else 1.0,
        lag="guarded" if steady else "full",
    )
    return sundman.compose(sundman.integrators.euler_maruyama(), clock)


@cache
def run(
    name: str,
    T: float,
    relative: float,
    replace: bool,
    kind: type = sundman.Posterior,
    times: float = 12.0,
):
    """Draws over so many relaxation times, in units where the posterior at T is standard normal."""
    mean, precision = problem().mean, problem().precision
    dt = problem().step(relative)
    root = np.linalg.cholesky(T * np.linalg.inv(precision))
    first = mean + np.random.default_rng(6).normal(size=(CHAINS, D)) @ root.T
    draws = sundman.sample(
        posterior(T, kind),
        sampler(name, dt, steady=not replace),
        init=first.astype(np.float32),
        per_chain=True,
        key=jax.random.key(7),
        chains=CHAINS,
        steps=int((2 + times) / relative),
        thin=THIN,
        batch_size=BATCH,
        replace=replace,
    )
    # Two relaxation times are not kept: as burn_in= they would be one more program to compile.
    draws = without_first(draws, int(2 / relative / THIN))
    return draws, whitened(draws.position, root), root


def without_first(draws: sundman.Draws, n: int) -> sundman.Draws:
    stats = {name: values[:, n:] for name, values in draws.stats.items()}
    return sundman.Draws(
        draws.position[:, n:], draws.weight[:, n:], stats, draws.diverged_at, draws.last
    )


def whitened(position: Floats, root: Floats) -> Floats:
    offset = (position - problem().mean).reshape(-1, D)
    return np.linalg.solve(root, offset.T).T.reshape(position.shape)


def moments(draws: sundman.Draws, z: Floats, weight: Floats | None = None):
    """Mean, second moments and their trace, each with its error."""
    squares = z[..., :, None] * z[..., None, :]
    values = np.concatenate(
        [z, squares.reshape(*z.shape[:2], -1), np.square(z).mean(axis=-1, keepdims=True)], axis=-1
    )
    weight = draws.weight if weight is None else weight
    found = sundman.estimate.mean(sundman.Draws(values, weight, {}, draws.diverged_at, None))
    return (
        Estimate(found.value[:D], found.error[:D]),
        Estimate(found.value[D:-1].reshape(D, D), found.error[D:-1].reshape(D, D)),
        Estimate(found.value[-1], found.error[-1]),
    )


def mean_step(draws: sundman.Draws) -> float:
    """dt averaged over time."""
    dt = draws.stats["dt"].astype(np.float64)
    return float((dt**2).sum() / dt.sum())


def check(draws, z, root, covariance: Floats, weight: Floats | None = None) -> None:
    """Mean, covariance and trace within SIGMAS of the law."""
    wanted = np.linalg.solve(root, np.linalg.solve(root, covariance).T)
    mean, second, trace = moments(draws, z, weight)
    assert np.all(np.abs(mean.value) < SIGMAS * mean.error), f"mean {mean}"
    assert np.all(np.abs(second.value - wanted) < SIGMAS * second.error), f"covariance {second}"
    assert abs(trace.value - np.trace(wanted) / D) < SIGMAS * trace.error, f"trace {trace}"


@pytest.mark.long
@at_temperatures(QUICK)
def test_shuffled_minibatches(name: str, T: float) -> None:
    draws, z, root = run(name, T, SLOW, replace=False)
    law = shuffled(mean_step(draws), T)
    bias = np.trace(np.linalg.solve(root, np.linalg.solve(root, law).T)) / D - 1
    assert bias < 0.1  # the posterior itself, but for that
    check(draws, z, root, law)


@pytest.mark.slow
@at_temperatures(QUICK[1:])
def test_bias_with_replacement_is_known_and_halves(name: str, T: float) -> None:
    biases = []
    for relative in (FAST, FAST / 2):
        draws, z, root = run(name, T, relative, replace=True)
        check(draws, z, root, with_replacement(mean_step(draws), T))
        _, second, trace = moments(draws, z)
        biases.append((trace.value - 1, trace.error, second))
    (whole, whole_error, at_whole), (half, half_error, at_half) = biases
    assert half > 6 * half_error  # there is something to halve
    assert abs(whole - 2 * half) < SIGMAS * np.hypot(whole_error, 2 * half_error)
    limit = 2 * at_half.value - at_whole.value
    error = np.hypot(2 * at_half.error, at_whole.error)
    assert np.all(np.abs(limit - np.eye(D)) < SIGMAS * error)


class Doubled(sundman.Posterior):
    """The likelihood counts twice: a wrong N/|B|."""

    def potential(self, position, batch=None):
        return 2 * super().potential(position, batch) + self.log_prior(position)


@pytest.mark.slow
def test_a_wrong_scale_fails() -> None:
    draws, z, root = run("sgld", 1.0, SLOW, replace=False, kind=Doubled, times=4.0)
    with pytest.raises(AssertionError, match="covariance"):
        check(draws, z, root, shuffled(mean_step(draws), 1.0))


@pytest.mark.long
def test_a_forgotten_temperature_fails() -> None:
    draws, z, root = run("sgld", 1.0, SLOW, replace=False)
    with pytest.raises(AssertionError, match=r"covariance|trace"):
        check(draws, z, root, shuffled(mean_step(draws), 0.5))


@pytest.mark.long
def test_forgotten_weights_fail() -> None:
    """All data at each step, and a clock that follows the gradient at once."""
    mean, precision = problem().mean, problem().precision
    root = np.linalg.cholesky(np.linalg.inv(precision))
    first = mean + np.random.default_rng(8).normal(size=(32, D)) @ root.T
    clock = sundman.clocks.scale_free(
        problem().step(0.03), g_ref=np.trace(precision), a=5.0, M=10.0, r=1.0, lag="none"
    )
    draws = sundman.sample(
        posterior(1.0),
        sundman.compose(sundman.integrators.euler_maruyama(), clock),
        init=first.astype(np.float32),
        per_chain=True,
        key=jax.random.key(9),
        chains=len(first),
        steps=600,
        thin=2,
    )
    z = whitened(draws.position, root)
    law = np.linalg.inv(precision) / (1 - 0.5 * 0.03)  # Euler's own bias, near enough
    check(draws, z, root, law)
    with pytest.raises(AssertionError, match=r"covariance|trace"):
        check(draws, z, root, law, np.ones_like(draws.weight))
