"""Runs without a sampler: the law is right, whatever the scale, the start and the first step.

Tolerances are three of the run's own standard errors plus the bias that was asked for.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import gradients, targets
from sundman.run.scan import block
from sundman.tune import scales, windows
from sundman.tune.auto import Chosen
from sundman.tune.loops import bracket, window

CHAINS, STEPS, THIN = 16, 6000, 4
BIAS = 0.02


def judged(target: sundman.targets.Target, name: str, draws: sundman.Draws) -> None:
    """An observable of a target against its exact mean."""
    found = draws.expectation(target.observables[name])
    truth = float(target.truth[name])
    off = abs(float(found.value) - truth)
    assert off < 3.5 * float(found.error) + BIAS * abs(truth), (name, found, truth)


def tuned(target: sundman.targets.Target, **arguments: object) -> sundman.Draws:
    settings = {"chains": CHAINS, "steps": STEPS, "thin": THIN, "key": jax.random.key(1)}
    return sundman.sample(target, **{**settings, **arguments})


@pytest.mark.long
@pytest.mark.parametrize(
    ("target", "names"),
    [
        pytest.param(targets.star(), ("x2y2", "virial"), id="star"),
        pytest.param(
            targets.gaussian(20, 1e4),
            ("softest", "stiffest", "r2"),
            id="gaussian",
            marks=pytest.mark.slow,
        ),
        pytest.param(targets.banana(), ("x2", "y2"), id="banana", marks=pytest.mark.slow),
        pytest.param(
            targets.muller_brown(temperature=2.0),
            ("U", "virial"),
            id="muller-brown",
            marks=pytest.mark.slow,
        ),
        pytest.param(targets.quartic(), ("x2", "x4"), id="quartic", marks=pytest.mark.slow),
        pytest.param(
            targets.gaussian(100, 1e4), ("softest", "stiffest"), id="wide", marks=pytest.mark.slow
        ),
    ],
)
def test_a_target_without_settings(target, names):
    draws = tuned(target)
    assert not draws.diverged.any()
    for name in names:
        judged(target, name, draws)
    assert draws.tuning.converged


@pytest.mark.long
@pytest.mark.parametrize("temperature", [0.25, pytest.param(4.0, marks=pytest.mark.slow)])
def test_any_temperature(temperature):
    draws = sundman.sample(
        lambda x: 0.5 * jnp.sum(jnp.array([1.0, 100.0]) * x**2),
        sundman.auto(temperature=temperature),
        init=jnp.zeros(2),
        key=jax.random.key(2),
        chains=CHAINS,
        steps=STEPS,
        thin=THIN,
    )
    found = draws.expectation(lambda x: x**2 * jnp.array([1.0, 100.0]))
    assert np.all(np.abs(found.value / temperature - 1) < 3.5 * found.error / temperature + BIAS)


def test_the_first_step_does_not_matter():
    steps = [
        tuned(targets.star(), sampler=sundman.auto(first_step=first), steps=100).tuning.chosen.h
        for first in (1e-4, 1.0, 1e4)
    ]
    assert max(steps) < 1.3 * min(steps)


@pytest.mark.slow
def test_a_far_start_comes_in():
    draws = tuned(targets.gaussian(20, 1e4), init=jnp.full(20, 10.0))
    assert draws.tuning.windows[0].potential > 100 * draws.tuning.windows[-1].potential
    judged(targets.gaussian(20, 1e4), "r2", draws)


@pytest.mark.slow
def test_one_chain_far_away_does_not_stop_the_others():
    def potential(x):
        return 0.5 * jnp.sum(x**2) + jnp.sum(jnp.exp(x))

    starts = np.zeros((8, 3), np.float32)
    starts[0] = 25.0  # U = 2e11, and a step that suits it suits no other chain
    draws = sundman.sample(
        potential, init=starts, per_chain=True, key=jax.random.key(0), chains=8, steps=2000
    )
    assert draws.tuning.chosen.h > 0.1
    assert draws.verdict.status != "bad"


@pytest.mark.slow
def test_a_coordinate_far_from_zero_is_not_frozen():
    def potential(x):
        return 200 * (1 + x[0] ** 2) * jnp.exp(-2 * x[1]) + 400 * x[1]

    starts = np.stack([1e3 * np.linspace(0.5, 2, 8), np.linspace(-2, 2, 8)], 1)
    draws = sundman.sample(
        potential,
        init=starts.astype(np.float32),
        per_chain=True,
        key=jax.random.key(0),
        chains=8,
        steps=500,
    )
    assert np.all(np.ptp(draws.values, axis=1) > 0)
    assert draws.tuning.windows[-1].potential < 1e-4 * draws.tuning.windows[0].potential


@pytest.mark.parametrize(
    ("stiff", "variance"), [(0, 1.0), (3, 100.0), (1, 30.0)], ids=["alike", "three", "one"]
)
def test_how_many_directions_are_stiff(stiff, variance):
    """As many as share the sum of squared variances, in directions that are no axes."""
    rng = np.random.default_rng(0)
    d, turn = 400, np.linalg.qr(rng.normal(size=(400, 400)))[0]
    scale = np.ones(d)
    scale[:stiff] = np.sqrt(variance)
    rows = rng.normal(size=(200, d)) * scale @ turn
    of_variances = np.sum(scale**4) ** 2 / np.sum(scale**8)
    assert scales.stiff_directions(rows) == pytest.approx(of_variances, rel=0.35)


def test_thousands_of_chains_do_not_need_the_memory_of_their_products():
    """A product of every row with every other would be 200 GB here."""
    rows = np.random.default_rng(0).normal(size=(20, 8000, 5))
    assert windows._share_of_stiff_directions(np.ones(5), rows) == pytest.approx(1.0, abs=0.1)
    assert windows._width(np.ones(5), rows) == pytest.approx(1.0, abs=0.1)


def test_rows_of_one_chain_do_not_widen_the_law():
    """A chain that has hardly moved has rows alike: not a direction in which the law is wide."""
    rng = np.random.default_rng(0)
    slow = np.cumsum(rng.normal(size=(50, 4, 1000)), axis=0)
    rows = slow - slow.mean(axis=0)
    mean = np.mean(rows**2)
    assert scales.widest(rows.reshape(-1, 1000)) > 20 * mean
    assert scales.widest_of_chains(rows) < 2 * mean
    wide = rng.normal(size=(50, 4, 1000)) * np.where(np.arange(1000) < 2, 30.0, 1.0)
    assert scales.widest_of_chains(wide) == pytest.approx(
        (2 * 30.0**4 + 998) / (2 * 30.0**2 + 998), rel=0.2
    )


@pytest.mark.long
def test_one_stiff_direction_among_many_sets_the_step():
    """A direction of 1,000 times the curvature, no axis, in 3,000 dimensions: BAOAB is exact there.

    The energy error divided by d would allow a step at which that direction is hardly stable.
    """
    d, curvature = 3000, 1000.0
    normal = np.random.default_rng(1).normal(size=d)
    along = jnp.asarray(normal / np.linalg.norm(normal), jnp.float32)

    def potential(x):
        return 0.5 * jnp.sum(x**2) + 0.5 * (curvature - 1.0) * jnp.square(x @ along)

    draws = sundman.sample(
        potential,
        init=jnp.zeros(d),
        key=jax.random.key(0),
        chains=4,
        steps=3000,
        thin=10,
        collect=lambda x: curvature * jnp.square(x @ along),
    )
    chosen = draws.tuning.chosen
    assert "set by the stiffest directions" in draws.tuning.why
    assert chosen.h * float(jnp.mean(chosen.scale)) * np.sqrt(curvature) < 1.3
    found = draws.mean()
    assert abs(found.value - 1.0) < 3.5 * found.error + 0.03


@pytest.mark.long
@pytest.mark.parametrize("chains", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_few_chains(chains):
    draws = tuned(targets.star(), chains=chains, steps=STEPS * CHAINS // chains)
    judged(targets.star(), "x2y2", draws)


@pytest.mark.slow
def test_positions_may_be_pytrees_of_very_different_scales():
    def potential(position):
        return 0.5 * (position["a"] / 1e-3) ** 2 + 0.5 * jnp.sum(((position["b"] - 5e2) / 1e2) ** 2)

    draws = sundman.sample(
        potential,
        init={"a": jnp.float32(0.0), "b": jnp.zeros(3)},
        key=jax.random.key(3),
        chains=CHAINS,
        steps=STEPS,
        thin=THIN,
    )
    mean = draws.mean()
    assert np.all(np.abs(mean.value["b"] - 500.0) < 3.5 * mean.error["b"])
    squares = draws.expectation(lambda p: (p["a"] / 1e-3) ** 2)
    assert abs(squares.value - 1) < 3.5 * squares.error + BIAS


@pytest.mark.long
def test_noise_that_nobody_told_of_is_taken_out():
    """Isotropic noise of known size on a Gaussian: found to 10%, and not in the variances."""
    precision, sigma = jnp.array([1.0, 25.0, 400.0]), 30.0
    noisy = gradients.noisy(lambda x: 0.5 * jnp.sum(precision * x**2), sigma)
    draws = sundman.sample(
        noisy,
        init=jnp.zeros(3),
        key=jax.random.key(4),
        chains=CHAINS,
        steps=2 * STEPS,
        thin=THIN,
    )
    chosen = draws.tuning.chosen
    scale = np.asarray(chosen.scale)
    exact = sigma**2 * np.linalg.eigvalsh(scale.T @ scale)
    assert np.asarray(chosen.sigma) ** 2 == pytest.approx(exact, rel=0.1)
    found = draws.expectation(lambda x: precision * x**2)
    assert np.all(np.abs(found.value - 1) < 3.5 * found.error + 0.03)


@pytest.mark.long
def test_noise_of_the_gradient_alone_does_not_shorten_the_step():
    """U has no noise here: by U the energy error would be noise, and h a tenth of this."""
    target = targets.gaussian(2, 4.0)
    draws = sundman.sample(
        sundman.gradients.noisy(target.potential, 1.0), init=jnp.zeros(2), key=jax.random.key(0),
        chains=16, steps=2000, stats=(),
    )  # fmt: skip
    assert draws.tuning.chosen.h > 0.2
    np.testing.assert_allclose(draws.variance(), [1.0, 0.25], rtol=0.15)


def test_the_tuned_sampler_is_an_ordinary_one():
    draws = tuned(targets.star(), steps=400)
    sampler = draws.tuning.sampler
    again = sundman.sample(targets.star(), sampler, key=jax.random.key(0), steps=400)
    assert isinstance(sampler, sundman.Sampler)
    assert len(again) == 400
    assert again.tuning is None
    made: dict = {}
    exec(draws.tuning.code, made)
    assert made["sampler"] == sampler


def test_the_record_says_what_was_seen():
    draws = tuned(targets.star(), steps=400)
    stages = [window.stage for window in draws.tuning.windows]
    assert stages[0] == "descent"
    assert stages[-1] == "last"
    assert sum(w.steps for w in draws.tuning.windows) <= draws.tuning.gradients
    assert "step h =" in str(draws.tuning)
    assert draws[:100].tuning is draws.tuning


def test_the_same_key_gives_the_same_draws():
    one, other = (tuned(targets.star(), steps=200) for _ in range(2))
    np.testing.assert_array_equal(one.values, other.values)


def test_a_second_run_compiles_nothing():
    tuned(targets.star(), steps=200)
    loops = (window, bracket, block)
    programs = [loop._cache_size() for loop in loops]
    other = tuned(targets.star(), steps=200, key=jax.random.key(9), sampler=sundman.auto(bias=0.01))
    assert other.tuning.chosen.h > 0
    assert [loop._cache_size() for loop in loops] == programs


@pytest.mark.slow
def test_all_windows_are_one_program():
    before = window._cache_size()
    tuned(targets.double_well(), steps=100)
    assert window._cache_size() == before + 1


@pytest.mark.long
def test_momenta_are_colder_where_noise_is_taken_out():
    """By what the next kick brings; positions have T all the same."""
    size, noise, T = 3, 4.0, 1.5

    noisy = gradients.noisy(lambda x: 0.5 * jnp.sum(x**2), noise)
    chosen = Chosen(
        "baoab", T, 0.2, 1.5, 0.0, 0, 0.0, jnp.eye(size), jnp.full(size, noise), dense=True
    )
    draws = sundman.sample(
        noisy, chosen.sampler(), init=jnp.zeros(size), key=jax.random.key(0),
        chains=8, burn_in=500, steps=20_000,
    )  # fmt: skip
    kinetic = draws.stats["kinetic_temperature"]
    assert chosen.kinetic_temperature < 0.85 * T
    assert float(np.mean(kinetic)) == pytest.approx(chosen.kinetic_temperature, rel=0.02)
    assert np.asarray(draws.variance()) == pytest.approx(T, rel=0.06)
