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

pytestmark = pytest.mark.skipif(not native.available(), reason="the kernels were not built")
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


def test_without_noise_nothing_is_added():
    bits, rows, _ = made(4, 1, 5000)
    weights = jnp.ones(5)
    silent = native.weighted_sum(weights, bits, rows[0], STREAM, 0.0)
    np.testing.assert_array_equal(native.weighted_sum(weights, bits, rows[0]), silent)
    with native.using(True):
        np.testing.assert_array_equal(_directions.weighted_sum(weights, bits, rows[0]), silent)
    wanted = _directions.weighted_sum(weights, bits, rows[0])
    np.testing.assert_allclose(silent, wanted, rtol=0, atol=1e-5)


def test_rounding_is_to_the_nearest_and_even():
    halfway = jnp.array([1.0 + 2**-8, 1.0 + 3 * 2**-8, 1.0 + 2**-8 + 2**-16, -1.0 - 2**-8])
    rows = jnp.tile(halfway, 1024)[None]
    bits = native.mix(jnp.array([[0.0, 1.0]]), jnp.zeros(rows.shape, jnp.uint16), rows)
    np.testing.assert_array_equal(
        bits, jax.lax.bitcast_convert_type(rows.astype(jnp.bfloat16), jnp.uint16)
    )


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


@pytest.mark.long
def test_any_number_of_threads_gives_the_same_bits_and_any_processor_the_same_numbers(tmp_path):
    one = elsewhere(tmp_path / "one.npz", NPROC="1", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")
    assert one == elsewhere(tmp_path / "five.npz", NPROC="5")
    assert len(one) == len(hashlib.sha256().hexdigest())
    elsewhere(tmp_path / "portable.npz", SUNDMAN_PORTABLE="1")
    with np.load(tmp_path / "one.npz") as best, np.load(tmp_path / "portable.npz") as portable:
        for name in ("arr_0", "arr_1"):
            np.testing.assert_allclose(best[name], portable[name], rtol=1e-6, atol=3e-3)
        a, b = (
            (each["arr_2"].astype(np.uint32) << 16).view(np.float32) for each in (best, portable)
        )
        np.testing.assert_allclose(a, b, rtol=2**-7, atol=1e-5)  # the last of 16 bits


SIZE, SIGMA = 5000, 15.0
DIRECTION = np.random.default_rng(0).normal(size=SIZE).astype(np.float32)
DIRECTION /= np.linalg.norm(DIRECTION)


class LoudDirection(gradients.GradientEstimator):
    """N(0, 1) in many dimensions; the gradient has noise along one direction."""

    sigma: jax.Array

    def __call__(self, stream, position, batch=None):
        noise = gaussian(substream(stream, Purpose.GRADIENT_NOISE), jnp.zeros(()))
        value = 0.5 * jnp.sum(position**2)
        return value, position + self.sigma * noise * jnp.asarray(DIRECTION)


@pytest.mark.long
@pytest.mark.parametrize(("noise", "T"), [("native", 1.0), ("xla", 1.0), ("native", 3.0)], ids=str)
def test_the_law_with_directions_in_sixteen_bits(noise, T, optimised):
    """The loud direction is heated by its share and the kick, no other is heated at all."""
    before = sundman.config()["noise"]
    sundman.config(noise=noise)
    h, share, chains, steps = 0.02, 0.2, 8, 20_000
    moving = integrators.low_rank_baoab(gamma=1.0, rank=3, share=share, temperature=T)
    try:
        draws = sundman.sample(
            LoudDirection(SIGMA * jnp.sqrt(T)),
            sundman.compose(moving, clocks.constant(h)),
            init=jnp.sqrt(T) * jax.random.normal(jax.random.key(4), (SIZE,)),
            key=jax.random.key(3),
            chains=chains,
            burn_in=500,
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
    independent = chains * steps * h / gamma / 2
    expected = 1 + share + h**2 * SIGMA**2 / 4
    assert abs(np.mean(along**2) / T - expected) < 5 * expected * np.sqrt(2 / independent)
    assert expected + 5 * expected * np.sqrt(2 / independent) < 1 + h * SIGMA**2 / 2  # without it
