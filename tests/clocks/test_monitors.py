"""Monitors: each measures what it says; a psi of one's own; clocks times schedules."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

import sundman
from sundman import clocks
from sundman.contrib import monitors

SETTINGS = {"alpha": 2.0, "m": 0.1, "M": 10.0, "r": 0.5}
PARAMS = {"a": jnp.array([0.5, -1.0]), "b": jnp.array(2.0)}
GRADS = {"a": jnp.array([3.0, 4.0]), "b": jnp.array(-1.0)}


def bowl(params):
    return 0.5 * (3.0 * jnp.sum(params["a"] ** 2) + 5.0 * params["b"] ** 2)


def measured(monitor, grads=GRADS, steps=1):
    """q after each of some equal gradients."""
    memory, found, measure = monitor.init(PARAMS), [], jax.jit(monitor.measure)
    for step in range(steps):
        q, memory = measure(grads, PARAMS, memory, jnp.uint32(step))
        found.append(float(q))
    return found


def test_each_monitor_measures_what_it_says():
    diagonal = {"a": jnp.array([1.0, 2.0]), "b": jnp.array(10.0)}
    assert measured(monitors.preconditioned(diagonal)) == [9.0 + 32.0 + 10.0]
    np.testing.assert_allclose(measured(monitors.preconditioned(eps=1e-6), steps=3), 8.0, rtol=1e-5)
    assert measured(monitors.energy(bowl, lowest=1.0)) == [0.5 * (3.0 * 1.25 + 20.0) - 1.0]
    assert measured(monitors.energy(bowl, lowest=100.0)) == [0.0]
    np.testing.assert_allclose(measured(monitors.curvature(bowl), steps=5), 11.0, rtol=1e-6)
    assert measured(monitors.noise_corrected(2.0), steps=2) == [26.0 - 12.0] * 2
    assert measured(monitors.noise_corrected(9.0)) == [0.0]
    assert measured(monitors.noise_corrected(), steps=2) == [26.0] * 2
    assert measured(clocks.monitors.function(lambda g, p: p["b"])) == [2.0]


def test_a_clock_in_learning_rates_sees_the_same_number_for_any_number_of_rows():
    """q / Omega of U = N bowl does not depend on N: each monitor says how q grows."""

    def relative(make, rows):
        def whole(params):
            return rows * bowl(params)

        rate = sundman.LearningRate(0.1)
        clock = clocks.sundman(rate, **SETTINGS, monitor=make(whole)).in_time(rows, kinetic=False)
        grads = jax.tree.map(lambda leaf: rows * leaf, GRADS)
        return measured(clock.monitor, grads)[0] / clock.omega

    for make in (
        monitors.energy,
        monitors.curvature,
        lambda U: monitors.preconditioned(eps=1e-6),
        lambda U: monitors.noise_corrected(),
    ):
        np.testing.assert_allclose(relative(make, 1000), relative(make, 1), rtol=1e-5)


def test_the_probe_of_the_curvature_is_a_fresh_sign_vector():
    """U = x y + (x² + y²)/2: v . H v = 2 + 2 v_x v_y is 0 or 4."""

    def saddle(x):
        return x[0] * x[1] + 0.5 * (x[0] ** 2 + x[1] ** 2)

    monitor = monitors.curvature(saddle)
    at = jnp.ones(2)
    q = jax.jit(jax.vmap(lambda step: monitor.measure(at, at, None, step)[0]))(jnp.arange(400))
    counts = np.unique(np.rint(q), return_counts=True)
    assert counts[0].tolist() == [0.0, 4.0]
    assert abs(counts[1][0] - 200) < 50


def test_noise_is_estimated_from_consecutive_gradients():
    rng = np.random.default_rng(2)
    d, sigma, steps = 10, 3.0, 20_000
    noisy = jnp.asarray(1.0 + sigma * rng.normal(size=(steps, d)), jnp.float32)

    def final(monitor):
        def body(memory, given):
            n, grads = given
            q, memory = monitor.measure(grads, grads, memory, n)
            return memory, q

        given = (jnp.arange(steps, dtype=jnp.uint32), noisy)
        return np.asarray(lax.scan(body, monitor.init(noisy[0]), given)[1])[1000:]

    for monitor in (monitors.noise_corrected(sigma), monitors.noise_corrected()):
        q = final(monitor)
        assert q.min() >= 0.0
        assert abs(q.mean() - d) < 1.5  # the plain norm has d + 9 d = 100


def test_the_clock_takes_the_monitor_in_the_place_of_the_norm():
    plain = clocks.sundman(0.05, **SETTINGS, s=3.0, omega=7.0)
    same = clocks.sundman(
        0.05,
        **SETTINGS,
        s=3.0,
        omega=7.0,
        monitor=lambda g, p: sum(map(jnp.sum, map(jnp.square, jax.tree.leaves(g)))),
    )
    for clock in (plain, same):
        dt, _ = clock.tick(clock.init(PARAMS), GRADS, PARAMS)
        assert float(dt) == pytest.approx(
            0.05 * 0.1 * (9.4690**0.5 + 10) / (9.4690**0.5 + 0.1), 1e-3
        )
    assert plain.takes_split_gradients
    assert not same.takes_split_gradients
    assert plain.settings["monitor"] is None
    assert "lambda" in same.settings["monitor"]
    json.dumps(dict(same.settings))


def test_what_a_monitor_remembers_is_carried_by_the_sampler():
    clock = clocks.sundman(0.05, **SETTINGS, monitor=monitors.noise_corrected())
    sampler = sundman.compose(sundman.integrators.euler_maruyama(), clock)
    state = sampler.init(PARAMS, jax.random.key(1))
    update = jax.jit(sampler.update)
    for _ in range(2):
        _, state = update(GRADS, state, PARAMS)
    assert state.clock.memory.signal == 26.0


def test_equal_parts_make_equal_monitors():
    assert monitors.noise_corrected(1.0) == monitors.noise_corrected(1.0)
    assert monitors.curvature(bowl) == monitors.curvature(bowl)
    assert hash(monitors.energy(bowl)) == hash(monitors.energy(bowl))
    assert repr(monitors.energy(bowl, lowest=1.0)) == "contrib.monitors.energy(bowl, lowest=1.0)"
    ones = jax.tree.map(jnp.ones_like, PARAMS)
    assert monitors.preconditioned(ones) == monitors.preconditioned(ones)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: clocks.sundman(0.1, **SETTINGS, monitor=3.0), TypeError, "monitor must be"),
        (
            lambda: clocks.sundman(0.1, **SETTINGS, monitor=bowl, blockwise=True),
            ValueError,
            "blockwise",
        ),
        (lambda: monitors.energy(3.0), TypeError, "monitors.energy"),
        (lambda: monitors.noise_corrected(-1.0), ValueError, "sigma=-1.0"),
        (lambda: monitors.noise_corrected(average=2.0), ValueError, "average=2.0"),
        (lambda: monitors.preconditioned(jnp.array([1.0, 0.0])), ValueError, "positive and finite"),
        (lambda: monitors.preconditioned(decay=1.0), ValueError, "decay=1"),
        (lambda: monitors.preconditioned(jnp.ones(3)).init(PARAMS), ValueError, "shapes"),
        (lambda: measured(clocks.monitors.function(lambda g, p: g["a"])), ValueError, "one number"),
        (lambda: clocks.times(3.0, lambda n: 1.0), TypeError, "clock must be"),
        (lambda: clocks.times(clocks.constant(0.1), 0.5), TypeError, "schedule must be"),
        (lambda: clocks.times(clocks.constant(0.1), lambda n: -1.0), ValueError, "schedule"),
    ],
)
def test_bad_settings_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def own(zeta):
    return 0.5 + 1.5 / (1.0 + jnp.log1p(zeta))


def scaled(scale):
    return jax.tree.map(lambda g: scale * g, GRADS)


def dts(clock, scales):
    """dt after each of some gradients."""
    state, found = clock.init(PARAMS), []
    tick = jax.jit(lambda state, scale: clock.tick(state, scaled(scale), PARAMS))
    for scale in scales:
        dt, state = tick(state, scale)
        found.append(np.asarray(dt))
    return np.array(found), state


def test_a_psi_of_ones_own():
    clock = clocks.sundman(0.05, alpha=2.0, m=0.5, M=2.0, psi=own, delta=0.0)
    found, _ = dts(clock, [1.0])
    np.testing.assert_allclose(found, 0.05 * own(26.0 / 2.0), rtol=1e-6)
    assert clock.settings["psi"] == "own"
    json.dumps(dict(clock.settings))


def test_a_psi_is_clipped_between_the_zetas_that_were_tried():
    def spike(zeta):
        return jnp.where(jnp.abs(zeta - 13.0) < 1e-3, 50.0, 1.0)

    clock = clocks.sundman(0.05, alpha=2.0, m=0.5, M=2.0, psi=spike, delta=0.0)
    np.testing.assert_allclose(dts(clock, [1.0])[0], 0.05 * 2.0, rtol=1e-6)


@pytest.mark.parametrize(
    "psi", ["research_code", "published", lambda zeta: 0.3 + 0.0 * jnp.exp(-zeta)]
)
def test_with_equal_bounds_it_is_the_constant_clock_bit_for_bit(psi):
    more = {"r": 0.5} if isinstance(psi, str) else {}
    clock = clocks.sundman(0.7, alpha=2.0, m=0.3, M=0.3, psi=psi, **more)
    scales = [1.0, 1e-6, 1e6, 0.0]
    found, state = dts(clock, scales)
    wanted, fixed = dts(clocks.constant(0.7 * 0.3), scales)
    np.testing.assert_array_equal(found, wanted)
    assert state.time == fixed.time


@pytest.mark.parametrize(
    ("psi", "message"),
    [
        (lambda z: 1.0 / (1.0 + z), r"psi\(1.25893\) = 0.442688"),
        (lambda z: 3.0 + 0.0 * jnp.minimum(z, 1.0), r"psi\(0\) = 3"),
        (lambda z: 1.0 + z / (1.0 + z), r"psi\(inf\) = nan"),
        (lambda z: jnp.stack([z, z]), "one number"),
    ],
)
def test_a_psi_outside_its_bounds_is_refused_with_the_place(psi, message):
    with pytest.raises(ValueError, match=message):
        clocks.sundman(0.1, alpha=1.0, m=0.5, M=2.0, psi=psi)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"psi": own, "r": 0.5}, "r belongs to"),
        ({"psi": "research_code"}, "r, the exponent"),
        ({"psi": 3.0}, "psi must be a name"),
        ({"psi": own, "m": None}, "m, the lower bound"),
    ],
)
def test_what_a_psi_needs_is_named(change, message):
    with pytest.raises(TypeError, match=message):
        clocks.sundman(0.1, **{"alpha": 1.0, "m": 0.5, "M": 2.0, **change})


def test_a_clock_times_a_schedule():
    schedule = optax.exponential_decay(1.0, 2, 0.5)
    inner = clocks.sundman(0.05, **SETTINGS)
    scales = [1.0, 2.0, 0.5, 3.0]
    plain, _ = dts(inner, scales)
    found, state = dts(clocks.times(inner, schedule), scales)
    factors = np.array([schedule(n) for n in range(4)])
    np.testing.assert_allclose(found, plain * factors, rtol=1e-6)
    assert float(state.time) == pytest.approx(found.sum(), rel=1e-6)
    assert state.dt == found[-1]
    twice = clocks.times(clocks.times(inner, schedule), schedule)
    np.testing.assert_allclose(dts(twice, scales)[0], plain * factors**2, rtol=1e-6)
    assert twice.settings["times"].count(",") == 1
    json.dumps(dict(twice.settings))


def test_a_blockwise_clock_times_a_schedule():
    inner = clocks.sundman(0.05, **SETTINGS, blockwise=True)
    half = clocks.times(inner, lambda n: 0.5)
    one, before = inner.tick(inner.init(PARAMS), GRADS, PARAMS)
    other, after = half.tick(half.init(PARAMS), GRADS, PARAMS)
    np.testing.assert_allclose(jax.tree.leaves(other), 0.5 * np.array(jax.tree.leaves(one)))
    assert after.dt == 0.5 * before.dt
