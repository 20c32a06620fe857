"""The summary of a block, and what watching costs."""

import io
import time

import jax
import numpy as np
import pytest
from rich.console import Console

import sundman
from sundman.watch.events import BlockReport, stretches, summarise
from sundman.watch.log import JsonLines
from sundman.watch.progress import Progress


def test_small_blocks_are_summarised_exactly():
    values = np.array([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]], np.float32)
    found = summarise({"dt": values}, np.array([True, True]))
    assert found == {"dt": (4.0, 1.0, 8.0)}


def test_lost_chains_and_values_that_are_not_finite_are_left_out():
    values = np.array([[1.0, np.inf, 3.0], [np.nan, 50.0, 60.0], [9.0, 9.0, 9.0]])
    by_chain = summarise({"potential": values}, np.array([True, False, True]))
    assert by_chain["potential"] == ((1 + 3 + 27) / 5, 1.0, 9.0)
    alive = np.array([[True] * 3, [True] * 3, [True, False, False]])
    by_draw = summarise({"potential": values}, alive)
    assert by_draw["potential"] == ((1 + 3 + 50 + 60 + 9) / 5, 1.0, 60.0)


def test_means_of_the_law_are_weighted_those_of_steps_are_not():
    """Else the temperature of an adaptive sampler comes out too high: it is high at short steps."""
    stats = {"virial": np.array([[1.0, 3.0, np.nan]]), "dt": np.array([[4.0, 2.0, 9.0]])}
    found = summarise(stats, np.array([[3.0, 1.0, 5.0]], np.float32))
    assert found["temperature"] == (1.5, 1.0, 3.0)
    assert found["dt"] == (5.0, 2.0, 9.0)


def test_nothing_left_is_nan():
    found = summarise({"dt": np.ones((2, 3))}, np.array([False, False]))
    assert np.isnan(found["dt"]).all()


def test_known_statistics_only_and_the_virial_is_a_temperature():
    one = np.ones((1, 2))
    names = ("dt", "time", "virial", "kinetic_temperature", "zeta", "grad_norm", "potential")
    found = summarise({name: one for name in names}, np.array([True]))
    expected = {"dt", "temperature", "kinetic_temperature", "zeta", "grad_norm", "potential"}
    assert set(found) == expected


@pytest.mark.parametrize("shape", [(1, 100_000), (1000, 300), (30_000, 3), (2047, 5), (2049, 1)])
def test_a_large_block_is_sampled_evenly(shape):
    chains, draws = shape
    ramps = {
        "dt": np.broadcast_to(np.linspace(0, 1, draws), shape),
        "zeta": np.broadcast_to(np.linspace(0, 1, chains)[:, None], shape),
    }
    found = summarise(ramps, np.ones(chains, bool))
    if draws >= 300:
        assert found["dt"].mean == pytest.approx(0.5, abs=0.26)
        assert found["dt"].high == 1.0
    if chains >= 1000:
        assert found["zeta"].mean == pytest.approx(0.5, abs=0.01)
        assert (found["zeta"].low, found["zeta"].high) == pytest.approx((0.0, 1.0), abs=0.01)


def test_the_mean_of_a_long_chain_is_close():
    values = np.random.default_rng(0).normal(3.0, 1.0, (1, 200_000))
    found = summarise({"potential": values}, np.ones((1, 200_000), bool))["potential"]
    assert found.mean == pytest.approx(3.0, abs=5 / 2000**0.5)
    assert found.low < 1.0
    assert found.high > 5.0


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"stats\['dt'\].*\(2, 3\) and \(3,\)"):
        summarise({"dt": np.ones((2, 3))}, np.ones(3, bool))


@pytest.fixture(scope="module")
def toy_step() -> float:
    """Seconds that a step of one chain takes on this machine, of the fastest runs: SGLD, star."""

    def seconds(steps: int) -> float:
        began = time.process_time()
        sundman.sample(
            sundman.targets.star(), sundman.sgld(2e-4), key=jax.random.key(0), steps=steps, thin=100
        )
        return time.process_time() - began

    short, long = 500_000, 2_500_000
    for steps in (short, long):
        seconds(steps)  # compiles
    step = np.median([seconds(long) - seconds(short) for _ in range(9)]) / (long - short)
    assert 1e-8 < step < 1e-6, step
    return float(step)


@pytest.mark.slow  # beside another test it measures the caches that they share
@pytest.mark.parametrize("shape", [(1, 2_000_000), (1000, 2000)])
@pytest.mark.filterwarnings("ignore::sundman.TrustWarning")
def test_watching_costs_less_than_a_hundredth(shape, toy_step, tmp_path):
    chains, draws = shape
    names = ("dt", "zeta", "potential", "grad_norm", "virial", "kinetic_temperature")
    one = np.random.default_rng(0).random((draws, chains), np.float32)
    stats = {name: (one + k).T for k, name in enumerate(names)}  # as blocks are recorded
    alive = np.ones(shape, bool)
    takes = toy_step * chains * draws
    number = 20

    def cost_per_block() -> float:
        console = Console(file=io.StringIO(), force_terminal=True, width=80)
        watchers = (Progress(console), JsonLines(tmp_path / "log.jsonl"))
        for watcher in watchers:
            watcher.start({"temperature": 1.0})
        begin = time.process_time()  # on a busy machine the wall clock measures the others
        for i in range(1, number + 1):
            found, by_chain = summarise(stats, alive), stretches(stats, alive)
            done, total = i * draws, number * draws
            report = BlockReport(
                "sampling", i, done, total, done, total, chains, 0, i * takes, found, by_chain
            )
            for watcher in watchers:
                watcher.block(report)
        end = time.process_time()
        for watcher in watchers:
            watcher.close(True)
        return (end - begin) / number

    assert any(cost_per_block() < 0.01 * takes for _ in range(40))  # the least, if undisturbed
