import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sundman
from sundman import targets
from sundman.noise import fold, key_words


def bowl(x):
    return 0.5 * jnp.sum(jnp.square(x))


SA = sundman.sa_sgld(0.05, alpha=1.0, m=0.1, M=10.0, r=0.5)


def test_shapes_weights_and_stats(key):
    draws = sundman.sample(
        bowl, SA, init=jnp.ones(3), key=key, chains=4, steps=20, burn_in=5, thin=4
    )
    assert draws.position.shape == (4, 5, 3)
    assert draws.weight.shape == (4, 5)
    assert set(draws.stats) == {"dt", "time", "potential", "grad_norm", "zeta", "virial"}
    assert (draws.chains, len(draws)) == (4, 5)
    np.testing.assert_array_equal(draws.weight, draws.stats["dt"])
    np.testing.assert_allclose(
        draws.stats["potential"], 0.5 * np.sum(draws.position**2, axis=-1), rtol=1e-5
    )
    np.testing.assert_allclose(
        draws.stats["grad_norm"], np.linalg.norm(draws.position, axis=-1), rtol=1e-5
    )
    assert draws.settings["draws"] == 5
    assert "chains=4" in repr(draws)


def test_statistics_can_be_left_out(key):
    full, bare = (
        sundman.sample(bowl, SA, init=jnp.ones(2), key=key, steps=5, **chosen)
        for chosen in ({}, {"stats": ()})
    )
    assert set(bare.stats) == {"dt", "potential"}
    np.testing.assert_allclose(bare.position, full.position, rtol=1e-5)


def test_first_draw_is_the_start_and_weights_add_up_to_time(key):
    draws = sundman.sample(bowl, SA, init=jnp.ones(2), key=key, steps=50)
    np.testing.assert_array_equal(draws.position[0, 0], 1.0)
    elapsed = np.cumsum(draws.weight[0].astype(np.float64))
    np.testing.assert_allclose(draws.stats["time"][0, 1:], elapsed[:-1], rtol=1e-5)


def test_thinning_and_burn_in_pick_from_one_path(key):
    full = sundman.sample(bowl, SA, init=jnp.ones(2), key=key, chains=3, steps=30)
    part = sundman.sample(
        bowl, SA, init=jnp.ones(2), key=key, chains=3, steps=20, burn_in=10, thin=5
    )
    np.testing.assert_allclose(part.position, full.position[:, 10::5], rtol=1e-5)
    np.testing.assert_allclose(part.weight, full.weight[:, 10::5], rtol=1e-5)


def test_weightings(key):
    run = {
        weighting: sundman.sample(
            bowl, SA, init=jnp.ones(2), key=key, steps=10, weighting=weighting
        )
        for weighting in ("leaving", "arriving", "symmetric", "equal")
    }
    np.testing.assert_array_equal(run["equal"].weight, 1.0)
    np.testing.assert_allclose(run["arriving"].weight[0, 1:], run["leaving"].weight[0, :-1])
    np.testing.assert_array_equal(run["equal"].stats["dt"], run["leaving"].weight)
    both = 0.5 * (run["arriving"].weight + run["leaving"].weight)
    np.testing.assert_allclose(run["symmetric"].weight, both, rtol=1e-6)
    np.testing.assert_array_equal(run["symmetric"].stats["dt"], run["leaving"].weight)


def test_runner_is_the_optax_loop(key):
    draws = sundman.sample(bowl, SA, init=jnp.ones(2), key=key, chains=2, steps=6)
    for chain in range(2):
        params = jnp.ones(2)
        state = SA.init(params, fold(key_words(key), chain, 2))
        for n in range(6):
            np.testing.assert_allclose(draws.position[chain, n], params, rtol=1e-5)
            updates, state = SA.update(jax.grad(bowl)(params), state, params)
            params = optax.apply_updates(params, updates)
        np.testing.assert_allclose(draws.last[chain], params, rtol=1e-5)


def test_a_chain_does_not_depend_on_how_many_there_are(key):
    few, many = (
        sundman.sample(bowl, SA, init=jnp.ones(2), key=key, chains=n, steps=10).position
        for n in (2, 5)
    )
    np.testing.assert_allclose(few, many[:2], rtol=1e-5)


def test_blocks_join_seamlessly(key, monkeypatch):
    whole = sundman.sample(bowl, SA, init=jnp.ones(2), key=key, chains=2, steps=23)
    monkeypatch.setattr("sundman.run.schedule.BLOCK_BYTES", 500)
    parts = sundman.sample(bowl, SA, init=jnp.ones(2), key=key, chains=2, steps=23)
    np.testing.assert_allclose(parts.position, whole.position, rtol=1e-5)


def test_collect_replaces_the_position(key):
    draws = sundman.sample(bowl, SA, init=jnp.ones(2), key=key, steps=8, collect=jnp.sum)
    assert draws.values.shape == (1, 8)
    with pytest.raises(AttributeError, match="collect= was given"):
        _ = draws.position


def test_pytree_positions(key):
    init = {"w": jnp.ones((2, 2)), "b": jnp.zeros(())}
    draws = sundman.sample(
        lambda p: bowl(p["w"]) + bowl(p["b"]), SA, init=init, key=key, chains=3, steps=4
    )
    assert draws.position["w"].shape == (3, 4, 2, 2)
    assert draws.position["b"].shape == (3, 4)


def test_one_start_or_one_per_chain(key):
    star = targets.star()
    starts = star.exact(jax.random.key(0), 2)
    draws = sundman.sample(star, sundman.sgld(1e-5), init=starts, key=key, chains=2, steps=1)
    np.testing.assert_array_equal(draws.position[:, 0], starts)
    same = sundman.sample(star, sundman.sgld(1e-5), init=jnp.ones(2), key=key, chains=2, steps=1)
    np.testing.assert_array_equal(same.position[:, 0], 1.0)
    default = sundman.sample(star, sundman.sgld(1e-5), key=key, chains=2, steps=1)
    np.testing.assert_array_equal(default.position[0, 0], star.start)


@pytest.mark.long
def test_doubtful_start_is_a_position_unless_said_otherwise(key):
    def run(**kwargs):
        return sundman.sample(
            bowl, SA, init=jnp.arange(4.0), key=key, chains=4, steps=1, **kwargs
        ).position.shape

    assert run() == run(per_chain=False) == (4, 1, 4)
    assert run(per_chain=True) == (4, 1)


def cliff(x):
    return jnp.sum(x**4)


@pytest.mark.long
def test_diverged_chain_is_flagged_and_weighs_nothing(key):
    starts = jnp.array([[0.1], [50.0], [0.2]])
    with pytest.warns(sundman.DivergenceWarning, match=r"1 of 3 .*chain 1 ran away at step 1 "):
        draws = sundman.sample(
            cliff,
            sundman.sgld(0.01),
            init=starts,
            key=key,
            chains=3,
            steps=50,
            online=lambda x: x[0],
        )
    np.testing.assert_array_equal(draws.diverged_at, [-1, 0, -1])
    np.testing.assert_array_equal((draws.weight > 0).all(axis=1), [True, False, True])
    assert (draws.weight[1] == 0).all()
    assert np.isfinite(sundman.estimate.mean(draws, lambda x: x[0] < 1.0).value)
    np.testing.assert_array_equal(np.isnan(draws.online.weighted), [False, True, False])


@pytest.mark.long
def test_draws_of_a_chain_running_away_do_not_rule_the_average():
    target = targets.quartic(temperature=2.0)
    with pytest.warns(sundman.DivergenceWarning):
        draws = sundman.sample(
            target,
            sundman.lm(0.2, temperature=2.0),
            init=target.exact(jax.random.key(3), 64),
            key=jax.random.key(4),
            chains=64,
            steps=20_000,
            thin=2,
        )
    lost = draws.diverged
    assert 0 < lost.sum() < 64
    finite = np.isfinite(draws.position).all(axis=-1)
    assert (finite.sum(axis=1)[lost] >= draws.diverged_at[lost]).all()
    found = sundman.estimate.mean(draws, target.observables["x2"])
    assert found.value == pytest.approx(target.truth["x2"], rel=0.05)


def test_divergence_after_the_last_draw_is_seen(key):
    with pytest.warns(sundman.DivergenceWarning):
        draws = sundman.sample(
            lambda x: jnp.sum(x**4),
            sundman.sgld(0.1),
            init=jnp.full(1, 50.0),
            key=key,
            steps=20,
            thin=20,
        )
    assert draws.diverged_at[0] == 0


def test_noisy_gradient_is_fresh_each_step_and_chain(key):
    noisy = sundman.gradients.noisy(lambda x: 0.0 * jnp.sum(x), 1.0)
    draws = sundman.sample(
        noisy, sundman.sgld(1.0, temperature=0.0), init=jnp.zeros(50), key=key, chains=2, steps=3
    )
    moves = np.diff(draws.position, axis=1)
    assert np.std(moves) == pytest.approx(1.0, abs=0.15)
    assert abs(np.corrcoef(moves[0, 0], moves[0, 1])[0, 1]) < 0.5
    assert abs(np.corrcoef(moves[0, 0], moves[1, 0])[0, 1]) < 0.5


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"target": lambda x: x**2}, ValueError, "scalar.*shape"),
        ({"target": lambda x: {"u": jnp.sum(x)}}, TypeError, "one number"),
        ({"target": lambda x: jnp.sum(x).astype(int)}, TypeError, "int32"),
        ({"target": 3.0}, TypeError, "potential"),
        ({"init": jnp.arange(3)}, TypeError, "int32"),
        ({"init": {}}, ValueError, "empty"),
        ({"init": None}, ValueError, "init is needed"),
        ({"steps": 0}, ValueError, "steps=0"),
        ({"draws": 3}, ValueError, "one of steps= and draws="),
        ({"batch_size": 3}, ValueError, "needs a sundman.Posterior"),
        ({"thin_time": 0.1}, ValueError, "give draws and not steps"),
        ({"steps": 2.5}, TypeError, "steps=2.5"),
        ({"steps": 2**33}, ValueError, "2\\*\\*32"),
        ({"thin": 0}, ValueError, "thin=0"),
        ({"thin": 100}, ValueError, "no draw"),
        ({"burn_in": -1}, ValueError, "burn_in=-1"),
        ({"chains": 0}, ValueError, "chains=0"),
        ({"stats": ("temperature",)}, ValueError, "stats='temperature'"),
        ({"weighting": "heavy"}, ValueError, "weighting='heavy'"),
        ({"sampler": optax.sgd(0.1)}, TypeError, "sundman sampler"),
        ({"key": 3}, TypeError, "random key"),
        ({"per_chain": True}, ValueError, "leading axis"),
    ],
)
def test_bad_input_is_named(change, error, message):
    arguments = {
        "target": bowl,
        "sampler": SA,
        "init": jnp.ones(3),
        "key": jax.random.key(0),
        "steps": 10,
        "chains": 2,
    }
    arguments.update(change)
    target, sampler = arguments.pop("target"), arguments.pop("sampler")
    with pytest.raises(error, match=message):
        sundman.sample(target, sampler, **arguments)
