"""Diagonals by automatic differentiation, against Jacobians in full."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sundman.contrib import curvature
from sundman.noise import Stream
from sundman.value import Number, Value

STREAM = Stream(jnp.array([1, 2], jnp.uint32), jnp.uint32(0))
POSITION = {"a": jnp.array([0.3, -1.2]), "b": jnp.array([[0.7]])}


def potential(position):
    x, y = position["a"]
    z = position["b"][0, 0]
    return jnp.sin(x * y) + x**2 * z**3 + jnp.exp(y - z)


def hessian_diagonal(position):
    flat, unravel = jax.flatten_util.ravel_pytree(position)
    return unravel(jnp.diag(jax.hessian(lambda x: potential(unravel(x)))(flat)))


@pytest.mark.long
def test_exact_diagonal_of_a_tree():
    diagonal = curvature.exact(potential)(STREAM, POSITION)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
        diagonal,
        hessian_diagonal(POSITION),
    )


@pytest.mark.long
def test_exact_diagonal_of_more_coordinates_than_are_done_at_once():
    x = jnp.linspace(-1.0, 1.0, 300)
    diagonal = curvature.exact(lambda x: jnp.sum(x**4) + jnp.sum(x) ** 2)(STREAM, x)
    np.testing.assert_allclose(diagonal, 12 * x**2 + 2, rtol=1e-4)


@pytest.mark.slow
def test_probed_diagonal_is_unbiased():
    """The mean over 4000 steps within 5 standard errors; many probes have less spread."""
    streams = jax.vmap(lambda step: Stream(STREAM.key, step))(jnp.arange(4000, dtype=jnp.uint32))

    def spread(probes):
        probed = curvature.probed(potential, probes)
        leaves = jax.tree.leaves(jax.vmap(probed, (0, None))(streams, POSITION))
        flat = np.concatenate([np.reshape(leaf, (4000, -1)) for leaf in leaves], 1)
        truth = np.concatenate(
            [np.ravel(leaf) for leaf in jax.tree.leaves(hessian_diagonal(POSITION))]
        )
        error = flat.std(axis=0) / np.sqrt(4000)
        np.testing.assert_array_less(np.abs(flat.mean(axis=0) - truth), 5 * error + 1e-5)
        return flat.std(axis=0)

    np.testing.assert_allclose(spread(1) / spread(4), 2.0, rtol=0.1)


class Well(Value):
    """U = stiffness |x|^2 / 2 + |x|^4 / 4, with its number a leaf."""

    stiffness: Number = 1.0

    def __call__(self, x):
        return self.stiffness * jnp.sum(x**2) / 2 + jnp.sum(x**4) / 4

    def half(self, x):
        return self(x) / 2


def known(stream, position):
    del stream
    return 1.0 + 3.0 * position**2


def test_equal_parts_compare_equal():
    assert curvature.exact(potential) == curvature.exact(potential)
    assert hash(curvature.exact(potential)) == hash(curvature.exact(potential))
    assert curvature.probed(potential, 2) == curvature.probed(potential, probes=np.int64(2))
    assert curvature.probed(potential, 2) != curvature.probed(potential, 3)
    assert curvature.exact(potential) != curvature.exact(hessian_diagonal)
    assert curvature.exact(Well(2.0)) == curvature.exact(Well(2.0)) != curvature.exact(Well(3.0))
    assert curvature.as_curvature(known) == curvature.as_curvature(known)


def test_repr_shows_how_to_make_it():
    assert repr(curvature.probed(potential, 2)) == "contrib.curvature.probed(potential, 2)"
    assert repr(curvature.exact(Well(2.0))) == "contrib.curvature.exact(Well(2.0))"


@pytest.mark.parametrize("of", [Well, lambda k: Well(2 * k).half], ids=["value", "method"])
def test_numbers_of_a_potential_are_leaves(of):
    """Mapped over, and changed without compiling again."""
    x, stiffness = jnp.array([0.5, -1.0]), jnp.array([1.0, 4.0])
    curvatures = jax.vmap(lambda k: curvature.exact(of(k)))(stiffness)
    diagonals = jax.vmap(lambda c: c(STREAM, x))(curvatures)
    expected = jax.vmap(lambda k: jax.grad(lambda x: jnp.sum(jax.grad(of(k))(x)))(x))(stiffness)
    np.testing.assert_allclose(diagonals, expected, rtol=1e-6)

    traces = []

    @jax.jit
    def diagonal(c):
        traces.append(1)
        return c(STREAM, x)

    for k in (1.0, 2.0, 3.0):
        diagonal(curvature.exact(of(k)))
    assert len(traces) == 1


def test_a_function_is_a_static_choice():
    x = jnp.array([0.5, -1.0])
    assert jax.tree.leaves(curvature.as_curvature(known)) == []
    assert jax.tree.leaves(curvature.exact(potential)) == []
    exact = curvature.exact(Well(1.0))
    assert curvature.as_curvature(exact) is exact
    jitted = jax.jit(lambda c: c(STREAM, x))
    np.testing.assert_allclose(jitted(curvature.as_curvature(known)), exact(STREAM, x), rtol=1e-6)


def test_a_potential_without_a_hash_is_equal_to_itself():
    class Unhashable:
        __hash__ = None

        def __call__(self, x):
            return jnp.sum(x**2)

    one, other = Unhashable(), Unhashable()
    assert curvature.exact(one) == curvature.exact(one) != curvature.exact(other)
    np.testing.assert_allclose(curvature.exact(one)(STREAM, jnp.ones(2)), 2.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: curvature.exact(3.0), TypeError, "potential=3.0"),
        (lambda: curvature.probed(potential, 0), ValueError, "probes=0"),
        (lambda: curvature.probed(potential, 1.5), TypeError, "probes=1.5"),
        (lambda: curvature.as_curvature(2.0), TypeError, "curvature=2.0"),
        (lambda: curvature.as_curvature(curvature.exact), TypeError, r"curvature.exact\(potential"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
