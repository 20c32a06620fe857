"""How well can a fully connected network predict MNIST, sampled at T = 1 under the horseshoe?

    SUNDMAN_DATA_DIR=... python benchmarks/record.py [--width 400] [--only sgld psgld]

784-w-w-10, batch 100, the horseshoe as in the code behind the paper's table. Every sampler has four
steps; one chain of each, 40 epochs of which 20 are kept, is scored on the 10,000 *validation* rows,
and nothing else is looked at. Then each sampler runs at its best step with four chains of 100
epochs, half of which are kept, from three seeds for the best sampler and one for the others: as
many gradients as the 400 epochs of the published runs. Only these are scored on the test rows.

A good score is no proof of good sampling: a sampler whose stiff directions are too hot can have one
by a useful error. How far each is from the true posterior of a small network is in
docs/network-evidence.md.

Every run is kept in ``benchmarks/results/record.json`` when it is done, and is not run again.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from report import settings

import sundman
from sundman import LearningRate, metrics, models
from sundman._types import PyTree
from sundman.clocks import SundmanSettings
from sundman.data.base import Dataset
from sundman.draws.trust import AllDivergedError
from sundman.paper.network import BATCH, CLOCK, posterior_of

RESULT = Path(__file__).parent / "results" / "record.json"
CHAINS, EPOCHS, SEEDS, TRIAL_EPOCHS, THIN = 4, 100, 3, 40, 100
GAMMA = 20.0
WITH_CLOCK: SundmanSettings = {**CLOCK, "r": 0.25}
Build = Callable[[float], sundman.Sampler]
SAMPLERS: dict[str, tuple[Build, tuple[float, ...]]] = {
    "sgld": (lambda h: sundman.sgld(LearningRate(h)), (0.1, 0.2, 0.3, 0.45)),
    "sa_sgld": (lambda h: sundman.sa_sgld(LearningRate(h), **WITH_CLOCK), (0.07, 0.14, 0.2, 0.3)),
    "sghmc": (
        lambda h: sundman.sghmc(LearningRate(h), gamma=GAMMA),
        (1e-3, 4e-3, 1.6e-2, 6.4e-2),
    ),
    "samadams": (
        lambda h: sundman.samadams(LearningRate(h), gamma=GAMMA, **WITH_CLOCK),
        (1e-3, 4e-3, 1.6e-2, 6.4e-2),
    ),
    "psgld": (lambda h: sundman.psgld(LearningRate(h)), (0.1, 0.3, 1.0, 3.0)),
}


@functools.cache
def probabilities(data: Dataset, *, test: bool) -> Callable[[PyTree], jax.Array]:
    """From a position to class probabilities: one function, so that runs share their programs."""
    posterior, rows = posterior_of("horseshoe", (), data), data.test if test else data.validation
    assert rows is not None
    x = jnp.asarray(rows.x)
    return lambda position: posterior.predict(position, x)


def run(
    data: Dataset,
    name: str,
    step: float,
    *,
    width: int,
    chains: int,
    epochs: int,
    seed: int,
    test: bool,
) -> dict[str, Any]:
    """Chains of a sampler at a step, their second half scored on validation or test rows."""
    posterior = posterior_of("horseshoe", (), data)
    rows = data.test if test else data.validation
    assert rows is not None
    y = np.asarray(rows.y)
    batch = min(BATCH, posterior.size // 10)
    steps = math.ceil(posterior.size / batch) * epochs
    sizes = [rows.x.shape[1], width, width, data.classes or 10]
    start, key = jax.random.split(jax.random.key(seed))
    found: dict[str, Any] = {
        "sampler": name, "step": step, "width": width, "chains": chains, "epochs": epochs,
        "seed": seed, "rows": "test" if test else "validation",
    }  # fmt: skip
    began, total, of_chains = time.perf_counter(), np.zeros((len(y), sizes[-1])), []
    for chain, (first, own) in enumerate(
        zip(jax.random.split(start, chains), jax.random.split(key, chains), strict=True)
    ):
        try:
            draws = sundman.sample(
                posterior,
                SAMPLERS[name][0](step),
                init=models.mlp_init(first, sizes),
                key=own,
                burn_in=steps // 2,
                steps=steps - steps // 2,
                thin=min(THIN, max(1, steps // 20)),
                batch_size=batch,
                collect=probabilities(data, test=test),
                stats=(),
                progress=False,
            )
        except AllDivergedError:
            found["lost"] = [*found.get("lost", ()), chain]
            continue
        weight = np.asarray(draws.weight, np.float64)[..., None, None]
        own_mean = (weight * np.asarray(draws.values)).sum((0, 1)) / weight.sum()
        of_chains.append(_scores(own_mean, y))
        total += own_mean
    if of_chains:
        found |= _scores(total / len(of_chains), y) | {"one chain": of_chains}
    print(json.dumps({k: v for k, v in found.items() if k != "one chain"}), flush=True)
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def _scores(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {
        "NLL": float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-30)).mean()),
        "accuracy, %": 100 * float((p.argmax(1) == y).mean()),
        "ECE, %": 100 * float(metrics.ece(p, y, bins=15)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--width", type=int, default=400)
    parser.add_argument("--only", nargs="*", choices=list(SAMPLERS), default=list(SAMPLERS))
    parser.add_argument("--trials", action="store_true", help="only the runs on validation rows")
    parser.add_argument("--output", type=Path, default=RESULT)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", sundman.TrustWarning)
    data = sundman.data.mnist()
    runs = json.loads(asked.output.read_text())["runs"] if asked.output.exists() else []

    def get(name: str, step: float, **more: Any) -> dict[str, Any]:
        case = {"sampler": name, "step": step, "width": asked.width, **more}
        case["rows"] = "test" if case.pop("test") else "validation"
        for each in runs:
            if all(each[field] == value for field, value in case.items()):
                return each
        found = run(data, name, step, width=asked.width, **more)
        runs.append(found)
        result = {"command": "python benchmarks/record.py", "settings": settings(), "runs": runs}
        asked.output.write_text(json.dumps(result, indent=1) + "\n")
        return found

    best: dict[str, tuple[float, float]] = {}
    for name in asked.only:
        trials = [
            get(name, h, chains=1, epochs=TRIAL_EPOCHS, seed=100, test=False)
            for h in SAMPLERS[name][1]
        ]
        best[name] = min((trial.get("NLL", math.inf), trial["step"]) for trial in trials)
        print(f"{name}: validation NLL {best[name][0]:.4f} at {best[name][1]:g}", flush=True)
    if asked.trials:
        return
    for place, name in enumerate(sorted(best, key=lambda name: best[name])):
        for seed in range(SEEDS if place == 0 else 1):
            get(name, best[name][1], chains=CHAINS, epochs=EPOCHS, seed=seed, test=True)


if __name__ == "__main__":
    main()
