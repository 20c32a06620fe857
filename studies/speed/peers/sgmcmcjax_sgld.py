"""SGMCMCJax's SGLD kernel under ``lax.scan``.

The package (0.2.13) imports ``jax.experimental.host_callback``, which JAX has dropped. Its progress
bar alone needs it and is not used here, so an empty module takes its place. The kernel is used and
not the sampler, since that one would keep every position of the network.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

import jax
import jax.experimental
from jax import Array, lax

PyTree = Any


def load() -> Any:
    """``sgmcmcjax.kernels``, on a JAX without host_callback, too."""
    name = "jax.experimental.host_callback"
    if not hasattr(jax.experimental, "host_callback"):
        empty = types.ModuleType(name)
        sys.modules[name] = empty
        jax.experimental.host_callback = empty  # pyright: ignore[reportAttributeAccessIssue]
    from sgmcmcjax import kernels

    return kernels


def network(
    log_prior: Callable[[PyTree], Array],
    log_likelihood: Callable[[PyTree, Array, Array], Array],
    data: tuple[Array, Array],
    batch: int,
    h: float,
) -> Callable[[Array, PyTree, int], PyTree]:
    """(key, params, steps) -> params."""
    init, kernel, params_of = load().build_sgld_kernel(h, log_likelihood, log_prior, data, batch)

    def run(key: Array, params: PyTree, steps: int) -> PyTree:
        def move(carry: tuple[Any, Array], i: Array) -> tuple[tuple[Any, Array], None]:
            state, key = carry
            key, now = jax.random.split(key)
            return (kernel(i, now, state), key), None

        first, key = jax.random.split(key)
        (state, _), _ = lax.scan(move, (init(first, params), key), jax.numpy.arange(steps))
        return params_of(state)

    return jax.jit(run, static_argnums=2)
