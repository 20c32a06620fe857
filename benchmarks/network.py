"""One network step of every kind against a plain SGD step, interleaved.

    python benchmarks/network.py [--width 1200] [--rounds 9]

784-width-width-10 at batch 100 on made-up data of MNIST's shape; whole runs of `sundman.sample`, so
that everything the runner does is counted: minibatches, prior, statistics, guard.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import sundman
from sundman import models, priors

ROWS, BATCH = 6000, 100


def data() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(ROWS, 784)).astype(np.float32)
    return x, generator.integers(0, 10, ROWS).astype(np.int32)


def plain_sgd(init, x, y, steps: int) -> Callable[[], float]:
    """SGD on the mean loss in one scan: no prior, no noise, batches in order."""
    x, y = jnp.asarray(x), jnp.asarray(y)

    def loss(params, begin):
        part = lax.dynamic_slice_in_dim(x, begin, BATCH), lax.dynamic_slice_in_dim(y, begin, BATCH)
        scores = jax.nn.log_softmax(models.mlp_apply(params, part[0]))
        return -jnp.mean(jnp.take_along_axis(scores, part[1][:, None], axis=1))

    def step(params, n):
        grads = jax.grad(loss)(params, (n * BATCH) % (ROWS - BATCH))
        return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads), None

    many = jax.jit(lambda params: lax.scan(step, params, jnp.arange(steps))[0])

    def run() -> float:
        began = time.perf_counter()
        jax.block_until_ready(many(init))
        return (time.perf_counter() - began) / steps

    return run


def ours(posterior, sampler, init, steps: int, noise: str) -> Callable[[], float]:
    def run() -> float:
        sundman.config(noise=noise)
        draws = sundman.sample(
            posterior,
            sampler,
            init=init,
            key=jax.random.key(1),
            steps=steps,
            thin=steps,
            batch_size=BATCH,
            collect=keep_nothing,
            progress=False,
        )
        return draws.settings["seconds"] / steps

    return run


def keep_nothing(position):
    """Keep nothing of a position."""
    del position
    return jnp.float32(0.0)


def contestants(width: int, steps: int) -> dict[str, Callable[[], float]]:
    x, y = data()
    init = models.mlp_init(jax.random.key(0), [784, width, width, 10])
    gauss = sundman.Posterior(models.mlp_apply, data=(x, y))
    rules = {"kernel": priors.horseshoe(1.0, fan_in="leading"), "bias": priors.horseshoe(1.0)}
    horseshoe = sundman.Posterior(models.mlp_apply, data=(x, y), prior=rules)
    sgld = sundman.sgld(gauss.step(1e-3))
    clock = {"alpha": 1e3, "m": 0.5, "M": 2.0, "r": 0.25, "omega": float(ROWS) ** 2}
    adaptive = sundman.sa_sgld(gauss.step(1e-3), **clock)
    found = {"SGD": plain_sgd(init, x, y, steps)}
    for noise in ("native", "xla") if sundman.native.available() else ("xla",):
        found[f"SGLD, {noise}"] = ours(gauss, sgld, init, steps, noise)
        found[f"SA-SGLD, {noise}"] = ours(gauss, adaptive, init, steps, noise)
        found[f"SA-SGLD + horseshoe, {noise}"] = ours(horseshoe, adaptive, init, steps, noise)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=1200)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=9)
    default = Path(__file__).parent / "results" / "network.json"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args()
    runs = contestants(options.width, options.steps)
    for run in runs.values():
        run()
    times = {name: [] for name in runs}
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name].append(run())
    results = {"width": options.width, "rounds": options.rounds, "steps": options.steps}
    for name, found in times.items():
        ratios = [mine / base for mine, base in zip(found, times["SGD"], strict=True)]
        row = {"ms": 1e3 * statistics.median(found), "ratio": statistics.median(ratios)}
        results[name] = row | {"ratio_range": [min(ratios), max(ratios)]}
        low, high = results[name]["ratio_range"]
        print(f"{name:30s} {row['ms']:7.2f} ms  {row['ratio']:.2f} ({low:.2f}-{high:.2f})")
    options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
