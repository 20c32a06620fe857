"""Kernels of the directions that low-rank friction follows: their sums, and the law with them."""

import hashlib
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, gradients, integrators, native
from sundman.integrators import _directions
from sundman.noise import Purpose, Stream, gaussian, substream
from sundman.noise.gaussian import gaussian_leaf

built = pytest.mark.skipif(not native.available(), reason="the kernels were not built")
STREAM = Stream(jnp.array([3, 0x9E3779B9], jnp.uint32), jnp.uint32(5))
# Around the ends of vectors, of passes over columns and of blocks.
SIZES = [4096, 4097, 4111, 1920 * 3 - 1, 2**15 + 5, 2**16 + 1920 * 2 + 17]
COUNTS = [(20, 5), (1, 1), (3, 7), (6, 4)]


def made(m, n, size, seed=0):
    """Directions as their bits, and rows; the directions are numbers that 16 bits hold."""
    rng = np.random.default_rng(seed)
    V = jnp.asarray(rng.normal(size=(m, size)), jnp.bfloat16)
    rows = jnp.asarray(rng.normal(size=(n, size)), jnp.float32)
    return jax.lax.bitcast_convert_type(V, jnp.uint16), rows, np.asarray(V, np.float64)


@built
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("m", "n"), COUNTS)
def test_the_kernels_are_products_and_sums(m, n, size):
    bits, rows, V = made(m, n, size)
    exact = np.asarray(rows, np.float64)
    limit = 1e-5 * np.sqrt(size)
    products = native.inner_products(bits, rows)
    np.testing.assert_allclose(
        products, np.concatenate([V, exact]) @ exact.T, rtol=1e-6, atol=limit
    )

    weights = jax.random.normal(jax.random.key(1), (m + 1,))
    noise = {"stream": STREAM, "scale": 0.7, "offset": 11}
    found = native.weighted_sum(weights, bits, rows[0], **noise)
    eps = np.asarray(gaussian_leaf(STREAM, rows[0], 11), np.float64)
    wanted = np.asarray(weights, np.float64) @ np.concatenate([V, exact[:1]]) + 0.7 * eps
    np.testing.assert_allclose(found, wanted, rtol=0, atol=3e-5)

    weights = jax.random.normal(jax.random.key(2), (m, m + n))
    found = jax.lax.bitcast_convert_type(native.mix(weights, bits, rows), jnp.bfloat16)
    wanted = np.asarray(weights, np.float64) @ np.concatenate([V, exact])
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=2**-8, atol=1e-5)


@built
def test_without_noise_nothing_is_added():
    bits, rows, _ = made(4, 1, 5000)
    weights = jnp.ones(5)
    silent = native.weighted_sum(weights, bits, rows[0], STREAM, 0.0)
    np.testing.assert_array_equal(native.weighted_sum(weights, bits, rows[0]), silent)
    with native.using(True):
        np.testing.assert_array_equal(_directions.weighted_sum(weights, bits, rows[0]), silent)
    wanted = _directions.weighted_sum(weights, bits, rows[0])
    np.testing.assert_allclose(silent, wanted, rtol=0, atol=1e-5)


@built
def test_rounding_is_to_the_nearest_and_even():
    halfway = jnp.array([1.0 + 2**-8, 1.0 + 3 * 2**-8, 1.0 + 2**-8 + 2**-16, -1.0 - 2**-8])
    rows = jnp.tile(halfway, 1024)[None]
    bits = native.mix(jnp.array([[0.0, 1.0]]), jnp.zeros(rows.shape, jnp.uint16), rows)
    np.testing.assert_array_equal(
        bits, jax.lax.bitcast_convert_type(rows.astype(jnp.bfloat16), jnp.uint16)
    )


@built
def test_no_number_stays_none():
    odd = [0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000, 0x7F800001, 0x7F800000, 0xFF800000, 0x7F7FFFFF]
    rows = jnp.asarray(np.resize(np.array(odd, np.uint32).view(np.float32), 4099))[None]
    bits = native.mix(jnp.array([[0.0, 1.0]]), jnp.zeros(rows.shape, jnp.uint16), rows)
    found = jax.lax.bitcast_convert_type(bits, jnp.bfloat16).astype(jnp.float32)
    wanted = rows.astype(jnp.bfloat16).astype(jnp.float32)
    np.testing.assert_array_equal(jnp.isnan(found), jnp.isnan(wanted))
    np.testing.assert_array_equal(jnp.isinf(found), jnp.isinf(wanted))


def test_large_arrays_in_single_precision_have_directions_in_sixteen_bits():
    def kept(size, dtype):
        return _directions.zeros(3, jnp.zeros(size, dtype)).dtype

    assert kept(4096, jnp.float32) == jnp.uint16
    assert kept(4095, jnp.float32) == jnp.float32
    assert kept(9000, jnp.bfloat16) == jnp.bfloat16


def test_without_the_kernels_they_are_products_and_sums():
    bits, rows, V = made(6, 4, 4111)
    exact = np.asarray(rows, np.float64)
    both = np.concatenate([V, exact])
    np.testing.assert_allclose(
        _directions.products(bits, rows), both @ exact.T, rtol=1e-5, atol=2e-3
    )
    np.testing.assert_allclose(_directions.along(bits, rows[0]), V @ exact[0], rtol=1e-5, atol=2e-3)
    weights = jax.random.normal(jax.random.key(1), (6, 10))
    noise = _directions.ScaledNoise(STREAM, 0.7, 11)
    found = _directions.weighted_sum(weights[0, :7], bits, rows[0], noise)
    eps = np.asarray(gaussian_leaf(STREAM, rows[0], 11), np.float64)
    wanted = np.asarray(weights[0, :7], np.float64) @ both[:7] + 0.7 * eps
    np.testing.assert_allclose(found, wanted, rtol=0, atol=5e-5)
    found = jax.lax.bitcast_convert_type(_directions.mixed(weights, bits, rows), jnp.bfloat16)
    wanted = np.asarray(weights, np.float64) @ both
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=2**-8, atol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_what_is_kept_of_a_momentum_of_few_bits_is_not_rounded(dtype):
    """1 - 1/600 is 1 in eight bits: momenta would never be damped, and grow."""
    momentum, keep = jnp.full(64, 100.0, dtype), 1.0 - 1 / 600
    weights = jnp.array([0.0, keep], jnp.float32)
    noise = _directions.ScaledNoise(STREAM, 0.5, 0)
    found = _directions.weighted_sum(weights, jnp.zeros((1, 64), dtype), momentum, noise)
    wanted = keep * 100.0 + 0.5 * gaussian_leaf(STREAM, momentum, 0).astype(jnp.float32)
    np.testing.assert_array_equal(found, wanted.astype(dtype))


@built
def test_chains_under_vmap():
    """The kernels take chains at once; each is as if it were alone, and as XLA has it."""
    size, weights = 4099, jax.random.normal(jax.random.key(0), (3, 6, 8))
    each = [made(6, 2, size, seed) for seed in range(3)]
    bits, rows = jnp.stack([one[0] for one in each]), jnp.stack([one[1] for one in each])
    keys = jnp.arange(6, dtype=jnp.uint32).reshape(3, 2)

    def work(weights, bits, rows, key):
        noise = _directions.ScaledNoise(Stream(key, jnp.uint32(1)), 0.5, 3)
        return (
            _directions.products(bits, rows),
            _directions.weighted_sum(weights[0, :7], bits, rows[0], noise),
            jax.lax.bitcast_convert_type(_directions.mixed(weights, bits, rows), jnp.bfloat16),
        )

    plain = jax.vmap(work)(weights, bits, rows, keys)
    with native.using(True):
        together = jax.vmap(work)(weights, bits, rows, keys)
        alone = [work(*given) for given in zip(weights, bits, rows, keys, strict=True)]
    for chains, xla, *single in zip(together, plain, *alone, strict=True):
        np.testing.assert_array_equal(chains, np.stack(single))
        np.testing.assert_allclose(
            np.asarray(chains, np.float32), np.asarray(xla, np.float32), rtol=2**-7, atol=2e-3
        )


SCRIPT = """
import hashlib, sys, jax.numpy as jnp, numpy as np
sys.path.insert(0, sys.argv[2])
from sundman import native
from test_directions import STREAM, made
assert native.available()
bits, rows, _ = made(20, 5, 200_003)
weights = jnp.asarray(np.linspace(-1.0, 1.0, 20 * 25, dtype=np.float32).reshape(20, 25))
found = (
    native.inner_products(bits, rows),
    native.weighted_sum(weights[0, :21], bits, rows[0], STREAM, 0.5),
    native.mix(weights, bits, rows),
)
found = [np.asarray(each) for each in found]
np.savez(sys.argv[1], *found)
print(hashlib.sha256(b"".join(each.tobytes() for each in found)).hexdigest())
"""


def elsewhere(file, **environment) -> str:
    command = [sys.executable, "-c", SCRIPT, str(file), os.path.dirname(__file__)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@built
@pytest.mark.long
def test_any_number_of_threads_gives_the_same_bits_and_any_processor_the_same_numbers(tmp_path):
    one = elsewhere(tmp_path / "one.npz", NPROC="1", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")
    assert one == elsewhere(tmp_path / "five.npz", NPROC="5")
    assert len(one) == len(hashlib.sha256().hexdigest())
    elsewhere(tmp_path / "portable.npz", SUNDMAN_PORTABLE="1")
    with np.load(tmp_path / "one.npz") as best, np.load(tmp_path / "portable.npz") as portable:
        for name, limit in (("arr_0", 3e-3), ("arr_1", 3e-5)):
            np.testing.assert_allclose(best[name], portable[name], rtol=1e-6, atol=limit)
        a, b = (
            (each["arr_2"].astype(np.uint32) << 16).view(np.float32) for each in (best, portable)
        )
        np.testing.assert_allclose(a, b, rtol=2**-7, atol=1e-5)  # the last of 16 bits


SIZE, STIFF, SIGMA = 5000, 10.0, 40.0
DIRECTION = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
DIRECTION /= np.linalg.norm(DIRECTION)


class LoudDirection(gradients.GradientEstimator):
    """A Gaussian in many dimensions; along one, which is stiff, the gradient has noise."""

    sigma: jax.Array

    def __call__(self, stream, position, batch=None):
        v = jnp.asarray(DIRECTION)
        noise = gaussian(substream(stream, Purpose.GRADIENT_NOISE), jnp.zeros(()))
        along = v @ position
        value = 0.5 * (jnp.sum(position**2) + (STIFF - 1) * along**2)
        return value, position + ((STIFF - 1) * along + self.sigma * noise) * v


@pytest.mark.long
@pytest.mark.parametrize(
    ("noise", "T"),
    [
        pytest.param("native", 1.0, marks=built),
        ("xla", 1.0),
        pytest.param("native", 3.0, marks=built),
    ],
    ids=str,
)
def test_the_law_with_directions_in_sixteen_bits(noise, T, optimised):
    """The loud direction is heated by its share and the kick, no other is heated at all."""
    before = sundman.config()["noise"]
    sundman.config(noise=noise)
    h, share, chains, steps = 0.02, 0.2, 16, 20_000
    moving = integrators.low_rank_baoab(gamma=1.0, rank=3, share=share, temperature=T)
    try:
        draws = sundman.sample(
            LoudDirection(SIGMA * jnp.sqrt(T)),
            sundman.compose(moving, clocks.constant(h)),
            init=jnp.sqrt(T) * jax.random.normal(jax.random.key(4), (SIZE,)),
            key=jax.random.key(3),
            chains=chains,
            burn_in=1000,
            steps=steps,
            thin=200,
        )
    finally:
        sundman.config(noise=before)
    values = np.asarray(draws.values, np.float64)
    along = values @ DIRECTION
    rest = (np.sum(values**2, -1) - along**2) / (T * (SIZE - 1))
    # draws are four units of time apart, and elsewhere a chain forgets its start in about one
    assert abs(rest.mean() - 1) < 5 * np.sqrt(2 / rest.size / SIZE)
    gamma = h * SIGMA**2 / (2 * share)
    independent = chains * steps * h * STIFF / gamma  # x^2 is forgotten in gamma / (2 STIFF)
    heat = share + h**2 * SIGMA**2 / 4
    error = (1 + heat) * np.sqrt(2 / independent)
    found = STIFF * np.mean(along**2) / T - 1
    assert abs(found - heat) < 5 * error
    assert 5 * error < heat  # no heat at all would be seen, and so would all of it
    assert h * SIGMA**2 / 2 > heat + 5 * error
