"""Tuned runs on disk: the warm-up is part of them, and survives being killed."""

from __future__ import annotations

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import SHARED_PROGRAMS

import sundman
from sundman import likelihoods, priors
from sundman.run import resume as resuming
from sundman.tune.saved import from_bytes, to_bytes

SETTINGS = {"chains": 2, "steps": 300}


class Killed(Exception):
    """In the place of a signal."""


def network() -> sundman.Posterior:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype(np.float32)
    return sundman.Posterior(
        sundman.models.mlp_apply,
        data=(x, (x[:, 0] * x[:, 1] > 0).astype(np.int32)),
        likelihood=likelihoods.categorical(),
        prior=priors.gaussian(1.0),
    )


def regression() -> sundman.Posterior:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    return sundman.Posterior(
        lambda w, x: x @ w,
        data=(x, (rng.random(300) < 0.5).astype(np.int32)),
        likelihood=likelihoods.bernoulli(),
        prior=priors.gaussian(1.0),
    )


def network_with_noise() -> sundman.Posterior:
    """A position of weights and hyper-parameters, with a matrix for L."""
    rng = np.random.default_rng(2)
    x, noise = (rng.normal(size=shape).astype(np.float32) for shape in ((60, 2), 60))
    return sundman.Posterior(
        sundman.models.mlp_apply,
        data=(x, x[:, 0] + 0.3 * noise),
        likelihood=likelihoods.gaussian(),
        prior=priors.gaussian(1.0),
    )


def many_rows() -> sundman.Posterior:
    """Enough for a control variate."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(6_000, 3)).astype(np.float32)
    return sundman.Posterior(
        lambda w, x: x @ w,
        data=(x, (rng.random(6_000) < 1 / (1 + np.exp(-x[:, 0]))).astype(np.int32)),
        likelihood=likelihoods.bernoulli(),
        prior=priors.gaussian(1.0),
    )


def many_columns() -> sundman.Posterior:
    """More than a matrix is made for."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(5_000, 60)).astype(np.float32)
    return sundman.Posterior(
        lambda w, x: x @ w,
        data=(x, (x[:, :10] + rng.normal(size=(5_000, 10))).argmax(axis=1).astype(np.int32)),
        likelihood=likelihoods.categorical(),
        prior=priors.gaussian(1.0),
    )


CASES = {
    "exact": (sundman.targets.star, {}),
    "noisy": (regression, {"init": jnp.zeros(3), "batch_size": 30}),
    "control variate": (many_rows, {"init": jnp.zeros(3)}),
    "control variate in many dimensions": (many_columns, {"init": jnp.zeros((60, 10))}),
    "network with a level of noise": (
        network_with_noise,
        {"init": sundman.models.mlp_init(jax.random.key(1), (2, 3, 1)), "batch_size": 20},
    ),
    "network": (
        network,
        {"init": sundman.models.mlp_init(jax.random.key(1), (4, 10, 2)), "batch_size": 32},
    ),
}


QUICK = {("exact", 4), ("control variate", 4)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("case", "window"),
    [
        pytest.param(*each, marks=[] if each in QUICK else [pytest.mark.slow])
        for each in itertools.product(CASES, (1, 4))
    ],
)
def test_a_warm_up_that_was_killed_goes_on(case, window, tmp_path, monkeypatch):
    make, arguments = CASES[case]
    call = {**SETTINGS, **arguments, "key": jax.random.key(7)}
    whole = sundman.sample(make(), **call)
    made = 0

    def killed(problem, warm):
        nonlocal made
        made += 1
        if made > window:
            raise Killed
        return advance(problem, warm)

    advance = resuming.advance
    monkeypatch.setattr(resuming, "advance", killed)
    with pytest.raises(Killed):
        sundman.sample(make(), **call, store=tmp_path / "run", resume=True)
    monkeypatch.setattr(resuming, "advance", advance)
    rest = sundman.sample(make(), **call, store=tmp_path / "run", resume=True)
    for one, other in zip(jax.tree.leaves(whole.values), jax.tree.leaves(rest.values), strict=True):
        np.testing.assert_array_equal(one, np.asarray(other))
    assert rest.tuning.windows == whole.tuning.windows
    assert rest.tuning.sampler == whole.tuning.sampler
    assert (rest.tuning.control_variate is None) == ("control variate" not in case)
    assert rest.settings["gamma"] == whole.settings["gamma"]
    opened = sundman.Draws.open(tmp_path / "run")
    assert opened.tuning.sampler == whole.tuning.sampler
    assert opened.tuning.why == whole.tuning.why


@pytest.mark.long
def test_another_bias_is_another_run(tmp_path):
    call = {**SETTINGS, "key": jax.random.key(7), "store": tmp_path / "run", "resume": True}
    sundman.sample(sundman.targets.star(), **call)
    with pytest.raises(sundman.StoreError, match="bias"):
        sundman.sample(sundman.targets.star(), sundman.auto(bias=0.1), **call)


@pytest.mark.long
def test_files_of_another_warm_up_are_told(tmp_path):
    """What a warm-up found carries the id of its run."""
    runs, call = [tmp_path / name for name in ("run", "other")], {**SETTINGS, "resume": True}
    for key, path in enumerate(runs):
        sundman.sample(sundman.targets.star(), key=jax.random.key(key), store=path, **call)
    ours, other = runs
    for name in ("tuning.npz", "warm-up.npz"):
        content = (ours / name).read_bytes()
        (ours / name).write_bytes((other / name).read_bytes())
        said = f"{name} is damaged: it is that of another run. Remove it"
        with pytest.raises(sundman.StoreError, match=said):
            sundman.extend(ours, draws=10, target=sundman.targets.star())
        if name == "tuning.npz":
            with pytest.raises(sundman.StoreError, match=said):
                sundman.Draws.open(ours)
        (ours / name).write_bytes(content)
    before = sundman.Draws.open(ours)
    (ours / "tuning.npz").unlink()
    longer = sundman.extend(ours, draws=10, target=sundman.targets.star())
    assert longer.tuning.windows == before.tuning.windows
    np.testing.assert_array_equal(longer.values[:, :300], before.values[:, :300])


def test_numbers_that_json_does_not_know_come_back():
    content = to_bytes({"a": np.inf, "b": [np.nan, 1.0]}, {})
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        json.loads(file["json"].tobytes(), parse_constant=pytest.fail)
    numbers, _ = from_bytes(content)
    assert numbers["a"] == np.inf
    assert np.isnan(numbers["b"][0])


_SCRIPT = """
import sys, jax, sundman
sundman.sample(
    sundman.targets.star(), key=jax.random.key(3), chains=2, steps=4000, store=sys.argv[1],
    resume=True, progress=False,
)
"""


@pytest.mark.slow
def test_sigkill_at_any_moment(tmp_path):
    environment = {**os.environ, **SHARED_PROGRAMS}
    whole = sundman.sample(sundman.targets.star(), key=jax.random.key(3), chains=2, steps=4000)
    where, script = tmp_path / "run", tmp_path / "script.py"
    Path(script).write_text(_SCRIPT)
    for _ in range(8):
        process = subprocess.Popen([sys.executable, script, where], env=environment)
        time.sleep(3.0)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run([sys.executable, script, where], env=environment, check=True)
    np.testing.assert_array_equal(whole.values, np.asarray(sundman.Draws.open(where).values))
