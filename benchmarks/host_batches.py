"""Host batches against in-memory data: time per step, interleaved, on two networks.

    python benchmarks/host_batches.py --data DIRECTORY

The same network, batch size and sampler; batches come from memory on the device or from a host
iterator that shuffles a numpy array. At most 1.15 times the in-memory step is asked for.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import models


def epochs(split, batch: int, seed: int = 0):
    """A function that gives one epoch of shuffled batches, anew at each call."""
    generator = np.random.default_rng(seed)

    def one():
        order = generator.permutation(len(split.y))
        for begin in range(0, len(order), batch):
            rows = order[begin : begin + batch]
            yield split.x[rows], split.y[rows]

    return one


def compare(split, sizes, batch: int, steps: int, rounds: int) -> dict[str, float]:
    """Medians of the step times and of the per-round ratio."""
    memory = sundman.Posterior(models.mlp_apply, data=tuple(split))
    stream = sundman.data.HostBatches(epochs(split, batch), size=len(split.y))
    host = sundman.Posterior(models.mlp_apply, data=stream)
    sampler = sundman.sgld(memory.time_step(0.01, kinetic=False))
    init = models.mlp_init(jax.random.key(0), sizes)

    def run(posterior, **batches) -> float:
        began = time.perf_counter()
        sundman.sample(
            posterior,
            sampler,
            init=init,
            key=jax.random.key(1),
            steps=steps,
            thin=steps // 4,
            collect=keep_nothing,
            **batches,
        )
        return (time.perf_counter() - began) / steps

    run(memory, batch_size=batch), run(host)
    pairs = [(run(memory, batch_size=batch), run(host)) for _ in range(rounds)]
    ratios = [there / here for here, there in pairs]
    return {
        "memory_ms": 1e3 * statistics.median(here for here, _ in pairs),
        "host_ms": 1e3 * statistics.median(there for _, there in pairs),
        "ratio": statistics.median(ratios),
        "ratio_range": [min(ratios), max(ratios)],
    }


def keep_nothing(position):
    """Keep nothing of a position."""
    del position
    return jnp.float32(0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--rounds", type=int, default=7)
    default = Path(__file__).parent / "results" / "host_batches.json"
    parser.add_argument("--output", type=Path, default=default)
    options = parser.parse_args()
    digits, mnist = sundman.data.digits(), sundman.data.mnist(options.data)
    results = {
        "digits 64-50-50-10": compare(digits.train, [64, 50, 50, 10], 32, 4_000, options.rounds),
        "mnist 784-400-400-10": compare(mnist.train, [784, 400, 400, 10], 100, 400, options.rounds),
    }
    for name, row in results.items():
        print(
            f"{name:22s} memory {row['memory_ms']:.3f} ms  host {row['host_ms']:.3f} ms  "
            f"ratio {row['ratio']:.3f} ({row['ratio_range'][0]:.2f}-{row['ratio_range'][1]:.2f})"
        )
    options.output.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
