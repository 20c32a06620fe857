"""BlackJAX's NUTS after window adaptation and MCLMC after its own tuning, each chain on its own.

Programs are compiled before they are timed. All chains advance together under ``vmap``, as in
BlackJAX's documentation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.adaptation.base import get_filter_adapt_info_fn
from jax import Array
from jax.flatten_util import ravel_pytree

Position = Any


class Run(NamedTuple):
    """A run of all chains.

    Attributes:
      x: draws, axes (chain, draw, coordinate).
      gradients: of the draws, all chains together.
      warm_up: gradients before them.
      failures: divergent transitions, or steps that were undone because they were not finite.
      seconds: of warm-up and draws, without compilation.
      processor: the same of processor time.
    """

    x: np.ndarray
    gradients: int
    warm_up: int
    failures: int
    seconds: float
    processor: float


class Clock:
    """Adds up wall and processor seconds of calls, compilation left out."""

    def __init__(self) -> None:
        self.seconds = self.processor = 0.0

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What the function returns, compiled first."""
        compiled = jax.jit(function).lower(*arguments).compile()
        wall, processor = time.perf_counter(), time.process_time()
        result = jax.block_until_ready(compiled(*arguments))
        self.seconds += time.perf_counter() - wall
        self.processor += time.process_time() - processor
        return result


def nuts(
    potential: Callable[[Position], Array],
    first: Position,
    key: Array,
    *,
    dense: bool,
    warm_up: int,
    gradients: int,
    most: int,
    acceptance: float = 0.8,
) -> Run:
    """NUTS, with as many draws as ``gradients`` a chain buy.

    Args:
      potential: U.
      first: one position for each chain.
      key: random.
      dense: whether the mass matrix is dense.
      warm_up: steps of the window adaptation.
      gradients: of each chain; the number of draws is this over the mean length of a trajectory in
        the last 50 steps of the warm-up, at least 100.
      most: draws at most.
      acceptance: rate aimed at.
    """
    chains = len(jax.tree.leaves(first)[0])
    warm_key, run_key = jax.random.split(key)

    def log_density(position: Position) -> Array:
        return -potential(position)

    def adapt(key: Array, position: Position) -> Any:
        adaptation = blackjax.window_adaptation(
            blackjax.nuts,
            log_density,
            is_mass_matrix_diagonal=not dense,
            target_acceptance_rate=acceptance,
            adaptation_info_fn=get_filter_adapt_info_fn(info_keys={"num_integration_steps"}),
        )
        (state, parameters), info = adaptation.run(key, position, num_steps=warm_up)
        return state, parameters, info.info.num_integration_steps

    clock = Clock()
    state, parameters, lengths = clock.call(
        jax.vmap(adapt), jax.random.split(warm_key, chains), first
    )
    draws = int(np.clip(gradients / np.asarray(lengths)[:, -50:].mean(), 100, most))

    def run(key: Array, state: Any, parameters: Any) -> Any:
        kernel = blackjax.nuts(log_density, **parameters)

        def step(state: Any, key: Array) -> tuple[Any, Any]:
            state, info = kernel.step(key, state)
            seen = info.num_integration_steps, info.is_divergent
            return state, (ravel_pytree(state.position)[0], *seen)

        return jax.lax.scan(step, state, jax.random.split(key, draws))[1]

    x, steps, divergent = clock.call(
        jax.vmap(run), jax.random.split(run_key, chains), state, parameters
    )
    return Run(
        np.asarray(x),
        int(np.sum(np.asarray(steps, np.int64))),
        int(np.sum(np.asarray(lengths, np.int64))),
        int(np.sum(divergent)),
        clock.seconds,
        clock.processor,
    )


def mclmc(
    potential: Callable[[Position], Array], first: Position, key: Array, *, steps: int
) -> Run:
    """Unadjusted MCLMC, tuned for ``steps`` steps (a third of them) and run for as many.

    A step is McLachlan's, of two gradients.
    """
    chains = len(jax.tree.leaves(first)[0])
    start_key, warm_key, run_key = jax.random.split(key, 3)
    kernel = blackjax.mcmc.mclmc.build_kernel()

    def log_density(position: Position) -> Array:
        return -potential(position)

    counted = []

    def tune(start: Array, key: Array, position: Position) -> Any:
        state = blackjax.mcmc.mclmc.init(position, log_density, start)
        state, parameters, used = blackjax.mclmc_find_L_and_step_size(
            mclmc_kernel=kernel,
            num_steps=steps,
            state=state,
            rng_key=key,
            logdensity_fn=log_density,
        )
        counted.append(int(used))
        return state, parameters

    clock = Clock()
    starts, keys = (jax.random.split(k, chains) for k in (start_key, warm_key))
    state, parameters = clock.call(jax.vmap(tune), starts, keys, first)

    def run(key: Array, state: Any, parameters: Any) -> Any:
        def step(state: Any, key: Array) -> tuple[Any, Any]:
            state, info = kernel(
                rng_key=key,
                state=state,
                logdensity_fn=log_density,
                inverse_mass_matrix=parameters.inverse_mass_matrix,
                L=parameters.L,
                step_size=parameters.step_size,
            )
            return state, (ravel_pytree(state.position)[0], jnp.logical_not(info.nonans))

        return jax.lax.scan(step, state, jax.random.split(key, steps))[1]

    x, undone = clock.call(jax.vmap(run), jax.random.split(run_key, chains), state, parameters)
    return Run(
        np.asarray(x),
        2 * chains * steps,
        2 * chains * counted[-1],
        int(np.sum(undone)),
        clock.seconds,
        clock.processor,
    )
