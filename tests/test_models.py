"""The perceptron, its initialisation, and the MAP start."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import stats

import sundman
from sundman import Position, likelihoods, priors
from sundman.data import HostBatches
from sundman.models import mlp_apply, mlp_init, non_centred

RNG = np.random.default_rng(15)
X = RNG.normal(size=(40, 3)).astype(np.float32)
Y = (X[:, 0] * X[:, 1] > 0).astype(np.int32)


def test_he_initialisation(key):
    params = jax.jit(lambda key: mlp_init(key, [200, 300, 100]))(key)
    assert list(params) == ["layer_0", "layer_1"]
    for name, inputs, outputs in (("layer_0", 200, 300), ("layer_1", 300, 100)):
        kernel, bias = np.asarray(params[name]["kernel"]), np.asarray(params[name]["bias"])
        assert kernel.shape == (inputs, outputs)
        assert kernel.var() == pytest.approx(2 / inputs, rel=5 * np.sqrt(2 / kernel.size))
        assert abs(kernel.mean()) < 5 * np.sqrt(2 / inputs / kernel.size)
        bound = 1 / np.sqrt(outputs)
        uniform = stats.uniform(-bound, 2 * bound)
        assert bias.shape == (outputs,)
        assert stats.kstest(bias, uniform.cdf).pvalue > 1e-3
        assert np.abs(bias).max() <= bound


def test_initialisation_follows_the_key(key):
    init = jax.jit(lambda key: mlp_init(key, [4, 4, 4]))
    one, same, other = init(key), init(key), init(jax.random.key(1))
    jax.tree.map(np.testing.assert_array_equal, one, same)
    assert not np.allclose(one["layer_0"]["kernel"], one["layer_1"]["kernel"])
    assert not np.allclose(one["layer_0"]["kernel"], other["layer_0"]["kernel"])


def test_outputs(key):
    params = jax.tree.map(np.asarray, jax.jit(lambda key: mlp_init(key, [3, 5, 4, 2]))(key))
    for activation, plain in ((jax.nn.relu, lambda z: np.maximum(z, 0)), (jnp.tanh, np.tanh)):
        x = X
        for i in range(3):
            x = x @ params[f"layer_{i}"]["kernel"] + params[f"layer_{i}"]["bias"]
            x = plain(x) if i < 2 else x
        found = jax.jit(mlp_apply, static_argnums=2)(params, X, activation)
        np.testing.assert_allclose(found, x, rtol=1e-4, atol=1e-5)


def test_more_than_ten_layers_stay_in_order(key):
    params = jax.eval_shape(lambda key: mlp_init(key, [2, 3] * 6), key)
    assert jax.eval_shape(mlp_apply, params, X[:, :2]).shape == (40, 3)


@pytest.mark.parametrize(
    "sizes, error", [([3], ValueError), ([3, 0], ValueError), ([3, 1.5], TypeError)]
)
def test_bad_sizes(sizes, error, key):
    with pytest.raises(error, match="sizes"):
        mlp_init(key, sizes)


@pytest.fixture(scope="module")
def network():
    posterior = sundman.Posterior(
        mlp_apply,
        data=(X, Y),
        prior={"kernel": priors.horseshoe(fan_in="leading"), "bias": priors.gaussian(1.0)},
    )
    return posterior, mlp_init(jax.random.key(2), [3, 8, 2])


@pytest.mark.long
def test_map_estimate_lowers_the_potential_and_leaves_the_scales(network, key):
    posterior, params = network
    first = posterior.position(params)
    moved = first._replace(hyper=jax.tree.map(lambda leaf: leaf + 0.3, first.hyper))
    found = sundman.map_estimate(
        posterior, moved, key=key, steps=300, batch_size=16, optimizer=optax.adam(1e-2)
    )
    assert isinstance(found, Position)
    jax.tree.map(np.testing.assert_array_equal, found.hyper, moved.hyper)
    potential = jax.jit(posterior.potential)
    assert potential(found) < potential(moved) - 5.0
    assert np.mean(np.argmax(mlp_apply(found.params, X), axis=1) == Y) > 0.9
    assert jax.tree.structure(found) == jax.tree.structure(first)


def linear_posterior(data=None):
    data = (X, X.sum(axis=1)) if data is None else data
    return sundman.Posterior(lambda w, x: x @ w, likelihood=likelihoods.gaussian(1.0), data=data)


def test_the_optimizer_acts_on_the_mean_loss(key):
    """One step of plain gradient descent at the learning rate h is a step of h / N on U."""
    posterior, w = linear_posterior(), jnp.array([0.5, -1.0, 2.0])
    found = sundman.map_estimate(posterior, w, key=key, steps=1, optimizer=optax.sgd(0.1))
    wanted = w - posterior.time_step(0.1, kinetic=False) * posterior.gradient(w)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_map_of_a_linear_model_is_exact(key):
    found = sundman.map_estimate(
        linear_posterior(), jnp.zeros(3), key=key, steps=400, optimizer=optax.adam(0.05)
    )
    wanted = np.linalg.solve(X.T @ X + np.eye(3), X.T @ X @ np.ones(3))
    np.testing.assert_allclose(found, wanted, atol=1e-3)


def test_the_default_optimizer_is_adam(key):
    posterior, w = linear_posterior(), jnp.zeros(3)
    found = sundman.map_estimate(posterior, w, key=key, steps=1)
    np.testing.assert_allclose(found, -1e-3 * np.sign(posterior.gradient(w)), rtol=1e-3)


def test_a_map_estimate_starts_a_run(key):
    posterior = sundman.Posterior(
        lambda w, x: x @ w, likelihood=likelihoods.gaussian(), data=(X, X.sum(axis=1))
    )
    start = sundman.map_estimate(posterior, jnp.zeros(3), key=key, steps=2)
    draws = sundman.sample(posterior, sundman.sgld(1e-5), init=start, key=key, steps=1)
    np.testing.assert_array_equal(draws.position.params[0, 0], start.params)


def test_bad_arguments(network, key):
    posterior, params = network
    with pytest.raises(ValueError, match="steps must be 1 or more"):
        sundman.map_estimate(posterior, params, key=key, steps=0)
    with pytest.raises(ValueError, match="batch_size=41"):
        sundman.map_estimate(posterior, params, key=key, steps=1, batch_size=41)
    host = linear_posterior(HostBatches([(X, X[:, 0])], size=40))
    with pytest.raises(ValueError, match="in-memory data"):
        sundman.map_estimate(host, jnp.zeros(3), key=key, steps=1)


@pytest.mark.long
@pytest.mark.parametrize("relative", [False, True])
def test_non_centred_is_the_horseshoe_in_other_coordinates(key, relative):
    """U in (z, v) is U in (w, p) minus the log of the volume, up to a constant."""
    weights = mlp_init(key, [3, 4, 2])
    model = non_centred(mlp_apply, 1.2, 0.8)
    ours = sundman.Posterior(model, prior=model.prior(weights, relative=relative), data=(X, Y))
    form = "relative" if relative else "tensor"
    rules = {
        "kernel": priors.horseshoe(1.2, form=form, fan_in="leading"),
        "bias": priors.horseshoe(0.8, form=form),
    }
    theirs = sundman.Posterior(mlp_apply, prior=rules, data=(X, Y))
    differences = []
    for seed in range(3):
        position = model.init(mlp_init(jax.random.key(seed), [3, 4, 2]))
        scales = position["log_scale"]
        v = jax.random.normal(jax.random.key(seed), (len(jax.tree.leaves(scales)),))
        position["log_scale"] = jax.tree.unflatten(jax.tree.structure(scales), list(v))
        w = model.weights(position)
        ratio = jnp.exp(v)
        p = ratio + jnp.log(-jnp.expm1(-ratio))
        names = theirs.position(w).hyper
        centred = Position(w, {name: {"p": p[i]} for i, name in enumerate(names)})
        sizes = jnp.array([leaf.size for leaf in jax.tree.leaves(w)])
        volume = jnp.sum(sizes * v) + jnp.sum(v - jax.nn.log_sigmoid(p))  # of w and of p
        differences.append(float(ours.potential(position) - theirs.potential(centred) + volume))
        np.testing.assert_allclose(model(position, X), mlp_apply(w, X), rtol=1e-5)
    np.testing.assert_allclose(differences, differences[0], atol=2e-3)
