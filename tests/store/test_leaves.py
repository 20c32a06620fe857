"""Positions of all kinds, and paths of all kinds: on disk as in memory, and resumed."""

import os
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman._trees import leaf_names
from tests.store.runs import assert_same, broken_off, run


def soft(position):
    leaves = jax.tree.leaves(position)
    return sum(0.5 * jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in leaves)


def of_types(x):
    return {"above": x > 0, "number": jnp.sum(x > 0), "complex": x[0] + 1j * x[1]}


def nothing(x):
    return ()


ONE = jnp.ones(1)
POSITIONS = {
    "one array": ONE,
    "kinds": {
        "scalar": jnp.ones(()),
        "bfloat16": jnp.ones(3, jnp.bfloat16),
        "float16": jnp.ones((2, 2), jnp.float16),
        "no elements": jnp.ones((0, 2)),
    },
    "odd names": {"a/b": ONE, "a": {"b": ONE, "..": ONE}, "__x": ONE, "": ONE, "zarr.json": ONE},
    "names like a path": {"a.": ONE, "a_": {"b": ONE}},
    "names that differ by case": {"W": ONE, "w": 2 * ONE},
    "list": [ONE, (ONE, ONE)],
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ["kinds", pytest.param("odd names", marks=pytest.mark.slow)])
def test_positions(tmp_path, kind):
    path = tmp_path / "run"
    arguments = {"target": soft, "init": POSITIONS[kind], "online": None, "stats": ()}
    broken_off(path, **arguments)
    assert_same(sundman.resume(path), run(**arguments))


@pytest.mark.long
@pytest.mark.parametrize("collect", [of_types, nothing], ids=["types", "nothing"])
def test_collected_values(tmp_path, collect):
    path = tmp_path / "run"
    broken_off(path, collect=collect)
    assert_same(sundman.resume(path), run(collect=collect))


def test_names_are_unique_on_any_file_system():
    for position in POSITIONS.values():
        names = [name.lower() for name in leaf_names(position)]
        assert len({*names}) == len(names)
        assert not any(a != b and b.startswith(f"{a}/") for a in names for b in names)


def test_relative_paths_and_a_change_of_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    class Leave:
        def __getattr__(self, name):
            return lambda *args, **kwargs: os.chdir("/")

    draws = run("run", watchers=[Leave()])
    assert Path.cwd() == Path("/")
    assert_same(draws, run())
    monkeypatch.chdir(tmp_path)
    opened = sundman.Draws.open("run")
    monkeypatch.chdir("/")
    assert_same(opened, run())


def test_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    run("~/run")
    assert (tmp_path / "run" / "run.json").exists()
    assert len(sundman.Draws.open("~/run")) == len(sundman.resume("~/run"))


def test_many_chunks(tmp_path, monkeypatch):
    """Chunks of one or two draws: writes cross their borders in every way."""
    monkeypatch.setattr("sundman.store.array_writer._CHUNK_BYTES", 40)
    broken_off(tmp_path / "run")
    draws = sundman.resume(tmp_path / "run")
    assert len(list((tmp_path / "run/draws.zarr/values/x").glob("c.*"))) == 15
    assert_same(draws, run())
    whole = run().values
    slices = [slice(*each) for each in product((0, 1, 7, -3), (9, 30, None), (1, 2, 5))]
    slices.append(slice(20, 3, -3))
    rows = [*slices, 7, -1, np.array([5, 2, 2]), np.arange(30) % 7 == 3]
    for index in [1, (0, -1, 1), *product([0, slice(None)], rows)]:
        np.testing.assert_array_equal(draws.values[index], whole[index], err_msg=str(index))
    with pytest.raises(IndexError):
        draws.values[0, 30]
