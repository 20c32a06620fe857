"""Diagonals by automatic differentiation, against Jacobians in full."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sundman import curvature
from sundman.noise import Stream

STREAM = Stream(jnp.array([1, 2], jnp.uint32), jnp.uint32(0))
POSITION = {"a": jnp.array([0.3, -1.2]), "b": jnp.array([[0.7]])}


def potential(position):
    x, y = position["a"]
    z = position["b"][0, 0]
    return jnp.sin(x * y) + x**2 * z**3 + jnp.exp(y - z)


def hessian_diagonal(position):
    flat, unravel = jax.flatten_util.ravel_pytree(position)
    return unravel(jnp.diag(jax.hessian(lambda x: potential(unravel(x)))(flat)))


def test_exact_diagonal_of_a_tree():
    found = curvature.exact(potential)(STREAM, POSITION)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5),
        found,
        hessian_diagonal(POSITION),
    )


def test_exact_diagonal_of_more_coordinates_than_are_done_at_once():
    x = jnp.linspace(-1.0, 1.0, 300)
    found = curvature.exact(lambda x: jnp.sum(x**4) + jnp.sum(x) ** 2)(STREAM, x)
    np.testing.assert_allclose(found, 12 * x**2 + 2, rtol=1e-4)


def test_probed_diagonal_is_unbiased():
    """The mean over 4000 steps within 5 standard errors; many probes have less spread."""
    streams = jax.vmap(lambda step: Stream(STREAM.key, step))(jnp.arange(4000, dtype=jnp.uint32))

    def spread(probes):
        probed = curvature.probed(potential, probes)
        found = jax.vmap(probed, (0, None))(streams, POSITION)
        flat = np.concatenate([np.reshape(leaf, (4000, -1)) for leaf in jax.tree.leaves(found)], 1)
        truth = np.concatenate(
            [np.ravel(leaf) for leaf in jax.tree.leaves(hessian_diagonal(POSITION))]
        )
        error = flat.std(axis=0) / np.sqrt(4000)
        np.testing.assert_array_less(np.abs(flat.mean(axis=0) - truth), 5 * error + 1e-5)
        return flat.std(axis=0)

    np.testing.assert_allclose(spread(1) / spread(4), 2.0, rtol=0.1)


def test_equal_parts_compare_equal():
    assert curvature.exact(potential) == curvature.exact(potential)
    assert curvature.probed(potential, 2) != curvature.probed(potential, 3)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: curvature.exact(3.0), TypeError, "potential=3.0"),
        (lambda: curvature.probed(potential, 0), ValueError, "probes=0"),
        (lambda: curvature.probed(potential, 1.5), TypeError, "probes=1.5"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
