"""Runs killed at random moments and resumed: every draw, weight and statistic bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import sundman
from sundman.store.files import StoreError, read_json
from tests.compiled import SHARED_PROGRAMS

SURVIVOR = Path(__file__).with_name("survivor.py")
SIGNALS = (signal.SIGKILL, signal.SIGTERM)
LONGEST = 300
SLOW = ("toy", "bnn", "timed", "collected", "stacked", "replicas", "cycles", "memory", "streamed")


def start(kind: str, path: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(SURVIVOR), kind, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **SHARED_PROGRAMS},
    )


def finish(kind: str, path: Path) -> None:
    process = start(kind, path)
    out, err = process.communicate(timeout=LONGEST)
    assert process.returncode == 0, out + err


@pytest.fixture(
    scope="module", params=["short", *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)]
)
def whole(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / request.param
    finish(request.param, path)
    return request.param, path


def draws_done(path: Path) -> int:
    """Draws that count; -1 while the run is being built, -2 before."""
    try:
        return read_json(path / "progress.json", {})["draws"]
    except StoreError:
        return -1 if list(path.parent.glob(f".{path.name}.*.building")) else -2


def kill_at(kind: str, path: Path, moment: int, extra: float, how: signal.Signals) -> int:
    """Kill the run ``extra`` seconds after it has ``moment`` draws; how many it has then."""
    process = start(kind, path)
    deadline = time.monotonic() + LONGEST
    while draws_done(path) < moment and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    time.sleep(extra)
    process.send_signal(how)
    process.communicate(timeout=LONGEST)
    return draws_done(path)


def assert_identical(path: Path, reference: Path) -> None:
    found, wanted = sundman.Draws.open(path), sundman.Draws.open(reference)
    assert len(found) == len(wanted)
    assert set(found.stats) == set(wanted.stats)
    for name in ("values", "weight", "last", "online"):
        a, b = (jax.tree.leaves(getattr(draws, name)) for draws in (found, wanted))
        for one, other in zip(a, b, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    for name in wanted.stats:
        np.testing.assert_array_equal(found.stats[name], wanted.stats[name], err_msg=name)


def survive(whole, tmp_path, how: signal.Signals, numbers: range, seed: int) -> int:
    """Kill, resume and compare; how many of the kills came before the end.

    Number 0 is killed while its store is being built, the others after some draw.
    """
    kind, reference = whole
    total = len(sundman.Draws.open(reference))
    generator, cut = random.Random(seed), 0
    for number in numbers:
        moment = -1 if number == 0 else generator.randrange(0, total)
        path = tmp_path / f"{kind}{number}"
        cut += kill_at(kind, path, moment, generator.uniform(0.0, 0.2), how) < total
        finish(kind, path)
        assert_identical(path, reference)
    return cut


@pytest.mark.long
def test_killed_runs_resume_bit_for_bit(whole, tmp_path):
    """After some draw. A kill while the store is built is in tests/store/test_writers.py, too."""
    assert survive(whole, tmp_path, signal.SIGKILL, range(1, 2), seed=1) > 0


@pytest.mark.slow
@pytest.mark.parametrize("how", SIGNALS)
def test_killed_at_many_moments(whole, tmp_path, how):
    """Seven moments for each of ten runs: 70 for each signal."""
    assert survive(whole, tmp_path, how, range(7), seed=2) > 3


@pytest.mark.slow
def test_killed_again_and_again(whole, tmp_path):
    kind, reference = whole
    total, path, generator = len(sundman.Draws.open(reference)), tmp_path / kind, random.Random(3)
    for moment in sorted(generator.sample(range(total), 6)):
        kill_at(kind, path, moment, generator.uniform(0.0, 0.2), signal.SIGKILL)
    finish(kind, path)
    assert_identical(path, reference)
