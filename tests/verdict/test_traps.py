"""No verdict is good where the answer is wrong and U can tell; hardly one is bad for nothing."""

import numpy as np
import pytest

from sundman.draws import Draws
from tests.verdict.traps import FALSE_ALARM, all_traps, furthest, gaussian_truth, standard

TRAPS = {trap.name: trap for trap in all_traps()}
QUICK = {
    "U is NaN at x > 0.5",
    "half the gradient, by stop_gradient",
    "half the gradient, by custom_jvp, baoab",
    "half the gradient of 1 of 30 coordinates, baoab",
    "U jumps by 2",
    "a law of width 1 at 1e7",
    "a funnel of width 1 with 3 arms",
}
# Noise so large that no step it allows moves the chains, as the error says: refused, and rightly.
KNOWN_ALARMS = {"batches with rare large rows"}
assert len(KNOWN_ALARMS) <= 2
assert TRAPS.keys() >= QUICK | KNOWN_ALARMS
assert len(TRAPS) >= 40


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=getattr(pytest.mark, "long" if n in QUICK else "slow")) for n in TRAPS],
)
def test_a_trap(name):
    outcome = TRAPS[name].run()
    assert not outcome.fails, outcome
    assert outcome.outcome != FALSE_ALARM or name in KNOWN_ALARMS, outcome


def _draws(sd, number=4000):
    x = np.random.default_rng(0).normal(size=(4, number, 2)) * sd
    U = 0.5 * np.square(x).sum(axis=2)
    return Draws(x, np.ones(x.shape[:2]), {"potential": U}, np.full(4, -1), None)


def test_what_makes_an_answer_wrong():
    assert furthest(_draws([1.0, 1.0]), standard(2))[0] < 0.3
    assert furthest(_draws([1.0, 1.0]), None)[0] == np.inf
    assert furthest(_draws([1.0, 1.2]), standard(2))[0] > 1.0
    along = np.array([[1.0, 0.5], [0.5, 1.0]])  # the coordinates are right, the axes are not
    assert furthest(_draws([1.0, 1.0]), gaussian_truth(np.zeros(2), along))[0] > 1.0
    few, error = furthest(_draws([1.0, 1.2], number=20), standard(2))
    assert few < 1.0
    assert error > 0.1
