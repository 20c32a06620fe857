"""Gradients of the priors: right by finite differences, finite and odd wherever weights may go."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from sundman import priors

PRIORS = {
    "gaussian": priors.gaussian(0.7),
    "laplace": priors.laplace(0.7),
    "student_t": priors.student_t(3.0, 0.7),
    "cauchy_proxy": priors.cauchy_proxy(0.7),
    "scale_mixture": priors.scale_mixture(0.05, 0.7, fraction=0.3),
    "tensor": priors.horseshoe(0.7),
    "relative": priors.horseshoe(0.7, form="relative"),
    "marginal": priors.horseshoe(0.7, form="marginal"),
    "hierarchical": priors.horseshoe(0.7, form="hierarchical"),
    "regularised": priors.horseshoe(0.7, form="regularised"),
}
SIZES = [1e-38, 1e-30, 1e-12, 1e-6, 1e-3, 0.1, 1.0, 30.0, 1e3, 1e6]


@pytest.mark.long
@pytest.mark.parametrize("name", PRIORS)
def test_gradients_by_finite_differences(name, x64):
    prior, rng = PRIORS[name], np.random.default_rng(3)
    w = jnp.asarray(rng.choice([-1, 1], 20) * np.geomspace(1e-2, 30, 20))
    hyper = prior.hyper(w.shape, w.dtype)
    if hyper is None:
        check_grads(
            jax.jit(lambda w: prior.log_density(w, None)), (w,), 1, ["rev"], 1e-5, 1e-4, 1e-7
        )
        return
    hyper = jax.tree.map(lambda leaf: leaf + rng.normal(size=leaf.shape), hyper)
    check_grads(jax.jit(prior.log_density), (w, hyper), 1, ["rev"], 1e-5, 1e-5, 1e-7)


@pytest.mark.parametrize("name", PRIORS)
def test_gradients_are_finite_odd_and_inward(name):
    """In single precision, from the smallest normal number to a million."""
    prior = PRIORS[name]
    size = jnp.asarray([0.0, *SIZES], jnp.float32)

    @jax.jit
    @jax.vmap
    def slope(w):
        hyper = prior.hyper((1,), jnp.float32)
        return jax.grad(lambda w: prior.log_density(w[None], hyper))(w)

    up, down = np.asarray(slope(size)), np.asarray(slope(-size))
    assert np.isfinite(up).all()
    np.testing.assert_array_equal(up, -down)
    assert up[0] == 0.0
    assert np.all(up[3:] < 0)


@pytest.mark.parametrize("name", ["hierarchical", "regularised", "tensor"])
@pytest.mark.parametrize("shift", [-15.0, 15.0])
def test_gradients_in_extreme_scales_are_finite(name, shift):
    prior = PRIORS[name]
    w = jnp.asarray([0.0, 1e-6, 1.0], jnp.float32)
    hyper = jax.tree.map(lambda leaf: leaf + shift, prior.hyper(w.shape, w.dtype))
    slopes = jax.jit(jax.grad(prior.log_density, argnums=(0, 1)))(w, hyper)
    for leaf in jax.tree.leaves(slopes):
        assert np.isfinite(leaf).all()


def test_heavy_tails_pull_less_and_less():
    for name in ("student_t", "cauchy_proxy", "marginal"):
        slope = jax.jit(jax.grad(lambda w, name=name: PRIORS[name].log_density(w[None], None)))
        assert abs(slope(jnp.float32(1e4))) < abs(slope(jnp.float32(1e2))) < 0.1
