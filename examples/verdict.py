"""Can these draws be trusted? What the verdict at the end of a run says, and what to do about it.

A regression in raw units: one feature is five times as large as the others. SGLD with a step
that suits the others is too hot along that one direction, and the mean temperature hides it.
"""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np

import sundman


def regression() -> sundman.Posterior:
    """500 rows of 40 features, the last of them in other units."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 40)).astype(np.float32)
    x[:, -1] *= 5.0
    y = (x[:, :1] + rng.normal(size=(500, 1))).astype(np.float32)
    likelihood = sundman.likelihoods.gaussian(1.0)
    return sundman.Posterior(lambda w, x: (x @ w)[:, None], data=(x, y), likelihood=likelihood)


def main(steps: int = 40_000) -> dict[float, sundman.Verdict]:
    """Run two steps and print both verdicts."""
    posterior = regression()
    verdicts = {}
    for h in (8e-5, 1e-5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sundman.TrustWarning)  # printed below instead
            draws = sundman.sample(
                posterior,
                sundman.sgld(h),
                key=jax.random.key(0),
                init=jnp.zeros(40),
                chains=4,
                burn_in=2_000,
                steps=steps,
                thin=20,
            )
        verdicts[h] = draws.verdict
        print(f"h = {h:g}: {draws.verdict}")
    return verdicts


if __name__ == "__main__":
    main()
