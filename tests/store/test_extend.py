"""A run made longer: bit for bit one that was as long from the beginning."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.store import array_writer
from sundman.store.files import StoreError
from tests.store.runs import Crash, Do, assert_same, broken_off, crash, run


@pytest.mark.parametrize(
    ("first", "arguments"),
    [
        (30, {}),  # ends within a block
        (28, {}),  # ends with one
        (2, {"burn_in": 0}),  # before the first block is full
        (22, {"thin_time": 0.2}),
        pytest.param(22, {"thin": 3, "weighting": "arriving"}, marks=pytest.mark.slow),
        pytest.param(
            20,
            {"sampler": sundman.cyclical_sgld(1e-2, cycle=20, explore=0.5), "burn_in": 0},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_extended_as_if_it_had_been_longer(tmp_path, first, arguments):
    run(tmp_path / "run", draws=first, **arguments)
    longer = sundman.extend(tmp_path / "run", draws=47 - first)
    assert_same(longer, run(draws=47, **arguments))
    assert_same(sundman.Draws.open(tmp_path / "run"), longer)
    assert longer.settings["draws"] == 47
    assert longer.settings["finished"]


@pytest.mark.long
def test_extended_twice_and_broken_off_in_between(tmp_path):
    path = tmp_path / "run"
    run(path)
    with pytest.raises(Crash):
        sundman.extend(path, draws=17, watchers=[Do(11, crash)])
    assert not sundman.Draws.open(path).settings["finished"]
    assert_same(sundman.resume(path), run(draws=47))
    assert_same(sundman.extend(path, draws=6), run(draws=53))


def test_a_run_that_is_not_finished_is_extended_too(tmp_path):
    broken_off(tmp_path / "run")
    assert_same(sundman.extend(tmp_path / "run", draws=10), run(draws=40))


def test_a_short_run_has_room_to_become_long(tmp_path):
    """Its chunks are not as short as it is: else there would be more than can be kept track of."""
    shapes = {f"stats/{name}": ((2, 10), "float32") for name in "abcdef"}
    infos = array_writer.create(tmp_path / "draws.zarr", shapes)
    array_writer.longer(infos, 100_000_000)
    short = {name: replace(info, length=10) for name, info in infos.items()}
    with pytest.raises(StoreError, match=r"would have 600,000 files .* begin another one"):
        array_writer.longer(short, 1_000_000)


@pytest.mark.long
def test_ten_draws_and_many_more(tmp_path, monkeypatch):
    monkeypatch.undo()
    run(tmp_path / "run", draws=10)
    longer = sundman.extend(tmp_path / "run", draws=20_000, progress=False)
    assert_same(longer, run(draws=20_010))
    chunks = list((tmp_path / "run" / "draws.zarr" / "weight").glob("c.*"))
    assert len(chunks) == 5


def test_a_run_that_cannot_be_so_long_stays_as_it_is(finished, monkeypatch):
    monkeypatch.setattr("sundman.store.arrays.MOST_CHUNKS", 20)
    with pytest.raises(StoreError, match="files of draws, more than 20"):
        sundman.extend(finished, draws=100_000)
    draws = sundman.Draws.open(finished)
    assert draws.settings["finished"]
    assert draws.verdict is not None
    assert_same(draws, run())


def test_chunks_of_earlier_versions_are_extended(tmp_path, monkeypatch):
    """They were as short as the run."""
    with monkeypatch.context() as patch:
        patch.setattr("sundman.store.array_writer._LEAST_DRAWS", 1)
        run(tmp_path / "run", draws=10)
    assert_same(sundman.extend(tmp_path / "run", draws=20), run(draws=30))


def test_steps_are_counted_by_thin(tmp_path):
    run(tmp_path / "run", thin=3, draws=10)
    longer = sundman.extend(tmp_path / "run", steps=30)
    assert_same(longer, run(thin=3, steps=60, draws=None))


def test_what_cannot_be_extended(tmp_path, part):
    with pytest.raises(ValueError, match="give one of steps= and draws="):
        sundman.extend(part)
    with pytest.raises(StoreError, match="no run at"):
        sundman.extend(tmp_path / "nowhere", steps=10)
    run(tmp_path / "timed", thin_time=0.2)
    with pytest.raises(ValueError, match="say draws="):
        sundman.extend(tmp_path / "timed", steps=10)


@pytest.mark.long
def test_a_function_without_a_name_is_given_again(tmp_path):
    potential = lambda x: 0.5 * jnp.sum(x**2)  # noqa: E731
    run(tmp_path / "run", target=potential, online=None)
    with pytest.raises(StoreError, match=r"target is a lambda.*target=\.\.\."):
        sundman.extend(tmp_path / "run", draws=10)
    with pytest.raises(StoreError, match=r"is another run: .*U near the first position"):
        sundman.extend(tmp_path / "run", draws=10, target=lambda x: jnp.sum(x**2))
    longer = sundman.extend(tmp_path / "run", draws=10, target=potential)
    assert_same(longer, run(target=potential, online=None, draws=40))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["toy", "network"])
def test_ten_thousand_and_ten_thousand_more(tmp_path, kind, monkeypatch):
    """At the usual size of blocks, on disk as in memory."""
    monkeypatch.undo()
    settings = {"key": jax.random.key(3), "burn_in": 100, "progress": False}
    if kind == "toy":
        target, sampler = (
            sundman.targets.star(),
            sundman.samadams(0.02, gamma=2.0, alpha=0.5, r=0.5),
        )
        settings |= {"chains": 3, "online": jnp.square}
    else:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 8)).astype(np.float32)
        y = (x[:, 0] * x[:, 1] > 0).astype(np.int32)
        init = sundman.models.mlp_init(jax.random.key(1), (8, 20, 2))
        target = sundman.Posterior(sundman.models.mlp_apply, data=(x, y))
        sampler = sundman.sa_sgld(1e-4, alpha=100.0, m=0.1, M=10.0, r=0.5)
        settings |= {"init": init, "batch_size": 64, "thin": 10}
    sundman.sample(target, sampler, steps=10_000, store=tmp_path / "run", **settings)
    longer = sundman.extend(tmp_path / "run", steps=10_000, progress=False)
    assert_same(longer, sundman.sample(target, sampler, steps=20_000, **settings))
    disk = sundman.sample(target, sampler, steps=20_000, store=tmp_path / "whole", **settings)
    assert_same(longer, disk)
