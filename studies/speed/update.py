"""Update and Gaussian noise alone, as multiples of a bare axpy, theta - dt G.

    python -m studies.speed.update [--rounds 7] [--cores 1]

All three make their steps in one ``fori_loop`` inside one jit, with theta donated and updated in
place; G stays the same, and dt is read from an array, a new one each step, so that XLA can neither
hoist dt G out of the loop nor fold two steps into one. Each step of axpy then reads theta and G and
writes theta. XLA splits axpy and its own noise over all cores, as our kernels do: at 1e6 in cache
two cores make axpy 1.8 times faster than one; from memory one core takes most of the bandwidth.

A single array of 1e6 stays in a cache of 32 MB. "From memory" takes 16 such pairs in turn (128 MB),
so that each has left the cache when it comes again; its time is for one pair. 1e7 and 1e8 are
larger than the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

import sundman
from studies import report
from studies.timing import Case, Ratio, arguments, keep_to, measure
from sundman import integrators
from sundman.integrators.base import apply
from sundman.noise import Stream

PyTree = Any
Step = Callable[[Stream, PyTree, PyTree, Array], PyTree]
WORK = 4 * 10**8
SIZES = {
    "1e6, in cache": (10**6, 1),
    "1e6, from memory": (10**6, 16),
    "1e7": (10**7, 1),
    "1e8": (10**8, 1),
}
LANGEVIN = integrators.euler_maruyama()


def axpy(stream: Stream, theta: PyTree, grads: PyTree, dt: Array) -> PyTree:
    del stream
    return jax.tree.map(lambda x, g: x - dt * g, theta, grads)


def native(stream: Stream, theta: PyTree, grads: PyTree, dt: Array) -> PyTree:
    """The kernels' step, as a run takes it."""
    with sundman.native.using(True):
        return apply(theta, LANGEVIN.move(stream, grads, (), theta, dt)[0])


def xla(stream: Stream, theta: PyTree, grads: PyTree, dt: Array) -> PyTree:
    """The same step left to the compiler."""
    with sundman.native.using(False):
        return apply(theta, LANGEVIN.move(stream, grads, (), theta, dt)[0])


STEPS: dict[str, Step] = {"axpy": axpy, "native": native, "xla": xla}
RATIOS = [
    Ratio(f"{kind}, {size}", f"axpy, {size}", "lower", goal)
    for size in SIZES
    for kind, goal in (("native", 3.5), ("xla", 8.0))
]


class Arrays:
    """theta and G of one size; theta is handed from each run to the next, as it is donated."""

    def __init__(self, size: int, arrays: int) -> None:
        self.theta = [jnp.zeros(size, jnp.float32) for _ in range(arrays)]
        self.grads = [jnp.full(size, 1e-3, jnp.float32) for _ in range(arrays)]


def case(step: Step, arrays: Arrays, steps: int) -> Case:
    times = jnp.linspace(1e-3, 2e-3, steps)
    key = jnp.array([1, 2], jnp.uint32)

    @partial(jax.jit, donate_argnums=0)
    def loop(theta: PyTree, grads: PyTree, times: Array) -> PyTree:
        def body(n: Array, theta: PyTree) -> PyTree:
            return step(Stream(key, n), theta, grads, times[n])

        return lax.fori_loop(jnp.uint32(0), jnp.uint32(steps), body, theta)

    def run(number: int) -> None:
        del number
        arrays.theta = jax.block_until_ready(loop(arrays.theta, arrays.grads, times))

    return Case(run, steps * len(arrays.theta))


def main() -> None:
    options = arguments(__doc__, "update", rounds=7).parse_args()
    keep_to(options.cores)
    kinds = [kind for kind in STEPS if kind != "native" or sundman.native.available()]
    cases: dict[str, Case] = {}
    for name, (size, count) in SIZES.items():
        arrays = Arrays(size, count)
        steps = max(2, WORK // (size * count))
        for kind in kinds:
            fewer = steps if kind == "axpy" else max(2, steps // 4)
            cases[f"{kind}, {name}"] = case(STEPS[kind], arrays, fewer)
    spent = measure(cases, options.rounds)
    sizes = {name: {"parameters": size, "arrays": count} for name, (size, count) in SIZES.items()}
    report.publish(options, cases, spent, RATIOS, "Update", "us", None, sizes=sizes)


if __name__ == "__main__":
    main()
