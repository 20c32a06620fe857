"""The centre of a control variate: where it is found, what it gains, and where there is none."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from jax.flatten_util import ravel_pytree

import sundman
from sundman import likelihoods, priors
from sundman.gradients.full_data import curvature, full_pass, row_noise, spots
from sundman.run import centred
from sundman.tune import centre
from sundman.tune.centre import NoCentre, find, refusal
from sundman.tune.wide_centre import Surroundings

KEY = jnp.array([3, 4], jnp.uint32)


def table(rows, size, seed=0, offset=0.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, size)) @ (np.eye(size) + 0.3 * rng.normal(size=(size, size)))
    x = (x + offset).astype(np.float32)
    w = rng.normal(size=size) / np.sqrt(size)
    return x, w, rng


def logistic(rows=8_000, size=4, **more):
    x, w, rng = table(rows, size, **more)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ w))).astype(np.int32)
    return sundman.Posterior(
        lambda w, x: x @ w, data=(x, y), likelihood=likelihoods.bernoulli(),
        prior=priors.gaussian(2.0),
    )  # fmt: skip


def truth(posterior, size):
    """The mode and the Hessian there, in double precision by hand."""
    x, y = (np.asarray(part, np.float64) for part in posterior.data[:2])

    def potential(w):
        z = x @ w
        return np.sum(np.logaddexp(0, z) - y * z) + w @ w / 8

    def slope(w):
        return x.T @ (1 / (1 + np.exp(-x @ w)) - y) + w / 4

    w = scipy.optimize.minimize(potential, np.zeros(size), jac=slope, options={"gtol": 1e-6}).x
    p = 1 / (1 + np.exp(-x @ w))
    return w, x.T @ (x * (p * (1 - p))[:, None]) + np.eye(size) / 4


def test_a_centre_is_at_the_mode_whatever_the_units():
    posterior = logistic(offset=3.0)
    found = find(posterior, jnp.zeros(4), np.zeros((2, 4)), 1.0, KEY)
    mode, hessian = truth(posterior, 4)
    away = found.position - mode
    assert away @ hessian @ away < 0.05 * 4
    np.testing.assert_allclose(found.scale @ found.scale.T @ hessian, np.eye(4), atol=0.15)
    slope = full_pass(posterior, jnp.zeros(4), mode[None], mode)
    # In units of the posterior's own size: what float32 rows leave is far below it.
    assert np.linalg.norm(np.linalg.cholesky(np.linalg.inv(hessian)).T @ slope.grads[0]) < 0.02


def test_the_noise_is_that_of_minibatches_drawn_at_random():
    posterior, d = logistic(), 4
    found = find(posterior, jnp.zeros(d), np.zeros((1, d)), 1.0, KEY, 64)
    mode, hessian = truth(posterior, d)
    L = np.linalg.cholesky(np.linalg.inv(hessian))
    rng, x = np.random.default_rng(0), np.asarray(posterior.data.x, np.float64)

    def chance(w):
        return 1 / (1 + np.exp(-x @ w))

    size = np.zeros((d, d))
    for _ in range(200):
        slopes = x * (chance(mode + L @ rng.normal(size=d)) - chance(mode))[:, None]
        size += np.cov((slopes @ L).T) * len(x) ** 2 / 64 / 200
    assert found.batch_size == 64
    assert found.noise == pytest.approx(np.linalg.eigvalsh(size)[-1], rel=0.25)
    assert found.plain > 100 * found.noise
    assert len(x) / 64 == pytest.approx(found.plain, rel=0.25)  # N / B, of a model that holds


def test_the_batch_is_chosen_by_its_noise():
    few, many = (
        find(logistic(rows), jnp.zeros(4), np.zeros((1, 4)), 1.0, KEY) for rows in (6_000, 50_000)
    )
    assert few.batch_size == many.batch_size  # the noise does not grow with N
    assert 64 <= few.batch_size <= 256


@pytest.mark.parametrize(
    ("posterior", "batch_size", "said"),
    [
        (lambda: logistic(1_000), None, "1,000 rows are few"),
        (lambda: logistic(6_000), 4_000, "batch_size=4000 is half of the rows"),
        (
            lambda: Doubled(lambda w, x: x @ w, data=logistic().data),
            None,
            "U is not a sum over rows",
        ),
    ],
)
def test_where_none_is_looked_for(posterior, batch_size, said):
    assert refusal(posterior(), jnp.zeros(4), batch_size) == said


class Doubled(sundman.Posterior):
    def potential(self, position, batch=None):
        return 2 * super().potential(position, batch)


def test_many_coordinates_need_a_model_that_is_linear_in_them():
    x = np.random.default_rng(0).normal(size=(6_000, 30)).astype(np.float32)
    data = (x, (x[:, 0] > 0).astype(np.int32))
    network = sundman.Posterior(
        lambda w, x: jnp.tanh(x @ w.reshape(30, 20)).sum(axis=1), data=data,
        likelihood=likelihoods.bernoulli(), prior=priors.gaussian(1.0),
    )  # fmt: skip
    linear = sundman.Posterior(
        lambda w, x: x @ w.reshape(30, 20).sum(axis=1), data=data,
        likelihood=likelihoods.bernoulli(), prior=priors.gaussian(1.0),
    )  # fmt: skip
    assert refusal(network, jnp.ones(600), None) == "the model bends in its 600 parameters"
    assert refusal(linear, jnp.ones(600), None) is None
    assert "does not go with it" in refusal(linear, jnp.ones(600), None, method="baoab")


def test_separable_classes_under_a_flat_prior_have_no_mode():
    x, w, _ = table(6_000, 3)
    posterior = sundman.Posterior(
        lambda w, x: x @ w, data=(x, (x @ w > 0).astype(np.int32)),
        likelihood=likelihoods.bernoulli(), prior=priors.gaussian(1e15),
    )  # fmt: skip
    with pytest.raises(NoCentre, match=r"mode|finite|wide"):
        find(posterior, jnp.zeros(3), np.zeros((1, 3)), 1.0, KEY)


def test_starts_that_lead_to_different_modes_have_no_centre_between_them():
    x = np.random.default_rng(0).normal(size=(6_000, 1)).astype(np.float32)
    posterior = sundman.Posterior(
        lambda w, x: x[:, 0] * w[0] ** 2 / 2, data=(x, 0.5 * x[:, 0]),
        likelihood=likelihoods.gaussian(0.5), prior=priors.gaussian(1.0),
    )  # fmt: skip
    with pytest.raises(NoCentre, match="different modes"):
        find(posterior, jnp.zeros(1), np.array([[1.5], [-1.5]]), 1.0, KEY)
    assert abs(find(posterior, jnp.zeros(1), np.array([[1.5]] * 2), 1.0, KEY).position[0] - 1) < 0.1


def test_a_posterior_that_is_wide_against_its_curvature_has_none():
    """A cubic link: away from the mode rows' gradients change by more than they are there."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6_000, 2)).astype(np.float32)
    posterior = sundman.Posterior(
        lambda w, x: jnp.exp(8.0 * (x @ w)), data=(x, (1 + 40 * rng.normal(size=6_000))),
        likelihood=likelihoods.gaussian(2_000.0), prior=priors.gaussian(1.0),
    )  # fmt: skip
    with pytest.raises(
        NoCentre, match=r"wide against its curvature|not finite at typical distances"
    ):
        find(posterior, jnp.zeros(2), np.zeros((1, 2)), 1.0, KEY)


def test_scales_that_the_prior_samples_do_not_vanish_with_their_weights():
    x, w, rng = table(8_000, 6)
    y = (x @ w + 0.5 * rng.normal(size=8_000)).astype(np.float32)
    posterior = sundman.Posterior(
        lambda w, x: x @ w, data=(x, y), likelihood=likelihoods.gaussian(0.5),
        prior=priors.horseshoe(),
    )  # fmt: skip
    at = posterior.position(jnp.zeros(6))
    start = np.asarray(ravel_pytree(at)[0])
    found = find(posterior, at, start[None], 1.0, KEY)
    weights = ravel_pytree(at)[1](jnp.asarray(found.position, jnp.float32)).params
    np.testing.assert_allclose(weights, w, atol=0.1)


def test_a_million_rows_do_not_drown_small_changes():
    """U at two positions that differ by a thousandth of a posterior sd, in single precision."""
    posterior = logistic(300_000, 3)
    mode, hessian = truth(posterior, 3)
    L = np.linalg.cholesky(np.linalg.inv(hessian))
    far = mode + L @ np.array([1.0, -1.0, 0.5])
    x, y = (np.asarray(part, np.float64) for part in posterior.data[:2])

    def potential(w):
        z = x @ w
        return np.sum(np.logaddexp(0, z) - y * z) + w @ w / 8

    near, there = (np.asarray(at, np.float32).astype(np.float64) for at in (far, mode))
    found = full_pass(posterior, jnp.zeros(3), near[None], there)
    assert found.value[0] == pytest.approx(potential(near) - potential(there), abs=0.02)


def test_spots_on_few_rows_agree_with_all_rows_on_average():
    posterior = logistic(40_000, 3)
    mode, hessian = truth(posterior, 3)
    at = (
        mode
        + np.random.default_rng(0).normal(size=(48, 3))
        @ np.linalg.cholesky(np.linalg.inv(hessian)).T
    )
    whole = spots(posterior, jnp.zeros(3), at, 1e9)
    part = spots(posterior, jnp.zeros(3), at, 40_000 + 2 * 48 * 400)
    assert whole.rows == 40_000
    assert part.rows == 400
    slopes = np.sum(part.grads * whole.grads) / np.sum(whole.grads**2)
    assert slopes == pytest.approx(1.0, abs=0.1)
    assert spots(posterior, jnp.zeros(3), at, 40_000.0) is None


def test_curvature_on_some_rows():
    posterior = logistic(20_000, 3)
    mode, hessian = truth(posterior, 3)
    found = curvature(posterior, jnp.zeros(3), mode, mode, KEY, 20_000)
    np.testing.assert_allclose(found.hessian, hessian, rtol=1e-3, atol=1e-3 * hessian.max())
    assert found.value == 0.0
    part = curvature(posterior, jnp.zeros(3), mode, mode, KEY, 4_096)
    np.testing.assert_allclose(part.hessian, hessian, atol=0.1 * hessian.max())


def test_in_many_dimensions_draws_have_the_size_of_the_posterior():
    size = 60
    posterior = logistic(20_000, size)
    mode, hessian = truth(posterior, size)
    around = Surroundings(posterior, jnp.zeros(size), KEY)
    position, diagonal, passes = around.mode(np.zeros(size), 0.05)
    away = position - mode
    assert away @ hessian @ away < 0.1 * size
    assert passes > 1
    away = around.typical(position, diagonal, 64)
    sizes = np.einsum("ki,ij,kj->k", away, hessian, away) / size
    error = np.sqrt(2 / size / 64)
    assert sizes.mean() == pytest.approx(1.0, abs=5 * error + 0.1)  # the scores' own scatter
    plain, change = around.loudest(position + away, position, 1 / np.sqrt(diagonal))
    L = np.diag(1 / np.sqrt(diagonal))
    exact = row_noise(posterior, jnp.zeros(size), position + away, position, L, KEY, rows=64)
    for found, wanted in ((plain, exact.plain), (change, exact.change)):
        values = np.linalg.eigvalsh(wanted)  # what is found is nearer to the loudest ones' mean
        assert found == pytest.approx(np.sum(values**2) / np.sum(values), rel=0.25)
    unit = 1 / np.sqrt(diagonal)
    largest = np.linalg.eigvalsh(hessian * np.outer(unit, unit))[-1]
    assert around.stiffness(position, diagonal) == pytest.approx(largest, rel=0.1)


def test_inverse_root_of_a_curvature_that_is_flat_or_negative_in_a_direction():
    for value in (0.0, -1.0):
        root = centre.inverse_root(np.diag([4.0, value]))
        assert np.isfinite(root).all()
        assert root[0, 0] == pytest.approx(0.5)


def test_what_was_found_is_packed_with_all_its_digits():
    found = find(logistic(), jnp.zeros(4), np.zeros((1, 4)), 1.0, KEY)
    again = centred.unpack(centred.pack(centred.Found(found)))
    for one, other in zip(found, again.centre, strict=True):
        np.testing.assert_array_equal(one, other)
