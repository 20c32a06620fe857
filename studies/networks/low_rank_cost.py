"""What a step with friction along the noisiest directions costs, by one of SGHMC.

    python -m studies.networks.low_rank_cost [--rounds 9]

A network 784-400-400-10, 478,410 weights, random rows, 100 a step and 500, which is what the
command takes: gradient, noise and update of 160 steps in one compiled loop, state donated, one
sampler after the other in every round. (Short loops cost more: what a program works with is fresh
memory each time.) A ratio is the median over rounds of the times of one round; beside it the
quartiles. Written to ``results/low_rank_cost.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from studies.report import settings
from sundman import clocks, gradients, integrators, models, native
from sundman._types import PyTree
from sundman.noise import Stream

RESULT = Path(__file__).parent / "results" / "low_rank_cost.json"
SIZES, ROWS, BATCHES, STEPS = (784, 400, 400, 10), 10_000, (100, 500), 160
BASE = "SGHMC"


def samplers() -> dict[str, sundman.Sampler]:
    """SGHMC, and low-rank BAOAB by how often it learns and how many directions are loud."""
    clock = clocks.constant(1e-4)
    low_rank = {
        f"low-rank BAOAB, rank 20, {', '.join(f'{k} {v}' for k, v in given.items()) or 'default'}":
        sundman.compose(integrators.low_rank_baoab(gamma=0.5, rank=20, **given), clock)
        for given in (
            {},
            {"learn_after": 20},
            {"every": 4},
            {"loudest": 4},
            {"loudest": 4, "every": 8},
        )
    }  # fmt: skip
    return {BASE: sundman.sghmc(1e-4, gamma=20.0), **low_rank}


def loop(sampler: sundman.Sampler) -> Callable[..., tuple[PyTree, PyTree]]:
    """Some steps, compiled."""

    def run(
        params: PyTree, state: PyTree, estimator: gradients.GradientEstimator
    ) -> tuple[PyTree, PyTree]:
        def step(carry: tuple[PyTree, PyTree], _: None) -> tuple[tuple[PyTree, PyTree], None]:
            params, state = carry
            grads = estimator(Stream(state.key, state.clock.step), params)[1]
            return sampler.step(grads, state, params), None

        return jax.lax.scan(step, (params, state), None, length=STEPS)[0]

    def with_kernels(*given: PyTree) -> tuple[PyTree, PyTree]:
        with native.using(native.available()):  # as sundman.sample does
            return run(*given)

    return jax.jit(with_kernels, donate_argnums=(0, 1))


def measured(
    posterior: sundman.Posterior, batch: int, rounds: int
) -> tuple[dict[str, dict[str, Any]], list[float]]:
    """Times and ratios with so many rows a step; and how busy the machine was."""
    estimator = gradients.minibatch(posterior, batch)
    carries, loops = {}, {}
    for name, sampler in samplers().items():
        params = posterior.position(models.mlp_init(jax.random.key(0), SIZES))
        begin = params, sampler.with_key(jax.random.key(1)).init(params)
        begin = jax.tree.map(jnp.copy, begin)  # arrays that are donated must not be shared
        loops[name] = loop(sampler)
        carries[name] = jax.block_until_ready(loops[name](*begin, estimator))
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    loads = []
    for _ in range(rounds):
        loads.append(os.getloadavg()[0])
        for name, run in loops.items():
            began = time.perf_counter()
            carries[name] = jax.block_until_ready(run(*carries[name], estimator))
            seconds[name].append((time.perf_counter() - began) / STEPS)
    base = np.array(seconds[BASE])
    rows = {
        name: {
            "milliseconds": float(1e3 * np.median(times)),
            "ratio": float(np.median(times / base)),
            "quartiles": np.quantile(times / base, [0.25, 0.75]).tolist(),
        }
        for name, times in ((name, np.array(each)) for name, each in seconds.items())
    }
    for name, row in rows.items():
        print(f"{batch} rows, {name:42s} {row['milliseconds']:6.1f} ms, ratio {row['ratio']:.2f}")
    return rows, loads


def main() -> None:
    """All samplers in turn, round after round, by the rows of a step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    rng = np.random.default_rng(0)
    x, y = rng.random((ROWS, SIZES[0]), dtype=np.float32), rng.integers(0, SIZES[-1], ROWS)
    posterior = sundman.Posterior(
        models.mlp_apply, prior=sundman.priors.gaussian(0.05), data=(x, y)
    )
    found = {batch: measured(posterior, batch, rounds) for batch in BATCHES}
    result = {
        "command": f"python -m studies.networks.low_rank_cost --rounds {rounds}",
        "settings": settings(load={batch: loads for batch, (_, loads) in found.items()}),
        "rows a step": {batch: rows for batch, (rows, _) in found.items()},
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
