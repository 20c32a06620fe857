"""Networks without settings, against the true posterior predictive and twelve steps of SGLD.

    python -m studies.networks.auto_networks --reference FILE.npz [--batches | --command]
    SUNDMAN_DATA_DIR=... python -m studies.networks.auto_networks --mnist

The network of ``sundman bnn digits``, 64-50-50-10, with the Gaussian prior and the horseshoe. The
self-tuned run has batches of 32 rows, of 360, as the command takes them (a quarter of the rows),
and all rows, as ``sample`` without ``batch_size``; SGLD twelve steps with 32 rows and some with
360. What is in the file is not run again. The reference is the predictive by full-batch HMC with a
Metropolis test (arrays ``gaussian_mean`` and ``horseshoe_mean``, 359 x 10). Four chains; the same
number of gradients for all, the warm-up of the self-tuned run included; SGLD keeps its second half.
TV is the mean over test rows of half the L1 distance of class probabilities; stiff T is E|grad U|^2
/ E[Laplacian U] over the last layer, T for the exact law. Written to ``results/auto-
networks.json``; with ``--batches`` self-tuned runs of 10,000 steps at 4 sizes of the minibatch
under the Gaussian prior, two seeds each, to ``auto-batches.json`` there; with ``--command`` four
seeds of ``sundman bnn digits`` as it is, to ``auto-command.json``.

With ``--mnist`` the network is 784-400-400-10, whose true predictive nobody knows, one chain with
batches of 100 rows and one of 500, as the command takes them: the NLL of the test rows and the
temperature of the last layer at eight of the draws, for the self-tuned run and for SGLD with as
many gradients, to ``auto-mnist.json``.
``--part auto`` or ``--part sgld`` runs one of the two.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from studies.report import settings
from studies.sa_sgld import network
from studies.sa_sgld.digits_posterior import BATCH, SIZES, at_each, last_layer, posterior
from sundman import metrics, models

RESULTS = Path(__file__).parent / "results"
CHAINS, GRADIENTS, THIN = 4, 24_000, 100
BATCHES, BATCH_STEPS = (32, 128, 360, None), 10_000
COMMAND_SEEDS = range(4)
DEFAULT_BATCH, GRID_OF_DEFAULT = 360, (0.05, 0.1, 0.2, 0.3)
MNIST_SIZES, MNIST_BATCHES, STIFF_DRAWS = (784, 400, 400, 10), (100, 500), 8
MNIST_STEPS, MNIST_GRADIENTS = 9_000, 16_000  # after the warm-up, which takes up to 7,000; of SGLD
MNIST_GRID = (0.003, 0.006, 0.012, 0.025, 0.04, 0.06, 0.08, 0.1, 0.14, 0.2, 0.3, 0.45)
GRID = (0.002, 0.004, 0.008, 0.0125, 0.018, 0.025, 0.036, 0.05, 0.07, 0.1, 0.14, 0.2)


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
        return {
            "p": jax.nn.softmax(models.mlp_apply(params, x)),
            "stiff": last_layer(target, position),
        }

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
        return metrics.total_variation(other, reference)

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
    squares, laplacian = np.asarray(draws.values["stiff"], np.float64).sum((0, 1))
    row["stiff_temperature"] = float(squares / laplacian)
    if draws.tuning is not None:
        row["why"] = draws.tuning.why
    print(
        f"{name:9s} {row['sampler']:12s} {row['gradients']:,} gradients: TV {row['tv']:.4f} (one "
        f"chain {row['tv_one_chain']:.4f}), NLL {row['nll']:.4f}, stiff T "
        f"{row['stiff_temperature']:.2f}, {seconds:.0f} s",
        flush=True,
    )
    return row


def run_mnist(step: float | None, batch: int) -> dict[str, Any]:
    """One chain on MNIST: self-tuned, or SGLD at a learning rate."""
    data = sundman.data.mnist()
    target = network.posterior_of("gaussian", (), data)
    began = time.perf_counter()
    draws = sundman.sample(
        target,
        None if step is None else sundman.sgld(sundman.LearningRate(step)),
        init=models.mlp_init(jax.random.key(5), MNIST_SIZES),
        key=jax.random.key(1),
        chains=1,
        burn_in=0 if step is None else MNIST_GRADIENTS // 2,
        steps=MNIST_STEPS if step is None else MNIST_GRADIENTS // 2,
        thin=THIN,
        batch_size=batch,
        progress=False,
    )
    row: dict[str, Any] = {
        "prior": "gaussian",
        "sampler": "auto" if step is None else f"sgld {step:g}",
        "batch": batch,
        "gradients": MNIST_STEPS + draws.tuning.gradients if draws.tuning else MNIST_GRADIENTS,
        "seconds": time.perf_counter() - began,
        "verdict": str(draws.verdict),
    }
    x, y = jnp.asarray(data.test.x), np.asarray(data.test.y)
    predict = jax.jit(lambda positions: jax.lax.map(lambda p: target.predict(p, x), positions))
    stiff = jax.jit(lambda positions: jax.lax.map(lambda p: last_layer(target, p), positions))
    weight = np.asarray(draws.weight, np.float64)
    p = (weight[..., None, None] * at_each(predict, draws.values)).sum((0, 1)) / weight.sum()
    some = np.linspace(0, weight.shape[1] - 1, STIFF_DRAWS).astype(int)
    layer = at_each(stiff, jax.tree.map(lambda leaf: np.asarray(leaf)[:, some], draws.values))
    squares, laplacian = layer.sum((0, 1))
    U = np.asarray(draws.stats["potential"], np.float64)
    row |= {
        "nll": float(-np.log(p[np.arange(len(y)), y]).mean()),
        "accuracy": float((p.argmax(1) == y).mean()),
        "stiff_temperature": float(squares / laplacian),
        "stiff_by_draw": (layer[0, :, 0] / layer[0, :, 1]).tolist(),
        "U": [float(part.mean()) for part in np.array_split(U, 4, axis=1)],
    }
    if draws.tuning is not None:
        row["why"] = draws.tuning.why
    print({name: value for name, value in row.items() if name != "why"}, flush=True)
    return row


def run_command(seed: int, reference: np.ndarray) -> dict[str, Any]:
    """``sundman bnn digits`` with a seed, without any other setting."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "digits"
        words = ["bnn", "digits", "--seed", str(seed), "--output", str(output)]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "sundman.cli", *words], check=True)
        seconds = time.perf_counter() - began
        results = json.loads((output / "results.json").read_text())
        with (output / "test-predictions.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    p = np.array([[float(row[f"p_{k}"]) for k in range(reference.shape[1])] for row in rows])
    name = f"seed-{seed}"
    return {
        "seed": seed,
        "tv": metrics.total_variation(p, reference),
        "scores": results["scores"][name],
        "temperature": results["temperature"][name],
        "tuning": results["tuning"][name],
        "verdict": results["verdict"][name],
        "seconds": seconds,
    }


def _case(row: dict[str, Any]) -> tuple[str, str, int | None, int]:
    return row["prior"], row["sampler"], row.get("batch", BATCH), row.get("seed", 1)


def mnist(part: str | None) -> None:
    """The self-tuned run and twelve of SGLD, Gaussian prior."""
    path = RESULTS / "auto-mnist.json"
    cases: dict[str, list[tuple[float | None, int]]] = {
        "auto": [(None, batch) for batch in MNIST_BATCHES],
        "sgld": [(step, batch) for batch in MNIST_BATCHES for step in reversed(MNIST_GRID)],
    }
    for step, batch in cases[part] if part else itertools.chain(*cases.values()):
        rows = json.loads(path.read_text())["rows"] if path.exists() else []
        name = "auto" if step is None else f"sgld {step:g}"
        if any((row["sampler"], row["batch"]) == (name, batch) for row in rows):
            continue
        row = run_mnist(step, batch)
        rows = json.loads(path.read_text())["rows"] if path.exists() else []  # the other part's
        result = {
            "command": "python -m studies.networks.auto_networks --mnist",
            "settings": settings(),
            "rows": [*rows, row],
        }
        path.write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    """Both priors, or several sizes of the minibatch, or the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--batches", action="store_true")
    which.add_argument("--command", action="store_true")
    which.add_argument("--mnist", action="store_true")
    parser.add_argument("--part", choices=("auto", "sgld"))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.mnist:
        mnist(asked.part)
        return
    if asked.reference is None:
        parser.error("--reference is needed: the file of the true predictive")
    reference = np.load(asked.reference)
    command = "python -m studies.networks.auto_networks --reference reference_digits.npz"
    if asked.batches:
        command, name = f"{command} --batches", "auto-batches.json"
        rows = [
            run("gaussian", None, reference["gaussian_mean"], batch, BATCH_STEPS, seed)
            for seed in (1, 2)
            for batch in BATCHES
        ]
    elif asked.command:
        command, name = f"{command} --command", "auto-command.json"
        rows = [run_command(seed, reference["gaussian_mean"]) for seed in COMMAND_SEEDS]
    else:
        name = "auto-networks.json"
        rows = json.loads((RESULTS / name).read_text())["rows"]
        done = {_case(row) for row in rows}
        for prior in ("gaussian", "horseshoe"):
            cases = [(None, BATCH, 1), *((None, DEFAULT_BATCH, seed) for seed in (1, 2))]
            cases += [(None, None, 1), *((step, BATCH, 1) for step in GRID)]
            cases += [(step, DEFAULT_BATCH, 1) for step in GRID_OF_DEFAULT]
            for step, batch, seed in cases:
                sampler = "auto" if step is None else f"sgld {step:g}"
                if (prior, sampler, batch, seed) not in done:
                    rows.append(run(prior, step, reference[f"{prior}_mean"], batch, seed=seed))
                    result = {"command": command, "settings": settings(), "rows": rows}
                    (RESULTS / name).write_text(json.dumps(result, indent=1) + "\n")
    result = {"command": command, "settings": settings(), "rows": rows}
    (RESULTS / name).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
