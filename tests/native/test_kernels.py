"""The native kernels against the XLA path: one key, one stream, one law."""

import hashlib
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import native
from sundman.noise import Stream, gaussian
from sundman.noise.gaussian import gaussian_leaf

pytestmark = pytest.mark.skipif(not native.available(), reason="the kernels were not built")
KEY = jnp.array([3, 0x9E3779B9], jnp.uint32)


@pytest.fixture
def path():
    """Sets the path of the noise, and puts back what was there."""
    before = sundman.config()["noise"]
    yield lambda noise: sundman.config(noise=noise)
    sundman.config(noise=before)


SHAPES = [(), (1,), (31,), (32,), (33,), (100_003,), (70, 1000), (3, 5, 7)]
# Every shape at one place, every place with one shape; the slow tests take all of them.
PLACES = [(17, 5), (0, 0), (2**32 - 1, 2**31)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "step", "offset"),
    [
        pytest.param(shape, *place, marks=() if quick else pytest.mark.slow)
        for shape in SHAPES
        for place in PLACES
        for quick in [place == PLACES[0] or shape == (3, 5, 7)]
    ],
)
def test_the_same_normals(shape, step, offset):
    stream = Stream(KEY, jnp.uint32(step))
    wanted = jax.jit(lambda: gaussian_leaf(stream, jnp.zeros(shape), offset))()
    found = native.normals(stream, shape, offset)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.long
def test_far_tails_are_the_same():
    stream = Stream(KEY, jnp.uint32(1))
    found, wanted = native.normals(stream, (3_000_000,)), gaussian(stream, jnp.zeros(3_000_000))
    assert float(jnp.abs(wanted).max()) > 4.9
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


def test_update_is_drift_and_noise():
    theta, grad = jax.random.normal(jax.random.key(0), (2, 40_007))
    stream = Stream(KEY, jnp.uint32(9))
    found = native.update(stream, theta, grad, 0.25, jnp.float32(0.3), jnp.float32(0.7), 11)
    wanted = theta - 0.3 * (grad + 0.25 * theta) + 0.7 * gaussian_leaf(stream, theta, 11)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_chains_under_vmap(axes):
    keys = jnp.arange(6, dtype=jnp.uint32).reshape(3, 2)
    steps = jnp.arange(3, dtype=jnp.uint32)
    given = (keys if axes[0] == 0 else keys[0], steps if axes[1] == 0 else steps[0])
    found = jax.vmap(lambda k, n: native.normals(Stream(k, n), (5, 9)), in_axes=axes)(*given)
    for i in range(3):
        key, step = (g[i] if a == 0 else g for g, a in zip(given, axes, strict=True))
        np.testing.assert_array_equal(found[i], native.normals(Stream(key, step), (5, 9)))


def test_squared_norm():
    x = 1e3 * jax.random.normal(jax.random.key(1), (2, 300_001))
    found = jax.vmap(native.squared_norm)(x)
    np.testing.assert_allclose(found, np.sum(np.asarray(x, np.float64) ** 2, axis=1), rtol=1e-6)


SCRIPT = """
import hashlib, sys, jax, jax.numpy as jnp, numpy as np
from sundman import native
from sundman.noise import Stream
assert native.available()
x = native.normals(Stream(jnp.array([3, 4], jnp.uint32), jnp.uint32(5)), (1_000_003,))
n = native.squared_norm(x)
np.save(sys.argv[1], np.asarray(x))
print(hashlib.sha256(np.asarray(x).tobytes() + np.asarray(n).tobytes()).hexdigest())
"""


def elsewhere(file, **environment) -> str:
    command = [sys.executable, "-c", SCRIPT, str(file)]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.long
def test_any_number_of_threads_gives_the_same_bits(tmp_path):
    one = elsewhere(tmp_path / "one.npy", NPROC="1", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")
    assert one == elsewhere(tmp_path / "two.npy", NPROC="2")
    assert one == elsewhere(tmp_path / "five.npy", NPROC="5")
    assert len(one) == len(hashlib.sha256().hexdigest())


@pytest.mark.long
def test_without_avx2(tmp_path):
    elsewhere(tmp_path / "portable.npy", SUNDMAN_PORTABLE="1")
    stream = Stream(jnp.array([3, 4], jnp.uint32), jnp.uint32(5))
    found = np.load(tmp_path / "portable.npy")
    np.testing.assert_allclose(found, native.normals(stream, found.shape), rtol=0, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("noise", ["xla", "native"])
@pytest.mark.parametrize("temperature", [pytest.param(1.0, marks=pytest.mark.slow), 0.3])
def test_the_law_of_sgld_on_both_paths(noise, temperature, path, key):
    """On U = x^2/2 the variance at step h is T / (1 - h/2), exactly."""
    path(noise)
    dim, h, draws = 20_000, 0.2, 40
    sampler = sundman.sgld(h, temperature)
    start = jnp.sqrt(temperature / (1 - h / 2)) * jax.random.normal(key, (dim,))
    found = sundman.sample(
        lambda x: 0.5 * jnp.sum(x**2), sampler, init=start, key=key, draws=draws, thin=10
    )
    correlation = (1 - h) ** 20  # of squares, ten steps apart
    independent = dim * draws * (1 - correlation) / (1 + correlation)
    wanted = temperature / (1 - h / 2)
    assert abs(np.mean(found.values**2) - wanted) < 4.5 * wanted * np.sqrt(2 / independent)


def run(key, dtype=jnp.float32, **changes):
    init = {"big": jnp.zeros(9000, dtype), "small": jnp.zeros(3, dtype), "none": jnp.zeros((0, 4))}
    sampler = sundman.sa_sgld(1e-2, alpha=10.0, m=0.1, M=10.0, r=0.5, omega=9e3)

    def target(p):
        return 0.5 * sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in p.values())

    return sundman.sample(target, sampler, init=init, key=key, steps=20, **changes)


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "chains"),
    [
        pytest.param(jnp.float32, 1, marks=pytest.mark.slow),
        (jnp.float32, 3),
        (jnp.bfloat16, 3),
        pytest.param(jnp.bfloat16, 1, marks=pytest.mark.slow),
        pytest.param(jnp.float16, 1, marks=pytest.mark.slow),
        pytest.param(jnp.float16, 3, marks=pytest.mark.slow),
    ],
)
def test_runs_agree_and_other_types_fall_back(dtype, chains, path, key):
    path("xla")
    wanted = run(key, dtype, chains=chains)
    path("native")
    found = run(key, dtype, chains=chains)
    for name in ("big", "small"):
        a, b = (np.asarray(d.values[name], np.float64) for d in (found, wanted))
        np.testing.assert_allclose(a, b, rtol=0, atol=3e-5 if dtype == jnp.float32 else 0)
    np.testing.assert_allclose(found.weight, wanted.weight, rtol=1e-5)


def test_a_stored_run_remembers_its_path(path, key, tmp_path):
    path("native")
    run(key, store=tmp_path / "run")
    path("xla")
    with pytest.raises(sundman.StoreError, match="native"):
        run(key, store=tmp_path / "run", resume=True)


def test_too_many_elements_are_refused():
    stream = Stream(KEY, jnp.uint32(0))
    with pytest.raises(ValueError, match="2\\*\\*32"):
        native.normals(stream, (2**16, 2**16), 1)


def test_without_the_kernels(path, monkeypatch, key):
    monkeypatch.setattr(native, "available", lambda: False)
    with pytest.raises(ValueError, match="compiler"):
        sundman.config(noise="native")
    path("auto")
    assert len(run(key)) == 20
    with pytest.raises(ValueError, match="'xla', 'native'"):
        sundman.config(noise="philox")
