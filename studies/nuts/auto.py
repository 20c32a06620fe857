"""The self-tuned sampler beside BlackJAX's NUTS and MCLMC on textbook posteriors.

Nobody is given a setting: the chains, their starts and about 20,000 gradients a chain after the
warm-up are the same for all, in single precision. Moments are held to a long run of dense NUTS in
double precision (of the non-centred form where there are two), kept in results/.

    python -m studies.nuts.auto --reference     # make the reference, some ten minutes
    python -m studies.nuts.auto                 # run what is missing, write result and page
    python -m studies.nuts.auto --page          # only write the page
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
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

import sundman
from studies.nuts.auto_page import METHODS, print_rows, write_section
from studies.nuts.blackjax_posteriors import Run, mclmc, nuts
from studies.nuts.scores import Moments, moments, score
from studies.nuts.textbook_posteriors import PROBLEMS, Problem, coordinate_names, first_positions
from studies.others import Others
from studies.report import settings
from sundman.tune.state import TuningError

HERE = Path(__file__).parent
RESULT = HERE / "results" / "auto-benchmark.json"
REFERENCE = HERE / "results" / "auto-reference.json"
PAGE = HERE / "README.md"
SEED, CHAINS, STEPS, NUTS_WARM_UP, NUTS_MOST = 1, 16, 20_000, 1000, 5000
REFERENCE_SETTINGS = {"chains": 16, "warm_up": 1000, "draws": 5000, "acceptance": 0.9, "seed": 0}
SHORTER = {"gaussian_process": 3000, "stochastic_volatility": 2500}  # draws of the reference
BATCHES = 20


def make_reference(name: str) -> dict[str, Any]:
    """Moments of a posterior by a long run of dense NUTS in double precision."""
    problem = PROBLEMS[name]()
    form = problem if problem.via is None else problem.via[0]
    given = REFERENCE_SETTINGS
    with jax.enable_x64(True):
        start, key = jax.random.split(jax.random.key(int(given["seed"])))
        run = nuts(
            form.potential,
            first_positions(form, start, int(given["chains"])),
            key,
            dense=True,
            warm_up=int(given["warm_up"]),
            gradients=10**9,
            most=SHORTER.get(name, int(given["draws"])),
            acceptance=given["acceptance"],
        )
        x = run.x
        if problem.via is not None:
            unravel, change = ravel_pytree(form.unit)[1], problem.via[1]
            x = np.asarray(jax.vmap(jax.vmap(lambda x: ravel_pytree(change(unravel(x)))[0]))(x))
    found = moments(x, np.ones(x.shape[:2]), BATCHES)
    halves = [moments(half, np.ones(half.shape[:2])).mean for half in np.split(x, 2, axis=0)]
    return {
        **{field: np.round(values, 10).tolist() for field, values in found._asdict().items()},
        "largest_error_of_a_mean_in_sds": float((found.mean_error / found.sd).max()),
        "largest_relative_error_of_an_sd": float((found.sd_error / found.sd).max()),
        "largest_difference_of_half_the_chains_in_sds": float(
            np.max(np.abs(halves[0] - halves[1]) / found.sd)
        ),
        "draws": run.x.shape[1],
        "divergences": run.failures,
        "gradients": run.gradients,
        "seconds": round(run.seconds, 1),
    }


def read_reference(name: str) -> Moments:
    """The moments that are kept."""
    row = json.loads(REFERENCE.read_text())["posteriors"].get(name)
    if row is None:
        raise SystemExit(f"{name} has no reference yet: run with --reference --only {name}")
    return Moments(*(np.array(row[field]) for field in Moments._fields))


def of_sundman(problem: Problem, first: Any, key: Array) -> dict[str, Any]:
    """``sample`` without a sampler, once to compile and once to count."""

    def run(key: Array) -> sundman.Draws:
        return sundman.sample(
            problem.potential,
            init=first,
            per_chain=True,
            key=key,
            chains=CHAINS,
            steps=STEPS,
            stats=(),
            progress=False,
        )

    compiling, key = jax.random.split(key)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.TrustWarning)
        warnings.simplefilter("ignore", sundman.DivergenceWarning)
        began = time.perf_counter()
        run(compiling)
        with_compilation = time.perf_counter() - began
        wall, processor = time.perf_counter(), time.process_time()
        draws = run(key)
        seconds, processor = time.perf_counter() - wall, time.process_time() - processor
    x = np.concatenate(
        [np.reshape(leaf, (CHAINS, STEPS, -1)) for leaf in jax.tree.leaves(draws.position)], axis=2
    )
    assert draws.tuning is not None
    windows = draws.tuning.windows
    return {
        "x": x,
        "weight": draws.weight,
        "gradients": CHAINS * STEPS,
        "warm_up": CHAINS * draws.tuning.gradients,
        "failures": int(draws.diverged.sum()),
        "seconds": seconds,
        "processor": processor,
        "about": {
            "with_compilation": round(with_compilation, 1),
            "why": draws.tuning.why,
            "verdict": str(draws.verdict),
            "ok": bool(draws.verdict and draws.verdict.ok),
            "h": draws.tuning.chosen.h,
            "gamma": draws.tuning.chosen.gamma,
            "widths": [round(window.width, 2) for window in windows if window.stage != "descent"],
            "descents": sum(window.stage == "descent" for window in windows),
            "rejected": sum(window.rejected for window in windows),
        },
    }


def of_peer(run: Run) -> dict[str, Any]:
    """A run of BlackJAX."""
    return {**run._asdict(), "weight": np.ones(run.x.shape[:2]), "about": {"draws": run.x.shape[1]}}


def run_method(method: str, problem: Problem, truth: Moments) -> dict[str, Any]:
    """A row: one method on one posterior."""
    start, key = jax.random.split(jax.random.key(SEED))
    first = first_positions(problem, start, CHAINS)
    runs: dict[str, Callable[[], dict[str, Any]]] = {
        "auto": lambda: of_sundman(problem, first, key),
        "nuts_diagonal": lambda: of_peer(
            nuts(
                problem.potential,
                first,
                key,
                dense=False,
                warm_up=NUTS_WARM_UP,
                gradients=STEPS,
                most=NUTS_MOST,
            )
        ),
        "nuts_dense": lambda: of_peer(
            nuts(
                problem.potential,
                first,
                key,
                dense=True,
                warm_up=NUTS_WARM_UP,
                gradients=STEPS,
                most=NUTS_MOST,
            )
        ),
        "mclmc": lambda: of_peer(mclmc(problem.potential, first, key, steps=STEPS // 2)),
    }
    others = Others()
    try:
        run = runs[method]()
    except TuningError as error:
        return {"refused": str(error)}
    seconds = {"second": run["seconds"], "processor_second": run["processor"]}
    found = score(
        run["x"], run["weight"], run["gradients"], seconds, truth, coordinate_names(problem)
    )
    return {
        **found,
        "gradients_a_chain": round(run["gradients"] / CHAINS),
        "warm_up_a_chain": round(run["warm_up"] / CHAINS),
        "failures": run["failures"],
        "seconds": round(run["seconds"], 2),
        "processor_seconds": round(run["processor"], 2),
        "cores_of_others": others.cores(),
        **run["about"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--reference", action="store_true", help="make what is missing of it")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--only", nargs="*", choices=list(PROBLEMS), help="only these posteriors")
    parser.add_argument("--methods", nargs="*", choices=list(METHODS), help="only these methods")
    options = parser.parse_args()
    where = REFERENCE if options.reference else RESULT
    kept = json.loads(where.read_text()) if where.exists() else {"posteriors": {}}

    def keep(about: dict[str, Any]) -> None:
        done = {name: kept["posteriors"][name] for name in PROBLEMS if name in kept["posteriors"]}
        where.write_text(json.dumps({**about, "posteriors": done}, indent=1) + "\n")

    for name in () if options.page else options.only or PROBLEMS:
        if options.reference:
            if name not in kept["posteriors"]:
                kept["posteriors"][name] = row = make_reference(name)
                command = "python -m studies.nuts.auto --reference"
                keep(settings(command=command, **REFERENCE_SETTINGS))
                print(name, {key: row[key] for key in row if key not in Moments._fields})
            continue
        problem, truth = PROBLEMS[name](), read_reference(name)
        rows = kept["posteriors"].setdefault(name, {"about": problem.about, "rows": {}})["rows"]
        for method in options.methods or METHODS:
            if method not in rows:
                rows[method] = run_method(method, problem, truth)
                keep(
                    settings(
                        command="python -m studies.nuts.auto",
                        seed=SEED,
                        chains=CHAINS,
                        gradients_a_chain=STEPS,
                        nuts_warm_up=NUTS_WARM_UP,
                        nuts_most_draws=NUTS_MOST,
                        precision="single",
                        auto_aim=sundman.auto().aim(CHAINS),
                    )
                )
                print(name, method, json.dumps(rows[method]), flush=True)
    if not options.reference:
        print_rows(kept)
        write_section(kept, PAGE)


if __name__ == "__main__":
    main()
