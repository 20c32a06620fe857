"""Gradients in two parts: what the kernels make of them is the posterior's own gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import likelihoods, models, native, priors
from sundman.gradients import minibatch
from sundman.native.split_gradient import SplitGradient, dense, inner_product, squared_norm
from sundman.noise import Stream

pytestmark = pytest.mark.skipif(not native.available(), reason="the kernels were not built")
_generator = np.random.default_rng(1)
X = _generator.normal(size=(300, 80)).astype(np.float32)
Y = _generator.normal(size=(300,)).astype(np.float32)
STREAM = Stream(jnp.array([5, 7], jnp.uint32), jnp.uint32(11))
PRIORS = {
    "gaussian": priors.gaussian(0.3, fan_in="leading"),
    "horseshoe": priors.horseshoe(0.7, fan_in="leading"),
    "mixed": {"kernel": priors.horseshoe(0.7), "bias": priors.student_t()},
    "laplace": priors.laplace(0.5),
    "hierarchical": priors.horseshoe(0.7, form="hierarchical"),
}


def _case(name: str):
    """A network with one array that the kernels take (80 x 60) and others too small for them."""
    posterior = sundman.Posterior(
        models.mlp_apply, data=(X, Y), likelihood=likelihoods.gaussian(), prior=PRIORS[name]
    )
    init = models.mlp_init(jax.random.key(2), [80, 60, 1])
    return posterior, posterior.position(init), minibatch(posterior, 50)


def assert_same_gradient(found, wanted):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-4 * np.abs(theirs).max())


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in ("mixed", "laplace") else pytest.mark.slow) for n in PRIORS],
)
def test_parts_make_the_gradient_its_norm_and_its_product(name):
    _, position, gradient = _case(name)
    splits, plain_splits = [], []

    def only_splits(grads):
        return [leaf for leaf in jax.tree.leaves(grads) if isinstance(leaf, SplitGradient)]

    @jax.jit
    def by_kernels(position):
        with native.using(True):
            (part, value, grads), _ = gradient.evaluate(STREAM, position)
            _, plain = gradient(STREAM, position)
            splits.extend(only_splits(grads))
            plain_splits.extend(only_splits(plain))
            leaves = jax.tree.leaves(grads)
            norm = sum(squared_norm(leaf, jnp.float32) for leaf in leaves)
            virial = sum(map(inner_product, leaves, jax.tree.leaves(position)))
        return part, value, dense(grads), norm, virial, plain

    value, wanted = jax.jit(lambda position: gradient(STREAM, position))(position)
    part, found_value, grads, norm, virial, plain = by_kernels(position)
    np.testing.assert_allclose(found_value, value, rtol=1e-5)
    assert float(part) < float(found_value) or name != "gaussian"
    assert len(splits) == (1 if name in ("gaussian", "horseshoe", "mixed") else 0)
    assert_same_gradient(grads, wanted)
    # A plain call gives plain arrays.
    assert not plain_splits
    assert_same_gradient(plain, wanted)
    flat, place = (
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]).astype(np.float64)
        for tree in (wanted, position)
    )
    np.testing.assert_allclose(norm, flat @ flat, rtol=1e-4)
    np.testing.assert_allclose(virial, place @ flat, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, sampler",
    [
        ("gaussian", "sa_sgld"),
        pytest.param("gaussian", "sghmc", marks=pytest.mark.slow),
        pytest.param("mixed", "sa_sgld", marks=pytest.mark.slow),
    ],
)
def test_runs_agree_on_both_paths(name, sampler, request):
    posterior, position, _ = _case(name)
    step = posterior.time_step(1e-3, kinetic=False)
    clock = {"alpha": 1e3, "m": 0.5, "M": 2.0, "r": 0.25, "omega": 9e4}
    make = {
        "sa_sgld": lambda: sundman.sa_sgld(step, **clock),
        "sghmc": lambda: sundman.sghmc(0.1 * step**0.5),
    }
    before = sundman.config()["noise"]
    request.addfinalizer(lambda: sundman.config(noise=before))
    found = {}
    for noise in ("native", "xla"):
        sundman.config(noise=noise)
        found[noise] = sundman.sample(
            posterior,
            make[sampler](),
            init=position,
            key=jax.random.key(1),
            draws=4,
            thin=3,
            burn_in=5,
            batch_size=50,
        )
    for ours, theirs in zip(
        *(jax.tree.leaves(found[noise].values) for noise in ("native", "xla")), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-4)
    for name in ("potential", "grad_norm", "virial"):
        ours, theirs = (found[noise].stats[name] for noise in ("native", "xla"))
        np.testing.assert_allclose(ours, theirs, rtol=5e-3, atol=1e-2)


def test_a_posterior_of_ones_own_is_asked_for_its_potential():
    class Doubled(sundman.Posterior):
        def potential(self, position, batch=None):
            return 2.0 * super().potential(position, batch)

    _, position, _ = _case("gaussian")
    doubled = Doubled(models.mlp_apply, data=(X, Y), likelihood=likelihoods.gaussian())
    gradient = minibatch(doubled, 50)

    @jax.jit
    def values(position):
        with native.using(True):
            (loss, value, _), _ = gradient.evaluate(STREAM, position)
        plain = gradient(STREAM, position)[0]
        return loss, value, plain, doubled.potential(position, gradient.batch(STREAM))

    loss, value, plain, potential = values(position)
    assert not gradient.parts_differ
    assert loss == value
    np.testing.assert_allclose(value, plain, rtol=1e-5)
    np.testing.assert_allclose(value, potential, rtol=1e-5)


class Shifted(priors.gaussian):
    """A density of its own, which sums of squares do not tell."""

    def log_density(self, w, hyper):
        return super().log_density(w - 1.0, hyper)


class Flat(sundman.Posterior):
    def log_prior(self, position):
        return 0.5 * super().log_prior(position)


@pytest.mark.parametrize(
    "kind, prior", [(sundman.Posterior, Shifted(0.3)), (Flat, PRIORS["gaussian"])]
)
def test_priors_of_ones_own_are_asked_for_their_density(kind, prior):
    model = kind(models.mlp_apply, data=(X, Y), likelihood=likelihoods.gaussian(0.5), prior=prior)
    position = model.position(models.mlp_init(jax.random.key(2), [80, 60, 1]))
    value, wanted = jax.jit(jax.value_and_grad(model.potential))(position)

    @jax.jit
    def by_kernels(position):
        with native.using(True):
            evaluation = model.value_and_grad(position)
        return evaluation.value, evaluation.grads

    found_value, grads = by_kernels(position)
    np.testing.assert_allclose(found_value, value, rtol=1e-5)
    assert_same_gradient(grads, wanted)
