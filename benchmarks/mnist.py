"""MNIST with a 784-w-w-10 network: SGLD and SA-SGLD under the Gaussian and horseshoe priors.

    python benchmarks/mnist.py --width 400 --epochs 30 --data DIRECTORY

Each (prior, sampler) row is run once per seed and written to a JSON file as it ends; rows that
are there already are skipped, so an interrupted run goes on where it stopped. SGLD is run at the
mean step of SA-SGLD. All of one process, through ``sundman.sample``.
"""

from __future__ import annotations

import argparse
import functools
import json
import time
from pathlib import Path

import jax
import numpy as np

import sundman
from sundman import metrics, models, priors

PRIORS = {
    "gaussian": (
        {"kernel": priors.gaussian(1.41, fan_in="leading"), "bias": priors.gaussian(1.0)},
        0.025,
    ),
    "horseshoe": (
        {
            "kernel": priors.horseshoe(1.41, fan_in="leading", jacobian=False),
            "bias": priors.horseshoe(1.0, jacobian=False),
        },
        0.2,
    ),
}


def scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """NLL, accuracy, ECE with 15 and 30 bins, Brier."""
    return {
        "nll": float(metrics.nll(probabilities, labels)),
        "accuracy": float(metrics.accuracy(probabilities, labels)),
        "ece15": float(metrics.ece(probabilities, labels, bins=15)),
        "ece30": float(metrics.ece(probabilities, labels, bins=30)),
        "brier": float(metrics.brier(probabilities, labels)),
    }


def run(data, prior, sampler_of, options, seed):
    """One chain: scores of the weighted and the unweighted ensemble, mean step, wall time."""
    posterior = sundman.Posterior(models.mlp_apply, prior=prior, data=tuple(data.train))
    width, per_epoch = options.width, posterior.size // options.batch
    start_key, run_key = jax.random.split(jax.random.key(seed))
    x_test, y_test = data.test
    began = time.perf_counter()
    draws = sundman.sample(
        posterior,
        sampler_of(posterior),
        init=models.mlp_init(start_key, [784, width, width, 10]),
        key=run_key,
        burn_in=per_epoch * options.epochs // 2,
        steps=per_epoch * (options.epochs - options.epochs // 2),
        thin=options.thin,
        batch_size=options.batch,
        collect=lambda position: np.float32(0.0),
        online=functools.partial(posterior.predict, x=jax.numpy.asarray(x_test)),
    )
    steps = per_epoch * options.epochs
    seconds = time.perf_counter() - began
    return {
        "weighted": scores(draws.online.weighted[0], y_test),
        "unweighted": scores(draws.online.equal[0], y_test),
        "mean_step": posterior.learning_rate(float(draws.stats["dt"].mean())),
        "step_range": [
            posterior.learning_rate(float(f(draws.stats["dt"]))) for f in (np.min, np.max)
        ],
        "draws": len(draws),
        "diverged": int(draws.diverged[0]),
        "seconds": seconds,
        "ms_per_step": 1e3 * seconds / steps,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=400)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--thin", type=int, default=100)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--priors", nargs="*", choices=PRIORS, default=list(PRIORS))
    parser.add_argument("--data", default=None)
    parser.add_argument("--output", type=Path, default=None)
    options = parser.parse_args()
    results = Path(__file__).parent / "results"
    output = options.output or results / f"mnist_w{options.width}_e{options.epochs}.json"
    output.parent.mkdir(exist_ok=True)
    table = json.loads(output.read_text()) if output.exists() else {}
    data = sundman.data.mnist(options.data)

    for seed in range(options.seeds):
        for name in options.priors:
            prior, dtau = PRIORS[name]

            def adaptive(posterior, dtau=dtau):
                return sundman.sa_sgld(
                    posterior.step(dtau),
                    alpha=1000.0,
                    m=0.5,
                    M=2.0,
                    r=0.25,
                    omega=float(posterior.size) ** 2,
                )

            row = f"{name}/sa_sgld/{seed}"
            if row not in table:
                table[row] = run(data, prior, adaptive, options, seed)
                output.write_text(json.dumps(table, indent=1))
            matched = table[row]["mean_step"]
            row = f"{name}/sgld/{seed}"
            if row not in table:
                table[row] = run(
                    data, prior, lambda p, h=matched: sundman.sgld(p.step(h)), options, seed
                )
                output.write_text(json.dumps(table, indent=1))
    for row, result in table.items():
        found = result["weighted"]
        print(
            f"{row:24s} h {result['mean_step']:.3f}  NLL {found['nll']:.4f}  accuracy "
            f"{100 * found['accuracy']:.2f}  ECE {100 * found['ece15']:.2f} / "
            f"{100 * found['ece30']:.2f}  {result['ms_per_step']:.2f} ms/step"
        )


if __name__ == "__main__":
    main()
