"""Changes of energy of a run: the tail of a smooth U, jumps of U, and necks."""

import numpy as np
import pytest

import sundman
from sundman.verdict import checks

CHAINS, STEPS = 4, 5000


def of_changes(changes):
    """A run whose energy changes by so much at each step, (chain, step)."""
    work = np.cumsum(changes, axis=1).astype(np.float32)
    stats = {"work": work, "potential": np.ones_like(work)}
    weight = np.ones_like(work)
    made = {"steps": STEPS}
    return sundman.Draws(weight[..., None], weight, stats, np.full(CHAINS, -1), None, settings=made)


def reasons(changes):
    return [reason.text for reason in checks.energy_jumps(of_changes(changes), 1.0)]


def small():
    return 1e-3 * np.random.default_rng(0).normal(size=(CHAINS, STEPS))


@pytest.mark.parametrize("scale", [0.02, 0.08, 0.12])
def test_a_tail_is_no_jump_however_long(scale):
    """Sizes that fall by a factor with each further step of 0.1 T, most of them not large."""
    changes = np.random.default_rng(1).laplace(scale=scale, size=(CHAINS, STEPS))
    assert reasons(changes.clip(-2.5, 2.5)) == []


@pytest.mark.parametrize("size", [0.4, 1.0, 2.0])
def test_changes_that_are_all_alike_are_jumps_of_u(size):
    changes = small()
    changes[:, ::50] += size
    changes[:, 25::50] -= size
    (text,) = reasons(changes)
    assert "hardly ever by half as much" in text


def test_few_jumps_of_one_size_say_nothing():
    changes = small()
    changes[0, :20] += 1.0
    assert reasons(changes) == []


def test_large_ones_are_a_neck():
    changes = small()
    changes[:, ::1000] += 8.0
    (text,) = reasons(changes)
    assert "neck of a funnel" in text
