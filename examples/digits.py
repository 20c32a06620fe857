"""A Bayesian network against the single MAP network on scikit-learn's digits.

python examples/digits.py
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

import sundman
from sundman import metrics, models, priors

SIZES = [64, 50, 50, 10]


def scores(probabilities, labels) -> dict[str, float]:
    return {
        "NLL": metrics.nll(probabilities, labels),
        "accuracy": metrics.accuracy(probabilities, labels),
        "ECE": metrics.ece(probabilities, labels, bins=15),
        "Brier": metrics.brier(probabilities, labels),
    }


def main(steps: int = 20_000) -> dict[str, dict[str, float]]:
    """Scores of the MAP network and of the SA-SGLD ensemble on the test set."""
    data = sundman.data.digits()
    x_test, y_test = data.test
    posterior = sundman.Posterior(
        models.mlp_apply,
        prior={
            "kernel": priors.horseshoe(1.41, fan_in="leading"),
            "bias": priors.horseshoe(1.0),
        },
        data=tuple(data.train),
    )
    init = models.mlp_init(jax.random.key(0), SIZES)
    best = sundman.map_estimate(posterior, init, key=jax.random.key(1), steps=3_000, batch_size=32)
    draws = sundman.sample(
        posterior,
        sundman.sa_sgld(sundman.LearningRate(0.1), alpha=1000.0, m=0.5, M=2.0, r=0.25),
        init=init,
        key=jax.random.key(2),
        burn_in=steps // 2,
        steps=steps - steps // 2,
        thin=100,
        batch_size=32,
        collect=lambda position: position.hyper,
        online=functools.partial(posterior.predict, x=jnp.asarray(x_test)),
    )
    return {
        "MAP network": scores(posterior.predict(best, jnp.asarray(x_test)), y_test),
        "SA-SGLD ensemble": scores(draws.online.weighted[0], y_test),
    }


if __name__ == "__main__":
    for name, row in main().items():
        print(f"{name:18s}", "  ".join(f"{key} {value:.4f}" for key, value in row.items()))
