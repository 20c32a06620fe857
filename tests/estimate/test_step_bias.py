"""The work of the steps, and the bias of averages that is made of it."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, estimate, integrators, scaling, targets

WORK = integrators.baoab(gamma=1.0, work=True)


def test_the_work_is_the_energy_error_of_the_steps():
    """A second implementation, without the merging of half kicks; two arrays, a matrix L."""
    L = np.array([[1.0, 0.0], [0.6, 0.5]], np.float32)
    scaled = integrators.whitened(
        integrators.baoab(0.0, gamma=0.3, work=True), scaling.dense(jnp.asarray(L))
    )
    h, steps = 0.3, 12

    def U(x):
        return jnp.sum(x**4) / 4 + x[0] * x[1]

    draws = sundman.sample(
        U, sundman.compose(scaled, clocks.constant(h)), init=jnp.array([1.5, -0.5]),
        key=jax.random.key(0), steps=steps, weighting="leaving",
    )  # fmt: skip
    x, p, work, c = np.array([1.5, -0.5]), np.zeros(2), 0.0, np.exp(-0.3 * h)
    G = jax.grad(U)
    for n in range(steps):
        np.testing.assert_allclose(draws.position[0, n], x, rtol=2e-4)
        if n > 0:
            done = draws.stats["work"][0, n] - draws.stats["work"][0, 0]
            assert done == pytest.approx(work, abs=3e-5)
        first = p - h / 2 * L.T @ np.asarray(G(jnp.float32(x)))
        after = c * first
        to = x + L @ (h / 2 * (first + after))
        last = after - h / 2 * L.T @ np.asarray(G(jnp.float32(to)))
        work += float(U(jnp.float32(to)) - U(jnp.float32(x)))
        work += 0.5 * float(first @ first - p @ p + last @ last - after @ after)
        x, p = to, last
    assert abs(work) > 0.01  # the step is long enough for it to be seen


def test_without_asking_nothing_is_followed():
    draws = sundman.sample(targets.quartic(), sundman.baoab(0.1), key=jax.random.key(0), steps=100)
    assert "work" not in draws.stats
    assert draws.settings["weighting"] == "leaving"
    assert estimate.step_bias(draws) is None
    assert draws.mean().bias is None


@pytest.fixture(scope="module")
def quartic() -> sundman.Draws:
    """BAOAB at a step so long that E|grad U|^2 is visibly off."""
    target = targets.quartic()

    def collect(x):
        return target.observables["grad2"](x)

    return sundman.sample(
        target,
        sundman.compose(WORK, clocks.constant(0.45)),
        init=target.exact(jax.random.key(1), 1024),
        per_chain=True,
        key=jax.random.key(2),
        chains=1024,
        burn_in=40,
        steps=4000,
        thin=4,
        collect=collect,
        stats=(),
    )


@pytest.mark.long
def test_work_takes_averages_back_to_the_exact_law(quartic, optimised):
    """E[f exp(-W)] / E[exp(-W)] is the exact average; the plain one is 5 errors off."""
    truth, f = float(targets.quartic().truth["grad2"]), np.asarray(quartic.values, np.float64)
    plain = quartic.mean()
    assert plain.value - truth > 5 * plain.error
    W, K = np.asarray(quartic.stats["work"], np.float64), 5
    factor = np.exp(-(W[:, K:] - W[:, :-K]))
    by_chain = (factor * (f[:, K:] - truth)).mean(axis=1)
    assert abs(by_chain.mean()) < 4 * by_chain.std() / np.sqrt(len(f))
    assert abs(factor.mean() - 1) < 0.1  # it is 1 from the exact law


def _made(b: float, K: int = 1, **changes) -> sundman.Draws:
    """White f, and a work that has b of its last K values in it, and noise."""
    rng = np.random.default_rng(0)
    f = rng.normal(size=(8, 4000))
    past = sum(np.roll(f, lag, axis=1) for lag in range(K)) / K
    steps = b * past + 0.2 * rng.normal(size=f.shape)
    kept = sundman.sample(
        targets.gaussian(2), sundman.compose(WORK, clocks.constant(0.1)), key=jax.random.key(0),
        chains=8, steps=8, stats=(),
    )  # fmt: skip
    return dataclasses.replace(
        kept,
        values=f,
        weight=np.ones_like(f),
        stats={"work": np.cumsum(steps, axis=1)},
        diverged_at=np.full(8, -1),
        **changes,
    )


@pytest.mark.parametrize("b", [0.05, -0.05, 0.0])
def test_a_known_covariance_is_found(b):
    found = estimate.step_bias(_made(b))
    assert found is not None
    assert found.value == pytest.approx(b, abs=4 * found.error)
    assert 0.5e-3 < found.error < 5e-3
    mean = estimate.mean(_made(b))
    assert mean.bias == pytest.approx(abs(found.value) + found.error)


def test_what_lies_across_a_loss_does_not_count():
    """A jump of the work where a chain was put back, with weights of 0 before."""
    made = _made(0.05)
    weight, work = made.weight.copy(), made.stats["work"].copy()
    weight[2, 500:520], work[2, 515:] = 0.0, work[2, 515:] + 1e4
    work[3, -7:], weight[3, -9:] = np.nan, 0.0
    jumped = dataclasses.replace(made, weight=weight, stats={"work": work})
    found, before = estimate.step_bias(jumped), estimate.step_bias(made)
    assert found.value == pytest.approx(before.value, abs=before.error)


def test_rare_outliers_do_not_decide():
    made = _made(0.05)
    work = made.stats["work"].copy()
    work[5, 1000:] += 1e3
    jumped = dataclasses.replace(made, stats={"work": work})
    found, before = estimate.step_bias(jumped), estimate.step_bias(made)
    assert found.value == pytest.approx(before.value, abs=3 * before.error)


def test_resampled_draws_have_none():
    made = _made(0.05)
    out_of_order = dataclasses.replace(made, settings={**made.settings, "resampled": True})
    assert estimate.step_bias(out_of_order) is None


def test_shapes_are_those_of_the_values():
    draws = sundman.sample(
        targets.gaussian(3), sundman.compose(WORK, clocks.constant(0.2)), key=jax.random.key(0),
        chains=2, steps=200,
    )  # fmt: skip
    found = estimate.step_bias(draws, lambda x: {"x": x, "r": x @ x})
    assert found.value["x"].shape == found.error["x"].shape == (3,)
    assert isinstance(found.value["r"], float)
    bias = estimate.mean(draws, lambda x: {"x": x, "r": x @ x}).bias
    assert bias["r"] == pytest.approx(abs(found.value["r"]) + found.error["r"])


@pytest.mark.long
def test_symmetric_weights_are_of_second_order(optimised):
    """With a short memory leaving weights are 5% of an sd off, symmetric ones are not."""
    target = targets.quartic()
    clock = clocks.scale_free(0.2, g_ref=1.5, a=0.5, M=10.0, r=0.5)
    off = {}
    for weighting in ("leaving", "symmetric"):
        draws = sundman.sample(
            target,
            sundman.compose(integrators.baoab(gamma=1.0), clock),
            init=target.exact(jax.random.key(1), 1024),
            per_chain=True,
            key=jax.random.key(2),
            chains=1024,
            steps=2000,
            thin=4,
            collect=target.observables["x2"],
            weighting=weighting,
            stats=(),
        )
        value, error = draws.mean()
        sd = float(np.sqrt(draws.variance()))
        off[weighting] = (value - float(target.truth["x2"])) / sd
        assert error / sd < 0.002
    assert off["leaving"] < -0.04
    assert abs(off["symmetric"]) < 0.008
