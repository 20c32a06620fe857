"""Samplers with stages: where draws are taken, how many, burn-in, resuming, divergence."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sundman
from sundman import clocks, cyclical_sghmc, cyclical_sgld
from sundman.clocks import Stages
from sundman.data import HostBatches
from sundman.run.schedule import Sizes, draw_schedule, draws_within
from sundman.run.setup import start_chains
from tests.store.runs import Do, assert_same, bowl, broken_off, crash, run, small_pieces  # noqa: F401

SAMPLER = cyclical_sgld(0.1, cycle=10, explore=4)


def collected(burn_in, draws, thin):
    """The steps whose positions are drawn, by the plain rule."""
    stages = SAMPLER.clock.stages
    found = []
    for begin in range(0, 10**6, stages.cycle):
        first = max(begin + stages.explore, burn_in)
        while first + thin <= begin + stages.cycle:
            if len(found) == draws:
                return found
            found.append(first)
            first += thin


@pytest.mark.parametrize("burn_in", [0, 3, 4, 7, 9, 10, 25])
@pytest.mark.parametrize("thin", [1, 2, 4, 5])
def test_turns_follow_the_rule(burn_in, thin):
    now, found = 0, []
    for without, count in draw_schedule(Stages(10, 4), burn_in, 23, thin):
        now += without
        found += [now + i * thin for i in range(count)]
        now += count * thin
    assert found == collected(burn_in, 23, thin)


@pytest.mark.parametrize(
    ("burn_in", "steps", "thin", "draws"),
    [(0, 10, 1, 6), (0, 30, 1, 18), (0, 36, 1, 20), (4, 30, 1, 18), (7, 23, 2, 7), (10, 10, 6, 1)],
)
def test_draws_within_the_steps(burn_in, steps, thin, draws):
    assert draws_within(Stages(10, 4), burn_in, steps, thin) == draws


def test_steps_are_made_to_the_last_draw():
    found = run(sampler=SAMPLER, draws=None, steps=33, burn_in=0)
    assert len(found) == 18
    assert found.settings["steps"] == 30


@pytest.mark.parametrize("burn_in", [0, 13])
def test_draws_are_the_positions_of_those_steps(burn_in):
    draws = run(sampler=SAMPLER, burn_in=burn_in, chains=1, thin=2, draws=12)
    position, path, dts = jnp.ones(2), [], []
    key = jax.random.key(7)
    sampler = SAMPLER
    state = jax.tree.map(
        lambda x: x[0], start_chains(position[None], sampler, key, stacked=False)
    ).state
    update = jax.jit(lambda x, state: sampler.update(jax.grad(bowl)(x), state, x))
    for _ in range(80):
        path.append(np.asarray(position))
        updates, state = update(position, state)
        dts.append(float(state.clock.dt))
        position = optax.apply_updates(position, updates)
    steps = collected(burn_in, 12, 2)
    np.testing.assert_allclose(draws.position[0], np.stack(path)[steps], rtol=1e-5)
    np.testing.assert_allclose(draws.weight[0], np.array(dts)[steps], rtol=1e-6)


def test_exploring_has_no_noise_and_sampling_has():
    sampler = cyclical_sgld(0.1, cycle=4, explore=2)
    x, grads = jnp.ones(3), jnp.ones(3)
    state = sampler.init(x, jax.random.key(1))
    for step in range(8):
        updates, state = sampler.update(grads, state, x)
        still = np.allclose(updates, -state.clock.dt * grads)
        assert still == (step % 4 < 2)


@pytest.mark.parametrize(
    ("make", "piece"),
    [pytest.param(cyclical_sgld, 8, marks=pytest.mark.long), (cyclical_sghmc, 3)],
)
def test_resumed_as_in_memory(tmp_path, make, piece):
    arguments = {"sampler": make(0.1, cycle=14, explore=8), "burn_in": 3}
    broken_off(tmp_path / "run", piece=piece, **arguments)
    assert_same(sundman.resume(tmp_path / "run"), run(**arguments))


def test_pieces_change_nothing(monkeypatch):
    found = run(sampler=SAMPLER)
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(1000, 1000))
    np.testing.assert_array_equal(found.values, run(sampler=SAMPLER).values)


@pytest.mark.long
def test_host_batches_step_by_step():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 2)).astype(np.float32)
    y = x.sum(axis=1)
    pairs = [(x[i : i + 3], y[i : i + 3]) for i in range(0, 12, 3)]
    model = sundman.Posterior(
        lambda w, x: x @ w,
        likelihood=sundman.likelihoods.gaussian(1.0),
        data=HostBatches(pairs, size=12),
    )
    sampler = cyclical_sgld(1e-3, cycle=10, explore=4)
    draws = sundman.sample(
        model, sampler, key=jax.random.key(1), init=jnp.ones(2), chains=2, steps=30
    )
    assert len(draws) == 18
    assert draws.settings["steps"] == 30


def trouble(step):
    """A potential that is infinite from ``step`` on in the second chain; x[1] counts steps of .1.

    The steps are those of the cycles, so x[1] is compared with their sum.
    """
    dt = [0.05 * (np.cos(np.pi * (n % 10) / 10) + 1) for n in range(step)]
    limit = sum(dt) - 1e-4

    def potential(x):
        bad = (x[2] > 0) & (x[1] > limit)
        return 0.5 * x[0] ** 2 - x[1] + jnp.where(bad, jnp.inf, 0.0)

    return potential


@pytest.mark.long
@pytest.mark.parametrize(
    ("step", "draw", "policy"), [(22, 12, "freeze"), (33, 18, "freeze"), (22, 12, "raise")]
)
def test_lost_while_exploring(step, draw, policy, monkeypatch):
    """Without noise the second coordinate is the time. Six draws a cycle: twelve come before."""
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(25, 25))
    sampler = cyclical_sgld(0.1, 0.0, cycle=10, explore=4)
    arguments = {
        "key": jax.random.key(1),
        "init": jnp.array([[1.0, 0.0, 0.0], [1.0, 0.0, 1.0]]),
        "chains": 2,
        "per_chain": True,
        "steps": 60,
        "on_divergence": policy,
    }
    if policy == "raise":
        with pytest.raises(sundman.DivergenceError, match=f"chain 1 ran away at step {step}"):
            sundman.sample(trouble(step), sampler, **arguments)
        return
    with pytest.warns(sundman.DivergenceWarning, match="1 of 2 chains diverged"):
        draws = sundman.sample(trouble(step), sampler, **arguments)
    assert draws.diverged_at.tolist() == [-1, draw]
    assert draws.settings["diverged_step"] == [-1, step]
    assert (draws.weight[1, :draw] > 0).all()
    assert (draws.weight[1, draw:] == 0).all()
    assert (draws.weight[0] > 0).all()
    assert np.isfinite(draws.values).all()


def test_stages_are_told_to_watchers():
    seen = []

    class Listen(Do):
        def block(self, report):
            seen.append((report.stage, report.steps))

    run(sampler=SAMPLER, burn_in=0, draws=12, watchers=[Listen(0, crash)])
    assert [stage for stage, _ in seen[:4]] == ["burn-in", "sampling", "sampling", "exploration"]
    assert seen[-1][1] == 20


def test_the_whole_run_counts_its_steps():
    with pytest.raises(ValueError, match=r"below 2\*\*32"):
        run(sampler=cyclical_sgld(0.1, cycle=2**30, explore=2**30 - 1), burn_in=0, draws=5)


def test_a_long_cycle_never_has_a_step_of_zero():
    clock = clocks.cyclical(1e-3, cycle=1_000_000)
    state = clock.init(jnp.zeros(1))._replace(step=jnp.uint32(999_999))
    dt, _ = clock.tick(state, jnp.zeros(1), jnp.zeros(1))
    assert float(dt) == pytest.approx(1e-3 * (np.pi / 2e6) ** 2, rel=1e-3)


@pytest.mark.parametrize(
    ("explore", "steps"), [(0, 0), (0.25, 5), (0.5, 10), (7, 7), (19, 19), (0.99, None), (20, None)]
)
def test_explore_is_a_number_or_a_fraction(explore, steps):
    if steps is None:
        with pytest.raises(ValueError, match=f"explore={explore}"):
            clocks.cyclical(0.1, cycle=20, explore=explore)
    else:
        assert clocks.cyclical(0.1, cycle=20, explore=explore).stages == Stages(20, steps)


def test_without_explore_cycles_mean_nothing_to_a_run():
    plain = sundman.compose(sundman.integrators.euler_maruyama(), clocks.cyclical(0.1, cycle=50))
    assert plain.clock.stages is None
    assert len(run(sampler=plain, draws=30)) == 30


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 9}, "cycle=10 steps, and burn_in . steps = 9"),
        ({"steps": 3, "burn_in": 10}, "no draw would be kept: the 3 steps after burn_in=10"),
        ({"steps": 20, "thin": 7}, "thin=7, and the sampling stage of a cycle has 6"),
        ({"draws": 20, "thin": 7}, "thin=7, and the sampling stage of a cycle has 6"),
        ({"draws": 20, "thin_time": 0.1}, "thin_time does not go with a cyclical clock"),
        ({"steps": 20, "burn_in": -1}, "burn_in=-1"),
    ],
)
def test_no_draw_is_an_error_at_once(changes, message):
    with pytest.raises(ValueError, match=message):
        sundman.sample(bowl, SAMPLER, key=jax.random.key(1), init=jnp.ones(2), **changes)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"explore": 10}, ValueError, "explore=10, cycle=10"),
        ({"explore": -1}, ValueError, "explore=-1"),
        ({"explore": 1.5}, TypeError, "explore=1.5"),
        ({"cycle": 0}, ValueError, "cycle=0"),
        ({"temperature": -1.0}, ValueError, "temperature=-1.0"),
    ],
)
def test_bad_settings_are_named(changes, error, message):
    with pytest.raises(error, match=message):
        cyclical_sgld(0.1, **{"cycle": 10, "explore": 4, **changes})


def test_the_same_stages_at_another_temperature():
    sampler = SAMPLER.with_temperature(0.3)
    assert sampler.temperature == 0.3
    assert sampler.settings["explore"] == 4
    assert sampler.settings["moves_by"] == "euler_maruyama"
    assert sampler.clock.stages == Stages(10, 4)
