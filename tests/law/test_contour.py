"""Contour SGLD on two wells: reweighted averages are right, bins are learnt, energies flattened."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from battery import SIGMAS, Expected, Floats, average, check_law, run

import sundman
from sundman import contour_sgld, integrators
from sundman.estimate import Estimate
from sundman.noise import Stream
from sundman.targets import Target, gaussian
from sundman.targets.from_potential import by_quadrature

BINS, TOP, CHAINS, LEARN = 20, 10.0, 128, 12_000


def tilted(T: float) -> Target:
    """Two wells in x, the left the deeper by T; a barrier of 6 T between; a parabola in y."""

    def potential(x):
        return T * (6.0 * (x[0] ** 2 - 1.0) ** 2 + 0.5 * x[0] + 5.0 * x[1] ** 2)

    return by_quadrature(
        "tilted",
        potential,
        lambda x: [T * (24.0 * x[0] * (x[0] ** 2 - 1.0) + 0.5), 10.0 * T * x[1]],
        {
            "right": lambda x: np.asarray(x[0] > 0, np.float64) + 0.0 * x[1],
            "y2": lambda x: x[1] ** 2,
        },
        temperature=T,
        start=[-1.0, 0.0],
        box=[(-2.2, 2.2), (-3.0, 3.0)],
        cuts=[[0.0], []],
        longest=0.1,
    )


def bin_of(U: Floats, T: float) -> np.ndarray:
    return np.clip((U / T + 0.6) / (TOP + 0.6) * BINS, 0, BINS - 1).astype(int)


def bin_shares(target: Target) -> Floats:
    """The probability of every bin, by a fine grid."""
    x, y = np.meshgrid(np.linspace(-2.2, 2.2, 2001), np.linspace(-3, 3, 2001), indexing="ij")
    U = target.potential(np.stack([x, y]))
    weight = np.exp(-U / target.temperature)
    counts = np.bincount(bin_of(U, target.temperature).ravel(), weight.ravel(), BINS)
    return counts / counts.sum()


def over_chains(values: Floats, weight: Floats) -> Estimate:
    """Chains are independent: a ratio of sums, and its error by leaving one chain out."""
    top, bottom = (values * weight).sum(axis=1), weight.sum(axis=1)
    ratio = top.sum() / bottom.sum()
    without = (top.sum() - top) / (bottom.sum() - bottom)
    n = len(top)
    return Estimate(ratio, math.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))


@pytest.mark.slow
@pytest.mark.parametrize("T", [1.0, 0.3])
def test_averages_bins_and_flatness(T: float) -> None:
    """Energies above 4 T are met in 3% of SGLD's steps and in 41% of these.

    Allowances for the step, h k = .1 in x and .02 in y: half of that for E[y²], and for bins of
    energy 7% (Euler-Maruyama's own), with 8% for chance.
    """
    target = tilted(T)
    h = 0.002 / T
    sampler = contour_sgld(h, T, low=-0.6 * T, high=TOP * T, bins=BINS, flatness=0.9, learn=LEARN)
    draws = sundman.sample(
        target,
        sampler,
        key=jax.random.key(95),
        chains=CHAINS,
        steps=24_000,
        burn_in=LEARN,
        thin=8,
        stats=(),
    )
    assert not draws.diverged.any()
    x = np.asarray(draws.position, np.float64)
    weight = draws.weight.astype(np.float64)
    right = over_chains((x[..., 0] > 0).astype(float), weight)
    assert abs(right.value - target.truth["right"]) < SIGMAS * right.error
    assert right.error < 0.02
    y2 = over_chains(x[..., 1] ** 2, weight)
    assert abs(y2.value / target.truth["y2"] - 1) < SIGMAS * y2.error / target.truth["y2"] + 0.01
    U = np.asarray(draws.stats["potential"], np.float64)
    shares = bin_shares(target)
    high = bin_of(U, T) >= bin_of(np.array(4.0 * T), T)
    assert shares[bin_of(np.array(4.0 * T), T) :].sum() < 0.08
    assert high.mean() > 0.3
    met = np.bincount(bin_of(U, T).ravel(), minlength=BINS) / U.size
    assert met[1:].min() > 0.2 / BINS
    reweighted = np.bincount(bin_of(U, T).ravel(), weight.ravel(), BINS) / weight.sum()
    np.testing.assert_allclose(reweighted[1:12], shares[1:12], rtol=0.15)


@pytest.mark.slow
def test_the_shares_of_the_bins_are_learnt() -> None:
    """The mean over chains, with its own error, and 7% for Euler-Maruyama's bins of energy."""
    target, steps = tilted(1.0), 40_000
    sampler = contour_sgld(0.002, low=-0.6, high=TOP, bins=BINS, flatness=0.9)

    @jax.vmap
    def learnt(key):
        def body(carry, _):
            x, state = carry
            value, grads = jax.value_and_grad(target.potential)(x)
            return sampler.step(grads, state, x, value), None

        x = jnp.array(target.start, jnp.float32)
        return jax.lax.scan(body, (x, sampler.init(x, key)), length=steps)[0][1].motion.shares

    found = np.asarray(jax.jit(learnt)(jax.random.split(jax.random.key(96), CHAINS)), np.float64)
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(CHAINS)
    wanted = bin_shares(target)
    looked_at = wanted > 0.01
    assert looked_at.sum() > 5
    assert (error[looked_at] < 0.05 * wanted[looked_at]).all()
    assert (abs(mean - wanted) < SIGMAS * error + 0.07 * wanted)[looked_at].all()


@pytest.mark.long
def test_a_flattened_gaussian_is_right_when_reweighted() -> None:
    """E[x²] of N(0, 1): 1, and Euler-Maruyama's h/2; far larger without the weights."""
    h, learn = 0.05, 4_000
    target = gaussian(1)
    sampler = contour_sgld(h, low=0.0, high=6.0, bins=12, flatness=0.9, learn=learn)
    draws = run(
        target, sampler, {"x2": lambda x: x[..., 0] ** 2}, steps=16_000, seed=97, drop=learn
    )
    check_law(draws, {"x2": Expected(1 / (1 - h / 2), h / 2)})
    unweighted = dataclasses.replace(draws, weight=np.ones_like(draws.weight))
    assert average(unweighted, "x2").value > 1.5


def test_what_is_learnt_is_fixed_in_time() -> None:
    sampler = contour_sgld(0.01, low=-0.6, high=TOP, bins=BINS, learn=5)
    x, target = jnp.array([-1.0, 0.0]), tilted(1.0)
    state = sampler.init(x, jax.random.key(1))

    @jax.jit
    def step(x, state):
        value, grads = jax.value_and_grad(target.potential)(x)
        return sampler.step(grads, state, x, value)

    shares = []
    for _ in range(8):
        x, state = step(x, state)
        shares.append(np.asarray(state.motion.shares))
    assert (shares[3] != shares[4]).all()
    np.testing.assert_array_equal(shares[4], shares[7])


@pytest.mark.long
def test_flat_everywhere_is_sgld() -> None:
    """flatness 0: no factor on the gradient and none on the weights."""
    arguments = {"key": jax.random.key(1), "chains": 2, "steps": 50}
    target = tilted(1.0)
    found = sundman.sample(
        target, contour_sgld(0.004, low=0.0, high=9.0, flatness=0.0), **arguments
    )
    wanted = sundman.sample(target, sundman.sgld(0.004), **arguments)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.weight, wanted.weight, rtol=1e-6)


def moved(
    value: float, shares: list[float], T: float = 0.5, step: int = 0
) -> tuple[float, Floats, float]:
    """The factor of the gradient, the shares after a step without noise, the weight's factor."""
    found = _moved(np.float32(value), np.array(shares, np.float32), np.float32(T), np.uint32(step))
    factor, after, weight = map(np.asarray, found)
    return float(factor), after, float(weight)


@jax.jit
def _moved(value, shares, T, step):
    integrator = integrators.contour(
        T, low=1.0, high=4.0, bins=3, flatness=1.0, gain=0.1, gain_offset=50.0, gain_power=0.8
    )
    x = jnp.zeros(40_000)
    state = integrator.init(x)._replace(shares=shares)
    stream = Stream(jnp.array([1, 2], jnp.uint32), step)
    dt = jnp.float32(1.0)
    updates, after = integrator.move(stream, jnp.ones_like(x), state, x, dt, value=value)
    still, _ = integrator.move(stream, jnp.zeros_like(x), state, x, dt, value=value)
    return -jnp.mean(updates - still), after.shares, integrator.weigh(after)


@pytest.mark.parametrize("step", [0, 1000])
def test_the_equations_of_a_step(step: int) -> None:
    shares = [0.5, 0.3, 0.2]
    factor, after, weight = moved(2.25, shares, step=step)  # a quarter into the second bin
    omega = 0.1 * (1 + step / 50) ** -0.8
    psi = 0.5**0.75 * 0.3**0.25
    assert factor == pytest.approx(1 + 0.5 * np.log(0.3 / 0.5), rel=1e-4)
    assert weight == pytest.approx(psi, rel=1e-5)
    wanted = np.array(shares) + omega * psi * (np.array([0, 1, 0]) - shares)
    np.testing.assert_allclose(after, wanted, rtol=1e-5)
    assert after.sum() == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(("value", "bin_"), [(-50.0, 0), (0.99, 0), (1.5, 0), (4.01, 2), (1e9, 2)])
def test_outside_the_range_psi_is_flat(value: float, bin_: int) -> None:
    shares = [0.5, 0.3, 0.2]
    factor, after, weight = moved(value, shares)
    assert factor == pytest.approx(1.0, rel=1e-4)
    assert weight == pytest.approx(shares[bin_], rel=1e-5)
    assert int(np.argmax(after - shares)) == bin_


def test_a_bin_never_met_pushes_with_limits() -> None:
    factor, _, weight = moved(2.5, [1.0, 0.0, 0.0])
    assert factor == pytest.approx(1 + 0.5 * np.log(1e-6), rel=1e-4)
    assert weight == pytest.approx(1e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"low": 2.0, "high": 1.0}, "low=2.0, high=1.0"),
        ({"bins": 1}, "bins=1"),
        ({"flatness": -0.1}, "flatness=-0.1"),
        ({"gain": 1.0}, "gain=1.0"),
        ({"learn": -1}, "learn=-1"),
        ({"gain_power": 0.5}, "gain_power=0.5"),
        ({"temperature": -1.0}, "temperature=-1.0"),
    ],
)
def test_bad_settings_are_named(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        contour_sgld(0.1, **{"low": 0.0, "high": 1.0, **settings})
