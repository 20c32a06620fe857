"""A run on disk that may be stopped at any moment, and looked at while it goes on.

python examples/long_run.py runs/digits      # Ctrl-C, kill -9, a power cut: start it again
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax

import sundman
from sundman import models


def main(path: str | Path, draws: int = 1_000, progress: bool | None = None) -> sundman.Draws:
    """Sample a digits network to ``path``, or go on with what is there, and judge the draws."""
    data = sundman.data.digits()
    posterior = sundman.Posterior(models.mlp_apply, data=tuple(data.train))
    sampler = sundman.sa_sgld(sundman.LearningRate(0.1), alpha=1000.0, m=0.5, M=2.0, r=0.25)
    found = sundman.sample(
        posterior,
        sampler,
        init=models.mlp_init(jax.random.key(0), [64, 50, 10]),
        key=jax.random.key(1),
        chains=2,
        burn_in=10 * draws,
        draws=draws,
        thin=20,
        batch_size=32,
        store=path,
        resume=True,
        progress=progress,
    )
    sundman.diagnose(found)
    x, y = data.test
    accuracy = sundman.metrics.accuracy(sundman.predict(found, posterior, x), y)
    print(f"accuracy of the ensemble on the test set: {100 * accuracy:.1f}%")
    return found


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "runs/digits")
    except sundman.Interrupted as stopped:
        print(stopped)
