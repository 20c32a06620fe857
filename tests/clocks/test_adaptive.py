import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sundman
from sundman import clocks
from sundman.clocks import psi

SETTINGS = {"alpha": 2.0, "m": 0.1, "M": 10.0, "r": 0.5}


def ticks(clock, gradients):
    """zeta and dt after each gradient."""
    state = clock.init(gradients[0])
    zetas, dts = [], []
    for gradient in gradients:
        dt, state = clock.tick(state, gradient, gradient)
        zetas.append(state.zeta)
        dts.append(dt)
    return np.array(zetas), np.array(dts), state


def random_gradients(n, seed=0):
    return list(jnp.asarray(np.random.default_rng(seed).normal(size=(n, 3)), jnp.float32))


def test_recursion_as_printed():
    gradients = random_gradients(20)
    dtau = 0.05
    clock = clocks.sundman(dtau, **SETTINGS, s=3.0, omega=7.0, delta=1e-3)
    zetas, dts, _ = ticks(clock, gradients)
    rho, zeta = np.exp(-2.0 * dtau), None
    for n, gradient in enumerate(np.asarray(gradients)):
        g = np.linalg.norm(gradient) ** 3 / 7.0 + 1e-3
        zeta = g / 2.0 if zeta is None else rho * zeta + (1 - rho) / 2.0 * g
        assert zetas[n] == pytest.approx(zeta, rel=1e-5)
        expected = dtau * 0.1 * (zeta**0.5 + 10.0) / (zeta**0.5 + 0.1)
        assert dts[n] == pytest.approx(expected, rel=1e-5)


def test_constant_gradient_relaxes_geometrically():
    dtau, zeta_0, steps = 0.05, 40.0, 60
    gradient = jnp.array([1.0, 2.0, 2.0])
    clock = clocks.sundman(dtau, **SETTINGS, zeta_0=zeta_0, delta=0.0)
    zetas, _, _ = ticks(clock, [gradient] * steps)
    decay = np.exp(-2.0 * dtau) ** np.arange(1, steps + 1)
    np.testing.assert_allclose(zetas, decay * zeta_0 + (1 - decay) * 9.0 / 2.0, rtol=2e-5)


def test_first_zeta_is_the_stationary_one():
    gradient = jnp.array([3.0, 4.0])
    zetas, _, _ = ticks(clocks.sundman(0.1, **SETTINGS, delta=0.0), [gradient] * 3)
    np.testing.assert_allclose(zetas, 25.0 / 2.0, rtol=1e-6)


def test_lags_use_the_zeta_they_say():
    gradients = random_gradients(12)
    gradients[6] = gradients[6] * 30.0
    results = {
        lag: ticks(clocks.sundman(0.05, **SETTINGS, lag=lag, kappa=4.0), gradients)
        for lag in ("none", "full", "guarded")
    }
    zetas = results["none"][0]
    for lag in ("full", "guarded"):
        np.testing.assert_array_equal(results[lag][0], zetas)
    before = np.concatenate([zetas[:1], zetas[:-1]])
    g = np.array([np.sum(np.square(x)) + 1e-8 for x in gradients])
    guarded = np.maximum(before, g / 2.0 / 4.0)
    assert (guarded > before).any()
    assert (guarded == before).any()
    for lag, zeta in (("none", zetas), ("full", before), ("guarded", guarded)):
        expected = 0.05 * psi(jnp.asarray(zeta), m=0.1, M=10.0, r=0.5)
        np.testing.assert_allclose(results[lag][1], expected, rtol=1e-5)


def test_scale_free_clock_takes_dtau_at_the_reference_gradient():
    gradient = jnp.array([3.0, 4.0])
    _, dts, _ = ticks(clocks.scale_free(0.02, g_ref=25.0, delta=0.0), [gradient] * 2)
    np.testing.assert_allclose(dts, 0.02, rtol=1e-6)


def test_scale_free_clock_is_the_sundman_clock_in_other_words():
    gradients = random_gradients(10)
    one = clocks.scale_free(0.02, g_ref=5.0, a=0.1, M=4.0, r=0.25, lag="none")
    other = clocks.sundman(
        0.02, alpha=5.0, M=4.0, m=0.25, r=0.25, omega=5.0, psi="scale-free", lag="none"
    )
    np.testing.assert_allclose(ticks(one, gradients)[1], ticks(other, gradients)[1], rtol=1e-6)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=8),
    st.sampled_from(["none", "full", "guarded"]),
)
def test_dt_is_bounded_zeta_positive_and_weights_sum_to_time(values, lag):
    gradients = [jnp.array([value], jnp.float32) for value in values]
    zetas, dts, state = ticks(clocks.sundman(0.05, **SETTINGS, lag=lag), gradients)
    assert (zetas > 0).all()
    assert ((dts >= 0.005 * (1 - 1e-6)) & (dts <= 0.5 * (1 + 1e-6))).all()
    assert float(state.time) == pytest.approx(float(np.sum(dts, dtype=np.float64)), rel=1e-6)


def test_overflowing_gradient_gives_the_smallest_step():
    _, dts, _ = ticks(clocks.sundman(0.05, **SETTINGS), [jnp.array([1e30], jnp.float32)])
    np.testing.assert_allclose(dts, 0.005, rtol=1e-6)


def test_blockwise_clock_keeps_one_zeta_per_leaf():
    params = {"a": jnp.zeros(2), "b": jnp.zeros(())}
    grads = {"a": jnp.array([3.0, 4.0]), "b": jnp.array(0.5)}
    clock = clocks.sundman(0.05, **SETTINGS, blockwise=True, delta=0.0)
    dt, state = clock.tick(clock.init(params), grads, params)
    np.testing.assert_allclose(state.zeta, [25.0 / 2.0, 0.25 / 2.0], rtol=1e-6)
    expected = 0.05 * psi(state.zeta, m=0.1, M=10.0, r=0.5)
    np.testing.assert_allclose(jax.tree.leaves(dt), expected, rtol=1e-6)
    assert state.dt == pytest.approx(float(expected.mean()), rel=1e-6)


@pytest.mark.parametrize(
    ("dtau", "change", "message"),
    [
        (0.0, {}, "dtau=0.0"),
        (float("inf"), {}, "dtau=inf"),
        (0.1, {"alpha": 0.0}, "alpha=0.0"),
        (0.1, {"m": 20.0}, "m=20.0 > M=10.0"),
        (0.1, {"r": -0.5}, "r=-0.5"),
        (0.1, {"s": 0.0}, "s=0.0"),
        (0.1, {"omega": -1.0}, "omega=-1.0"),
        (0.1, {"delta": -1e-8}, "delta=-1e-08"),
        (0.1, {"lag": "some"}, "lag='some'"),
        (0.1, {"psi": "other"}, "psi='other'"),
        (0.1, {"kappa": 0.0}, "kappa=0.0"),
        (0.1, {"zeta_0": -1.0}, "zeta_0=-1.0"),
    ],
)
def test_bad_settings_are_named(dtau, change, message):
    with pytest.raises(ValueError, match=message):
        clocks.sundman(dtau, **{**SETTINGS, **change})


def test_missing_settings_are_named():
    with pytest.raises(TypeError, match="needs alpha, m, M and r"):
        sundman.sa_sgld(1e-3)
    with pytest.raises(TypeError, match="takes the memory as a"):
        clocks.scale_free(1e-3, g_ref=1.0, alpha=2.0)
    with pytest.raises(TypeError, match="m, the lower bound"):
        clocks.sundman(0.1, alpha=1.0, M=2.0, r=0.5)


def test_a_chain_put_back_to_its_beginning_starts_with_its_gradient():
    """The guard puts zeta and time back, and lets the step number go on."""
    clock = clocks.sundman(0.1, alpha=0.1, m=0.1, M=10.0, r=0.5, lag="full")
    params, grads = jnp.zeros(2), jnp.full(2, 100.0)
    first = clock.init(params)
    put_back = first._replace(step=jnp.uint32(7))
    assert float(clock.tick(put_back, grads, params)[0]) == float(
        clock.tick(first, grads, params)[0]
    )
