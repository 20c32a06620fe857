"""A number depends on key, step and element only: not on shapes, ``vmap``, ``scan``, ``jit``.

Words agree bit for bit everywhere. Single-precision normals may differ by rounding between
code compiled as a whole and code run one operation at a time, as XLA contracts a product and
a sum into one instruction when it sees both.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

from sundman.noise import Noise, Stream, gaussian, named, three_point, two_point, words

# Bit for bit means as users compile.
pytestmark = pytest.mark.usefixtures("optimised")
NOISES = pytest.mark.parametrize("noise", [gaussian, two_point, three_point])
ROUNDING = 2e-6
SHAPES = st.lists(st.lists(st.integers(0, 4), max_size=3).map(tuple), max_size=4)


def ravelled(tree: Any) -> np.ndarray:
    """All elements of a tree in one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def draw(noise: Noise, stream: Stream, like: Any) -> Any:
    """The draw compiled as a whole, as samplers use it."""
    return jax.jit(lambda stream: noise(stream, like))(stream)


def same(first: Any, second: Any) -> None:
    """Both trees have the same elements, bit for bit."""
    np.testing.assert_array_equal(ravelled(first), ravelled(second))


@NOISES
def test_grouping_into_leaves_does_not_matter(noise: Noise) -> None:
    tree = draw(noise, draws.stream(3, 5), {"a": jnp.zeros((2, 3)), "b": jnp.zeros(4)})
    assert {name: leaf.shape for name, leaf in tree.items()} == {"a": (2, 3), "b": (4,)}
    same(tree, draw(noise, draws.stream(3, 5), jnp.zeros(10)))


@settings(max_examples=8, deadline=None, derandomize=True)
@given(SHAPES)
def test_any_grouping_has_the_words_of_the_vector(shapes: list[tuple[int, ...]]) -> None:
    stops = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
    places = [(shape, int(start)) for shape, start in zip(shapes, stops[:-1], strict=True)]
    parts = jax.jit(lambda s: [words(s, *place) for place in places])(draws.stream(2, 9))
    assert [first.shape for first, _ in parts] == shapes
    whole = [np.asarray(word) for word in words(draws.stream(2, 9), (256,))]
    for part, start, stop in zip(parts, stops[:-1], stops[1:], strict=True):
        same(part, [word[start:stop] for word in whole])


@NOISES
def test_vmap_over_keys_equals_separate_calls(noise: Noise) -> None:
    keys = draws.chain_keys(5)
    one = jax.jit(lambda key: noise(Stream(key, jnp.uint32(7)), jnp.zeros(1003)))
    same(jax.jit(jax.vmap(one))(keys), [one(key) for key in keys])


def test_jit_keeps_words() -> None:
    same(jax.jit(lambda s: words(s, (1003,)))(draws.stream()), words(draws.stream(), (1003,)))


@pytest.mark.parametrize("noise", [two_point, three_point])
def test_jit_keeps_bounded_noise(noise: Noise) -> None:
    like = jnp.zeros(1003)
    same(draw(noise, draws.stream(), like), noise(draws.stream(), like))


@pytest.mark.long
def test_jit_keeps_normals_to_rounding() -> None:
    like = jnp.zeros(10**5)
    compiled, eager = draw(gaussian, draws.stream(), like), gaussian(draws.stream(), like)
    assert np.max(np.abs(np.asarray(compiled) - np.asarray(eager))) < ROUNDING


def test_scan_equals_separate_calls() -> None:
    key, like = draws.stream().key, {"a": jnp.zeros((7, 3)), "b": jnp.zeros(50)}
    steps = jnp.arange(6, dtype=jnp.uint32)
    one = jax.jit(lambda step: gaussian(Stream(key, step), like))
    _, scanned = lax.scan(lambda _, step: (_, gaussian(Stream(key, step), like)), 0, steps)
    for i, step in enumerate(steps):
        same([np.asarray(leaf)[i] for leaf in jax.tree.leaves(scanned)], one(step))


def test_scan_keeps_words() -> None:
    key, steps = draws.stream().key, jnp.arange(6, dtype=jnp.uint32)
    _, scanned = lax.scan(lambda _, step: (_, words(Stream(key, step), (53,))), 0, steps)
    for i in range(6):
        same([np.asarray(word)[i] for word in scanned], words(Stream(key, jnp.uint32(i)), (53,)))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_half_precision_is_single_precision_rounded(dtype: Any) -> None:
    half = draw(gaussian, draws.stream(), jnp.zeros(1000, dtype))
    assert half.dtype == dtype
    same(half, draw(gaussian, draws.stream(), jnp.zeros(1000, jnp.float32)).astype(dtype))


def test_leaves_of_several_precisions_keep_their_places() -> None:
    with jax.enable_x64(True):
        like = {"a": jnp.zeros(3, jnp.float32), "b": jnp.zeros(4, jnp.float64)}
        drawn = draw(gaussian, draws.stream(), like)
        double = np.asarray(draw(gaussian, draws.stream(), jnp.zeros(7, jnp.float64)))
    assert [leaf.dtype for leaf in drawn.values()] == [np.float32, np.float64]
    np.testing.assert_allclose(drawn["a"], double[:3], atol=ROUNDING)
    np.testing.assert_array_equal(drawn["b"], double[3:])


@NOISES
def test_empty_and_scalar_leaves(noise: Noise) -> None:
    like = [jnp.zeros(()), jnp.zeros((0, 3)), jnp.zeros(2), jnp.zeros(0)]
    drawn = draw(noise, draws.stream(), like)
    assert [leaf.shape for leaf in drawn] == [(), (0, 3), (2,), (0,)]
    same(drawn, draw(noise, draws.stream(), jnp.zeros(3)))


@pytest.mark.parametrize("empty", [{}, [], (), None])
def test_an_empty_tree_stays_empty(empty: Any) -> None:
    assert gaussian(draws.stream(), empty) == empty


@NOISES
def test_too_many_elements_are_refused(noise: Noise) -> None:
    like = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2**16, 2**16), (1,))]
    with pytest.raises(ValueError, match=r"more than 2\*\*32 elements \(4294967297\)"):
        jax.eval_shape(lambda stream: noise(stream, like), draws.stream())


def test_the_largest_size_is_accepted() -> None:
    like = jax.ShapeDtypeStruct((2**16, 2**16), jnp.float32)
    drawn = jax.eval_shape(lambda stream: gaussian(stream, like), draws.stream())
    assert drawn.shape == like.shape


def test_names() -> None:
    assert named("gaussian") is gaussian
    assert named("two_point") is two_point
    assert named("three_point") is three_point
    assert named(gaussian) is gaussian


def test_an_unknown_name_lists_the_options() -> None:
    with pytest.raises(ValueError, match=r"'gaussian', 'two_point', 'three_point'.*'nope'"):
        named("nope")


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from sundman.noise import Stream, gaussian, words
mesh = jax.make_mesh((2,), ("devices",))
split = NamedSharding(mesh, PartitionSpec("devices"))
stream = Stream(jnp.array([1, 2], jnp.uint32), jnp.uint32(3))
for draw in (lambda s: words(s, (1000,)), lambda s: gaussian(s, jnp.zeros(1000))):
    whole, parts = jax.jit(draw)(stream), jax.jit(draw, out_shardings=split)(stream)
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(parts), strict=True):
        assert len(two.addressable_shards) == 2 and two.addressable_shards[0].data.shape == (500,)
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))
"""


@pytest.mark.long
def test_sharding_over_two_devices_does_not_matter() -> None:
    environment = os.environ | {
        "JAX_NUM_CPU_DEVICES": "2",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
