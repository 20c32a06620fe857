"""Samplers are values: equal, pytrees of their numbers, and another number compiles nothing."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from samplers import SAMPLERS

import sundman
from sundman import clocks, integrators, models, priors
from sundman.value import Value, public_name, static

CLOCK = {"alpha": 1.0, "m": 0.1, "M": 10.0, "r": 0.5}


def bowl(x):
    return 0.5 * jnp.sum(jnp.square(x))


class Counter:
    """Counts what XLA compiles."""

    def __init__(self):
        self.number = 0
        jax.monitoring.register_event_duration_secs_listener(self)

    def __call__(self, event, duration, **more):
        self.number += event == "/jax/core/compile/backend_compile_duration"


COUNTER = Counter()


@pytest.mark.parametrize("name", SAMPLERS)
def test_equal_settings_make_equal_samplers(name):
    one, same, other = (SAMPLERS[name].build(h, 1.0, 10.0) for h in (0.01, 0.01, 0.02))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    if one.clock.stages is None:  # the cycles of those rows follow h
        assert jax.tree.structure(one) == jax.tree.structure(other)  # one program serves both
    assert jax.tree.map(lambda leaf: leaf, one) == one
    assert one.integrator.replace() == one.integrator
    assert one.clock.replace() == one.clock


@pytest.mark.parametrize(
    "value",
    [
        sundman.sgld(1e-3),
        sundman.sgld(1e-3, 0.5, noise="three_point"),
        sundman.sa_sgld(1e-3, **CLOCK, lag="guarded"),
        sundman.samadams(0.01, gamma=5.0),
        sundman.sgnht(0.01, 2.0, per_coordinate=True),
        sundman.cyclical_sgld(0.1, cycle=20),
        sundman.contour_sgld(1e-3, low=0.0, high=9.0),
        sundman.replica_exchange_sgld(1e-3, ratios=(1.0, 3.0)),
        sundman.sghmc(sundman.LearningRate(0.1)),
        sundman.compose(integrators.obabo(), clocks.polynomial(0.1, offset=10.0)),
        priors.student_t(3.0, 0.5),
        priors.horseshoe(form="marginal", fan_in="leading"),
        sundman.likelihoods.gaussian(0.1),
    ],
    ids=repr,
)
def test_repr_is_how_to_make_it(value):
    names = {
        "sundman": sundman,
        "clocks": clocks,
        "integrators": integrators,
        "priors": priors,
        "likelihoods": sundman.likelihoods,
    }
    assert eval(repr(value), names) == value


def test_numbers_are_leaves_and_choices_are_not():
    assert sundman.sgld(0.1, 2.0) != sundman.sgld(0.1)
    assert jax.tree.leaves(integrators.baoab(0.5, gamma=2.0)) == [0.5, 2.0, 0.0]
    assert {0.1, 1.0, 10.0} <= set(jax.tree.leaves(clocks.sundman(0.1, **CLOCK)))
    guarded = clocks.sundman(0.1, **CLOCK, lag="guarded")
    assert jax.tree.structure(guarded) != jax.tree.structure(clocks.sundman(0.1, **CLOCK))


def test_a_value_is_checked_where_a_person_makes_it_and_nowhere_else():
    clock = clocks.constant(0.1)
    with pytest.raises(ValueError, match="h=-1"):
        clock.replace(h=-1.0)
    with pytest.raises(ValueError, match="h=-1"):
        dataclasses.replace(clock, h=-1.0)
    assert jax.tree.map(lambda leaf: None, clock).h is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        clock.h = 0.2


@pytest.mark.parametrize("h", [np.float64(0.1), np.float32(0.1), jnp.float32(0.1), 1])
def test_a_number_is_a_number_whatever_wrote_it(h):
    assert type(sundman.sgld(h).clock.h) is float


def test_classes_of_somebody_else_are_values_too():
    class Spring(Value):
        stiffness: float = 1.0
        form: str = static(default="linear")

    assert Spring(2.0) == Spring(2.0) != Spring(2.0, "cubic")
    assert jax.jit(lambda s: s.stiffness * 2)(Spring(3.0)) == 6.0
    assert public_name(Spring) == "spring"
    assert repr(Spring(2.0)).endswith("Spring(2.0)")
    with pytest.raises(TypeError, match="no setting 'stifness'; did you mean stiffness"):
        Spring(stifness=1.0)


@pytest.mark.long
def test_ten_samplers_at_ten_steps_compile_once():
    target, settings = sundman.targets.star(), {"key": jax.random.key(0), "chains": 4}
    # 307 draws: a program that no other test of this process has compiled
    counts = []
    for h in np.geomspace(1e-5, 1e-4, 10):
        for sampler in (sundman.sgld(h), sundman.sa_sgld(h, **CLOCK)):
            before = COUNTER.number
            sundman.sample(target, sampler, steps=307, burn_in=10, **settings)
            counts.append(COUNTER.number - before)
    assert sum(counts[:2]) > 0
    assert sum(counts[2:]) == 0
    before = COUNTER.number
    sundman.sample(sundman.targets.star(), sundman.sgld(1e-6), steps=307, burn_in=10, **settings)
    assert COUNTER.number == before  # a target made alike, too


@pytest.mark.long
def test_another_temperature_prior_scale_or_data_compile_nothing():
    x, w = np.random.default_rng(0).normal(size=(2, 40, 3)).astype(np.float32)

    def run(shift, scale, T, h):
        model = sundman.Posterior(
            models.mlp_apply,
            data=(x + shift, (w[:, :1] > 0).astype(np.float32)),
            likelihood=sundman.likelihoods.gaussian(scale),
            prior={"kernel": priors.gaussian(scale), "bias": priors.student_t(scale=scale)},
            temperature=T,
        )
        init = models.mlp_init(jax.random.key(0), [3, 4, 1])
        return sundman.sample(
            model, sundman.sghmc(h), init=init, key=jax.random.key(1), steps=20, batch_size=10
        )

    run(0.0, 1.0, 1.0, 0.01)
    before = COUNTER.number
    run(0.5, 0.3, 0.7, 0.02)
    assert COUNTER.number == before


def test_optax_chains_and_schedules():
    sampler = sundman.sgld(optax.constant_schedule(0.1))
    x = jnp.ones(2)
    chained = optax.chain(optax.clip_by_global_norm(1.0), sampler.with_key(jax.random.key(0)))
    state = chained.init(x)
    updates, _ = jax.jit(chained.update)(x, state, x)
    assert updates.shape == (2,)
    same = sundman.sample(bowl, sampler, init=x, key=jax.random.key(1), steps=20)
    fixed = sundman.sample(bowl, sundman.sgld(0.1), init=x, key=jax.random.key(1), steps=20)
    np.testing.assert_allclose(same.values, fixed.values, rtol=1e-5)


def rows():
    return sundman.Posterior(
        lambda w, x: x @ w, data=(np.ones((5, 2), np.float32), np.ones(5, np.float32))
    )


def run(**arguments):
    settings = {"init": jnp.ones(2), "key": jax.random.key(0), "steps": 10, **arguments}
    return sundman.sample(bowl, sundman.sgld(0.1), **settings)


TRACED_CHOICES = {
    "cycle": lambda cycle: sundman.cyclical_sgld(0.1, cycle=cycle),
    "bins": lambda bins: sundman.contour_sgld(1e-3, low=0.0, high=9.0, bins=bins),
    "lag": lambda lag: sundman.sa_sgld(0.1, **CLOCK, lag=lag),
    "noise": lambda noise: sundman.sgld(0.1, noise=noise),
    "per_coordinate": lambda flag: sundman.sgnht(0.1, per_coordinate=flag),
    "rank": lambda rank: integrators.low_rank_baoab(rank=rank),
    "learn_after": lambda rows: integrators.low_rank_baoab(learn_after=rows),
    "size": lambda size: sundman.sgld(0.1).on_mean_loss(size),
    "batch_size": lambda size: sundman.gradients.minibatch(rows(), size),
    "every": lambda every: sundman.gradients.svrg(rows(), 2, every=every),
    "steps": lambda steps: run(steps=steps),
    "chains": lambda chains: run(chains=chains),
    "burn_in": lambda burn_in: run(burn_in=burn_in),
}


class TestSettingsPerChain:
    steps = jnp.array([0.01, 0.05, 0.2])

    def test_each_chain_is_the_run_at_its_own_step(self):
        stacked = jax.vmap(sundman.sgld)(self.steps)
        assert stacked.stacked == 3
        together = sundman.sample(
            bowl, stacked, init=jnp.ones(2), key=jax.random.key(3), chains=3, steps=200, burn_in=5
        )
        for i, h in enumerate(self.steps):
            alone = sundman.sample(
                bowl,
                sundman.sgld(float(h)),
                init=jnp.ones(2),
                key=jax.random.key(3),
                chains=3,
                steps=200,
                burn_in=5,
            )
            np.testing.assert_allclose(together.values[i], alone.values[i], rtol=2e-4, atol=1e-5)
            assert together.settings_of(i)["h"] == pytest.approx(float(h))
            assert together.chain(i).settings["h"] == pytest.approx(float(h))
        assert together.settings["per_chain"] == ["h"]

    @pytest.mark.parametrize("chains", [4, 40])
    def test_temperatures_and_frictions(self, chains):
        T = jnp.linspace(0.5, 2.0, chains)
        sampler = jax.vmap(lambda T: sundman.baoab(0.2, T, gamma=2.0 * T))(T)
        draws = sundman.sample(
            bowl, sampler, init=jnp.zeros(8), key=jax.random.key(4), chains=chains, steps=4000
        )
        found = np.mean(np.asarray(draws.values) ** 2, axis=(1, 2))
        np.testing.assert_allclose(found, T, rtol=0.25)
        assert set(draws.settings["per_chain"]) == {"temperature", "gamma"}
        assert draws.settings["h"] == pytest.approx(0.2)

    def test_a_target_gives_its_temperature_to_all(self):
        sampler = jax.vmap(sundman.sgld)(self.steps)
        model = sundman.Posterior(
            lambda w, x: x @ w,
            data=(np.ones((5, 2), np.float32), np.ones(5, np.float32)),
            likelihood=sundman.likelihoods.gaussian(1.0),
            temperature=0.5,
        )
        draws = sundman.sample(
            model, sampler, init=jnp.zeros(2), key=jax.random.key(0), chains=3, steps=10
        )
        assert draws.settings["temperature"] == 0.5

    def test_learning_rates(self):
        sampler = jax.vmap(lambda h: sundman.sghmc(sundman.LearningRate(h)))(self.steps)
        model = sundman.Posterior(
            lambda w, x: x @ w,
            data=(np.ones((5, 2), np.float32), np.ones(5, np.float32)),
            likelihood=sundman.likelihoods.gaussian(1.0),
        )
        draws = sundman.sample(
            model, sampler, init=jnp.zeros(2), key=jax.random.key(0), chains=3, steps=10
        )
        np.testing.assert_allclose(draws.stats["dt"][:, 0], np.sqrt(self.steps / 5), rtol=1e-5)

    def test_messages_say_which_chain_had_what(self, capsys):
        sampler = jax.vmap(sundman.sgld)(jnp.array([0.01, 5.0]))
        with pytest.warns(sundman.DivergenceWarning, match=r"chain 1 \(h=5\) ran away"):
            draws = sundman.sample(
                bowl, sampler, init=jnp.ones(2), key=jax.random.key(0), chains=2, steps=500
            )
        rows = sundman.diagnose(draws, show=False)
        assert rows["chain 0: h=0.01"].value is not None
        assert rows["chain 1: h=5"].verdict == "bad"

    def test_stored_and_resumed(self, tmp_path):
        sampler = jax.vmap(sundman.sgld)(self.steps)
        run = {"init": jnp.ones(2), "key": jax.random.key(0), "chains": 3, "steps": 30}
        draws = sundman.sample(bowl, sampler, **run, store=tmp_path / "run")
        again = sundman.Draws.open(tmp_path / "run")
        assert again.settings["per_chain"] == ["h"]
        np.testing.assert_array_equal(draws.values, sundman.sample(bowl, sampler, **run).values)

    def test_bad_input(self):
        run = {"init": jnp.ones(2), "key": jax.random.key(0), "steps": 10}
        with pytest.raises(ValueError, match="settings for 3 chains, and chains=2"):
            sundman.sample(bowl, jax.vmap(sundman.sgld)(self.steps), chains=2, **run)
        with pytest.raises(ValueError, match=r"chain 1 of the stacked sampler: h must be greater"):
            sundman.sample(bowl, jax.vmap(sundman.sgld)(jnp.array([0.1, -0.1])), chains=2, **run)
        with pytest.raises(TypeError, match=r"r is a choice.*cannot be traced"):
            jax.vmap(lambda r: sundman.sa_sgld(0.1, **{**CLOCK, "r": r}))(self.steps)
        with pytest.raises(TypeError, match=r"one number, got an array of shape \(3,\).*jax.vmap"):
            sundman.sgld(self.steps)

    def test_two_lengths_of_settings_are_refused(self):
        integrator = jax.vmap(integrators.euler_maruyama)(jnp.ones(2))
        clock = jax.vmap(sundman.clocks.constant)(self.steps)
        with pytest.raises(ValueError, match="settings of the sampler are for 2 chains and for 3"):
            sundman.sample(
                bowl,
                sundman.compose(integrator, clock),
                init=jnp.ones(2),
                key=jax.random.key(0),
                chains=3,
                steps=10,
            )

    @pytest.mark.parametrize("name", TRACED_CHOICES)
    def test_a_choice_cannot_be_traced(self, name):
        with pytest.raises(TypeError, match=f"{name} is a choice.*cannot be traced"):
            jax.vmap(TRACED_CHOICES[name])(jnp.arange(4, 7))


class TestUnits:
    def test_a_learning_rate_is_a_time_by_the_scheme(self):
        rate = sundman.LearningRate(0.1)
        assert sundman.sgld(rate).in_time(1000).clock.h == pytest.approx(1e-4)
        assert sundman.samadams(rate).in_time(1000).clock.dtau == pytest.approx(1e-2)
        clock = sundman.sa_sgld(rate, **CLOCK, omega=2.0).in_time(1000).clock
        assert clock.omega == pytest.approx(2e6)

    def test_it_is_known_by_the_posterior_or_refused(self):
        model = sundman.Posterior(
            lambda w, x: x @ w,
            data=(np.ones((5, 2), np.float32), np.ones(5, np.float32)),
            likelihood=sundman.likelihoods.gaussian(1.0),
        )
        run = {"init": jnp.zeros(2), "key": jax.random.key(0), "steps": 5}
        sampler = sundman.sgld(sundman.LearningRate(0.1))
        draws = sundman.sample(model, sampler, **run)
        np.testing.assert_allclose(draws.stats["dt"], 0.02)
        with pytest.raises(ValueError, match="learning rate on the mean loss of N rows"):
            sundman.sample(bowl, sampler, **run)
        with pytest.raises(TypeError, match=r"on_mean_loss\(N\)"):
            sampler.init(jnp.zeros(2), jax.random.key(0))
        with pytest.raises(ValueError, match=r"without \.on_mean_loss"):
            sundman.sample(model, sampler.on_mean_loss(5), **run)

    def test_a_loop_on_the_mean_loss_is_the_run_on_u(self):
        size, x, key = 50, jnp.ones(3), jax.random.key(2)
        whole = sundman.sghmc(0.02)
        mean = sundman.sghmc(sundman.LearningRate(0.02**2 * size)).on_mean_loss(size)
        states = [sampler.init(x, key) for sampler in (whole, mean)]
        U = lambda x: size * bowl(x)  # noqa: E731
        one, _ = whole.update(jax.grad(U)(x), states[0], x)
        other, _ = mean.update(jax.grad(bowl)(x), states[1], x)
        np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize(
    ("target", "sampler", "law"),
    [(None, None, 1.0), (None, 0.5, 0.5), (0.5, None, 0.5), (0.5, 0.5, 0.5), (1.0, 0.5, None)],
)
def test_one_temperature(target, sampler, law):
    model = sundman.Posterior(
        lambda w, x: x @ w,
        data=(np.ones((5, 2), np.float32), np.ones(5, np.float32)),
        likelihood=sundman.likelihoods.gaussian(1.0),
        temperature=target,
    )
    run = {"init": jnp.zeros(2), "key": jax.random.key(0), "steps": 5}
    if law is None:
        with pytest.raises(ValueError, match=r"temperature=1\.0 and the sampler temperature=0\.5"):
            sundman.sample(model, sundman.sgld(0.01, sampler), **run)
    else:
        draws = sundman.sample(model, sundman.sgld(0.01, sampler), **run)
        assert draws.settings["temperature"] == law


def test_every_recipe_has_a_row_in_the_battery():
    assert set(sundman.recipes.RECIPES) <= set(SAMPLERS)
    for name, recipe in sundman.recipes.RECIPES.items():
        sampler = SAMPLERS[name].example
        assert (recipe.kinetic, recipe.adaptive) == (sampler.kinetic, sampler.adaptive)
        assert recipe.references == sampler.references


class TestAsUsed:
    """What people do with them."""

    def test_a_tuner_may_change_any_number_of_a_compiled_program(self):
        x = jnp.ones(2)

        @jax.jit
        def first_step(sampler):
            return sampler.update(x, sampler.init(x, jax.random.key(0)), x)[1].clock.dt

        sampler = sundman.samadams(0.1)
        half = jax.tree.map(lambda leaf: leaf, sampler)
        half = sundman.compose(half.integrator, half.clock.replace(dtau=0.05))
        assert first_step(half) == pytest.approx(0.5 * float(first_step(sampler)), rel=1e-5)
        slope = jax.grad(first_step)(sampler).clock.dtau
        assert float(slope) == pytest.approx(float(first_step(sampler)) / 0.1, rel=1e-4)

    def test_a_sampler_cannot_be_changed_but_replaced(self):
        sampler = sundman.sghmc(0.01, gamma=5.0)
        with pytest.raises(AttributeError, match=r"replace\(clock=...\)"):
            sampler.clock = clocks.constant(0.1)
        assert sampler.replace(h=0.02, gamma=2.0) == sundman.sghmc(0.02, gamma=2.0)
        assert sampler.replace(temperature=0.5) == sampler.with_temperature(0.5)
        with pytest.raises(TypeError, match="no setting 'dtau'"):
            sampler.replace(dtau=0.1)

    def test_step_is_update_applied_on_the_mean_loss_too(self):
        x, key = jnp.ones(2), jax.random.key(0)
        sampler = sundman.sgld(1e-3).on_mean_loss(100)
        state = sampler.init(x, key)
        moved, _ = sampler.step(x, state, x)
        np.testing.assert_allclose(moved, x + sampler.update(x, state, x)[0], rtol=1e-6)
        with pytest.raises(ValueError, match="mean loss of 100 rows already"):
            sampler.on_mean_loss(20)
        big = sundman.sgld(1e-6, 0.0).on_mean_loss(70_000)
        half = jnp.ones(2, jnp.float16)
        updates, _ = big.update(2 * half, big.init(half, key), half)
        assert np.isfinite(updates).all()

    def test_methods_of_a_stacked_sampler(self):
        steps = jnp.array([0.1, 0.2])
        stacked = jax.vmap(sundman.samadams)(steps)
        warm = stacked.with_temperature(2.0)
        assert warm.stacked == 2
        assert warm.of_chain(1).temperature == 2.0
        rates = jax.vmap(lambda h: sundman.sgld(sundman.LearningRate(h)))(steps)
        np.testing.assert_allclose(rates.in_time(10).clock.h, steps / 10)
        assert rates.on_mean_loss(10).of_chain(0).rows == 10
        with pytest.raises(TypeError, match="settings for several chains"):
            stacked.init(jnp.zeros(2), jax.random.key(0))
        with pytest.raises(ValueError, match=r"leave \.with_key"):
            sundman.sample(
                bowl,
                sundman.sgld(0.1).with_key(jax.random.key(0)),
                init=jnp.ones(2),
                key=jax.random.key(0),
                steps=2,
            )

    def test_settings_inside_settings_are_checked_for_every_chain(self):
        friction = jnp.array([-1.0, 1.0])
        sampler = jax.vmap(lambda g: sundman.cyclical_sghmc(1e-3, cycle=10, gamma=g))(friction)
        run = {"init": jnp.ones(2), "key": jax.random.key(0), "steps": 20, "chains": 2}
        with pytest.raises(ValueError, match="chain 0 of the stacked sampler: gamma"):
            sundman.sample(bowl, sampler, **run)

    @pytest.mark.parametrize(
        "make",
        [
            lambda h: sundman.replica_exchange_sgld(h),
            lambda h: sundman.contrib.sgrld(
                h, metric=sundman.contrib.metric_tensors.monge(bowl, 0.1)
            ),
            lambda h: sundman.contrib.psgld(h, curvature=sundman.contrib.curvature.exact(bowl)),
        ],
        ids=["replicas", "metric", "curvature"],
    )
    def test_whatever_is_stacked_can_be_shown_and_run(self, make):
        stacked = jax.vmap(make)(jnp.array([0.01, 0.02]))
        assert "compose" in repr(stacked)
        run = {"init": jnp.ones(2), "key": jax.random.key(0), "steps": 5, "chains": 2}
        assert np.isfinite(sundman.sample(bowl, stacked, **run).values).all()

    def test_double_precision_is_not_forced_on_the_state(self, x64):
        stacked = jax.vmap(sundman.samadams)(jnp.array([0.01, 0.02]))
        run = {"key": jax.random.key(0), "steps": 5, "chains": 2}
        draws = sundman.sample(bowl, stacked, init=jnp.ones(2, jnp.float32), **run)
        assert draws.values.dtype == np.float32

    def test_functions_with_traced_numbers_are_refused(self):
        with pytest.raises(TypeError, match="step_size is a function with a traced number"):
            jax.vmap(lambda h: sundman.sgld(optax.constant_schedule(h)))(jnp.array([0.1, 0.2]))

    def test_choices_of_any_kind_of_number(self):
        assert sundman.sa_sgld(0.1, **{**CLOCK, "r": jnp.float32(0.5)}) == sundman.sa_sgld(
            0.1, **CLOCK
        )
        with pytest.raises(TypeError, match="blockwise must be True or False"):
            sundman.sa_sgld(0.1, **CLOCK, blockwise="no")

    def test_a_potential_that_is_a_value_compiles_once(self):
        class Well(Value):
            stiffness: float = 1.0

            def __call__(self, x):
                return self.stiffness * bowl(x)

        run = {"init": jnp.ones(2), "key": jax.random.key(0), "steps": 20}
        sundman.sample(Well(1.0), sundman.sgld(0.01), **run)
        before = COUNTER.number
        sundman.sample(Well(2.0), sundman.sgld(0.01), **run)
        assert COUNTER.number == before
