"""One step of the preconditioned integrators: equations, T = 0, trees, precisions, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sundman
from sundman import clocks, contrib
from sundman.contrib import adam_sgld, curvature, metric_tensors, psgld, sgrhmc, sgrld
from sundman.noise import Stream

STREAM = Stream(jnp.array([1, 2], jnp.uint32), jnp.uint32(0))
PARAMS = {"w": jnp.ones((3, 2)), "b": [jnp.zeros(2), jnp.float32(0.5)]}
ONES = metric_tensors.diagonal(lambda tree: jax.tree.map(jnp.ones_like, tree), slope="elementwise")


def unit(stream, like):
    return jax.tree.map(jnp.ones_like, like)


def quartic(x):
    return jnp.sum(x**4) / 4


def close(one, other, rtol=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6), one, other)


def run(sampler, params, potential, steps):
    """Positions after each step."""

    def body(carry, _):
        params, state = carry
        updates, state = sampler.update(jax.grad(potential)(params), state, params)
        params = optax.apply_updates(params, updates)
        return (params, state), params

    init = (params, sampler.init(params, jax.random.key(1)))
    return jax.jit(lambda: jax.lax.scan(body, init, length=steps)[1])()


def test_psgld_steps_are_the_equation():
    decay, eps, scale, h, T = 0.8, 0.3, 2.0, 0.1, 0.7
    x = jnp.array([1.0, -0.5])
    integrator = contrib.integrators.psgld(
        T, decay=decay, eps=eps, scale=scale, curvature=curvature.exact(quartic), noise=unit
    )
    state, V = integrator.init(x), None
    for _ in range(3):
        g, hessian = x**3, 3 * x**2
        share = 1.0 if V is None else 1 - decay
        V = (g / scale) ** 2 if V is None else decay * V + (1 - decay) * (g / scale) ** 2
        P = 1 / (np.sqrt(V) + eps)
        slope = -(P**2) / (2 * np.sqrt(V))
        gamma = slope * share * 2 * g * hessian / scale**2
        wanted = h * (-P * g + T * gamma) + np.sqrt(2 * T * h * P)
        updates, state = integrator.move(STREAM, g, state, x, h)
        np.testing.assert_allclose(updates, wanted, rtol=1e-5)
        x = x + updates


def test_gamma_of_the_limit_is_that_of_the_step_without_memory():
    x = jnp.array([1.0, -0.5])
    known = curvature.exact(quartic)
    one, other = (
        contrib.integrators.psgld(decay=0.0, eps=0.1, curvature=known, divergence=divergence)
        for divergence in ("step", "limit")
    )
    close(*(i.move(STREAM, x**3, i.init(x), x, 0.1)[0] for i in (one, other)))


def test_psgld_where_the_gradient_is_zero_moves_by_noise_alone():
    x = jnp.zeros(2)
    integrator = contrib.integrators.psgld(curvature=curvature.exact(quartic), eps=0.5, noise=unit)
    updates, _ = integrator.move(STREAM, x, integrator.init(x), x, 0.1)
    np.testing.assert_allclose(updates, np.sqrt(2 * 0.1 / 0.5), rtol=1e-6)


def test_cold_adam_sgld_is_adam():
    x, lr = jnp.array([1.0, -2.0]), 0.05
    adam = optax.adam(lr, b1=0.8, b2=0.95, eps=1e-3)
    state, position, path = adam.init(x), x, []
    for _ in range(20):
        updates, state = adam.update(position**3, state)
        position = optax.apply_updates(position, updates)
        path.append(position)
    ours = run(adam_sgld(lr, 0.0, beta1=0.8, beta2=0.95, eps=1e-3), x, quartic, 20)
    np.testing.assert_allclose(ours, jnp.stack(path), rtol=1e-4)


def test_adam_sgld_noise_has_the_scale_of_its_preconditioner():
    x, h, T = jnp.array([2.0]), 0.01, 0.5
    integrator = contrib.integrators.adam_sgld(T, eps=0.1, noise=unit)
    updates, _ = integrator.move(STREAM, x**3, integrator.init(x), x, h)
    np.testing.assert_allclose(updates, -h * 8 / 8.1 + np.sqrt(2 * T * h / 8.1), rtol=1e-4)


def test_cold_sgrld_is_natural_gradient_descent():
    matrix = jnp.array([[2.0, 0.5], [0.5, 1.0]])
    metric = metric_tensors.dense(lambda x: matrix * (1.0 + x[0] ** 2))
    x = jnp.array([1.0, -0.5])
    integrator = contrib.integrators.sgrld(0.0, metric=metric)
    updates, _ = integrator.move(STREAM, x, integrator.init(x), x, 0.1)
    np.testing.assert_allclose(updates, -0.1 * jnp.linalg.solve(2 * matrix, x), rtol=1e-5)


def test_identity_metric_gives_the_plain_samplers():
    def potential(tree):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree))

    close(
        run(sgrld(0.1, 0.4, metric=ONES), PARAMS, potential, 5),
        run(sundman.sgld(0.1, 0.4), PARAMS, potential, 5),
    )
    close(
        run(sgrhmc(0.1, 0.4, metric=ONES, gamma=2.0), PARAMS, potential, 5),
        run(sundman.sghmc(0.1, 0.4, gamma=2.0), PARAMS, potential, 5),
    )


def test_blockwise_steps():
    clock = clocks.sundman(0.01, alpha=1.0, m=0.1, M=10.0, r=0.5, blockwise=True)

    def potential(tree):
        return sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tree))

    for integrator in (contrib.integrators.psgld(), contrib.integrators.sgrld(metric=ONES)):
        path = run(sundman.compose(integrator, clock), PARAMS, potential, 3)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(path))
    coupled = contrib.integrators.sgrld(metric=metric_tensors.monge(potential))
    with pytest.raises(ValueError, match=r"monge couples"):
        run(sundman.compose(coupled, clock), PARAMS, potential, 3)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_precisions(dtype, x64):
    x = jnp.array([1.0, -0.5], dtype)
    dense = metric_tensors.dense(lambda x: jnp.eye(2, dtype=x.dtype) * (1 + x[0] ** 2))
    for integrator in (
        contrib.integrators.psgld(curvature=curvature.exact(quartic)),
        contrib.integrators.adam_sgld(),
        contrib.integrators.sgrld(metric=dense),
        contrib.integrators.sgrhmc(metric=dense),
    ):
        state = integrator.init(x)
        updates, after = jax.jit(integrator.move)(STREAM, x, state, x, 0.01)
        assert updates.dtype == x.dtype
        assert np.isfinite(np.asarray(updates, np.float64)).all()
        types = [jax.tree.map(lambda leaf: leaf.dtype, tree) for tree in (state, after)]
        assert types[0] == types[1]


def test_squares_of_half_precision_do_not_overflow():
    x = jnp.full(2, 1000.0, jnp.float16)
    integrator = contrib.integrators.psgld(eps=1.0)
    updates, state = integrator.move(STREAM, x, integrator.init(x), x, 0.01)
    assert np.isfinite(updates).all()
    np.testing.assert_allclose(state.square, 1e6, rtol=1e-3)


def test_another_temperature_keeps_every_setting():
    for integrator in (
        contrib.integrators.psgld(
            decay=0.5, eps=0.1, scale=3.0, curvature=curvature.exact(quartic)
        ),
        contrib.integrators.adam_sgld(beta1=0.5, beta2=0.7, eps=0.1, scale=3.0, noise="two_point"),
        contrib.integrators.sgrld(metric=ONES, divergence=False, noise="three_point"),
        contrib.integrators.sgrhmc(metric=ONES, gamma=3.0, divergence=False),
    ):
        assert integrator.with_temperature(0.2).settings == {
            **integrator.settings,
            "temperature": 0.2,
        }


def test_a_metric_that_turns_negative_is_recorded_as_a_divergence():
    metric = metric_tensors.diagonal(lambda x: 1.5 - x**2, slope="elementwise")
    with pytest.warns(UserWarning, match="diverged|lost|not finite"):
        draws = sundman.sample(
            lambda x: jnp.sum(x**2) / 2,
            sgrld(0.1, metric=metric),
            init=jnp.zeros(1),
            key=jax.random.key(0),
            chains=4,
            steps=200,
        )
    assert draws.diverged.any()


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: psgld(0.1, decay=1.0), ValueError, "decay=1.0"),
        (lambda: psgld(0.1, decay=-0.1), ValueError, "decay=-0.1"),
        (lambda: psgld(0.1, eps=0.0), ValueError, "eps=0.0"),
        (lambda: psgld(0.1, scale=-2.0), ValueError, "scale=-2.0"),
        (lambda: psgld(0.1, -1.0), ValueError, "temperature=-1.0"),
        (lambda: psgld(0.1, curvature=1.0), TypeError, "curvature=1.0"),
        (lambda: psgld(0.1, divergence="none"), ValueError, "divergence='none'"),
        (lambda: adam_sgld(0.1, beta1=1.0), ValueError, "beta1=1.0"),
        (lambda: adam_sgld(0.1, beta2=2.0), ValueError, "beta2=2.0"),
        (lambda: adam_sgld(0.1, eps=-1.0), ValueError, "eps=-1.0"),
        (lambda: sgrld(0.1, -1.0, metric=ONES), ValueError, "temperature=-1.0"),
        (lambda: sgrhmc(0.1, metric=ONES, gamma=0.0), ValueError, "gamma=0.0"),
    ],
)
def test_bad_settings_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
