"""A logistic regression with a million rows, without a setting.

    python examples/many_rows.py
    python examples/many_rows.py --rows 20000 --steps 2000

The minibatches are asked only for what has changed since a centre near the mode, which the run
finds by itself: a draw costs a few hundred rows, whatever their number.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import sundman

COLUMNS = 20


def made(rows: int) -> tuple[sundman.Posterior, np.ndarray]:
    """A posterior of data that are made, and the coefficients they are made with."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, COLUMNS)).astype(np.float32)
    truth = 0.3 * rng.normal(size=COLUMNS)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ truth))).astype(np.int32)
    likelihood = sundman.likelihoods.bernoulli()
    return sundman.Posterior(lambda w, x: x @ w, data=(x, y), likelihood=likelihood), truth


def main(rows: int = 1_000_000, steps: int = 20_000) -> sundman.Draws:
    """Sample, and say how far the draws lie from the coefficients."""
    posterior, truth = made(rows)
    start = time.perf_counter()
    draws = sundman.sample(
        posterior, init=jnp.zeros(COLUMNS), key=jax.random.key(0), steps=steps, progress=False
    )
    seconds = time.perf_counter() - start
    print(draws.tuning)
    print(draws.verdict)
    off = np.abs(np.asarray(draws.mean().value) - truth) / np.sqrt(draws.variance())
    ess = float(np.min(draws.ess()))
    print(f"{seconds:.1f} s, {ess:,.0f} effective draws or more from {rows:,} rows")
    print(f"the coefficients lie {off.mean():.2f} posterior sd from the means on average")
    return draws


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=20_000)
    asked = parser.parse_args()
    main(asked.rows, asked.steps)
