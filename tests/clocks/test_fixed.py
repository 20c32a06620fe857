import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax

from sundman import clocks
from sundman.clocks.base import advance, start

PARAMS = jnp.zeros(3)


def run(clock, steps):
    def body(state, _):
        dt, state = clock.tick(state, PARAMS, PARAMS)
        return state, dt

    return lax.scan(body, clock.init(PARAMS), None, length=steps)


def test_constant_clock():
    state, dts = run(clocks.constant(0.25), 10)
    assert (dts == 0.25).all()
    assert state.step == 10
    assert state.time == 2.5
    assert state.dt == 0.25
    assert state.zeta is None


def test_schedule_follows_optax():
    wanted = optax.cosine_decay_schedule(1.0, 20)
    _, dts = run(clocks.schedule(wanted), 20)
    np.testing.assert_allclose(dts, [wanted(n) for n in range(20)], rtol=1e-5)


def test_polynomial_decay():
    _, dts = run(clocks.polynomial(0.5, offset=10.0, power=0.6), 50)
    np.testing.assert_allclose(dts, 0.5 * (1 + np.arange(50) / 10.0) ** -0.6, rtol=1e-5)


def test_cycles_repeat_and_fall():
    _, dts = run(clocks.cyclical(0.1, cycle=8), 24)
    np.testing.assert_allclose(dts[:8], dts[8:16])
    np.testing.assert_allclose(dts[:8], 0.05 * (np.cos(np.pi * np.arange(8) / 8) + 1), rtol=1e-5)
    assert (np.diff(dts[:8]) < 0).all()


def test_time_is_accurate_in_single_precision_over_1e8_steps():
    h = np.float32(1e-3)
    steps = 100_000_000

    @jax.jit
    def elapsed():
        return lax.fori_loop(0, steps, lambda _, state: advance(state, h), start(PARAMS))

    state = elapsed()
    exact = steps * float(h)
    assert state.time.dtype == jnp.float32
    assert abs(float(state.time) - exact) <= 1e-7 * exact


def test_time_is_double_for_double_parameters(x64):
    assert clocks.constant(0.1).init(jnp.zeros(2, jnp.float64)).time.dtype == jnp.float64


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: clocks.constant(0.0), ValueError, "h=0.0"),
        (lambda: clocks.constant(float("nan")), ValueError, "h=nan"),
        (lambda: clocks.constant("fast"), TypeError, "'fast'"),
        (lambda: clocks.schedule(0.1), TypeError, "clocks.constant"),
        (lambda: clocks.schedule(lambda n: -1.0), ValueError, "step_size"),
        (lambda: clocks.polynomial(0.1, power=2.0), ValueError, "power=2.0"),
        (lambda: clocks.cyclical(0.1, cycle=0), ValueError, "cycle=0"),
        (lambda: clocks.cyclical(0.1, cycle=1.5), TypeError, "cycle=1.5"),
    ],
)
def test_bad_settings_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_schedule_that_begins_later():
    ramp = optax.linear_schedule(1.0, 3.0, transition_steps=2, transition_begin=2)
    clock = clocks.schedule(ramp)
    state, found = clock.init(jnp.zeros(1)), []
    for _ in range(6):
        dt, state = clock.tick(state, jnp.zeros(1), jnp.zeros(1))
        found.append(float(dt))
    assert found == [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]
    product = clocks.times(clocks.constant(1.0), ramp)
    assert float(product.tick(product.init(jnp.zeros(1)), jnp.zeros(1), jnp.zeros(1))[0]) == 1.0


@pytest.mark.parametrize("times", [False, True])
def test_a_schedule_goes_on_beyond_two_to_the_31(times):
    """The number of a step is unsigned, and a schedule's is signed: it must not turn negative."""

    def falling(n):
        return 1.0 / (1.0 + jnp.asarray(n, jnp.float32))

    clock = clocks.times(clocks.constant(1.0), falling) if times else clocks.schedule(falling)
    late = clock.init(jnp.zeros(1))._replace(step=jnp.uint32(2**31 + 5))
    dt, _ = clock.tick(late, jnp.zeros(1), jnp.zeros(1))
    np.testing.assert_allclose(dt, 2.0**-31, rtol=1e-6)
