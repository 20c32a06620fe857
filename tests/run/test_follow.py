"""A run seen by its log alone: R-hat, ESS and temperature are those of the draws."""

import json

import jax
import numpy as np
import pytest

import sundman
from sundman import targets
from sundman.watch import LogTail, RunHistory
from sundman.watch.events import stretches

ADAPTIVE = sundman.sa_sgld(5e-3, alpha=50.0, m=0.1, M=10.0, r=0.5)


def history_of(path) -> RunHistory:
    history = RunHistory()
    for line in LogTail(path).read():
        history.add(line)
    return history


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Draws in memory, few enough for the log to have looked at all of them, and their log."""
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    draws = sundman.sample(
        targets.star(), ADAPTIVE, key=jax.random.key(3), chains=4, burn_in=200, steps=5120,
        thin=10, watchers=[sundman.JsonLines(path)], progress=False,
    )  # fmt: skip
    return draws, path


def test_running_numbers_are_those_of_the_draws(logged):
    draws, path = logged
    seen = history_of(path).convergence()
    assert seen.draws == draws.weight.size
    U = np.asarray(draws.stats["potential"], np.float64)
    of_U = sundman.Draws(U, draws.weight, draws.stats, draws.diverged_at, None, draws.settings)
    assert seen.potential.value == pytest.approx(draws_mean(draws, "potential"), rel=1e-6)
    assert seen.temperature.value == pytest.approx(draws_mean(draws, "virial"), rel=1e-6)
    assert seen.rhat == pytest.approx(sundman.estimate.split_rhat(of_U), abs=1e-6)
    assert seen.ess == pytest.approx(sundman.estimate.ess(of_U), rel=0.6)
    by_chain = [np.average(U[i], weights=draws.weight[i]) for i in range(4)]
    assert list(seen.of_chain.values()) == pytest.approx(by_chain, rel=1e-6)


def draws_mean(draws, name):
    return np.average(np.asarray(draws.stats[name], np.float64), weights=draws.weight)


def test_what_the_log_says_of_the_run(logged):
    draws, path = logged
    history = history_of(path)
    assert history.ended is True
    assert history.temperature == 1.0
    assert history.report.stage == "sampling"
    assert (history.report.draws, history.report.total_draws) == (len(draws), len(draws))


def test_chains_that_disagree_have_a_large_rhat_and_few_effective_draws():
    rng = np.random.default_rng(0)
    U = rng.normal(size=(4, 500)) + 10.0 * np.arange(4)[:, None]
    history = RunHistory()
    history.add({"event": "block", **block(stretches({"potential": U}, np.ones_like(U)))})
    seen = history.convergence()
    assert seen.rhat > 5
    assert seen.ess < 20
    assert seen.temperature is None


def test_lost_draws_count_for_nothing():
    U = np.ones((2, 64))
    weight = np.ones_like(U)
    U[1, 32:], weight[1, 32:] = np.nan, 0.0
    part = stretches({"potential": U, "virial": U}, weight)
    history = RunHistory()
    history.add({"event": "block", **block(part)})
    seen = history.convergence()
    assert seen.draws == 96
    assert seen.potential.value == seen.temperature.value == 1.0
    nothing = RunHistory()
    nothing.add({"event": "block", **block(stretches({"potential": U}, 0 * weight))})
    assert nothing.convergence() is None


@pytest.mark.parametrize("shape", [(1, 1), (1, 5000), (3, 7), (16, 100_000), (300, 40)])
def test_stretches_of_any_shape_have_a_short_line(shape):
    values = np.random.default_rng(0).normal(5e6, 700.0, shape).astype(np.float32)
    part = stretches({"potential": values, "virial": values}, np.ones(shape, np.float32))
    assert len(json.dumps(part._asdict())) < 5000
    assert len(part.chain) <= 16
    assert np.average(part.potential, weights=part.weight) == pytest.approx(5e6, rel=1e-3)


def block(part, number=1, **more):
    line = {
        "stage": "sampling", "block": number, "draws": 10 * number, "total_draws": 100,
        "steps": 100 * number, "total_steps": 1000, "chains": 2, "diverged": 0,
        "seconds": float(number), "stats": {}, "by_chain": part and part._asdict(),
    }  # fmt: skip
    return {**line, **more}


def test_a_log_is_read_as_it_grows_and_anew_when_it_is_replaced(tmp_path):
    path = tmp_path / "log.jsonl"
    tail = LogTail(path)
    assert tail.read() == []
    path.write_text('{"event": "start"}\n{"event": "blo')
    assert [line["event"] for line in tail.read()] == ["start"]
    assert tail.read() == []
    with path.open("a") as file:
        file.write('ck"}\n{"event": "end"}\n')
    assert [line["event"] for line in tail.read()] == ["block", "end"]
    (tmp_path / "new").write_text('{"event": "start"}\n')
    (tmp_path / "new").replace(path)
    assert [line["event"] for line in tail.read()] == ["start"]
    assert tail.replaced


@pytest.mark.parametrize("text", ["[]\n", "{}\n", "no json\n", '{"event": "start"}\n\xff\n'])
def test_what_is_no_log_is_refused(tmp_path, text):
    path = tmp_path / "log.jsonl"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(
        ValueError, match=r"log\.jsonl is not the log of a run: line \d is no event"
    ):
        LogTail(path).read()


def test_a_block_that_lacks_something_is_refused():
    with pytest.raises(ValueError, match="block 3 of the log lacks what a block has"):
        RunHistory().add({"event": "block", "block": 3})


def test_an_older_log_without_chains_is_read():
    history = RunHistory()
    history.add({"event": "block", **block(None)})
    assert history.report.draws == 10
    assert history.convergence() is None


class Fake:
    """What a run of wandb looks like."""

    def __init__(self, fails=False):
        self.calls, self.fails = [], fails

    def log(self, values, step=None):
        if self.fails:
            raise ConnectionError("no network")
        self.calls.append((values, step))


def test_any_object_with_log_is_a_watcher(key, tmp_path):
    fake = Fake()
    run = {"key": key, "chains": 2, "burn_in": 10, "steps": 100, "watchers": [fake]}
    sundman.sample(targets.star(), ADAPTIVE, store=tmp_path / "run", progress=False, **run)
    (burn_in, first), (values, last) = fake.calls
    assert (first, last) == (10, 110)
    assert burn_in == {"run/diverged": 0, "run/draws": 0}
    assert {"potential/mean", "dt/low", "zeta/high", "temperature/mean"} <= set(values)
    assert all(isinstance(value, int | float) for value in values.values())


def test_a_watcher_that_fails_does_not_cost_the_run(key):
    run = {"key": key, "steps": 20, "burn_in": 5, "watchers": [Fake(fails=True)]}
    with pytest.warns(UserWarning, match=r"Fake failed with ConnectionError: no network.*goes on"):
        draws = sundman.sample(targets.star(), ADAPTIVE, **run)
    assert len(draws) == 20


def test_what_is_no_watcher_is_refused(key):
    with pytest.raises(TypeError, match=r"log\(dict, step\).*has no start and no log"):
        sundman.sample(targets.star(), ADAPTIVE, key=key, steps=5, watchers=[object()])
