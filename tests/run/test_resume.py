"""Runs broken off and resumed: as in memory, bit for bit; signals; reading a run that goes on."""

import signal
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.store.files import read_json
from sundman.watch.log import read_log
from tests.store.runs import Do, assert_same, broken_off, crash, run, small_pieces  # noqa: F401

RNG = np.random.default_rng(2)
X = RNG.normal(size=(30, 2)).astype(np.float32)


def linear(w, x):
    return x @ w


def total(x):
    return {"sum": jnp.sum(x)}


POSTERIOR = sundman.Posterior(
    linear, likelihood=sundman.likelihoods.gaussian(1.0), data=(X, X @ np.ones(2))
)
VARIANTS = {
    "thin": {"thin": 3, "weighting": "arriving", "collect": total},
    "thin_time": {"thin_time": 0.2},
    "equal": {"weighting": "equal", "stats": (), "burn_in": 0, "chains": 1, "online": None},
    "minibatch": {"target": POSTERIOR, "sampler": sundman.sgld(1e-3), "batch_size": 7},
    "momentum": {"sampler": sundman.samadams(0.02, gamma=2.0, alpha=0.5, r=0.5)},
}
SLOW = ("equal", "momentum")  # each compiles a loop of its own


@pytest.fixture
def listening():
    """SIGINT as Python has it: a shell's background jobs begin with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "variant",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in VARIANTS],
)
def test_resumed_as_in_memory(tmp_path, variant):
    arguments = VARIANTS[variant]
    broken_off(tmp_path / "run", **arguments)
    assert_same(sundman.resume(tmp_path / "run"), run(**arguments))


@pytest.mark.long
@pytest.mark.usefixtures("x64")
def test_in_double_precision(tmp_path):
    init = jnp.ones(2, jnp.float64)
    broken_off(tmp_path / "run", init=init)
    draws = sundman.resume(tmp_path / "run")
    assert draws.values.dtype == np.float64
    assert_same(draws, run(init=init))


def test_resumed_in_single_precision_it_is_refused(tmp_path):
    with jax.enable_x64(True):
        broken_off(tmp_path / "run", init=jnp.ones(2, jnp.float64))
    with pytest.raises(sundman.StoreError, match=r"position.x: .*float64.* this one float32"):
        sundman.resume(tmp_path / "run")


@pytest.mark.parametrize("piece", [1, 2, 3, 10])
@pytest.mark.slow
def test_broken_off_anywhere(tmp_path, piece):
    broken_off(tmp_path / "run", piece=piece)
    assert_same(sundman.resume(tmp_path / "run"), run())


def test_the_log_goes_on(tmp_path):
    path = tmp_path / "run"
    broken_off(path)
    sundman.resume(path)
    log = read_log(path / "log.jsonl")
    blocks = [line["block"] for line in log if line["event"] == "block"]
    assert blocks == list(range(1, 11))
    assert [line["message"] for line in log if line["event"] == "resumed"] == [
        "resumed after draw 16 of 30"
    ]


def test_a_finished_run_is_opened(tmp_path):
    whole = run(tmp_path / "run")
    assert_same(sundman.resume(tmp_path / "run"), whole)
    assert not any(path.suffix == ".partial" for path in (tmp_path / "run").rglob("*"))


@pytest.mark.usefixtures("listening")
def test_an_interrupt_saves_and_stops(tmp_path):
    path = tmp_path / "run"
    before = signal.getsignal(signal.SIGINT)
    stop = Do(5, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(sundman.Interrupted, match=r"stopped after draw 12.*sundman.resume"):
        run(path, watchers=[stop], checkpoint_every=100)
    assert isinstance(sundman.Interrupted(), KeyboardInterrupt)
    assert signal.getsignal(signal.SIGINT) is before
    assert len(sundman.Draws.open(path)) == 12
    resumed = Do(5, crash)
    assert_same(sundman.resume(path, watchers=[resumed]), run())  # piece 5 is not done again


def test_a_termination_saves_and_exits(tmp_path):
    stop = Do(5, lambda: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(SystemExit) as caught:
        run(tmp_path / "run", watchers=[stop], checkpoint_every=100)
    assert caught.value.code == 143
    assert_same(sundman.resume(tmp_path / "run"), run())


@pytest.mark.usefixtures("listening")
def test_a_second_interrupt_stops_at_once(tmp_path):
    path = tmp_path / "run"

    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        run(path, watchers=[Do(5, twice)], checkpoint_every=100)
    assert not isinstance(caught.value, sundman.Interrupted)
    assert read_json(path / "progress.json", {})["draws"] == 8
    assert_same(sundman.resume(path), run())


@pytest.mark.usefixtures("listening")
def test_an_interrupt_in_the_last_piece_is_not_lost(tmp_path):
    stop = Do(10, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", watchers=[stop])
    draws = sundman.Draws.open(tmp_path / "run")
    assert draws.settings["finished"]
    assert_same(draws, run())


def test_an_ignored_interrupt_stays_ignored(tmp_path):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        found = run(tmp_path / "run", watchers=[Do(5, lambda: signal.raise_signal(signal.SIGINT))])
    finally:
        signal.signal(signal.SIGINT, before)
    assert_same(found, run())


@pytest.mark.long
def test_reading_while_the_run_goes_on(tmp_path):
    path, whole, seen, errors = tmp_path / "run", run(), [], []
    over = threading.Event()

    def read():
        while not over.is_set():
            try:
                draws = sundman.Draws.open(path)
            except sundman.StoreError as error:
                if "no run at" not in str(error):
                    errors.append(error)
                continue
            found = np.asarray(draws.values), draws.weight
            for one, other in zip(found, (whole.values, whole.weight), strict=True):
                if not np.array_equal(one, other[:, : len(draws)]):
                    errors.append(len(draws))
            seen.append(len(draws))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        run(path, checkpoint_every=1)
    finally:
        over.set()
        reader.join()
    assert not errors
    assert len({*seen}) > 1
