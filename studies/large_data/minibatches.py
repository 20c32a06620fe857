"""The run that failed silently: plain minibatches of 1,000 of 200,000 rows, held to the truth.

    python -m studies.large_data.minibatches          # seeds 1 to 10 that are missing
    python -m studies.large_data.minibatches --table

With the control variate switched off the noise of a minibatch is 200 times the posterior's own
size, and 60,000 steps are few: some hundred effective draws. No verdict may be good with a
direction off by more than 30% in variance. Directions are the axes of the true covariance; the
worst ones of the draws are chosen by chance, and stand beside those of equally many exact draws.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings

import jax
import numpy as np

import sundman
from studies.large_data import problems, scores, truth

NAME, ROWS, STEPS, SEEDS = "logistic-20-standard-2e5", 1_000, 60_000, range(1, 11)
OFF = 0.3
FOLDER = truth.RESULTS / "minibatches"


def run(seed: int) -> dict[str, object]:
    """One run, its verdict, and the variances along the axes of the true covariance's ellipsoid."""
    problem = problems.make(NAME)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.TrustWarning)
        draws = sundman.sample(
            problem.posterior(), init=problem.init, key=jax.random.key(seed), steps=STEPS,
            batch_size=ROWS, gradient="minibatch", progress=False,
        )  # fmt: skip
    seconds = time.perf_counter() - began
    known = truth.read(NAME)
    x = np.asarray(draws.position, np.float64)
    found = scores.score(x, np.asarray(draws.weight, np.float64), known)
    _, axes = np.linalg.eigh(known.covariance)
    along = x.reshape(-1, len(axes)) @ axes
    ratios = along.var(axis=0) / np.diag(axes.T @ known.covariance @ axes)
    return {
        "seed": seed,
        **found,
        "axes": [float(ratios.min()), float(ratios.max())],
        "verdict": draws.verdict.short,
        "silent": bool(draws.verdict.ok and np.abs(ratios - 1).max() > OFF),
        "text": str(draws.verdict),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if asked.table:
        print(
            "| seed | along the true axes | worst directions | of equally many exact draws |"
            " verdict |\n|---|---|---|---|---|"
        )
    for seed in SEEDS:
        path = FOLDER / f"seed-{seed}.json"
        if not asked.table and not path.exists():
            path.write_text(json.dumps(run(seed), indent=1) + "\n")
        if path.exists():
            row = json.loads(path.read_text())
            ends = (row[name] for name in ("axes", "eigenvalues", "exact_eigenvalues"))
            columns = " | ".join(f"{low:.2f} to {high:.2f}" for low, high in ends)
            print(f"| {seed} | {columns} | {row['verdict']} |", flush=True)


if __name__ == "__main__":
    main()
