"""Samplers of several copies: what is collected, randomness, resuming, divergence, errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import contour_sgld, gradients, integrators, replica_exchange_sgld
from sundman.noise import Stream
from sundman.run.setup import replicated
from tests.store.runs import assert_same, bowl, broken_off, run, small_pieces  # noqa: F401

SAMPLER = replica_exchange_sgld(0.05, ratios=(1.0, 2.0, 4.0), swap_every=2)
TREE = {"a": jnp.ones((2, 3)), "b": jnp.zeros(())}


@pytest.mark.long
def test_draws_are_those_of_the_first_copy():
    """collect, online, last and every statistic see one position, not three."""
    draws = run(sampler=SAMPLER)
    assert draws.values.shape == (2, 30, 2)
    assert draws.last.shape == (2, 2)
    assert draws.online.weighted.shape == (2, 2)
    assert (draws.weight == np.float32(0.05)).all()
    potential = 0.5 * np.sum(np.square(draws.values), axis=2)
    np.testing.assert_allclose(draws.stats["potential"], potential, rtol=1e-5)
    np.testing.assert_allclose(draws.stats["virial"], potential, rtol=1e-5)
    np.testing.assert_allclose(draws.stats["grad_norm"], np.sqrt(2 * potential), rtol=1e-5)
    mean = np.mean(draws.values**2, axis=1)
    np.testing.assert_allclose(draws.online.weighted, mean, rtol=1e-4)


def test_pytrees_one_chain_and_collect():
    draws = sundman.sample(
        lambda t: sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(t)),
        SAMPLER,
        key=jax.random.key(1),
        init=TREE,
        collect=lambda t: {"sum": jnp.sum(t["a"]) + t["b"]},
        draws=5,
    )
    assert draws.values["sum"].shape == (1, 5)
    assert draws.last["a"].shape == (1, 2, 3)
    assert draws.values["sum"][0, 0] == 6.0


@pytest.mark.parametrize("variant", ["thin", pytest.param("thin_time", marks=pytest.mark.slow)])
def test_resumed_as_in_memory(tmp_path, variant):
    arguments = {"sampler": SAMPLER, **({"thin": 3} if variant == "thin" else {"thin_time": 0.2})}
    broken_off(tmp_path / "run", **arguments)
    assert_same(sundman.resume(tmp_path / "run"), run(**arguments))


@pytest.mark.slow
def test_each_copy_has_noise_and_rows_of_its_own():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2)).astype(np.float32)
    model = sundman.Posterior(
        lambda w, x: x @ w, likelihood=sundman.likelihoods.gaussian(1.0), data=(x, x @ np.ones(2))
    )
    stream = Stream(jnp.array([3, 4], jnp.uint32), jnp.uint32(0))
    same = jnp.zeros((3, 2))
    for estimator in (gradients.minibatch(model, 5), gradients.noisy(bowl, 1.0)):
        value, grads = replicated(estimator, 3)(stream, same)
        assert value.shape == (3,)
        assert len(np.unique(np.asarray(grads)[:, 0])) == 3
    value, grads = replicated(gradients.exact(bowl), 3)(stream, same + 1.0)
    np.testing.assert_array_equal(value, [1.0, 1.0, 1.0])
    draws = sundman.sample(
        model,
        replica_exchange_sgld(1e-3),
        key=jax.random.key(1),
        init=jnp.zeros(2),
        batch_size=5,
        draws=8,
    )
    assert np.isfinite(draws.values).all()
    assert draws.values.shape == (1, 8, 2)


@pytest.mark.long
def test_a_hot_copy_that_is_lost_loses_the_chain():
    """The potential has an end that only the hot copies reach."""

    def walled(x):
        return bowl(x) * jnp.where(jnp.sum(x**2) > 60.0, jnp.nan, 1.0)

    sampler = replica_exchange_sgld(0.05, ratios=(1.0, 30.0), swap_every=2)
    with pytest.warns(sundman.DivergenceWarning, match="chains diverged"):
        draws = run(target=walled, sampler=sampler, draws=200, chains=8, online=None)
    assert np.isfinite(draws.values).all()
    lost = draws.diverged
    assert lost.any()
    for chain in np.flatnonzero(lost):
        assert (draws.weight[chain, draws.diverged_at[chain] :] == 0).all()
    assert np.isfinite(draws.last).all()


class Remembering(gradients.RemembersGradients):
    """An estimator with a memory: one position's."""

    def begin(self, position):
        return position

    def recall(self, stream, position, memory, batch=None):
        return bowl(position), position, memory


def test_an_estimator_that_remembers_is_refused():
    with pytest.raises(ValueError, match=r"Remembering remembers gradients .* 3 replicas"):
        run(target=Remembering(), sampler=SAMPLER)


@pytest.mark.long
def test_the_optax_way_needs_copies_and_values():
    with pytest.raises(ValueError, match=r"3 copies along a leading axis: .* \(2,\)"):
        SAMPLER.init(jnp.ones(2), jax.random.key(0))
    x = jnp.ones((3, 2))
    state = SAMPLER.init(x, jax.random.key(1))
    with pytest.raises(TypeError, match="replica_exchange needs the potential, too"):
        SAMPLER.update(x, state, x)
    updates, after = SAMPLER.update(x, state, x, value=jax.vmap(bowl)(x))
    assert updates.shape == x.shape
    assert int(after.clock.step) == 1


def test_the_weight_of_a_position_is_its_own_however_time_is_weighted():
    """Contour weights belong to the position that is left; arriving changes the dt alone."""
    clock = sundman.clocks.polynomial(0.05, offset=2.0, power=1.0)
    sampler = sundman.compose(integrators.contour(low=0.0, high=4.0, bins=8, gain=0.5), clock)
    arguments = {"sampler": sampler, "burn_in": 0, "chains": 1, "online": None}
    leaving, arriving, equal = (
        run(weighting=how, **arguments) for how in ("leaving", "arriving", "equal")
    )
    np.testing.assert_array_equal(leaving.values, arriving.values)
    factor = leaving.weight / leaving.stats["dt"]
    assert np.unique(factor).size > 3
    dt = leaving.stats["dt"][0]
    np.testing.assert_allclose(arriving.weight[0, 1:], (factor[0] * np.roll(dt, 1))[1:], rtol=1e-5)
    assert (equal.weight == 1).all()


def test_equal_times_are_no_sample_where_weights_are_more_than_dt():
    with pytest.raises(ValueError, match="contour has weights besides dt"):
        run(sampler=contour_sgld(0.05, low=0.0, high=4.0), thin_time=0.2)


@pytest.mark.long
def test_contour_resumed_as_in_memory(tmp_path):
    arguments = {"sampler": contour_sgld(0.05, low=0.0, high=4.0, bins=8)}
    broken_off(tmp_path / "run", **arguments)
    assert_same(sundman.resume(tmp_path / "run"), run(**arguments))
