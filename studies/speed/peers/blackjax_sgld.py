"""BlackJAX's SGLD, with the loop over steps that it leaves to its users.

Two loops: ``lax.scan`` with the key split in the loop, and the one of its documentation, a Python
loop around a jitted step, which takes its minibatches from a generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
from jax import Array, lax

PyTree = Any
Pair = tuple[Array, Array]


def network(
    log_prior: Callable[[PyTree], Array],
    log_likelihood: Callable[[PyTree, Any], Array],
    data: Pair,
    batch: int,
    h: float,
) -> tuple[Callable[[Array, PyTree, int], PyTree], Callable[[Array, PyTree, int], PyTree]]:
    """The loop under scan and the loop in Python, each (key, params, steps) -> params."""
    rows = len(data[0])
    gradient = blackjax.sgmcmc.gradients.grad_estimator(log_prior, log_likelihood, rows)
    algorithm = blackjax.sgld(gradient)
    jitted = jax.jit(algorithm.step)

    def some(key: Array) -> Pair:
        picked = jax.random.randint(key, (batch,), 0, rows)
        return data[0][picked], data[1][picked]

    def under_scan(key: Array, params: PyTree, steps: int) -> PyTree:
        def move(carry: tuple[PyTree, Array], _: None) -> tuple[tuple[PyTree, Array], None]:
            params, key = carry
            key, now, which = jax.random.split(key, 3)
            return (algorithm.step(now, params, some(which), h), key), None

        return lax.scan(move, (params, key), None, length=steps)[0][0]

    def batches(key: Array) -> Iterator[Pair]:
        pick = jax.jit(some)
        while True:
            key, which = jax.random.split(key)
            yield pick(which)

    def in_python(key: Array, params: PyTree, steps: int) -> PyTree:
        stream = batches(jax.random.fold_in(key, 1))
        for _ in range(steps):
            key, now = jax.random.split(key)
            params = jitted(now, params, next(stream), h)
        return params

    return jax.jit(under_scan, static_argnums=2), in_python


def toy(
    potential: Callable[[Array], Array], start: Array, h: float, steps: int, split_before: bool
) -> Callable[[Array], tuple[Any, Array]]:
    """SGLD on a toy under scan with every draw kept; keys split before the loop or in it."""
    algorithm = blackjax.sgld(lambda position, _: -jax.grad(potential)(position))

    def move(position: Array, key: Array) -> tuple[Array, Array]:
        return algorithm.step(key, position, (), h), position

    def split_and_move(carry: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], Array]:
        position, key = carry
        key, now = jax.random.split(key)
        position, left = move(position, now)
        return (position, key), left

    def run(key: Array) -> tuple[Any, Array]:
        if split_before:
            return lax.scan(move, jnp.asarray(start), jax.random.split(key, steps))
        return lax.scan(split_and_move, (jnp.asarray(start), key), None, length=steps)

    return jax.jit(run)
