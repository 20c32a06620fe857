"""How well can a fully connected network predict MNIST, sampled at T = 1 under the horseshoe?

    SUNDMAN_DATA_DIR=... python benchmarks/record.py [--width 400] [--only sgld psgld] [--trials]

784-w-w-10, batch 100, the horseshoe as in the code behind the paper's table. Every sampler has a
grid of steps; one chain of each, 40 epochs of which 20 are kept, is scored on the 10,000
*validation* rows, and nothing else is looked at. Then each sampler runs at its best step for 400
epochs in all, the length of the published runs, as four chains of 100 epochs or ten of 40, half of
which are kept; the better of the two, again on validation rows, is its final run, three seeds for
the best sampler and one for the others. Test rows are scored in those final runs only to be shown.

A good score is no proof of good sampling: a sampler whose stiff directions are too hot can have one
by a useful error. How far each is from the true posterior of a small network is in
docs/network-evidence.md.

Every run is kept in ``benchmarks/results/record.json`` when it is done, and is not run again. With
``--output`` of its own, a process can run some of the samplers (``--only``) or final runs
(``--shape``, ``--seeds``) beside another; ``--merge`` adds what it wrote to the result.
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
from typing import Any, TypedDict

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
TRIAL = (1, 40)
SHAPES = {"4x100": (4, 100), "10x40": (10, 40)}  # chains, epochs
SEEDS, THIN, WARM_UP = 3, 100, 0.15
GAMMA = 20.0
WITH_CLOCK: SundmanSettings = {**CLOCK, "r": 0.25}
Key = jax.Array


class Case(TypedDict):
    """What makes a run what it is."""

    sampler: str
    step: float
    width: int
    chains: int
    epochs: int
    seed: int


Build = Callable[[float], sundman.Sampler | None]
SAMPLERS: dict[str, tuple[Build, tuple[float, ...]]] = {
    "sgld": (lambda h: sundman.sgld(LearningRate(h)), (0.1, 0.2, 0.3, 0.45, 0.65)),
    "sa_sgld": (lambda h: sundman.sa_sgld(LearningRate(h), **WITH_CLOCK), (0.07, 0.14, 0.2, 0.3)),
    "sghmc": (
        lambda h: sundman.sghmc(LearningRate(h), gamma=GAMMA),
        (2.5e-4, 1e-3, 4e-3, 1.6e-2),
    ),
    "samadams": (
        lambda h: sundman.samadams(LearningRate(h), gamma=GAMMA, **WITH_CLOCK),
        (2.5e-4, 1e-3, 4e-3, 1.6e-2),
    ),
    "psgld": (lambda h: sundman.psgld(LearningRate(h)), (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)),
    "auto": (lambda _: None, (0.0,)),  # tunes itself
}


@functools.cache
def probabilities(data: Dataset, *, test: bool) -> Callable[[PyTree], jax.Array]:
    """From a position to class probabilities of the validation rows, then those of the test."""
    posterior = posterior_of("horseshoe", (), data)
    assert data.validation is not None
    x = jnp.concatenate([rows.x for rows in (data.validation, data.test)[: 1 + test]])
    return lambda position: posterior.predict(position, x)


def chain(
    data: Dataset,
    name: str,
    step: float,
    *,
    width: int,
    epochs: int,
    start: Key,
    key: Key,
    test: bool,
) -> np.ndarray | None:
    """The mean probabilities over the second half of one chain; None if it was lost."""
    posterior = posterior_of("horseshoe", (), data)
    batch = min(BATCH, posterior.size // 10)
    steps = math.ceil(posterior.size / batch) * epochs
    sizes = [data.test.x.shape[1], width, width, data.classes or 10]
    sampler = SAMPLERS[name][0](step)
    # the warm-up of a run that tunes itself is a part of its first half
    before = steps // 2 - (0 if sampler else int(WARM_UP * steps))
    try:
        draws = sundman.sample(
            posterior,
            sampler,
            init=models.mlp_init(start, sizes),
            key=key,
            chains=1,
            burn_in=before,
            steps=steps - steps // 2,
            thin=min(THIN, max(1, steps // 20)),
            batch_size=batch,
            collect=probabilities(data, test=test),
            stats=(),
            progress=False,
        )
    except AllDivergedError:
        return None
    weight = np.asarray(draws.weight, np.float64)[..., None, None]
    return (weight * np.asarray(draws.values)).sum((0, 1)) / weight.sum()


def run(data: Dataset, case: Case, *, test: bool, directory: Path) -> dict[str, Any]:
    """The chains of a case, scored on validation rows, and on test rows if ``test``.

    Chains that are done are read from ``directory``.
    """
    assert data.validation is not None
    began, done = time.perf_counter(), []
    starts, keys = (
        jax.random.split(key, case["chains"])
        for key in jax.random.split(jax.random.key(case["seed"]))
    )
    found: dict[str, Any] = {**case, "lost": []}
    for number in range(case["chains"]):
        file = directory / ("-".join(str(each) for each in (*case.values(), number)) + ".npy")
        if file.exists():
            own = np.load(file)
        else:
            own = chain(
                data, case["sampler"], case["step"], width=case["width"], epochs=case["epochs"],
                start=starts[number], key=keys[number], test=test,
            )  # fmt: skip
            if own is None:
                found["lost"].append(number)
                continue
            directory.mkdir(parents=True, exist_ok=True)
            np.save(file, own.astype(np.float32))
        done.append(own)
    size = len(data.validation.y)
    sets = {
        "validation": (slice(size), data.validation.y),
        "test": (slice(size, None), data.test.y),
    }
    for rows, (part, y) in list(sets.items())[: 1 + test]:
        if done:
            found[rows] = _scores(np.mean(done, 0)[part], np.asarray(y))
        if len(done) > 1:
            found[f"{rows}, each chain"] = [_scores(own[part], np.asarray(y)) for own in done]
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def _scores(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {
        "NLL": float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-30)).mean()),
        "accuracy, %": 100 * float((p.argmax(1) == y).mean()),
        "ECE, %": 100 * float(metrics.ece(p, y, bins=15)),
    }


def _nll(found: dict[str, Any]) -> float:
    return found.get("validation", {}).get("NLL", math.inf)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--width", type=int, default=400)
    parser.add_argument("--only", nargs="*", choices=list(SAMPLERS), default=list(SAMPLERS))
    parser.add_argument("--trials", action="store_true", help="only the runs on validation rows")
    parser.add_argument("--shape", choices=list(SHAPES), help="only final runs of this shape")
    parser.add_argument("--seeds", nargs="*", type=int, help="of --shape")
    parser.add_argument("--output", type=Path, default=RESULT)
    parser.add_argument("--merge", nargs="*", type=Path, default=[], help="results to add to it")
    parser.add_argument("--directory", type=Path, default=Path("runs") / "record")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", sundman.TrustWarning)
    data = sundman.data.mnist()
    runs: list[dict[str, Any]] = []

    def keep(found: dict[str, Any]) -> None:
        if found not in runs:
            runs.append(found)
        result = {"command": "python benchmarks/record.py", "settings": settings(), "runs": runs}
        asked.output.write_text(json.dumps(result, indent=1) + "\n")

    for file in (RESULT, asked.output, *asked.merge):
        for each in json.loads(file.read_text())["runs"] if file.exists() else []:
            keep(each)

    def get(
        name: str, step: float, shape: tuple[int, int], seed: int, *, test: bool
    ) -> dict[str, Any]:
        chains, epochs = shape
        case = Case(
            sampler=name, step=step, width=asked.width, chains=chains, epochs=epochs, seed=seed
        )
        for each in runs:
            if all(each[field] == value for field, value in case.items()):
                return each
        found = run(data, case, test=test, directory=asked.directory)
        keep(found)
        print(json.dumps(found), flush=True)
        return found

    best: dict[str, tuple[float, float]] = {}
    for name in asked.only:
        trials = [get(name, h, TRIAL, 100, test=False) for h in SAMPLERS[name][1]]
        best[name] = min((_nll(trial), trial["step"]) for trial in trials)
        print(f"{name}: validation NLL {best[name][0]:.4f} at {best[name][1]:g}", flush=True)
    if asked.trials:
        return
    for place, name in enumerate(sorted(best, key=lambda name: best[name])):
        step = best[name][1]
        if asked.shape:
            for seed in asked.seeds or [0]:
                get(name, step, SHAPES[asked.shape], seed, test=True)
            continue
        first = [get(name, step, shape, 0, test=True) for shape in SHAPES.values()]
        shape = list(SHAPES.values())[first.index(min(first, key=_nll))]
        for seed in range(1, SEEDS if place == 0 else 1):
            get(name, step, shape, seed, test=True)


if __name__ == "__main__":
    main()
