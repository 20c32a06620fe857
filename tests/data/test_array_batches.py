"""Shuffled minibatches of arrays in files: each row once an epoch, read by place, errors."""

import itertools
import os

import jax
import numpy as np
import pytest

import sundman
from sundman.data import ArrayBatches, HostBatches, array_batches
from sundman.data.streaming import stacked

N, D = 23, 3
X = np.random.default_rng(1).normal(size=(N, D)).astype(np.float32)
Y = np.arange(N, dtype=np.int32)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """x and y in files, x read as a large one is."""
    monkeypatch.setattr(array_batches, "_BYTES_AT_ONCE", X.nbytes)
    np.save(tmp_path / "x.npy", X), np.save(tmp_path / "y.npy", Y)
    return [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy"]


def take(arrays, count, begin=0, part=slice(None), **settings):
    settings = {"batch_size": 6, **settings}
    batches = itertools.islice(ArrayBatches(*arrays, **settings).endless(begin, part), count)
    return [tuple(map(np.asarray, batch)) for batch in batches]


@pytest.mark.parametrize("consecutive", [1, 2, 3])
def test_every_row_comes_once_an_epoch(files, consecutive):
    """23 rows: a last batch, a last group, or both are short."""
    groups = -(-N // consecutive)
    steps = -(-groups // (6 // consecutive))
    taken = take(files, 3 * steps, consecutive=consecutive)
    orders = []
    for epoch in range(3):
        seen = [y[mask] for x, y, mask in taken[epoch * steps : (epoch + 1) * steps]]
        np.testing.assert_array_equal(np.sort(np.concatenate(seen)), Y)
        orders.append(np.concatenate(seen).tolist())
    assert orders[0] != orders[1] != orders[2]
    for x, y, mask in taken:
        assert x.shape == (6, D)
        np.testing.assert_array_equal(x, X[y])  # rows that are not real are some row
        together = y[mask] // consecutive
        assert np.all(np.diff(y[mask]) > 0)
        assert len(np.unique(together)) <= 6 // consecutive


def test_a_step_and_some_of_its_rows_can_be_had_alone(files):
    taken = take(files, 100)
    for begin in (0, 5, 64, 99):
        (alone,) = take(files, 1, begin, slice(2, 5))
        for one, other in zip(taken[begin], alone, strict=True):
            np.testing.assert_array_equal(one[2:5], other)
    first = ArrayBatches(*files, batch_size=6).peek()
    np.testing.assert_array_equal(first[0], taken[0][0])


def test_files_and_arrays_give_the_same(files, monkeypatch):
    read = []
    monkeypatch.setattr(array_batches._InFile, "fetch", lambda self, rows: read.append(rows.copy()))
    from_files, from_arrays = take(files, 70), take((X, Y), 70)
    for one, other in zip(from_files, from_arrays, strict=True):
        for left, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(left, right)
    assert len(read) > 0  # the next rows are asked for before they are needed
    assert any(np.array_equal(read[0][:6], np.sort(batch[1])) for batch in from_files)


def test_views_of_a_file(files):
    """A part of the rows begins elsewhere; parts of rows and private copies are read by the map."""
    x, y = files
    for name, some in {"rows": x[5:20], "columns": x[:, 1:], "backward": x[::-1]}.items():
        (batch,) = take((some, y[: len(some)]), 1)
        np.testing.assert_array_equal(batch[0], np.asarray(some)[batch[1]], name)
    private = np.load(x.filename, mmap_mode="c")
    private[:] += 1.0
    (batch,) = take((private, y), 1)
    np.testing.assert_array_equal(batch[0], X[batch[1]] + 1.0)


def test_a_file_that_was_cut(files):
    batches = ArrayBatches(*files, batch_size=6)
    os.truncate(files[0].filename, 200)
    with pytest.raises(OSError, match=r"x\.npy is shorter than it was"):
        list(stacked(batches.endless(), [4]))


def test_a_value_that_is_not_finite_is_named(tmp_path):
    spoiled = X.copy()
    spoiled[7, 1] = np.nan
    with pytest.raises(ValueError, match="x has a value that is not finite"):
        list(stacked(ArrayBatches(spoiled, Y, batch_size=6).endless(), [4]))


@pytest.mark.parametrize(
    "arrays, settings, message",
    [
        ((X, Y[:9]), {}, r"one row per example: got \[9, 23\] rows"),
        ((X[:0], Y[:0]), {}, "data is empty"),
        ((X, Y), {"batch_size": 24}, "batch_size=24 is more than the 23 rows"),
        ((X, Y), {"batch_size": 0}, "batch_size must be 1 or more"),
        ((X, Y), {"consecutive": 4}, "batch_size=6 must be a multiple of consecutive=4"),
    ],
)
def test_bad_arguments(arrays, settings, message):
    with pytest.raises(ValueError, match=message):
        ArrayBatches(*arrays, **{"batch_size": 6, **settings})


def test_a_run_on_a_file_is_the_run_on_its_batches(files):
    def sample(data):
        posterior = sundman.Posterior(
            lambda w, x: x @ w, likelihood=sundman.likelihoods.gaussian(1.0), data=data
        )
        init, key = np.zeros(D, np.float32), jax.random.key(3)
        return sundman.sample(posterior, sundman.sgld(1e-3), init=init, key=key, steps=9)

    arrays = (files[0], X @ np.ones(D, np.float32))
    on_file = sample(ArrayBatches(*arrays, batch_size=6))
    same = [(x[mask], y[mask]) for x, y, mask in take(arrays, 9)]
    np.testing.assert_array_equal(on_file.position, sample(HostBatches(same, size=N)).position)
