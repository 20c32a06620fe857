"""How well can a fully connected network predict MNIST, sampled at T = 1 under the horseshoe?

    SUNDMAN_DATA_DIR=... python -m studies.networks.record [--width 400] [--only sgld psgld]
    SUNDMAN_DATA_DIR=... python -m studies.networks.record --only psgld --final 4x100 --seeds 0 1 2

784-w-w-10, batch 100, the horseshoe as in the code behind the paper's table. Every sampler has a
grid of steps; one chain of each, 40 epochs of which 20 are kept, is scored on the 10,000
*validation* rows, and nothing else is looked at: these are the trials. A final run is at the best
step of the trials, 400 epochs in all, the length of the published runs, as four chains of 100
epochs or ten of 40, half of which are kept. Which of the two is chosen on validation rows again;
test rows are scored in final runs only to be shown.

``auto`` has no step and keeps what its warm-up leaves: what it took is in its ``gradients``.

A good score is no proof of good sampling: a sampler whose stiff directions are too hot can have one
by a useful error. How far each is from the true posterior of a small network is in
README.md.

Every run is kept in ``results/record.json`` when it is done, and is not run again; the
chains of one that is not are kept in ``--directory``. With an ``--output`` of its own a process can
work beside another; ``--merge`` adds what it wrote to the result, and ends.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from studies.report import settings
from studies.sa_sgld.network import BATCH, CLOCK, posterior_of
from sundman import LearningRate, metrics, models
from sundman._types import PyTree
from sundman.clocks import SundmanSettings
from sundman.data.base import Dataset
from sundman.draws.trust import AllDivergedError

RESULT = Path(__file__).parent / "results" / "record.json"
TRIAL = (1, 40)
SHAPES = {"4x100": (4, 100), "10x40": (10, 40)}  # chains, epochs
THIN = 100
KEPT_BY_AUTO = 0.57  # of the gradients; its warm-up takes about three quarters of what is kept
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
    "psgld": (
        lambda h: sundman.contrib.psgld(LearningRate(h)),
        (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    ),
    "auto": (lambda _: None, (0.0,)),  # tunes itself
}


@functools.cache
def probabilities(data: Dataset, *, test: bool) -> Callable[[PyTree], jax.Array]:
    """From a position to class probabilities of the validation rows, then those of the test."""
    posterior = posterior_of("horseshoe", (), data)
    assert data.validation is not None
    x = jnp.concatenate([rows.x for rows in (data.validation, data.test)[: 1 + test]])
    return lambda position: posterior.predict(position, x)


class Chain(NamedTuple):
    """One chain: mean probabilities of its kept half, gradients, seconds."""

    probabilities: np.ndarray
    gradients: int
    seconds: float


def chain(data: Dataset, case: Case, start: Key, key: Key, *, test: bool) -> Chain | None:
    """Run one chain of a case.

    Args:
      data: MNIST.
      case: which sampler, how wide and how long.
      start: the key of the first weights.
      key: that of minibatches and noise.
      test: whether the test rows are predicted, too.

    Returns:
      The chain, or None if it was lost.
    """
    posterior = posterior_of("horseshoe", (), data)
    batch = min(BATCH, posterior.size // 10)
    steps = math.ceil(posterior.size / batch) * case["epochs"]
    sizes = [data.test.x.shape[1], case["width"], case["width"], data.classes or 10]
    sampler, began = SAMPLERS[case["sampler"]][0](case["step"]), time.perf_counter()
    kept = steps - steps // 2 if sampler else int(KEPT_BY_AUTO * steps)
    try:
        draws = sundman.sample(
            posterior,
            sampler,
            init=models.mlp_init(start, sizes),
            key=key,
            chains=1,
            burn_in=steps // 2 if sampler else 0,
            steps=kept,
            thin=min(THIN, max(1, steps // 20)),
            batch_size=batch,
            collect=probabilities(data, test=test),
            stats=(),
            progress=False,
        )
    except AllDivergedError:
        return None
    weight = np.asarray(draws.weight, np.float64)[..., None, None]
    mean = (weight * np.asarray(draws.values)).sum((0, 1)) / weight.sum()
    taken = kept + draws.tuning.gradients if draws.tuning else steps
    return Chain(mean.astype(np.float32), taken, round(time.perf_counter() - began, 1))


def run(data: Dataset, case: Case, *, test: bool, directory: Path) -> dict[str, Any]:
    """The chains of a case, scored on validation rows, and on test rows if ``test``.

    Chains that are done are read from ``directory``.
    """
    assert data.validation is not None
    starts, keys = (
        jax.random.split(key, case["chains"])
        for key in jax.random.split(jax.random.key(case["seed"]))
    )
    done: list[Chain] = []
    lost: list[int] = []
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(case["chains"]):
        file = directory / ("-".join(str(each) for each in (*case.values(), number)) + ".npz")
        if file.exists():
            with np.load(file) as kept:
                done.append(Chain(kept["p"], int(kept["gradients"]), float(kept["seconds"])))
            continue
        one = chain(data, case, starts[number], keys[number], test=test)
        if one is None:
            lost.append(number)
            continue
        new = file.with_suffix(".new.npz")  # a chain is there whole or not at all
        np.savez(new, p=one.probabilities, gradients=one.gradients, seconds=one.seconds)
        new.replace(file)
        done.append(one)
    found: dict[str, Any] = {**case, "lost": lost}
    size = len(data.validation.y)
    sets = {
        "validation": (slice(size), data.validation.y),
        "test": (slice(size, None), data.test.y),
    }
    for rows, (part, y) in list(sets.items())[: 1 + test]:
        own = [one.probabilities[part].astype(np.float64) for one in done]
        if own:
            found[rows] = _scores(np.mean(own, 0), np.asarray(y))
        if len(own) > 1:
            found[f"{rows}, each chain"] = [_scores(p, np.asarray(y)) for p in own]
    found["gradients"] = sum(one.gradients for one in done)
    found["seconds"] = sum(one.seconds for one in done)
    return found


def _scores(p: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {
        "NLL": float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-30)).mean()),
        "accuracy, %": 100 * float((p.argmax(1) == y).mean()),
        "ECE, %": 100 * float(metrics.ece(p, y, bins=15)),
    }


def _nll(found: dict[str, Any]) -> float:
    return found.get("validation", {}).get("NLL", math.inf)


class Results:
    """The runs that are done: one for each case."""

    def __init__(self, output: Path) -> None:
        """Those of the stored result, and of the output if it is another."""
        self.output = output
        self.runs: list[dict[str, Any]] = []
        for file in (RESULT, output):
            if file.exists():
                self.add(file)

    def find(self, case: Mapping[str, Any]) -> dict[str, Any] | None:
        """The run of a case, if it is done."""
        fields = list(Case.__annotations__)
        same = (each for each in self.runs if all(each[name] == case[name] for name in fields))
        return next(same, None)

    def add(self, file: Path) -> None:
        """The runs of a file, but for those that are there."""
        for each in json.loads(file.read_text())["runs"]:
            if self.find(each) is None:
                self.runs.append(each)

    def write(self) -> None:
        """All of it; a process that is killed leaves the old file or the new one."""
        command = "python -m studies.networks.record"
        result = {"command": command, "settings": settings(), "runs": self.runs}
        new = self.output.with_suffix(".new")
        new.write_text(json.dumps(result, indent=1) + "\n")
        new.replace(self.output)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--width", type=int, default=400)
    parser.add_argument("--only", nargs="*", choices=list(SAMPLERS), default=list(SAMPLERS))
    parser.add_argument(
        "--final", choices=list(SHAPES), help="after the trials, runs of this shape"
    )
    parser.add_argument("--seeds", nargs="*", type=int, default=[0], help="of the final runs")
    parser.add_argument("--output", type=Path, default=RESULT)
    parser.add_argument("--merge", nargs="*", type=Path, help="add these results to it, no more")
    parser.add_argument("--directory", type=Path, default=Path("runs") / "record")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", sundman.TrustWarning)
    results = Results(asked.output)
    if asked.merge is not None:
        for file in asked.merge:
            results.add(file)
        results.write()
        return
    data = sundman.data.mnist()

    def get(
        name: str, step: float, shape: tuple[int, int], seed: int, *, test: bool
    ) -> dict[str, Any]:
        chains, epochs = shape
        case = Case(
            sampler=name, step=step, width=asked.width, chains=chains, epochs=epochs, seed=seed
        )
        if (found := results.find(case)) is None:
            found = run(data, case, test=test, directory=asked.directory)
            results.runs.append(found)
            results.write()
            print(json.dumps(found), flush=True)
        return found

    for name in asked.only:
        trials = [get(name, h, TRIAL, 100, test=False) for h in SAMPLERS[name][1]]
        best = min(trials, key=_nll)
        print(f"{name}: validation NLL {_nll(best):.4f} at {best['step']:g}", flush=True)
        for seed in asked.seeds if asked.final else ():
            get(name, best["step"], SHAPES[asked.final], seed, test=True)


if __name__ == "__main__":
    main()
