"""Targets made alike are equal and share a compilation; the numbers of a potential are leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sundman import targets
from sundman.targets import Target

MAKERS: dict[str, Callable[..., Target]] = {
    **{name: (lambda name=name, **more: targets.named(name, **more)) for name in targets.names()},
    "covariance": lambda **more: targets.gaussian(
        covariance=[[2.0, 0.9], [0.9, 0.5]], mean=[1.0, -2.0], **more
    ),
    "condition": lambda **more: targets.gaussian(3, 10.0, **more),
    "tilted": lambda **more: targets.double_well(2.0, 1.5, **more),
}
every_target = pytest.mark.parametrize("name", MAKERS)


@every_target
def test_made_alike_are_equal(name: str) -> None:
    one, other = MAKERS[name](), MAKERS[name]()
    assert one == other
    assert hash(one) == hash(other)
    assert one.observables == other.observables
    assert one != MAKERS[name](temperature=1.1)
    assert one != "star"


@every_target
def test_the_potential_does_not_depend_on_the_temperature(name: str) -> None:
    one, other = MAKERS[name]().potential, MAKERS[name](temperature=1.1).potential
    assert one == other
    assert hash(one) == hash(other)


@pytest.mark.long
@every_target
def test_made_alike_compile_once(name: str) -> None:
    """As the static function of a program, and the observables with it."""
    traces = []

    def energies(potential: Any, observables: tuple[Any, ...], x: jax.Array) -> Any:
        traces.append(1)
        return potential(x), [f(x) for f in observables]

    jitted = jax.jit(energies, static_argnums=(0, 1))
    for temperature in (1.0, 1.0, 1.1):
        target = MAKERS[name](temperature=temperature)
        jitted(target.potential, tuple(target.observables.values()), target.start)
    assert len(traces) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda: targets.gaussian(3, 10.0), lambda: targets.gaussian(3, 20.0)),
        (lambda: targets.gaussian(3), lambda: targets.gaussian(3, mean=[0.0, 0.0, 1.0])),
        (lambda: targets.gaussian(3), lambda: targets.gaussian(4)),
        (lambda: targets.funnel(4), lambda: targets.funnel(5)),
        (lambda: targets.funnel(s=1.0), lambda: targets.funnel(s=1.5)),
        (lambda: targets.banana(0.5), lambda: targets.banana(0.6)),
        (lambda: targets.quartic(1.0), lambda: targets.quartic(0.0)),
        (lambda: targets.double_well(3.0), lambda: targets.double_well(3.0, 0.1)),
    ],
)
def test_other_settings_differ(one: Callable[[], Target], other: Callable[[], Target]) -> None:
    assert one() == one()
    assert one() != other()


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (targets.funnel_potential, [1.0, 2.0, 3.0]),
        (lambda b: targets.banana_potential(b, 2.0), [0.1, 0.5, 0.7]),
        (lambda k: targets.double_well_potential(k, 0.1), [1.0, 2.0, 3.0]),
        (targets.quartic_potential, [0.0, 0.5, 2.0]),
        (lambda c: targets.gaussian(3, float(c)).potential, [1.0, 10.0, 20.0]),
    ],
)
def test_numbers_of_a_potential_are_leaves(make: Callable[..., Any], numbers: list[float]) -> None:
    """Other numbers compile nothing; ``vmap`` over stacked potentials is one at a time."""
    x = jnp.array([0.3, -0.7, 1.1])
    slope = jax.jit(lambda potential, x: jax.grad(potential)(x))
    potentials = [make(number) for number in numbers]
    slopes = [slope(potential, x) for potential in potentials]
    assert slope._cache_size() == 1
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *potentials)
    mapped = jax.vmap(slope, (0, None))(stacked, x)
    for row, (potential, each) in enumerate(zip(potentials, slopes, strict=True)):
        np.testing.assert_allclose(each, jax.grad(potential)(x), rtol=1e-5)
        np.testing.assert_allclose(mapped[row], each, rtol=1e-5)


def test_repr_shows_how_to_make_a_potential() -> None:
    potential = targets.funnel(4, 1.5).potential
    assert repr(potential) == "targets.funnel_potential(1.5)"
    assert eval(repr(potential)) == potential


def test_a_plain_function_is_a_potential_too() -> None:
    def bowl(x: jax.Array) -> jax.Array:
        return jnp.sum(x**2)

    one = Target("bowl", bowl, 2, 1.0, jnp.zeros(2), {}, {})
    assert one == Target("bowl", bowl, 2, 1.0, jnp.zeros(2), {}, {})
    assert one != Target("bowl", lambda x: bowl(x), 2, 1.0, jnp.zeros(2), {}, {})
    assert one != Target("bowl", bowl, 2, 1.0, jnp.ones(2), {}, {})
