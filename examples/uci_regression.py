"""UCI regression with calibrated intervals: python examples/uci_regression.py yacht 5."""

import sys

import jax
import numpy as np

import sundman
from sundman import likelihoods, metrics, models, priors


def run(name: str, split: int, directory: str | None = None) -> tuple[float, float, float]:
    """Test log-likelihood, RMSE and coverage of 90% intervals, in the target's own units."""
    data = sundman.data.uci(name, split, directory)
    posterior = sundman.Posterior(
        models.mlp_apply,
        likelihood=likelihoods.gaussian(),  # the noise level is learned with the weights
        prior={"kernel": priors.gaussian(1.41, fan_in="leading"), "bias": priors.gaussian(1.0)},
        data=(data.train.x, data.train.y),
    )
    sizes = [data.train.x.shape[1], 50, 1]
    draws = sundman.sample(
        posterior,
        sundman.samadams(3e-3, gamma=5.0, alpha=30.0, m=0.2, M=5.0, omega=1e4),
        init=models.mlp_init(jax.random.key(split), sizes),
        key=jax.random.key(100 + split),
        chains=2,
        burn_in=20_000,
        steps=40_000,
        thin=200,
    )
    found = sundman.predict(draws, posterior, data.test.x)
    y = data.test.y * data.y_scale + data.y_mean
    mean, sd = (part[..., 0] * data.y_scale for part in (found.mean, found.sd))
    mean = mean + data.y_mean
    mixture = sundman.NormalMixture(mean, sd, found.weight)
    lower, upper = mixture.interval(0.9)
    return (
        -float(metrics.normal_mixture_nll(mean, sd, found.weight, y)),
        float(metrics.rmse(mixture.centre, y)),
        float(metrics.coverage(lower, upper, y)),
    )


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "yacht"
    splits = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    rows = np.array([run(name, split) for split in range(splits)])
    errors = rows.std(axis=0, ddof=1) / np.sqrt(splits) if splits > 1 else np.zeros(3)
    for label, value, error in zip(
        ("log-likelihood", "RMSE", "coverage of 90%"), rows.mean(axis=0), errors, strict=True
    ):
        print(f"{name:20s} {label:16s} {value:8.4f} ± {error:.4f}")
