"""A small run of many pieces: on disk, in memory, broken off, and how to compare them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.run.schedule import Sizes

SAMPLER = sundman.sa_sgld(0.05, alpha=1.0, m=0.1, M=10.0, r=0.5)
PIECE = Sizes(draws=4, steps=5)
DRAWS = 30  # 2 pieces of burn-in, then 8 of draws, the last one shorter


def bowl(x):
    return 0.5 * jnp.sum(jnp.square(x))


def square(x):
    return x**2


class Crash(Exception):
    """The process would be dead now."""


def crash():
    raise Crash


class Do:
    """A watcher that does something after a piece, before its draws are kept."""

    def __init__(self, piece, action):
        self.piece, self.action = piece, action

    def start(self, about):
        pass

    def block(self, report):
        if report.block == self.piece:
            self.action()

    def event(self, name, message, **fields):
        pass

    def close(self, ok):
        pass


def set_small(monkeypatch):
    """Many pieces, each written at once."""
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: PIECE)
    monkeypatch.setattr("sundman.run.disk_sink._FLUSH_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    set_small(monkeypatch)


def run(path=None, target=bowl, sampler=SAMPLER, **changes):
    arguments = {
        "key": jax.random.key(7),
        "init": jnp.ones(2),
        "chains": 2,
        "draws": DRAWS,
        "burn_in": 10,
        "online": square,
        **changes,
    }
    if path is not None:
        arguments = {"store": path, "checkpoint_every": 2, **arguments}
    return sundman.sample(target, sampler, **arguments)


def broken_off(path, piece=7, **changes):
    """A run that died in its piece number ``piece``."""
    with pytest.raises(Crash):
        run(path, watchers=[Do(piece, crash)], **changes)


def parts_of(draws):
    names = ("values", "weight", "last", "online", "diverged_at")
    return {name: getattr(draws, name) for name in names} | {"stats": dict(draws.stats)}


def assert_same(found, wanted):
    """Bit for bit, in the same types."""
    assert len(found) == len(wanted)
    a, b = (jax.tree.leaves_with_path(parts_of(draws)) for draws in (found, wanted))
    for (path, one), (other_path, other) in zip(a, b, strict=True):
        assert path == other_path
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=str(path))
    assert found.settings["diverged_step"] == wanted.settings["diverged_step"]
    assert found.settings["steps"] == wanted.settings["steps"]


@cache
def whole():
    """The run in memory, never broken off."""
    return run()
