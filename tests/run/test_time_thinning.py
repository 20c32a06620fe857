"""Draws at equal intervals of physical time are an unweighted sample of the target."""

import dataclasses
import os
import signal
import threading
import time
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.run import engines
from sundman.run.schedule import Sizes
from sundman.targets import quartic
from sundman.watch import JsonLines

SA = sundman.sa_sgld(0.05, alpha=1.0, m=0.1, M=10.0, r=0.5)


class Signals(JsonLines):
    """Sends a signal to this process once the run listens for it."""

    def __init__(self, number):
        super().__init__(os.devnull)
        self.number, self.before = number, signal.getsignal(number)

    def start(self, about):
        threading.Thread(target=self.send, daemon=True).start()

    def send(self):
        while signal.getsignal(self.number) is self.before:
            time.sleep(0.05)
        time.sleep(1.0)
        os.kill(os.getpid(), self.number)

    def _write(self, name, fields):
        pass


class Stopped(Exception):
    """Before anything was computed."""


def bowl(x):
    return 0.5 * jnp.sum(jnp.square(x))


@pytest.mark.parametrize("multiple", [4.0, 2.5, 0.5])
def test_a_constant_clock_ticks_evenly(multiple, key):
    """The draw at time t is the position the chain rests at from t_n <= t to t_n + h.

    At a whole multiple k of h these are the draws of thin=k, from the second one on.
    """
    h = 2.0**-6  # times are exact sums
    sampler, settings = sundman.sgld(h), {"init": jnp.ones(2), "key": key, "chains": 2}
    path = sundman.sample(bowl, sampler, steps=40, **settings)
    timed = sundman.sample(bowl, sampler, draws=8, thin_time=multiple * h, **settings)
    index = np.floor(multiple * np.arange(1, 9)).astype(int)
    np.testing.assert_allclose(timed.position, path.position[:, index], rtol=1e-5)
    np.testing.assert_allclose(timed.stats["time"], path.stats["time"][:, index], rtol=1e-6)
    np.testing.assert_array_equal(timed.weight, 1.0)


@pytest.mark.long
@pytest.mark.parametrize("burn_in", [pytest.param(0, marks=pytest.mark.slow), 7])
def test_an_adaptive_clock_is_cut_at_equal_times(burn_in, key):
    settings = {"init": jnp.ones(3), "key": key, "chains": 3, "burn_in": burn_in}
    path = sundman.sample(bowl, SA, steps=400, **settings)
    timed = sundman.sample(bowl, SA, draws=10, thin_time=0.61, **settings)
    ends = np.cumsum(path.weight.astype(np.float64), axis=1)
    assert ends[:, -1].min() > 6.1
    for chain in range(3):
        index = np.searchsorted(ends[chain], 0.61 * np.arange(1, 11), side="right")
        np.testing.assert_allclose(timed.position[chain], path.position[chain, index], rtol=1e-4)
        np.testing.assert_allclose(timed.stats["dt"][chain], path.weight[chain, index], rtol=1e-4)
    assert timed.settings["thin_time"] == 0.61


@pytest.mark.usefixtures("optimised")
def test_draws_stay_as_far_apart_as_asked_for(key):
    """Time is compensated: a plain sum of 100,000 short steps is off by a percent."""
    settings = {"init": jnp.ones(1), "key": key, "chains": 2}
    h = 1.03e-4
    draws = sundman.sample(bowl, sundman.sgld(h), draws=3, thin_time=10.0, **settings)
    np.testing.assert_allclose(draws.stats["time"], [[10.0, 20.0, 30.0]] * 2, atol=2 * h)


@pytest.mark.long
def test_steps_below_the_last_digit_end_and_can_be_interrupted(key):
    """1e11 steps to the first draw: a plain sum would stand still, and no signal be heard."""

    class Stop(Exception):
        pass

    def ring(number, frame):
        raise Stop

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 3.0)
    began = time.monotonic()
    try:
        with pytest.raises(Stop):
            sundman.sample(
                bowl, sundman.sgld(1e-9), init=jnp.ones(1), key=key, draws=1, thin_time=100.0
            )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < 20


@pytest.fixture
def heard():
    """Signals that are not ignored, as SIGINT is in what a shell has started in the background."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.long
@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stored_run_stops_within_a_block(key, tmp_path, number):
    """The first signal is heard, though the first draw would take 1e11 steps."""
    path = tmp_path / "run"
    settings = {"init": jnp.ones(1), "key": key, "draws": 1, "thin_time": 100.0}
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        sundman.sample(bowl, sundman.sgld(1e-9), **settings, store=path, watchers=[Signals(number)])
    log = [line["event"] for line in sundman.read_log(path / "log.jsonl")]
    assert log[-2:] == ["interrupted", "end"]
    assert not sundman.Draws.open(path).settings["finished"]


def test_pieces_have_as_many_steps_as_of_draws_some_steps_apart(key, monkeypatch):
    """About a second of them, however many lead to a draw."""
    seen = []

    def stop(spec, setup, *_):
        seen.append(setup)
        raise Stopped

    monkeypatch.setattr("sundman.run.sampling.execute", stop)
    settings = {"init": jnp.ones(2000), "key": key, "chains": 4, "draws": 20_000}
    for thinning in (
        {"thin": 10_000},
        {"thin_time": 10.0},
        {"thin_time": 1e9},
        {"thin_time": 1e-9},
    ):
        with pytest.raises(Stopped):
            sundman.sample(bowl, sundman.sgld(1e-3), **settings, **thinning)
    by_steps, by_time, far, near = seen
    assert by_time.size.steps == by_steps.size.steps
    assert by_time.pieces[0].draws in (by_steps.pieces[0].draws, 2 * by_steps.pieces[0].draws)
    assert far.pieces[0].draws == 1
    assert near.pieces[0].draws > 500


@pytest.mark.long
def test_the_length_of_pieces_does_not_change_a_draw(key, monkeypatch):
    settings = {"init": jnp.ones(2), "key": key, "chains": 2, "online": jnp.square, "burn_in": 7}
    usual = sundman.sample(bowl, SA, draws=50, thin_time=0.61, **settings)
    for draws in (1, 7):
        size = Sizes(draws, 100)
        monkeypatch.setattr("sundman.run.schedule.sizes", lambda *_, size=size: size)
        pieces = sundman.sample(bowl, SA, draws=50, thin_time=0.61, **settings)
        for name in ("values", "weight", "online", "last"):
            one, other = (jax.tree.leaves(getattr(run, name)) for run in (usual, pieces))
            np.testing.assert_equal(one, other)
        np.testing.assert_equal(dict(pieces.stats), dict(usual.stats))


@pytest.mark.long
@pytest.mark.parametrize("steps", [3, 100])
def test_a_block_by_several_calls_is_the_same(key, monkeypatch, steps):
    settings = {"init": jnp.ones(2), "key": key, "chains": 2, "online": jnp.square}
    whole = sundman.sample(bowl, SA, draws=12, thin_time=0.61, **settings)
    affordable = engines.ByTime.__new__

    def few(cls, plan, layout, interval, capacity, _, asked_to_stop):
        return affordable(cls, plan, layout, interval, capacity, steps, asked_to_stop)

    monkeypatch.setattr(engines.ByTime, "__new__", few)
    parts = sundman.sample(bowl, SA, draws=12, thin_time=0.61, **settings)
    np.testing.assert_allclose(parts.position, whole.position, rtol=1e-5)
    np.testing.assert_allclose(parts.online.equal, whole.online.equal, rtol=1e-5)


def test_online_averages_are_those_of_the_draws(key):
    draws = sundman.sample(
        bowl, SA, init=jnp.ones(2), key=key, chains=2, draws=9, thin_time=0.5, online=jnp.square
    )
    wanted = np.square(draws.position).mean(axis=1)
    np.testing.assert_allclose(draws.online.equal, wanted, rtol=1e-5)
    np.testing.assert_allclose(draws.online.weighted, wanted, rtol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize(
    "sampler",
    [pytest.param(sundman.sgld(0.1), marks=pytest.mark.slow), SA],
    ids=["constant", "adaptive"],
)
def test_a_chain_that_diverges_ends(sampler, key):
    with pytest.warns(sundman.DivergenceWarning, match="1 of 2 chains"):
        draws = sundman.sample(
            lambda x: jnp.sum(jnp.where(jnp.abs(x) < 50, 0.5, -1.0) * x**4),
            sampler,
            init=jnp.array([[0.1], [100.0]]),
            per_chain=True,
            key=key,
            chains=2,
            draws=6,
            thin_time=0.3,
        )
    assert draws.diverged_at[0] == -1
    assert draws.diverged[1]
    assert draws.weight[1, -1] == 0
    assert np.isfinite(draws.position[0]).all()


TARGET = quartic()
SHARP = sundman.sa_sgld(0.004, alpha=20.0, m=0.1, M=10.0, r=0.5, omega=0.05, psi="published")
CHAINS = 64


@cache
def run(seed, **thinning):
    first, key = jax.random.split(jax.random.key(seed))
    return sundman.sample(
        TARGET,
        SHARP,
        init=TARGET.exact(first, CHAINS),
        per_chain=True,
        key=key,
        chains=CHAINS,
        **thinning,
    )


OBSERVABLES = {
    "x2": lambda x: jnp.sum(x**2),
    "U": TARGET.potential,
    "grad2": lambda x: jnp.sum(jax.grad(TARGET.potential)(x) ** 2),
}


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["U", *(pytest.param(n, marks=pytest.mark.slow) for n in ("x2", "grad2"))]
)
def test_time_thinned_and_weighted_draws_agree(name):
    """They do where step-thinned draws without their weights are far off."""
    by_time, by_steps = run(12, draws=1000, thin_time=0.4), run(13, draws=2000, thin=10)
    equal = dataclasses.replace(by_steps, weight=np.ones_like(by_steps.weight))
    timed, weighted, wrong = (
        sundman.estimate.mean(draws, OBSERVABLES[name]) for draws in (by_time, by_steps, equal)
    )
    assert np.all(by_time.weight == 1.0)
    assert abs(timed.value - weighted.value) < 4 * np.hypot(timed.error, weighted.error)
    assert abs(wrong.value - weighted.value) > 20 * np.hypot(wrong.error, weighted.error)
    truth = TARGET.truth[name]
    assert abs(timed.value - truth) < 4 * timed.error + 0.02 * truth  # first-order bias in dtau
    assert abs(wrong.value - truth) > 0.3 * truth
