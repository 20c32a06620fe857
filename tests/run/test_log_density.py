"""Targets given by their log density, targets given with the wrong sign, and bad starts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.run.inputs import NegativeLogDensity
from sundman.run.scan import block

SAMPLER = sundman.sgld(0.01)
START = jnp.ones(3)
SIGN = r"U falls without bound: did you pass log p instead of -log p\? Use sample\(log_density="


def log_density(x):
    return -0.5 * jnp.sum(jnp.square(x))


def potential(x):
    return 0.5 * jnp.sum(jnp.square(x))


def test_it_is_the_potential_with_the_other_sign(key):
    options = {"key": key, "init": START, "steps": 100}
    by_density = sundman.sample(log_density=log_density, sampler=SAMPLER, **options)
    compiled = block._cache_size()
    by_potential = sundman.sample(potential, SAMPLER, **options)
    np.testing.assert_array_equal(by_density.position, by_potential.position)
    assert block._cache_size() == compiled + 1
    sundman.sample(log_density=log_density, sampler=SAMPLER, **options)
    assert block._cache_size() == compiled + 1  # an equal function is the same program


def test_it_is_a_value():
    assert NegativeLogDensity(log_density) == NegativeLogDensity(log_density)
    assert repr(NegativeLogDensity(log_density)) == "-log_density"


def test_exactly_one_of_both(key):
    with pytest.raises(TypeError, match=r"give one of target.*log_density.*got both"):
        sundman.sample(potential, SAMPLER, key=key, log_density=log_density, init=START, steps=1)
    with pytest.raises(TypeError, match="got neither"):
        sundman.sample(sampler=SAMPLER, key=key, init=START, steps=1)
    with pytest.raises(TypeError, match="log_density must be a function"):
        sundman.sample(log_density=3.0, sampler=SAMPLER, key=key, init=START, steps=1)
    with pytest.raises(TypeError, match="sampler must be a sundman sampler"):
        sundman.sample(potential, 0.1, key=key, init=START, steps=1)


def test_stored(tmp_path, key):
    draws = sundman.sample(
        log_density=log_density,
        sampler=SAMPLER,
        key=key,
        init=START,
        steps=100,
        store=tmp_path / "a",
    )
    assert len(sundman.resume(tmp_path / "a")) == len(draws)


def test_wrong_sign_in_the_draws(key):
    with pytest.warns(sundman.DivergenceWarning, match=SIGN):
        draws = sundman.sample(log_density, SAMPLER, key=key, init=START, chains=2, steps=6000)
    assert draws.diverged.all()
    assert draws.verdict.short == "bad: U falls"


def test_wrong_sign_in_the_burn_in(key):
    with (
        pytest.warns(sundman.DivergenceWarning, match=SIGN),
        pytest.raises(sundman.AllDivergedError, match=SIGN),
    ):
        sundman.sample(log_density, SAMPLER, key=key, init=START, burn_in=6000, steps=10)


def test_a_large_step_is_not_a_wrong_sign(key):
    with pytest.warns(sundman.DivergenceWarning) as said:
        sundman.sample(lambda x: jnp.sum(x**4), sundman.sgld(0.2), key=key, init=START, steps=100)
    assert "log p" not in str(said[0].message)


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {"steps": 20},
        {"steps": 20, "burn_in": 5},
        {"steps": 20, "thin": 5},
        {"draws": 20, "thin_time": 0.1},
        {"steps": 20, "burn_in": 5, "on_divergence": "restart"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "U, seen",
    [
        (lambda x: jnp.sum(x * x - jnp.log(x)), "U = (inf|nan)"),
        (lambda x: jnp.sum(jnp.sqrt(x * x) + x * x), r"U = 2 and \|grad U\| = nan"),
    ],
    ids=["potential", "gradient"],
)
def test_a_start_that_is_not_finite_is_named(U, seen, options, key):
    init = jnp.array([[1.0, 1.0], [0.0, 1.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match=f"first position of chain 1 {seen}"):
        sundman.sample(U, SAMPLER, key=key, init=init, chains=3, **options)


@pytest.mark.long
def test_streamed_data_that_are_not_finite(key):
    x, y = np.ones((4, 2), np.float32), np.zeros((4, 1), np.float32)
    host = sundman.data.HostBatches(lambda: iter([(x, y)] * 50), size=4)
    posterior = sundman.Posterior(
        lambda w, x: x @ w, data=host, likelihood=sundman.likelihoods.gaussian(1.0),
        prior=sundman.priors.gaussian(1.0),
    )  # fmt: skip
    init = jnp.full((2, 1), 1e30)
    with pytest.raises(ValueError, match="first position of chain 0 U = inf"):
        sundman.sample(posterior, SAMPLER, key=jax.random.key(0), init=init, steps=10)
