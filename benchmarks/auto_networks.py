"""Networks without settings, against the true posterior predictive and twelve steps of SGLD.

    python benchmarks/auto_networks.py --reference reference_digits.npz [--batches]

The network of ``sundman bnn digits``, 64-50-50-10, with the Gaussian prior and the horseshoe, batch
32. The reference is the predictive by full-batch HMC with a Metropolis test (arrays
``gaussian_mean`` and ``horseshoe_mean``, 359 x 10). Four chains; the same number of gradients for
all, the warm-up of the self-tuned run included; SGLD keeps its second half. TV is the mean over
test rows of half the L1 distance of class probabilities; stiff T is E|grad U|^2 / E[Laplacian U]
over the last layer (Gaussian prior), T for the exact law. Written to
``benchmarks/results/auto-networks.json``; with ``--batches`` self-tuned runs of 10,000 steps at 4
sizes of the minibatch under the Gaussian prior, two seeds each, to ``auto-batches.json`` there.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from report import settings

import sundman
from sundman import likelihoods, models, priors

RESULTS = Path(__file__).parent / "results"
SIZES, CHAINS, BATCH, GRADIENTS, THIN = (64, 50, 50, 10), 4, 32, 24_000, 100
BATCHES, BATCH_STEPS = (32, 128, 360, None), 10_000
GRID = (0.002, 0.004, 0.008, 0.0125, 0.018, 0.025, 0.036, 0.05, 0.07, 0.1, 0.14, 0.2)


def posterior(name: str) -> sundman.Posterior:
    """The posterior of ``sundman bnn digits``."""
    data = sundman.data.digits()
    rules = {
        "kernel": priors.named(name, scale=1.41, fan_in="leading"),
        "bias": priors.named(name, scale=1.0, fan_in=None),
    }
    return sundman.Posterior(
        models.mlp_apply,
        likelihood=likelihoods.categorical(),
        prior=rules,
        data=tuple(map(np.asarray, data.train)),
    )


def last_layer(posterior: sundman.Posterior, params: Any, position: Any) -> jax.Array:
    """|grad U|^2 and the Laplacian of U over the last layer, with a Gaussian prior."""
    slope = jax.grad(posterior.potential)(position)["layer_2"]
    data = posterior.data
    hidden = jnp.asarray(data.x)  # type: ignore[union-attr]
    for layer in ("layer_0", "layer_1"):
        hidden = jax.nn.relu(hidden @ params[layer]["kernel"] + params[layer]["bias"])
    logits = hidden @ params["layer_2"]["kernel"] + params["layer_2"]["bias"]
    p = jax.nn.softmax(logits)
    of_data = jnp.sum((jnp.sum(hidden**2, -1) + 1.0) * (1.0 - jnp.sum(p * p, -1)))
    squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(slope))
    return jnp.stack([squares, of_data + 500 * 50 / 1.41**2 + 10])


def run(
    name: str,
    step: float | None,
    reference: np.ndarray,
    batch: int | None = BATCH,
    steps: int = 18_000,
    seed: int = 1,
) -> dict[str, Any]:
    """One run: a self-tuned one of so many steps, or SGLD at a learning rate."""
    target = posterior(name)
    test = sundman.data.digits().test
    x, y = jnp.asarray(test.x), np.asarray(test.y)

    def keep(position: Any) -> dict[str, jax.Array]:
        params = getattr(position, "params", position)
        kept = {"p": jax.nn.softmax(models.mlp_apply(params, x))}
        if name == "gaussian":
            kept["stiff"] = last_layer(target, params, position)
        return kept

    keys = jax.random.split(jax.random.key(4 + seed), CHAINS)
    sampler = None if step is None else sundman.sgld(sundman.LearningRate(step))
    began = time.perf_counter()
    draws = sundman.sample(
        target,
        sampler,
        init=jax.vmap(lambda key: models.mlp_init(key, SIZES))(keys),
        per_chain=True,
        chains=CHAINS,
        key=jax.random.key(seed),
        burn_in=0 if step is None else GRADIENTS // 2,
        steps=steps if step is None else GRADIENTS // 2,
        thin=THIN,
        batch_size=batch,
        collect=keep,
        progress=False,
    )
    seconds = time.perf_counter() - began
    weight = np.asarray(draws.weight, np.float64)[..., None, None]
    p = np.asarray(draws.values["p"], np.float64)
    by_chain = (weight * p).sum(1) / weight.sum(1)
    mean = (weight * p).sum((0, 1)) / weight.sum((0, 1))

    def distance(other: np.ndarray) -> float:
        return float(0.5 * np.abs(other - reference).sum(-1).mean())

    U = np.asarray(draws.stats["potential"], np.float64)
    row = {
        "prior": name,
        "sampler": "auto" if step is None else f"sgld {step:g}",
        "batch": batch,
        "seed": seed,
        "gradients": GRADIENTS if draws.tuning is None else steps + draws.tuning.gradients,
        "tv": distance(mean),
        "tv_one_chain": float(np.mean([distance(chain) for chain in by_chain])),
        "nll": float(-np.log(mean[np.arange(len(y)), y]).mean()),
        "seconds": seconds,
        "U": [float(U[:, : len(U[0]) // 4].mean()), float(U[:, -len(U[0]) // 4 :].mean())],
        "verdict": str(draws.verdict),
    }
    if name == "gaussian":
        squares, laplacian = np.asarray(draws.values["stiff"], np.float64).sum((0, 1))
        row["stiff_temperature"] = float(squares / laplacian)
    if draws.tuning is not None:
        row["why"] = draws.tuning.why
    stiff = f", stiff T {row['stiff_temperature']:.2f}" if name == "gaussian" else ""
    print(
        f"{name:9s} {row['sampler']:12s} {row['gradients']:,} gradients: TV {row['tv']:.4f} (one "
        f"chain {row['tv_one_chain']:.4f}), NLL {row['nll']:.4f}{stiff}, {seconds:.0f} s",
        flush=True,
    )
    return row


def main() -> None:
    """Both priors, or several sizes of the minibatch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, required=True)
    parser.add_argument("--batches", action="store_true")
    asked = parser.parse_args()
    reference = np.load(asked.reference)
    warnings.simplefilter("ignore")
    command = "python benchmarks/auto_networks.py --reference reference_digits.npz"
    if asked.batches:
        command, name = f"{command} --batches", "auto-batches.json"
        rows = [
            run("gaussian", None, reference["gaussian_mean"], batch, BATCH_STEPS, seed)
            for seed in (1, 2)
            for batch in BATCHES
        ]
    else:
        name = "auto-networks.json"
        rows = [
            run(prior, step, reference[f"{prior}_mean"])
            for prior in ("gaussian", "horseshoe")
            for step in (None, *GRID)
        ]
    result = {"command": command, "settings": settings(), "rows": rows}
    (RESULTS / name).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
