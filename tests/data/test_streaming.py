"""Minibatches from any host iterable and from files: order, short batches, errors, the same run."""

import itertools
import threading
import time
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import likelihoods
from sundman.data import HostBatches
from sundman.data.batches import epoch_rows
from sundman.data.streaming import stacked
from sundman.noise import Stream
from sundman.run import engines
from sundman.run.setup import start_chains

N, BATCH, D = 22, 5, 3
RNG = np.random.default_rng(11)
X = RNG.normal(size=(N, D)).astype(np.float32)
Y = (X @ np.ones(D) + RNG.normal(size=N)).astype(np.float32)
FIRST = np.zeros(D, np.float32)


def batches():
    return [(X[i : i + BATCH], Y[i : i + BATCH]) for i in range(0, N, BATCH)]


class Loader:
    """Like a torch DataLoader: iterable again and again, gives lists, knows nothing of JAX."""

    def __init__(self, parts):
        self.parts, self.passes = parts, 0

    def __len__(self):
        return len(self.parts)

    def __iter__(self):
        self.passes += 1
        return (list(part) for part in self.parts)


def posterior(data):
    return sundman.Posterior(lambda w, x: x @ w, likelihood=likelihoods.gaussian(1.0), data=data)


def sample(target, **settings):
    settings = {"steps": 9, **settings}
    return sundman.sample(target, SGLD, init=FIRST, key=jax.random.key(3), **settings)


SGLD = sundman.sgld(1e-3)


def test_epochs_follow_one_another_and_short_batches_are_masked():
    loader = Loader(batches())
    got = list(itertools.islice(HostBatches(loader, size=N).endless(), 11))
    for n, (x, y, mask) in enumerate(got):
        rows = 2 if n % 5 == 4 else BATCH
        assert x.shape == (BATCH, D)
        np.testing.assert_array_equal(mask, np.arange(BATCH) < rows)
        np.testing.assert_array_equal(x[:rows], X[5 * (n % 5) :][:rows])
        np.testing.assert_array_equal(y[:rows], Y[5 * (n % 5) :][:rows])
        assert np.isfinite(x).all()


def test_blocks_are_prefetched_in_order():
    asked = []

    def numbers():
        for n in itertools.count():
            asked.append(n)
            yield (np.full(2, n), np.full(1, -n))

    blocks = stacked(numbers(), [3, 1, 2, 2, 2, 2], ahead=2)
    first = next(blocks)
    np.testing.assert_array_equal(first[0][:, 0], [0, 1, 2])
    deadline = time.monotonic() + 10
    while len(asked) < 6 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(asked) >= 6  # the next ones are ready before they are wanted
    rest = [jax.tree.map(np.copy, block) for block in blocks]
    assert [len(block[0]) for block in rest] == [1, 2, 2, 2, 2]
    np.testing.assert_array_equal(np.concatenate([b[1][:, 0] for b in rest]), -np.arange(3, 12))
    assert len(asked) == 12


def test_a_consumer_that_stops_lets_the_thread_go():
    before = threading.active_count()
    blocks = stacked(itertools.repeat((np.zeros(1),)), itertools.repeat(1))
    next(blocks)
    blocks.close()
    assert threading.active_count() == before


def test_an_error_in_the_iterator_comes_out():
    def broken():
        yield from batches()[:3]
        raise OSError("disk on fire")

    with pytest.raises(OSError, match="disk on fire"):
        sample(posterior(HostBatches(broken, size=N)))


def test_a_bad_batch_later_on_is_named():
    spoiled = Y[5:10].copy()
    spoiled[1] = np.nan
    parts = [batches()[0], (X[5:10], spoiled)]
    with pytest.raises(ValueError, match=r"y has a value that is not finite, first in row 1"):
        sample(posterior(HostBatches(parts, size=N)))
    with pytest.raises(ValueError, match="7 rows, more than the 5 of the first one"):
        sample(posterior(HostBatches([batches()[0], (X[:7], Y[:7])], size=N)))


def test_an_iterator_that_is_used_up():
    with pytest.raises(ValueError, match="nothing on a second pass"):
        sample(posterior(HostBatches(iter(batches()), size=N)))


def test_an_iterator_loses_no_batch_to_the_checks():
    draws = sample(posterior(HostBatches(iter(batches()), size=N)), steps=5)
    again = sample(posterior(HostBatches(batches(), size=N)), steps=5)
    np.testing.assert_array_equal(draws.position, again.position)


@pytest.mark.parametrize(
    "given, error, message",
    [
        ([], ValueError, "the iterable gave nothing"),
        ([X], TypeError, r"pair \(x, y\), got ndarray"),
        ([(X[:0], Y[:0])], ValueError, "no rows"),
    ],
)
def test_batches_that_cannot_be(given, error, message):
    with pytest.raises(error, match=message):
        HostBatches(given, size=N).peek()


def test_bad_arguments():
    with pytest.raises(TypeError, match="batches must be an iterable"):
        HostBatches(3, size=N)
    with pytest.raises(ValueError, match="size must be 1 or more"):
        HostBatches(batches(), size=0)
    with pytest.raises(ValueError, match="thin_time needs in-memory data"):
        sample(posterior(HostBatches(batches(), size=N)), steps=None, draws=2, thin_time=0.1)


@cache
def epoch_order():
    """The rows that an in-memory run of one chain takes in its first 13 steps."""
    chain = start_chains(jnp.asarray(FIRST)[None], SGLD, jax.random.key(3), stacked=False)
    choose = jax.jit(jax.vmap(lambda n: epoch_rows(Stream(chain.state.key[0], n), N, BATCH)))
    rows, mask = choose(jnp.arange(13, dtype=jnp.uint32))
    return [np.asarray(row)[np.asarray(real)] for row, real in zip(rows, mask, strict=True)]


@pytest.mark.long
@pytest.mark.parametrize("thin, burn_in", [pytest.param(1, 0, marks=pytest.mark.slow), (3, 4)])
def test_the_same_batches_give_the_same_run(thin, burn_in, monkeypatch):
    """Burn-in, thinning and however many batches are handed over at a time change nothing."""
    settings = {"steps": 9, "thin": thin, "burn_in": burn_in}
    memory = sample(posterior((X, Y)), batch_size=BATCH, **settings)
    target = posterior(HostBatches(Loader([(X[r], Y[r]) for r in epoch_order()]), size=N))
    for most in (64, 2):
        monkeypatch.setattr(engines, "_STREAMED_STEPS", most)
        host = sample(target, **settings)
        np.testing.assert_allclose(host.position, memory.position, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(host.last, memory.last, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(
            host.stats["potential"], memory.stats["potential"], rtol=1e-4, atol=1e-4
        )


def test_online_averages_of_a_streamed_run():
    draws = sample(
        posterior(HostBatches(Loader(batches()), size=N)), chains=2, thin=2, online=lambda w: w
    )
    np.testing.assert_allclose(draws.online.equal, draws.position.mean(axis=1), rtol=1e-5)


def test_memory_of_a_block_is_bounded():
    host = HostBatches(batches(), size=N)
    assert engines.most_batches(host, 2**26) == engines._STREAMED_STEPS
    assert engines.most_batches(host, 3 * BATCH * 4 * (D + 1)) == 3
    assert engines.most_batches(host, 1) == 1


def test_a_sequence_is_not_read_again_to_go_on():
    """Batch number 7 of an endless run of 5: only what comes from there on is read."""

    class Counted(list):
        read = 0

        def __getitem__(self, index):
            self.read += 1
            return super().__getitem__(index)

    many = [(X[i : i + 2], Y[i : i + 2]) for i in range(0, 10, 2)]
    counted = Counted(many)
    host = HostBatches(counted, size=10)
    host.peek()
    found = [next(host.endless(begin))[0] for begin in (0, 3, 7, 12)]
    for x, index in zip(found, (0, 3, 2, 2), strict=True):
        np.testing.assert_array_equal(x, many[index][0])
    assert counted.read == 5
    once = HostBatches(lambda: iter(many), size=10)
    np.testing.assert_array_equal(next(once.endless(7))[0], many[2][0])


def test_batches_must_be_alike():
    wrong = [batches()[0], (X[5:10, :1], Y[5:10])]
    with pytest.raises(ValueError, match=r"alike: one has an array of shape \(5, 1\)"):
        list(stacked(HostBatches(wrong, size=N).endless(), [2]))
    wrong = [(X[:5], np.arange(5)), batches()[1]]
    with pytest.raises(ValueError, match="dtype float32, where another has"):
        list(stacked(HostBatches(wrong, size=N).endless(), [2]))


def test_the_memory_of_a_block_is_used_again_where_a_device_takes_it():
    blocks = stacked(HostBatches(batches(), size=N).endless(), [4] * 12, ahead=2)
    places = set()
    for number, (x, _, _) in enumerate(blocks):
        np.testing.assert_array_equal(x[1][:2], batches()[(4 * number + 1) % 5][0][:2])
        assert x.ctypes.data % 64 == 0
        assert jax.device_put(x).unsafe_buffer_pointer() == x.ctypes.data
        places.add(x.ctypes.data)
    assert len(places) <= 4  # one in use, two that wait, one being filled


def test_a_part_of_each_batch():
    whole = itertools.islice(HostBatches(batches(), size=N).endless(3), 4)
    part = itertools.islice(HostBatches(batches(), size=N).endless(3, slice(1, 4)), 4)
    for all_rows, some in zip(whole, part, strict=True):
        for one, other in zip(all_rows, some, strict=True):
            np.testing.assert_array_equal(one[1:4], other)
