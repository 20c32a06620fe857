"""Variance reduction on real data: logistic regression, breast cancer, rows drawn anew each step.

The gradient's total variance at some distance from the mode, and what it does to SGLD: gradient
noise V heats the posterior variance by about dt V / 2, which control variates and SVRG take
away. What is left is Euler-Maruyama's own bias, that of the whole gradient. Variances are
relative to those of NUTS, in the mean over the eleven coefficients.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from test_logistic import REFERENCE, posterior

import sundman
from sundman import gradients
from sundman.gradients import RemembersGradients
from sundman.noise import Stream

BATCH, CHAINS, DT, STEPS, DROP, THIN = 19, 128, 2e-3, 3000, 1000, 50
GROUPS = 16
Floats = np.ndarray


class Problem(NamedTuple):
    """The posterior and its mode."""

    posterior: sundman.Posterior
    mode: dict


@cache
def problem() -> Problem:
    model, key = posterior(), jax.random.key(1)
    start = {"w": np.zeros(10, np.float32), "b": np.float32(0)}
    mode = sundman.map_estimate(model, start, key=key, steps=2000, optimizer=optax.adam(0.03))
    return Problem(model, mode)


def estimator(name: str):
    model, mode = problem()
    if name == "control_variate":
        return gradients.control_variate(model, BATCH, at=mode, order="with_replacement")
    if name == "svrg":
        return gradients.svrg(model, BATCH, order="with_replacement")
    if name == "whole":
        return gradients.minibatch(model, None)
    return gradients.minibatch(model, BATCH, order="with_replacement")


def flat(params: dict) -> Floats:
    return np.concatenate([params["w"], np.asarray(params["b"])[..., None]], axis=-1)


def total_variance(name: str, distance: float, steps: int = 2000) -> float:
    """Of G, in the mean over directions, at a distance from the mode in posterior deviations."""
    gradient, mode = estimator(name), problem().mode
    sd = distance * np.array(REFERENCE["sd"], np.float32)

    def one(step, gradient, memory):
        direction = jax.random.normal(jax.random.key(step // 100), (11,)) * sd
        at = {"w": mode["w"] + direction[:10], "b": mode["b"] + direction[10]}
        if isinstance(gradient, RemembersGradients):
            return gradient.recall(Stream(jnp.zeros(2, jnp.uint32), step), at, memory)[1]
        return gradient(Stream(jnp.zeros(2, jnp.uint32), step), at)[1]

    memory = ()
    if isinstance(gradient, RemembersGradients):
        memory = jax.jit(lambda gradient: gradient.begin(mode))(gradient)
    found = jax.jit(jax.vmap(one, (0, None, None)))(
        jnp.arange(steps, dtype=jnp.uint32), gradient, memory
    )
    return float(flat(found).reshape(-1, 100, 11).var(axis=1, ddof=1).sum(axis=-1).mean())


@cache
def excess(name: str) -> tuple[float, float]:
    """The posterior variance of SGLD over that of NUTS, less 1, and its standard error."""
    sd = np.array(REFERENCE["sd"])
    start = REFERENCE["mean"] + sd * np.random.default_rng(4).normal(size=(CHAINS, 11))
    draws = sundman.sample(
        estimator(name),
        sundman.sgld(DT),
        init={"w": start[:, :10].astype(np.float32), "b": start[:, 10].astype(np.float32)},
        per_chain=True,
        key=jax.random.key(5),
        chains=CHAINS,
        steps=STEPS,
        thin=THIN,
    )
    offset = (flat(draws.position)[:, DROP // THIN :] - REFERENCE["mean"]) / sd
    groups = np.square(offset).mean(axis=(1, 2)).reshape(GROUPS, -1).mean(axis=1)
    return float(groups.mean() - 1), float(groups.std(ddof=1) / np.sqrt(GROUPS))


@pytest.mark.slow
def test_control_variates_cut_the_variance_near_the_mode() -> None:
    """31 times at a quarter of a posterior deviation from the mode, 9 at a half, 3 at one."""
    plain, reduced = (total_variance(name, 0.25) for name in ("minibatch", "control_variate"))
    assert plain > 10 * reduced


@pytest.mark.slow
@pytest.mark.parametrize("name", ["control_variate", "svrg"])
def test_without_the_noise_sgld_is_as_with_the_whole_gradient(name: str) -> None:
    """+22(2)% with plain minibatches, +2(2)% with each of these, 0(2)% with the whole gradient."""
    plain, whole, found = excess("minibatch"), excess("whole"), excess(name)
    assert plain[0] - whole[0] > 5 * np.hypot(plain[1], whole[1])
    assert plain[0] - found[0] > 5 * np.hypot(plain[1], found[1])
    assert abs(found[0] - whole[0]) < 0.4 * (plain[0] - whole[0])
