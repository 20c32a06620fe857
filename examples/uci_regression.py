"""UCI regression with calibrated intervals.

    python examples/uci_regression.py yacht energy concrete wine --splits 5 --output uci.json

Splits already in the output file are not run again.
"""

import argparse
import json
from pathlib import Path

import jax
import numpy as np

import sundman
from sundman import likelihoods, metrics, models, priors


def run(name: str, split: int) -> dict[str, float]:
    """Test log-likelihood, RMSE and coverage of 90% intervals, in the target's own units."""
    data = sundman.data.uci(name, split)
    posterior = sundman.Posterior(
        models.mlp_apply,
        likelihood=likelihoods.gaussian(log_noise_prior=(-2.0, 2.0)),  # a learned noise level
        prior={"kernel": priors.gaussian(1.41, fan_in="leading"), "bias": priors.gaussian(1.0)},
        data=tuple(data.train),
    )
    sampler = sundman.samadams(
        1e-3, gamma=5.0, alpha=10.0, m=0.1, M=10.0, psi="scale_free", omega=3e5, lag="guarded"
    )
    draws = sundman.sample(
        posterior,
        sampler,
        init=models.mlp_init(jax.random.key(split), [data.train.x.shape[1], 50, 1]),
        key=jax.random.key(100 + split),
        chains=2,
        burn_in=30_000,
        steps=40_000,
        thin=200,
    )
    found = sundman.predict(draws, posterior, data.test.x)
    truth = np.ravel(data.test.y) * data.y_scale + data.y_mean
    mixture = sundman.NormalMixture(
        mean=found.mean[..., 0] * data.y_scale + data.y_mean,
        sd=found.sd[..., 0] * data.y_scale,
        weight=found.weight,
    )
    return {
        "log_likelihood": -float(metrics.normal_mixture_nll(*mixture, truth)),
        "rmse": float(metrics.rmse(mixture.centre, truth)),
        "coverage": float(metrics.coverage(*mixture.interval(0.9), truth)),
        "points": len(truth),
    }


def main() -> None:
    """Run the splits and print each data set's averages with their standard errors."""
    parser = argparse.ArgumentParser(description="UCI regression with calibrated intervals")
    parser.add_argument("names", nargs="*", default=["yacht"])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    stored = options.output and options.output.exists()
    table = json.loads(options.output.read_text()) if stored else {}
    for name in options.names:
        for split in range(options.splits):
            row = f"{name}/{split}"
            if row not in table:
                table[row] = run(name, split)
                if options.output:
                    options.output.write_text(json.dumps(table, indent=1))
        rows = [table[f"{name}/{split}"] for split in range(options.splits)]
        for measure in ("log_likelihood", "rmse", "coverage"):
            values = np.array([row[measure] for row in rows])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            print(f"{name:10s} {measure:15s} {values.mean():8.4f} ± {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
