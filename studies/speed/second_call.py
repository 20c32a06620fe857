"""What a run costs after the first of its kind: samplers are values, so it compiles nothing.

    python -m studies.speed.second_call --data DIRECTORY

Three cases, each with samplers made anew at ten or twelve steps: the star, the digits network, and
a network of width 400 on MNIST. Of each, the programs XLA compiles in the first call and in all
others, and the seconds of both. Asked for: none compiled after the first; less than 0.05 s for the
second call on the star; less than twice the time of the run itself on the digits network, where
"itself" is what a call takes with a sampler object that was used before. A sweep of twelve steps as
one stacked sampler is one call. Writes ``results/second_call.json``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import sundman
from studies.others import Others
from studies.report import settings
from sundman import models

RESULTS = Path(__file__).parent / "results" / "second_call.json"
STEPS = np.geomspace(1e-5, 1e-4, 10)
RATES = np.geomspace(0.01, 0.3, 12)


class Compiled:
    """Counts what XLA compiles."""

    def __init__(self) -> None:
        self.programs = 0
        jax.monitoring.register_event_duration_secs_listener(self._count)

    def _count(self, event: str, duration: float, **more: Any) -> None:
        self.programs += event == "/jax/core/compile/backend_compile_duration"


COMPILED = Compiled()


def calls(run: Callable[[sundman.Sampler], Any], samplers: list[sundman.Sampler]) -> dict[str, Any]:
    """Programs and seconds of a run with each of the samplers, and again with the last of them."""
    programs, seconds = [], []
    for sampler in [*samplers, *[samplers[-1]] * 5]:
        before, began = COMPILED.programs, time.perf_counter()
        run(sampler)
        seconds.append(time.perf_counter() - began)
        programs.append(COMPILED.programs - before)
    new, same = seconds[1 : len(samplers)], seconds[len(samplers) :]
    return {
        "calls": len(samplers),
        "programs of the first": programs[0],
        "programs of all others": sum(programs[1:]),
        "seconds of the first": seconds[0],
        "seconds of the second": seconds[1],
        "median of a new sampler": statistics.median(new),
        "median of a used one": statistics.median(same),
        "new / used": statistics.median(new) / statistics.median(same),
    }


def star() -> dict[str, Any]:
    target, key = sundman.targets.star(), jax.random.key(0)
    return calls(
        lambda sampler: sundman.sample(target, sampler, key=key, steps=2000),
        [sundman.sgld(float(h)) for h in STEPS],
    )


def network(split: Any, sizes: list[int], *, steps: int, chains: int = 1) -> Callable:
    """Runs the network of these layers on the data."""
    posterior = sundman.Posterior(models.mlp_apply, data=tuple(split))
    init = models.mlp_init(jax.random.key(0), sizes)
    run = {"key": jax.random.key(1), "batch_size": 100, "steps": steps, "thin": steps // 10}
    return lambda sampler: sundman.sample(posterior, sampler, init=init, chains=chains, **run)


def learning_rate(rate: float) -> sundman.Sampler:
    return sundman.sgld(sundman.LearningRate(rate))


def digits() -> dict[str, Any]:
    run = network(sundman.data.digits().train, [64, 50, 50, 10], steps=2000)
    return calls(run, [learning_rate(float(rate)) for rate in RATES])


def mnist(directory: Path | None) -> dict[str, Any]:
    split = sundman.data.mnist(directory).train
    run = network(split, [784, 400, 400, 10], steps=100)
    one_by_one = calls(run, [learning_rate(float(rate)) for rate in RATES])
    before, began = COMPILED.programs, time.perf_counter()
    network(split, [784, 400, 400, 10], steps=100, chains=len(RATES))(
        jax.vmap(learning_rate)(jax.numpy.asarray(RATES))
    )
    stacked = {
        "programs": COMPILED.programs - before,
        "seconds": time.perf_counter() - began,
    }
    return {**one_by_one, "one stacked sampler": stacked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=None, help="where MNIST is")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    warnings.simplefilter("ignore", sundman.TrustWarning)  # short runs, of which only time counts
    others = Others()
    results = {"star": star(), "digits": digits(), "mnist 400": mnist(options.data)}
    results["settings"] = settings(**{"cores that others used": others.cores()})
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
