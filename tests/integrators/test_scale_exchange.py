"""Exact moves of scales: the law, detailed balance, the gradient they hand on, what is refused.

A position from the prior with targets drawn at it is an exact draw of the posterior of these
targets. So after any number of moves of that posterior's kernel it must still have the law of the
prior: half of the scales below 1, weights of unit size by their scales.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, integrators, likelihoods, models, posterior, priors
from sundman.noise import Stream

SIZES, ROWS, REPLICAS = (2, 3, 1), 4, 20_000
X = jax.random.normal(jax.random.key(5), (ROWS, SIZES[0]))


def apply(params, x):
    return models.mlp_apply(params, x)[:, 0]


def target(prior, y=None, noise=1.0):
    y = jnp.zeros(ROWS) if y is None else y
    likelihood = likelihoods.gaussian(noise)
    return sundman.Posterior(apply, likelihood=likelihood, prior=prior, data=(X, y))


def moves(of, rescale=0.7, width=1.0):
    params = models.mlp_init(jax.random.key(0), SIZES)
    sampler = sundman.scale_exchange(sundman.sgld(1e-3), of, params, width=width, rescale=rescale)
    return sampler.integrator.kernel


def from_prior(key, form):
    """Weights and scales drawn from the horseshoe of that form, base scale 2."""
    params = models.mlp_init(key, SIZES)
    leaves, structure = jax.tree.flatten(params)
    weights, hyper = [], {}
    for (path, _), leaf in zip(priors.paths(params), leaves, strict=True):
        key, key_scale, key_w = jax.random.split(key, 3)
        cauchy = jnp.abs(jax.random.cauchy(key_scale))
        sigma = cauchy * (2.0 if form == "relative" else 1.0)
        ratio = sigma / 2.0
        hyper[f"prior/{path}"] = {"p": ratio + jnp.log(-jnp.expm1(-ratio))}
        weights.append(sigma * jax.random.normal(key_w, leaf.shape))
    return posterior.Position(jax.tree.unflatten(structure, weights), hyper)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["tensor", "relative"])
@pytest.mark.parametrize("likelihood", [True, False])
def test_the_law_stays_and_detailed_balance_holds(form, likelihood, optimised):
    prior = priors.horseshoe(2.0, form=form)
    unit = 2.0 if form == "relative" else 1.0
    exchanges = moves(target(prior)).exchanges

    def replica(key):
        start, key_y, key_moves = jax.random.split(key, 3)
        position = from_prior(start, form)
        y = apply(position.params, X) + jax.random.normal(key_y, (ROWS,))
        own = target(prior, y if likelihood else None, 1.0 if likelihood else 1e6)
        kernel = posterior.ScaleMoves(own, exchanges, 1.0, 0.7)
        grads = own.gradient(position)

        def move(carry, step):
            stream = Stream(jax.random.key_data(key_moves), step)
            return kernel(stream, *carry, 1.0), None

        one, _ = move((position, grads), jnp.uint32(0))
        last, _ = jax.lax.scan(move, one, jnp.arange(1, 12, dtype=jnp.uint32))
        return tuple(_summary(p, unit) for p in (position, one[0], last[0]))

    keys = jax.random.split(jax.random.key(3), REPLICAS)
    first, one, last = jax.jit(jax.vmap(replica))(keys)
    for name, truth in {"below": 0.5, "squares": 1.0, "low": 2 / np.pi * np.arctan(0.2)}.items():
        _agrees(last[name], truth)
    moved = np.mean(np.asarray(one["log"]) != np.asarray(first["log"]), axis=0)
    assert (moved > 0.15).all()
    # detailed balance: E f(x) g(x') is symmetric, for f and g of different scales
    f = [np.tanh(np.asarray(each["log"])) for each in (first, one)]
    g = [np.asarray(each["below"]) for each in (first, one)]
    for shift in range(4):
        _agrees(f[0] * np.roll(g[1], shift, 1) - f[1] * np.roll(g[0], shift, 1), 0.0)


def _summary(position, unit):
    leaves = jax.tree.leaves(position.params)
    scales = jnp.stack([2.0 * jax.nn.softplus(each["p"]) for each in position.hyper.values()])
    ratios = scales / unit
    squares = jnp.stack([jnp.mean((w / s) ** 2) for w, s in zip(leaves, scales, strict=True)])
    return {
        "log": jnp.log(ratios),
        "below": 1.0 * (ratios < 1.0),
        "low": 1.0 * (ratios < 0.2),
        "squares": squares,
    }


def _agrees(values, truth):
    values = np.asarray(values, np.float64)
    error = values.std(axis=0) / np.sqrt(len(values))
    assert (np.abs(values.mean(axis=0) - truth) < 5 * error + 1e-12).all(), (
        values.mean(axis=0), error, truth,
    )  # fmt: skip


@pytest.mark.slow
def test_a_wrong_jacobian_would_be_seen(monkeypatch, optimised):
    honest = priors.horseshoe.rescale

    def wrong(self, w, hyper, factor):
        right = honest(self, w, hyper, factor)
        return right._replace(log_jacobian=right.log_jacobian - jnp.log(factor))

    monkeypatch.setattr(priors.horseshoe, "rescale", wrong)
    with pytest.raises(AssertionError):
        test_the_law_stays_and_detailed_balance_holds("tensor", False, None)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_a_fixed_scale_and_any_temperature(temperature, optimised):
    """N(0, s^2 T): only factors near 1 are taken, by the prior and the volume."""
    kernel = moves(target(priors.gaussian(2.0), noise=1e6), rescale=0.4, width=0.4)

    def replica(key):
        start, key_moves = jax.random.split(key)
        like = models.mlp_init(start, SIZES)
        flat, unravel = jax.flatten_util.ravel_pytree(like)
        spread = 2.0 * jnp.sqrt(temperature)
        position = unravel(spread * jax.random.normal(start, flat.shape))

        def move(carry, step):
            return kernel(Stream(jax.random.key_data(key_moves), step), *carry, temperature), None

        steps = jnp.arange(8, dtype=jnp.uint32)
        zero = jax.tree.map(jnp.zeros_like, position)
        (after, _), _ = jax.lax.scan(move, (position, zero), steps)
        moved = jnp.stack([jnp.mean((w / spread) ** 2) for w in jax.tree.leaves(after)])
        fourth = jnp.stack([jnp.mean((w / spread) ** 4) for w in jax.tree.leaves(after)])
        return moved, fourth, jnp.mean(after["layer_0"]["bias"] != position["layer_0"]["bias"])

    squares, fourth, moved = jax.jit(jax.vmap(replica))(
        jax.random.split(jax.random.key(1), REPLICAS)
    )
    _agrees(squares, 1.0)
    _agrees(fourth, 3.0)
    assert np.mean(moved) > 0.5


@pytest.mark.long
@pytest.mark.parametrize("rescale", [0.0, 0.7])
def test_the_gradient_is_that_of_where_it_ends(rescale):
    own = target(priors.horseshoe(2.0), jnp.arange(ROWS) / 2.0)
    kernel = moves(own, rescale)
    position = jax.jit(from_prior, static_argnums=1)(jax.random.key(2), "tensor")
    key = jax.random.key_data(jax.random.key(9))

    @jax.jit
    def move(step):
        after, grads = kernel(Stream(key, step), position, own.gradient(position), 1.0)
        return after, grads, own.gradient(after)

    for step in range(3):
        after, *gradients = move(np.uint32(step))
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3), *gradients
        )
        if not rescale:
            np.testing.assert_allclose(
                apply(after.params, X), apply(position.params, X), rtol=1e-4, atol=1e-5
            )


class Flip(sundman.value.Value):
    """x -> -x, exact for any even U; its gradient turns over, too."""

    def __call__(self, stream, position, grads, temperature):
        return -position, -grads


@pytest.mark.long
@pytest.mark.parametrize("every", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_between_the_half_kicks_of_a_kinetic_scheme(every):
    """BAOAB has the exact variance of a Gaussian at any step, and keeps it with a kernel inside."""
    stiff = integrators.interleaved(integrators.baoab(gamma=1.0), Flip(), every=every)
    sampler = sundman.compose(stiff, clocks.constant(1.2))
    draws = sundman.sample(
        lambda x: 0.5 * jnp.sum(x**2), sampler, init=jnp.zeros(50), key=jax.random.key(0),
        chains=64, steps=2000, burn_in=100, thin=2,
    )  # fmt: skip
    of_chain = np.asarray(draws.values, np.float64) ** 2
    means = of_chain.mean(axis=(1, 2))
    assert abs(means.mean() - 1.0) < 5 * means.std() / 8


@pytest.mark.slow
def test_non_centred_log_scales_move_alone_and_keep_their_law():
    """Without data the log scales are those of half-Cauchy variables, whatever is exchanged."""
    model = models.non_centred(apply)
    weights = models.mlp_init(jax.random.key(0), SIZES)
    own = sundman.Posterior(
        model, likelihood=likelihoods.gaussian(1e6), prior=model.prior(weights),
        data=(X, jnp.zeros(ROWS)),
    )  # fmt: skip
    first = model.init(weights)
    sampler = sundman.scale_exchange(sundman.sgld(1e-3), own, first, rescale=0.7)
    kernel = sampler.integrator.kernel

    def replica(key):
        v = jnp.log(jnp.abs(jax.random.cauchy(key, (4,))))
        structure = jax.tree.structure(first["log_scale"])
        position = {**first, "log_scale": jax.tree.unflatten(structure, list(v))}

        def move(carry, step):
            return kernel(Stream(jax.random.key_data(key), step), *carry, 1.0), None

        grads = jax.tree.map(jnp.zeros_like, position)
        (after, _), _ = jax.lax.scan(move, (position, grads), jnp.arange(6, dtype=jnp.uint32))
        moved = jnp.stack(jax.tree.leaves(after["log_scale"]))
        same = jnp.all(after["z"]["layer_0"]["kernel"] == first["z"]["layer_0"]["kernel"])
        return 1.0 * (moved < 0.0), 1.0 * (moved < jnp.log(0.2)), moved != v, same

    below, low, moved, same = jax.jit(jax.vmap(replica))(
        jax.random.split(jax.random.key(8), REPLICAS)
    )
    _agrees(below, 0.5)
    _agrees(low, 2 / np.pi * np.arctan(0.2))
    assert moved.mean() > 0.5
    assert same.all()


def test_refused_in_a_sentence():
    params = models.mlp_init(jax.random.key(0), SIZES)
    own = target(priors.horseshoe())
    sgld = sundman.sgld(1e-3)

    def smooth(params, x):
        return models.mlp_apply(params, x, jnp.tanh)[:, 0]

    with pytest.raises(ValueError, match="as with rectified units; those of this one change by"):
        sundman.scale_exchange(sgld, own.replace(apply=smooth), params)
    contour = sundman.contour_sgld(1e-3, low=0.0, high=1.0)
    with pytest.raises(ValueError, match="follows U from step to step"):
        sundman.scale_exchange(contour, own, params)
    pairs = [(["layer_0/kernel"], ["layer_9/kernel"])]
    with pytest.raises(ValueError, match="there is no array 'layer_9/kernel'"):
        sundman.scale_exchange(sgld, own, params, pairs=pairs)
    with pytest.raises(ValueError, match="give pairs"):
        sundman.scale_exchange(sgld, own, {"weights": jnp.ones((2, 3))})


@pytest.mark.long
def test_it_is_a_sampler_like_any_other():
    params = models.mlp_init(jax.random.key(0), SIZES)
    own = target(priors.horseshoe(2.0), jnp.arange(ROWS) / 2.0)
    for sampler in (sundman.sgld(1e-3), sundman.samadams(0.01)):
        exchanging = sundman.scale_exchange(sampler, own, params, every=5)
        assert exchanging == sundman.scale_exchange(sampler, own, params, every=5)
        assert exchanging.kinetic == sampler.kinetic
    draws = sundman.sample(own, exchanging, init=params, key=jax.random.key(1), steps=60)
    assert np.isfinite(np.asarray(draws.stats["potential"])).all()
