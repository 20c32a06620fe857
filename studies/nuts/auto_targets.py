"""Runs without settings: nine test densities, first steps over eight decades, minibatch noise.

    python -m studies.nuts.auto_targets
    python -m studies.nuts.auto_targets --densities    # without first steps and minibatches

Bias of an observable in % of its truth (of its standard deviation where the truth is near 0), its
standard error from the spread of the chains, and effective draws per 1,000 gradients of the run
(the warm-up is stated apart). The minibatch part holds a self-tuned run against twelve steps of
SGLD from the same start; SGLD's best is chosen with the truth. Written to
``results/auto-targets.json``.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from studies.report import settings
from sundman import likelihoods, priors, targets

ROOT = Path(__file__).parents[2]
RESULT = Path(__file__).parent / "results" / "auto-targets.json"
REFERENCE = json.loads((ROOT / "tests" / "law" / "logistic_reference.json").read_text())
STEPS, THIN = 20_000, 4
DECADES = (1e-4, 1e-2, 1e2, 1e4)
BATCHES = (190, 57, 19)
GRID = np.geomspace(2e-5, 4e-2, 12)


def rotated() -> targets.Target:
    """A Gaussian of condition 1e4 in 50 dimensions, turned at random."""
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 50)))
    return targets.gaussian(covariance=(turn * np.geomspace(1, 1e-4, 50)) @ turn.T)


PROBLEMS: dict[str, tuple[Callable[[], targets.Target], tuple[str, ...]]] = {
    "star": (targets.star, ("r2", "x2y2", "outer")),
    "muller-brown": (
        lambda: targets.muller_brown(temperature=2.0),
        ("U", "right", "top", "virial"),
    ),
    "banana": (targets.banana, ("x2", "y2", "x2y")),
    "gaussian": (lambda: targets.gaussian(100, 1e4), ("softest", "stiffest", "r2")),
    "rotated": (rotated, ("softest", "stiffest", "r2")),
    "quartic": (targets.quartic, ("x2", "x4")),
    "funnel": (lambda: targets.funnel(10, 3.0), ("v", "v2", "neck")),
    "mixture": (targets.mixture, ("x", "y2", "right")),
}


def scores(
    values: np.ndarray, weight: np.ndarray, truth: np.ndarray, sd: np.ndarray, steps: int
) -> list[tuple[float, float, float]]:
    """Bias and its error in %, and effective draws per 1,000 steps, of each observable."""
    weight, total = weight[..., None], weight.sum()
    mean = (weight * values).sum((0, 1)) / total
    by_chain = weight.sum(1)
    off = (weight * values).sum(1) - by_chain * mean
    error = off.std(0, ddof=1) * np.sqrt(len(values)) / total
    scale = np.where(np.abs(truth) > 0.05 * sd, np.abs(truth), sd)
    draws = (sd / error) ** 2 / (len(values) * steps) * 1000
    return [
        (100 * float(b), 100 * float(e), float(n))
        for b, e, n in zip((mean - truth) / scale, error / scale, draws, strict=True)
    ]


def on_target(name: str, chains: int, repeats: int) -> dict[str, Any]:
    """Several runs of so many chains, each with its own warm-up."""
    make, names = PROBLEMS[name]
    target = make()
    assert target.exact is not None

    def observe(x: jax.Array) -> jax.Array:
        return jnp.stack([jnp.float32(target.observables[each](x)) for each in names])

    exact = jax.jit(jax.vmap(observe))(target.exact(jax.random.key(9), 200_000))
    sd = np.asarray(exact, np.float64).std(0)
    truth = np.array([float(target.truth[each]) for each in names])
    began, runs = time.perf_counter(), []
    for repeat in range(repeats):
        draws = sundman.sample(
            target,
            key=jax.random.key(100 + repeat),
            chains=chains,
            steps=STEPS,
            thin=THIN,
            collect=observe,
            stats=(),
            progress=False,
        )
        runs.append(draws)
    values, weight = (
        np.concatenate([np.asarray(part, np.float64) for part in parts])
        for parts in zip(*((d.values, d.weight) for d in runs), strict=True)
    )
    found = scores(values, weight, truth, sd, STEPS)
    steps = [draws.tuning.chosen.h for draws in runs if draws.tuning is not None]
    row = {
        "target": name,
        "chains": chains,
        "runs": repeats,
        "h": [min(steps), max(steps)],
        "warm_up": max(draws.tuning.gradients for draws in runs if draws.tuning is not None),
        "lost": int(sum(draws.diverged.sum() for draws in runs)),
        "seconds": time.perf_counter() - began,
        "observables": {n: f for n, f in zip(names, found, strict=True)},
    }
    texts = "  ".join(
        f"{n} {b:+.1f}±{e:.1f} [{k:.1f}]" for n, (b, e, k) in row["observables"].items()
    )
    print(
        f"{name:13s} {chains:3d} chains x {repeats:2d}: h {min(steps):.3f}-{max(steps):.3f}, "
        f"warm-up {row['warm_up']:,}, lost {row['lost']} | {texts}",
        flush=True,
    )
    return row


def first_steps(name: str) -> dict[str, Any]:
    """h from first steps over eight decades."""
    found = []
    for first in DECADES:
        draws = sundman.sample(
            PROBLEMS[name][0](),
            sundman.auto(first_step=first),
            key=jax.random.key(1),
            chains=64,
            steps=40,
            stats=(),
        )
        assert draws.tuning is not None
        found.append(draws.tuning.chosen.h)
    print(f"{name:13s} first step 1e-4 ... 1e4: h", *(f"{h:.3f}" for h in found), flush=True)
    return {"target": name, "first": DECADES, "h": found, "ratio": max(found) / min(found)}


def logistic() -> sundman.Posterior:
    """Breast cancer, ten standardised features and an intercept."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x = x[:, :10]
    x = np.c_[(x - x.mean(0)) / x.std(0), np.ones(len(y))].astype(np.float32)
    return sundman.Posterior(
        lambda w, x: x @ w,
        data=(x, y.astype(np.int32)),
        likelihood=likelihoods.bernoulli(),
        prior=priors.gaussian(1.0),
    )


def noisy(batch: int, sampler: sundman.Sampler | None, chains: int = 32) -> dict[str, Any]:
    """Variances and means of the coefficients against a long NUTS run."""
    mean, sd = (np.asarray(REFERENCE[name]) for name in ("mean", "sd"))
    draws = sundman.sample(
        logistic(),
        sampler,
        init=jnp.zeros(11),
        key=jax.random.key(3),
        chains=chains,
        burn_in=0 if sampler is None else 2000,
        steps=STEPS,
        thin=THIN,
        batch_size=batch,
        stats=(),
        progress=False,
    )
    z = (np.asarray(draws.values, np.float64) - mean) / sd
    weight = np.asarray(draws.weight, np.float64)
    ones, zeros = np.ones(11), np.zeros(11)
    squares = scores(z**2, weight, ones, np.sqrt(2.0) * ones, STEPS)
    means = scores(z, weight, zeros, ones, STEPS)
    average = scores(
        (z**2).mean(-1, keepdims=True), weight, ones[:1], np.sqrt(2 / 11) * ones[:1], STEPS
    )[0]
    worst = max(squares, key=lambda found: abs(found[0]))
    tuning = draws.tuning
    row = {
        "batch": batch,
        "sampler": "auto" if sampler is None else float(sampler.settings["h"]),
        "mean_variance": average,
        "worst_variance": worst,
        "least_draws_of_a_mean": min(found[2] for found in means),
        "warm_up": 2000 if tuning is None else tuning.gradients,
    }
    if tuning is not None:
        row["noise_error"] = _noise_error(batch, draws)
    label = row["sampler"] if tuning is not None else f"sgld {row['sampler']:.1e}"
    print(
        f"batch {batch:3d} {label:13s} mean variance {average[0]:+.1f}±{average[1]:.1f} "
        f"[{average[2]:.1f}], worst {worst[0]:+.1f}±{worst[1]:.1f}, least draws of a mean "
        f"{row['least_draws_of_a_mean']:.2f} per 1000"
        + (f", noise off by {100 * row['noise_error']:.1f}%" if tuning is not None else ""),
        flush=True,
    )
    return row


def _noise_error(batch: int, draws: sundman.Draws) -> float:
    """The trace of the noise taken out over the exact one, averaged over draws, less 1."""
    data, chosen = logistic().data, draws.tuning.chosen  # type: ignore[union-attr]
    x, y = np.asarray(data.x, np.float64), np.asarray(data.y)
    scale = np.asarray(chosen.scale, np.float64)
    traces = []
    for w in np.asarray(draws.values, np.float64)[:, :: len(draws) // 10].reshape(-1, 11):
        rows = x @ scale * (1 / (1 + np.exp(-x @ w)) - y)[:, None]
        traces.append(len(y) ** 2 / batch * np.trace(np.cov(rows.T, bias=True)))
    return float(np.sum(np.asarray(chosen.sigma, np.float64) ** 2) / np.mean(traces) - 1)


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two densities and one batch size")
    parser.add_argument("--densities", action="store_true", help="renew these rows alone")
    options = parser.parse_args()
    quick = options.quick
    warnings.simplefilter("ignore")
    names = ["star", "gaussian"] if quick else list(PROBLEMS)
    sizes = ((64, 1),) if quick else ((64, 3), (4, 16))
    rows = [on_target(name, *size) for name in names for size in sizes]
    if options.densities:
        result = json.loads(RESULT.read_text()) | {"targets": rows, "settings": settings()}
        result["settings"]["only"] = "the densities; the rest is older"
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
        return
    firsts = [first_steps(name) for name in names]
    minibatches = [
        noisy(batch, sampler)
        for batch in (BATCHES[1:2] if quick else BATCHES)
        for sampler in (None, *(sundman.sgld(float(h)) for h in GRID))
    ]
    result = {
        "command": "python -m studies.nuts.auto_targets",
        "settings": settings(),
        "targets": rows,
        "first_steps": firsts,
        "minibatches": minibatches,
    }
    if not quick:
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
