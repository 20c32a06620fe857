"""Native CPU kernels: the Langevin update with its noise in one pass over the parameters.

And products and sums of the few directions, each as long as the parameters, that low-rank friction
follows.

They give the normals of :mod:`sundman.noise` from the same words, to rounding, on any number of
threads. They are built when the package is installed, if there is a compiler; without them, on
other devices and for other types than float32 the XLA path does the same work.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.noise.stream import Stream, check_range

_TARGETS = {
    "sundman_update": "SundmanUpdate",
    "sundman_normals": "SundmanNormals",
    "sundman_products": "SundmanProducts",
    "sundman_inner_products": "SundmanInnerProducts",
    "sundman_weighted_sum": "SundmanWeightedSum",
    "sundman_mix": "SundmanMix",
}
SMALLEST = 4096
_active: ContextVar[bool] = ContextVar("sundman_native", default=False)
_NOISE = ("auto", "xla", "native")
_current = {"noise": os.environ.get("SUNDMAN_NOISE", "auto")}


@cache
def available() -> bool:
    """Whether the kernels were built and load; registers them with JAX."""
    libraries = [file for place in __path__ for file in Path(place).glob("libkernels.*")]
    if not libraries:
        return False
    try:
        library = ctypes.CDLL(str(libraries[0]))
    except OSError:
        return False
    for target, symbol in _TARGETS.items():
        jax.ffi.register_ffi_target(
            target, jax.ffi.pycapsule(getattr(library, symbol)), platform="cpu"
        )
    return True


@contextmanager
def using(native: bool) -> Iterator[None]:
    """What is traced inside uses the kernels, or does not."""
    token = _active.set(native)
    try:
        yield
    finally:
        _active.reset(token)


def active() -> bool:
    """Whether the code being traced should use the kernels."""
    return _active.get()


def fits(leaf: Array | jax.ShapeDtypeStruct) -> bool:
    """Whether the kernels are used, can work on an array, and it is large enough for a call."""
    return active() and leaf.dtype == jnp.float32 and leaf.size >= SMALLEST


def normals(stream: Stream, shape: tuple[int, ...], offset: int = 0) -> Array:
    """Independent N(0, 1) numbers in single precision.

    Args:
      stream: the key and the step.
      shape: that of the array.
      offset: the number of its first element among all that this step draws.

    Returns:
      The array.
    """
    check_range(offset + math.prod(shape))
    call = jax.ffi.ffi_call(
        "sundman_normals",
        jax.ShapeDtypeStruct(shape, jnp.float32),
        vmap_method="broadcast_all",
    )
    return call(stream.key, jnp.asarray(stream.step, jnp.uint32), offset=np.int64(offset))


def update(
    stream: Stream,
    theta: Array,
    grad: Array,
    precision: Array | float,
    dt: Array,
    scale: Array,
    offset: int = 0,
) -> Array:
    """A Langevin step in one pass: theta - dt (grad + precision theta) + scale eps.

    Args:
      stream: the key and the step, for eps.
      theta: the position, in single precision; its memory may be that of the result.
      grad: the gradient of U without its Gaussian prior.
      precision: of that prior, 1 over its variance.
      dt: the time of the step.
      scale: of the noise.
      offset: the number of the first normal among all that this step draws.

    Returns:
      The position after the step.
    """
    check_range(offset + theta.size)
    call = jax.ffi.ffi_call(
        "sundman_update",
        jax.ShapeDtypeStruct(theta.shape, jnp.float32),
        vmap_method="broadcast_all",
        input_output_aliases={0: 0},
    )
    single = [jnp.asarray(number, jnp.float32) for number in (precision, dt, scale)]
    step = jnp.asarray(stream.step, jnp.uint32)
    return call(theta, grad, *single, stream.key, step, offset=np.int64(offset))


def products(theta: Array, grad: Array, precision: Array | float = 0.0) -> Array:
    """The sums of G^2, G theta and theta^2 for G = grad + precision theta, in one pass.

    Args:
      theta: the position, in single precision.
      grad: the gradient of U without its Gaussian prior.
      precision: of that prior, 1 over its variance.

    Returns:
      The three sums.
    """
    call = jax.ffi.ffi_call(
        "sundman_products", jax.ShapeDtypeStruct((3,), jnp.float32), vmap_method="broadcast_all"
    )
    return call(theta, grad, jnp.asarray(precision, jnp.float32))


def squared_norm(x: Array) -> Array:
    """The sum of the squares."""
    return products(x, x)[0]


def inner_products(directions: Array, rows: Array) -> Array:
    """The inner product of each of some directions, then of each row, with each row.

    Args:
      directions: (m, *shape), bfloat16 as its bits.
      rows: (n, *shape), in single precision.

    Returns:
      (m + n, n).
    """
    n = rows.shape[0]
    shape = jax.ShapeDtypeStruct((directions.shape[0] + n, n), jnp.float32)
    call = jax.ffi.ffi_call("sundman_inner_products", shape, vmap_method="broadcast_all")
    return call(directions, rows)


def weighted_sum(
    weights: Array,
    directions: Array,
    more: Array,
    stream: Stream | None = None,
    scale: Array | float = 0.0,
    offset: int = 0,
) -> Array:
    """The sum of some directions and one more array by their weights, and noise, in one pass.

    Args:
      weights: (m + 1), in single precision, that of ``more`` last.
      directions: (m, *shape), bfloat16 as its bits.
      more: (*shape), in single precision.
      stream: the key and the step, for the noise; None is no noise.
      scale: of the noise; with 0 none is made.
      offset: the number of the first normal among all that this step draws.

    Returns:
      (*shape).
    """
    check_range(offset + more.size)
    call = jax.ffi.ffi_call(
        "sundman_weighted_sum",
        jax.ShapeDtypeStruct(more.shape, jnp.float32),
        vmap_method="broadcast_all",
    )
    if stream is None:
        key, step, scale = jnp.zeros(2, jnp.uint32), jnp.uint32(0), 0.0
    else:
        key, step = stream.key, jnp.asarray(stream.step, jnp.uint32)
    scale = jnp.asarray(scale, jnp.float32)
    return call(weights[None], directions, more, scale, key, step, offset=np.int64(offset))


def mix(weights: Array, directions: Array, rows: Array) -> Array:
    """New directions, sums of the old ones and of some rows by weights, in one pass.

    Args:
      weights: (m, m + n), in single precision.
      directions: (m, *shape), bfloat16 as its bits; their memory may be that of the result.
      rows: (n, *shape), in single precision.

    Returns:
      As ``directions``.
    """
    shape = jax.ShapeDtypeStruct(directions.shape, jnp.uint16)
    call = jax.ffi.ffi_call(
        "sundman_mix", shape, vmap_method="broadcast_all", input_output_aliases={0: 0}
    )
    return call(directions, rows, weights)


def config(*, noise: str | None = None) -> dict[str, str]:
    """Set how :func:`sundman.sample` works, and return all choices as they are now.

    Args:
      noise: ``"native"`` makes the noise and the update in one pass by the kernels in
        :mod:`sundman.native`, ``"xla"`` leaves both to the compiler, ``"auto"`` takes the
        kernels on CPU if they were built. One key gives one stream of noise on either path, up
        to rounding. The environment variable ``SUNDMAN_NOISE`` sets the first choice.
    """
    if noise is not None:
        check.choice("noise", noise, _NOISE)
        if noise == "native" and not available():
            raise ValueError(
                'noise="native" needs the native kernels, which were not built when sundman was '
                'installed: install a C++ compiler (GCC or Clang) and sundman again, or use "xla"'
            )
        _current["noise"] = noise
    return dict(_current)


def native_noise() -> bool:
    """Whether a run begun now uses the native kernels."""
    choice = _current["noise"]
    check.choice("SUNDMAN_NOISE", choice, _NOISE)
    if choice == "xla":
        return False
    if choice == "native":
        return config(noise="native")["noise"] == "native"
    return available() and jax.default_backend() == "cpu"
