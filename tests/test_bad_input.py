"""Data and laws that cannot be sampled: errors that say what is wrong, where, and what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import check
from sundman.tune.state import TuningError

ROWS = 300
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3))
Y = X @ np.array([1.0, -2.0, 0.5]) + RNG.normal(size=ROWS)


class Flat(sundman.Posterior):
    def log_prior(self, position):
        return jnp.zeros(())


def regression(x, y=Y, kind=sundman.Posterior):
    return kind(
        lambda w, x: x @ w,
        data=(x, y),
        likelihood=sundman.likelihoods.gaussian(1.0),
        **({"prior": sundman.priors.gaussian(10.0)} if kind is sundman.Posterior else {}),
    )


def sampled(target, **options):
    options = {"steps": 4000, "thin": 2, "chains": 4, **options}
    init = jnp.zeros(target.data.x.shape[1])
    return sundman.sample(target, init=init, key=jax.random.key(0), **options)


def changed(x, place, value):
    x = x.copy()
    x[place] = value
    return x


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (changed(X, (7, 1), np.nan), "first in row 7, column 1: nan; it is the only row"),
        (changed(X, np.s_[5:9, 2], np.inf), "first in row 5, column 2: inf; 4 rows have one"),
    ],
)
def test_rows_that_are_not_finite_are_named(x, message):
    with pytest.raises(ValueError, match=f"x has a value that is not finite, {message}"):
        regression(x)


def test_a_target_that_is_not_finite_is_named():
    with pytest.raises(ValueError, match="y has a value that is not finite, first in row 3: nan"):
        regression(X, changed(Y, 3, np.nan))


@pytest.mark.parametrize(
    "options", [{}, {"gradient": "minibatch"}, {"sampler": sundman.sgld(1e-4)}]
)
def test_fewer_rows_than_a_batch(options):
    with pytest.raises(ValueError, match="batch_size=1000 is more than the 300 rows"):
        sampled(regression(X), batch_size=1000, **options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_column_that_its_numbers_do_not_resolve(dtype):
    seconds = changed(X, np.s_[:, 1], 1.7e9 + 1e3 * X[:, 1]).astype(dtype)
    with pytest.raises(ValueError, match=r"x, column 1 lies between 16999.*centre it"):
        regression(seconds)


def test_columns_are_named_by_all_their_indices_and_counted():
    images = np.tile(X[:, :, None], (1, 1, 2)) + np.array([0.0, 1e7])
    with pytest.raises(ValueError, match=r"x, column 0, 1 \(as 2 others\) lies between"):
        check.resolved("x", images)


@pytest.mark.parametrize(("size", "word"), [(1e20, "large"), (1e-20, "small")])
def test_a_column_whose_squares_overflow(size, word):
    with pytest.raises(ValueError, match=f"x, column 2 has numbers as {word} as.*divide it"):
        regression(changed(X, np.s_[:, 2], size * X[:, 2]))


def test_columns_that_are_resolved(x64):
    years = np.floor(2000 + 20 * RNG.uniform(size=(ROWS, 1)))
    single = np.concatenate([X, years, np.zeros((ROWS, 1)), np.full((ROWS, 1), 1e9)], axis=1)
    check.resolved("x", single.astype(np.float32))
    dust = np.full(ROWS, 0.1, np.float32)
    dust[::2] = np.nextafter(dust[0], np.float32(1))
    check.resolved("x", dust)
    check.resolved("x", np.arange(5))
    check.resolved("x", (1.7e9 + X))  # in double precision


def of_columns(x):
    """Standard deviations of the posterior of a linear regression."""
    return np.sqrt(np.diag(np.linalg.inv(x.T @ x + np.eye(x.shape[1]) / 100.0)))


@pytest.mark.long
@pytest.mark.parametrize(
    "x",
    [
        np.concatenate([X, np.ones((ROWS, 1))], axis=1),
        np.concatenate([X, np.ones((ROWS, 2))], axis=1),
        np.concatenate([X, np.zeros((ROWS, 1))], axis=1),
        np.repeat(X[:10], ROWS // 10, axis=0),
    ],
    ids=["a constant column", "two constant columns", "a column of zeros", "duplicated rows"],
)
def test_constant_columns_and_duplicated_rows_simply_work(x):
    draws = sampled(regression(x))
    assert draws.verdict.ok, draws.verdict
    found = np.asarray(draws.position).std(axis=(0, 1))
    np.testing.assert_allclose(found, of_columns(x), rtol=0.15)  # 4 errors of 350 draws


@pytest.mark.long
def test_classes_that_the_columns_separate():
    apart = (X @ np.array([1.0, -2.0, 0.5]) > 0).astype(np.int32)
    separable = Flat(
        lambda w, x: x @ w, data=(X, apart), likelihood=sundman.likelihoods.bernoulli()
    )
    try:
        with pytest.warns(sundman.TrustWarning):
            verdict = str(sampled(separable).verdict)
    except TuningError as error:
        verdict = str(error)
    assert "columns separate the classes: at the end all 300 rows" in verdict


@pytest.mark.long
def test_a_column_of_zeros_under_a_flat_prior():
    x = np.concatenate([X, np.zeros((ROWS, 1))], axis=1)
    with pytest.raises(TuningError, match=r"x\[3\] began at 0.*Most likely the law cannot be norm"):
        sampled(regression(x, kind=Flat))


@pytest.mark.long
@pytest.mark.parametrize("place", [1e8, 1e10])
def test_a_law_narrower_than_the_numbers(place):
    with pytest.raises(TuningError, match=r"neighbouring numbers of its dtype are.*centre the"):
        sundman.sample(
            lambda x: 0.5 * jnp.sum(jnp.square(x - place)),
            init=jnp.full(2, place),
            key=jax.random.key(0),
            steps=200,
        )


@pytest.mark.long
def test_a_u_without_a_slope():
    """All of it is rounded, so that there is nothing to follow."""
    with pytest.raises(TuningError, match="U or its gradient is not continuous"):
        sundman.sample(
            lambda x: 0.5 * jnp.sum(jnp.square(jnp.round(4.0 * x) / 4.0)),
            init=jnp.ones(2),
            key=jax.random.key(0),
            steps=200,
        )
