"""No sampler, no step, no burn-in: a regression in raw units that tunes itself.

Weights of 200 people, from their height in metres, their age in years and a column that says
nothing, in millions. No step suits all four coefficients: their posterior standard deviations span
seven decades. ``sample`` without a sampler finds coordinates in which they are alike, and the step.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import sundman


def posterior() -> sundman.Posterior:
    """200 rows in raw units; the prior of each coefficient is wide."""
    rng = np.random.default_rng(0)
    height, age = rng.normal(1.75, 0.1, 200), rng.uniform(20, 70, 200)
    nothing = rng.normal(0.0, 1e6, 200)
    weight = 80.0 + 90.0 * (height - 1.75) + 0.2 * (age - 45) + rng.normal(0.0, 8.0, 200)
    x = np.stack([np.ones(200), height - 1.75, age - 45, nothing], axis=1).astype(np.float32)
    return sundman.Posterior(
        lambda w, x: x @ w,
        data=(x, weight.astype(np.float32)),
        likelihood=sundman.likelihoods.gaussian(8.0),
        prior=sundman.priors.gaussian(1000.0),
    )


def main(steps: int = 10_000) -> sundman.Draws:
    """Sample, print what was found, and repeat it with everything frozen."""
    target, init = posterior(), jnp.zeros(4)
    draws = sundman.sample(target, init=init, key=jax.random.key(0), chains=4, steps=steps)
    print(draws.tuning)  # what was chosen, and why
    print(draws.verdict)  # whether it can be trusted
    value, error = draws.mean()
    names = ("at 1.75 m and 45 years", "per metre", "per year", "per unit of nothing")
    for name, mean, off in zip(names, value, error, strict=True):
        print(f"{mean:12.4g} ± {off:.1g} kg {name}")
    print(draws.tuning.code)  # the sampler to paste, with all its numbers
    again = sundman.sample(
        target, draws.tuning.sampler, init=value, key=jax.random.key(1), chains=4, steps=steps
    )
    print("Frozen, from another key:", again.mean().value)
    return draws


if __name__ == "__main__":
    main()
