"""U and its gradient along lines: what is a kink, a jump, rounding, or another gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sundman.gradients import Exact
from sundman.gradients.slopes import Slopes, measure

LINES, COORDINATES = 48, 30


def bowl(x):
    return 0.5 * jnp.sum(jnp.square(x))


def kinks(x):
    return jnp.sum(jnp.abs(x)) + jnp.sum(jnp.maximum(x - 0.3, 0.0))


def rounded(x):
    return bowl(x) + 1e5


def half(x):
    return 0.5 * bowl(x) + 0.5 * jax.lax.stop_gradient(bowl(x))


def half_of_one(x):
    square = 0.5 * jnp.square(x[0])
    return bowl(x[1:]) + 0.5 * (square + jax.lax.stop_gradient(square))


def jump(x):
    return bowl(x) + jnp.where(x[0] > 0.2, 2.0, 0.0)


def along(potential):
    """Between independent draws."""
    starts, ends = np.random.default_rng(3).normal(size=(2, LINES, COORDINATES))
    ways = jnp.asarray(ends - starts, jnp.float32)
    numbers, every = np.arange(LINES), np.ones(LINES, bool)
    return measure(Exact(potential), jnp.asarray(starts, jnp.float32), ways, numbers, 1.0, every)


@pytest.mark.parametrize("potential", [bowl, kinks, rounded])
def test_silent_where_they_belong_together(potential):
    found = along(potential)
    told, off, _ = found.disagreement()
    assert off <= told / 6
    assert found.unaccounted() == 0.0
    assert found.jump.max() < 0.3


def test_half_a_gradient():
    told, off, ratio = along(half).disagreement()
    assert told > LINES / 2
    assert off == told
    assert ratio == pytest.approx(0.5, abs=0.01)
    assert along(half).unaccounted() == pytest.approx(0.5, abs=0.01)


def test_half_the_gradient_of_one_coordinate_of_many():
    assert along(half_of_one).unaccounted() > 0.02


def test_a_jump_is_found_with_its_size():
    found = along(jump)
    seen = found.jump[found.jump > 0.3]
    assert len(seen) > LINES / 4  # half of the lines cross it once, where U is not too high
    assert np.all(abs(seen - 2.0) < 0.01)


def test_as_plain_numbers():
    found = along(half_of_one)
    again = Slopes.from_numbers(found.as_numbers())
    assert again.unaccounted() == pytest.approx(found.unaccounted(), rel=0.01)  # four digits
    assert found.as_numbers().keys() == set(Slopes._fields)
