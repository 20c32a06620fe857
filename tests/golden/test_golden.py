"""The paths of every sampler are those of version 0.1.0, to rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from golden.trajectories import FILE, cases, posterior, run, stored_cases
from sundman import native

STORED = np.load(FILE)
# One sampler of each kind on each path runs always or in CI, the others with the slow tests.
QUICK = {
    ("star", "sgld"),
    ("star", "sa_sgld"),
    ("star", "samadams"),
    ("network", "sa_sgld"),
}
LONG = {("network", "samadams", "native")}
# Rounding grows along a path: after 500 steps the largest difference measured was 8e-5.
TOLERANCE = 3e-4
CASES = stored_cases()


def marked(case):
    mark = pytest.mark.long if case in LONG else pytest.mark.slow
    return pytest.param(*case, marks=() if case[:2] in QUICK else mark, id="-".join(case))


@pytest.fixture(scope="module")
def model():
    return posterior()


def difference(ours: np.ndarray, stored: np.ndarray) -> float:
    """The largest difference, in units of the largest number."""
    return float(np.max(np.abs(ours - stored)) / np.max(np.abs(stored)))


@pytest.mark.parametrize("where, sampler, path", [marked(case) for case in CASES])
def test_paths_are_those_of_the_first_version(where, sampler, path, model):
    if path == "native" and not native.available():
        pytest.skip("the native kernels were not built")
    result = run(where, sampler, path, model)
    for name, array in result.items():
        stored = STORED[f"{where}/{sampler}/{path}/{name}"]
        assert array.shape == stored.shape
        assert difference(array, stored) < TOLERANCE, name


def test_what_is_stored_is_a_case():
    """A new sampler has no path of an earlier version; none that has one may go."""
    assert set(CASES) <= set(cases())
    assert Path(FILE).stat().st_size < 1e6
