"""The law of SGLD under each gradient estimator, on the linear regression with a known posterior.

A linear model makes every estimator's noise known. Rows drawn anew each step heat by the
covariance V of the gradient, Sigma = R Sigma R + 2 T dt + dt² V with R = 1 - dt A. Control
variates at the posterior mean leave V(theta) = N²/|B| Cov[x x' (theta - mean)] / noise⁴, of
second order in the distance: linear in Sigma. SVRG's is the same but for the distance, to its
snapshot, which in the mean over an epoch is no larger here.
"""

from __future__ import annotations

import jax
import numpy as np
import pytest
from test_linear_regression import (
    BATCH,
    FAST,
    NOISE,
    D,
    N,
    check,
    moments,
    posterior,
    problem,
    whitened,
    with_replacement,
    without_first,
)

import sundman
from sundman import gradients

pytestmark = pytest.mark.slow

CHAINS, STEPS, THIN = 64, 1600, 25
MODEL = posterior(1.0)
MEAN = problem().mean.astype(np.float32)
MAKE = {
    "control_variate": lambda: gradients.control_variate(
        MODEL, BATCH, at=MEAN, order="with_replacement"
    ),
    "svrg": lambda: gradients.svrg(MODEL, BATCH, every=50, order="with_replacement"),
}


def run(estimator, sampler):
    root = np.linalg.cholesky(np.linalg.inv(problem().precision))
    first = problem().mean + np.random.default_rng(6).normal(size=(CHAINS, D)) @ root.T
    draws = sundman.sample(
        estimator,
        sampler,
        init=first.astype(np.float32),
        per_chain=True,
        key=jax.random.key(7),
        chains=CHAINS,
        steps=STEPS,
        thin=THIN,
    )
    draws = without_first(draws, 10)
    return draws, whitened(draws.position, root), root


def control_variate_law(dt: float) -> np.ndarray:
    """The stationary covariance with control variates at the mean, V being linear in it."""
    x, _, _, A, _ = problem()
    products = (x[:, :, None] * x[:, None, :] / NOISE**2).reshape(N, -1)
    mean = products.mean(axis=0).reshape(D, D)
    moved = (products.T @ products / N).reshape(D, D, D, D).transpose(0, 2, 1, 3)
    V = N**2 / BATCH * (moved.reshape(D * D, D * D) - np.kron(mean, mean))
    R = np.eye(D) - dt * A
    left = np.eye(D * D) - np.kron(R, R) - dt**2 * V
    return np.linalg.solve(left, 2 * dt * np.eye(D).ravel()).reshape(D, D)


def heat(covariance: np.ndarray, root: np.ndarray) -> float:
    return float(np.trace(np.linalg.solve(root, np.linalg.solve(root, covariance).T)) / D - 1)


@pytest.mark.parametrize("name", MAKE)
def test_linear_regression(name: str) -> None:
    """The variance is +40% with plain minibatches, +.5% with these."""
    dt = problem().step(FAST)
    draws, z, root = run(MAKE[name](), sundman.sgld(dt))
    law = control_variate_law(dt)
    plain = heat(with_replacement(dt, 1.0), root)
    assert heat(law, root) < 0.02 * plain
    check(draws, z, root, law)
    _, _, trace = moments(draws, z)
    assert trace.error < 0.1 * plain
