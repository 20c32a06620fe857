"""What an estimator remembers is part of a stored run: resumed, it is as never broken off."""

import numpy as np

import sundman
from sundman import gradients
from tests.store.runs import assert_same, broken_off, run, small_pieces  # noqa: F401

X = np.random.default_rng(2).normal(size=(30, 2)).astype(np.float32)


def line(w, x):  # with a name, by which it is found again
    return x @ w


POSTERIOR = sundman.Posterior(
    line, likelihood=sundman.likelihoods.gaussian(1.0), data=(X, X @ np.ones(2))
)
CLOCK = {"alpha": 1.0, "m": 0.1, "M": 10.0, "r": 0.5}


def test_resumed_as_in_memory(tmp_path):
    monitor = sundman.contrib.monitors.noise_corrected()
    sampler = sundman.sa_sgld(1e-3, **CLOCK, monitor=monitor)
    arguments = {
        "target": gradients.svrg(POSTERIOR, 7, every=9),
        "sampler": sampler,
        "online": None,
    }
    broken_off(tmp_path / "run", **arguments)
    assert_same(sundman.resume(tmp_path / "run"), run(**arguments))
