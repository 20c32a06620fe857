"""Seconds and rows to 1,000 and to 10,000 effective draws, from a cold process, beside others.

The posterior is the logistic regression on 20 standardised columns. The clock runs from when the
data are there, compilation, mode and warm-up counted, until the draws are; effective draws are of
the worst direction. What the others are given: NUTS begins where we do, at zeros; HMCECS has the
mode for nothing, begins there, and has a Taylor proxy at it; SGLD has our control variate, begins
at the mode, and its step is the best of twelve tried beforehand.

    python -m studies.large_data.against_peers                   # what is missing, one process each
    python -m studies.large_data.against_peers --only nuts 1e6   # only this one, in this process
    python -m studies.large_data.against_peers --table           # what there is, as Markdown
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import sundman
from studies.large_data import problems, scores, truth
from studies.large_data.problems import Problem
from studies.large_data.runs import flattened, rows_touched
from studies.large_data.scores import Truth
from studies.others import Others

ROWS = ("1e4", "1e5", "1e6")
GOALS = (1_000, 10_000)
METHODS = (
    *("sundman-1000", "sundman-10000", "nuts", "hmcecs"),
    *("sgld-grid", "sgld-1000", "sgld-10000"),
)
STEPS = {1_000: 1_500, 10_000: 14_000}  # of our runs
BUDGET = 3600.0  # seconds of NUTS, and of HMCECS
NUTS_WARM_UP, NUTS_CHUNK, NUTS_MOST = 300, 5, 12_000
ECS_WARM_UP, ECS_CHUNK, ECS_MOST, ECS_ROWS, ECS_BLOCKS = 500, 50, 100_000, 1_000, 10
GRID, GRID_STEPS = np.geomspace(0.03, 1.6, 12), 200_000
SGLD_DRAWS, SGLD_MOST = 4_000, 1_000_000  # of draws that are kept, and of steps
SGLD_BATCH = 128
SGLD_EIGENVALUE = 0.1  # beyond chance: with more a step is not taken for the best


def problem_of(rows: str) -> tuple[Problem, Truth]:
    """The logistic regression of so many rows, and its truth."""
    name = f"logistic-20-standard-{rows}"
    return problems.make(name), truth.read(name)


def path_of(method: str, rows: str) -> Path:
    """Where a row is kept."""
    return truth.RESULTS / "peers" / f"{method}-{rows}.json"


def now() -> np.ndarray:
    """Seconds of the clock, and of the processor in this process, which a busy machine spares."""
    return np.array([time.perf_counter(), time.process_time()])


# Ours


def of_sundman(problem: Problem, known: Truth, goal: int) -> dict[str, Any]:
    """``sample`` without settings, and only as long as it takes."""
    steps = STEPS[goal]
    began = now()
    draws = sundman.sample(
        problem.posterior(), init=problem.init, key=jax.random.key(1), steps=steps, progress=False
    )
    x = flattened(draws.position)
    seconds = now() - began
    assert draws.tuning is not None
    rows = rows_touched(draws, problem.rows)
    return {
        **_reached(goal, scores.score(x, draws.weight, known), seconds, rows),
        "verdict": str(draws.verdict),
        "why": draws.tuning.why,
    }


def _reached(goal: int, found: dict[str, Any], seconds: np.ndarray, rows: float) -> dict[str, Any]:
    """A row of a run that was to have so many effective draws; one with fewer is scaled."""
    share = max(goal / max(found["ess"], 1.0), 1.0)
    return {
        **found,
        "seconds": seconds.tolist(),
        "seconds_to": {str(goal): (seconds * share).tolist()},
        "rows_to": {str(goal): rows * share},
        "extrapolated": share > 1.0,
    }


# NumPyro


def _model(x: Array, y: Array, subsample: int | None = None) -> None:
    import numpyro
    from numpyro import distributions

    prior = distributions.Normal(0.0, problems.PRIOR_SD["standard"])
    w = numpyro.sample("w", prior.expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", x.shape[0], subsample_size=subsample) as index:
        chosen = (x, y) if subsample is None else (x[index], y[index])
        likelihood = distributions.Bernoulli(logits=chosen[0] @ w)
        numpyro.sample("y", likelihood, obs=chosen[1])


def _of_kernel(
    kernel: Any,
    arguments: tuple[Any, ...],
    first: np.ndarray,
    warm_up: int,
    chunk: int,
    most: int,
    budget: float,
    steps_of: Callable[[Any], Array],
) -> dict[str, Any]:
    """Draws of a kernel of NumPyro until there are enough or the time is up."""

    def one(state: Any, _: None) -> tuple[Any, tuple[Array, Array]]:
        state = kernel.sample(state, arguments, {})
        return state, (state.z["w"], steps_of(state))

    began = now()
    state = kernel.init(jax.random.key(1), warm_up, {"w": jnp.asarray(first)}, arguments, {})
    advance = jax.jit(lambda state: jax.lax.scan(one, state, None, length=chunk))
    kept, gradients, setup, number = [], [], np.full(2, math.nan), 0
    while (now() - began)[0] < budget and len(kept) * chunk < most:
        state, (w, steps) = jax.block_until_ready(advance(state))
        number += chunk
        gradients.append(float(np.sum(steps)))
        if number > warm_up:
            kept.append(np.asarray(w, np.float64))
        else:
            setup = now() - began
    return {
        "seconds": (now() - began).tolist(),
        "setup": setup.tolist(),
        "gradients": sum(gradients),
        "gradients_of_setup": sum(gradients[: len(gradients) - len(kept)]),
        "steps": number,
        "x": np.concatenate(kept)[None] if kept else np.zeros((1, 0, first.size)),
        "budget": budget,
    }


def _judged(run: dict[str, Any], known: Truth, rows: float, first_rows: float) -> dict[str, Any]:
    """A row from a run of one chain: rates after the warm-up, and what they make of the goals.

    Args:
      run: what :func:`_of_kernel` made.
      known: the truth.
      rows: that a gradient looks at.
      first_rows: that were looked at before the first draw, besides.
    """
    x = run.pop("x")
    if x.shape[1] < 40:
        return {**run, "draws": x.shape[1], "unfinished": True}
    found = scores.score(x, np.ones(x.shape[:2]), known)
    setup = np.array(run["setup"])
    rate = found["ess"] / (np.array(run["seconds"]) - setup)
    each = (run["gradients"] - run["gradients_of_setup"]) / found["ess"]
    start = rows * run["gradients_of_setup"] + first_rows
    return {
        **run,
        **found,
        "draws": x.shape[1],
        "ess_per_second": rate.tolist(),
        "seconds_to": {str(goal): (setup + goal / rate).tolist() for goal in GOALS},
        "rows_to": {str(goal): start + rows * each * goal for goal in GOALS},
        "extrapolated": found["ess"] < GOALS[-1],
    }


def of_nuts(problem: Problem, known: Truth, budget: float) -> dict[str, Any]:
    """NumPyro's NUTS with a dense mass matrix, one chain from zeros."""
    from numpyro.infer import NUTS

    run = _of_kernel(
        NUTS(_model, dense_mass=True),
        (jnp.asarray(problem.x), jnp.asarray(problem.y)),
        problem.init,
        NUTS_WARM_UP,
        NUTS_CHUNK,
        NUTS_MOST,
        budget,
        lambda state: state.num_steps,
    )
    return _judged(run, known, problem.rows, 0.0)


def of_hmcecs(problem: Problem, known: Truth, budget: float) -> dict[str, Any]:
    """NumPyro's HMC with energy conserving subsampling, around NUTS with a dense mass matrix."""
    from numpyro.infer import HMCECS, NUTS

    mode = jnp.asarray(known.mean, jnp.float32)
    proxy = HMCECS.taylor_proxy({"w": mode})
    run = _of_kernel(
        HMCECS(NUTS(_model, dense_mass=True), num_blocks=ECS_BLOCKS, proxy=proxy),
        (jnp.asarray(problem.x), jnp.asarray(problem.y), ECS_ROWS),
        np.asarray(mode),
        ECS_WARM_UP,
        ECS_CHUNK,
        ECS_MOST,
        budget,
        lambda state: state.hmc_state.num_steps,
    )
    return _judged(run, known, ECS_ROWS, problem.rows)


# SGLD


def _sgld(
    problem: Problem, known: Truth, share: float, steps: int
) -> tuple[dict[str, Any], np.ndarray, float]:
    """SGLD with our control variate; its score, its seconds and its rows."""
    stiffest = 1.0 / np.linalg.eigvalsh(known.covariance)[0]
    began = now()
    draws = sundman.sample(
        problem.posterior(),
        sundman.sgld(share / stiffest),
        gradient="control_variate",
        batch_size=SGLD_BATCH,
        init=known.mean.astype(np.float32),
        key=jax.random.key(1),
        chains=4,
        steps=steps,
        burn_in=steps // 10,
        thin=max(1, steps // SGLD_DRAWS),
        stats=(),
        progress=False,
    )
    x = flattened(draws.position)
    seconds = now() - began
    rows = 2.0 * SGLD_BATCH * 4 * steps * 1.1
    if draws.diverged.any():
        return {"ess": 0.0, "beyond": math.inf, "sd_error": math.inf}, seconds, rows
    found = scores.score(x, draws.weight, known)
    return {**found, "ess": min(found["ess"], _softest(x, known))}, seconds, rows


def _softest(x: np.ndarray, known: Truth) -> float:
    """Effective draws along the widest direction, where SGLD is an autoregression of order 1.

    Batches of draws would have to be far longer than its memory.
    """
    along = (x - known.mean) @ np.linalg.eigh(known.covariance)[1][:, -1]
    correlation = np.sum(along[:, 1:] * along[:, :-1]) / np.sum(np.square(along[:, 1:]))
    return float(along.size * max(1.0 - correlation, 0.0) / (1.0 + correlation))


def of_sgld_grid(problem: Problem, known: Truth) -> dict[str, Any]:
    """Every step of the grid; the best has most effective draws of those that are not biased."""
    tried = []
    for share in GRID:
        found, seconds, _ = _sgld(problem, known, float(share), GRID_STEPS)
        tried.append({"share": float(share), "seconds": seconds.tolist(), **found})
    good = [each for each in tried if each["beyond"] <= SGLD_EIGENVALUE]
    best = max(good, key=lambda each: each["ess"]) if good else min(tried, key=_beyond)
    return {"tried": tried, "best": best["share"], "ess_per_step": best["ess"] / GRID_STEPS}


def _beyond(tried: dict[str, Any]) -> float:
    return float(tried["beyond"])


def of_sgld(problem: Problem, known: Truth, grid: dict[str, Any], goal: int) -> dict[str, Any]:
    """The best step, as long as it takes."""
    steps = min(math.ceil(1.2 * goal / grid["ess_per_step"]), SGLD_MOST)
    found, seconds, rows = _sgld(problem, known, grid["best"], steps)
    return {**_reached(goal, found, seconds, rows), "share": grid["best"], "steps": steps}


# All of them


def run(method: str, rows: str, budget: float) -> dict[str, Any]:
    """A row, made in this process."""
    problem, known = problem_of(rows)
    warnings.simplefilter("ignore")
    name, _, goal = method.partition("-")
    if name == "sundman":
        return of_sundman(problem, known, int(goal))
    if method == "nuts":
        return of_nuts(problem, known, budget)
    if method == "hmcecs":
        return of_hmcecs(problem, known, budget)
    if goal == "grid":
        return of_sgld_grid(problem, known)
    grid = json.loads(path_of("sgld-grid", rows).read_text())
    return of_sgld(problem, known, grid, int(goal))


def keep(method: str, rows: str, budget: float) -> None:
    """Make a row and write it."""
    others = Others()
    row = {"method": method, "rows": int(float(rows)), **run(method, rows, budget)}
    row["cores_of_others"] = others.cores()
    path = path_of(method, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(row, indent=1) + "\n")
    print(method, rows, {name: row.get(name) for name in ("seconds_to", "ess", "beyond")})


def table() -> str:
    """What there is, as Markdown."""
    lines = [
        "| rows | method | seconds to 1,000 | to 10,000 | of processor to 10,000 | "
        "rows touched to 10,000 | means | sds | eigenvalues |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for rows in ROWS:
        for method in ("sundman", "hmcecs", "nuts", "sgld"):
            if (row := merged(method, rows)) is None:
                continue
            mark = "*" if row.get("extrapolated") else ""
            few, many = (row["seconds_to"][str(goal)] for goal in GOALS)
            lines.append(
                f"| {rows} | {method} | {few[0]:,.3g} | {many[0]:,.3g}{mark} | "
                f"{many[1]:,.3g}{mark} | {row['rows_to'][str(GOALS[1])]:.2g} | {_bias(row)} |"
            )
    return "\n".join(lines)


def merged(method: str, rows: str) -> dict[str, Any] | None:
    """A row of the table, some from two processes; None if it is not there.

    One whose time was up before its warm-up was over is extrapolated: as many gradients as with
    100,000 rows, each of the seconds that it took here.
    """
    goals = method in ("sundman", "sgld")
    names = [f"{method}-{goal}" for goal in GOALS] if goals else [method]
    if not all(path_of(name, rows).exists() for name in names):
        return None
    parts = [json.loads(path_of(name, rows).read_text()) for name in names]
    row = dict(parts[-1])
    for field in ("seconds_to", "rows_to"):
        row[field] = {goal: n for part in parts for goal, n in part.get(field, {}).items()}
    if "unfinished" in row:
        before = merged(method, "1e5")
        if before is None or not row["gradients"]:
            return None
        each = np.array(row["seconds"]) / row["gradients"]
        wanted = {goal: n / before["rows"] for goal, n in before["rows_to"].items()}
        row["seconds_to"] = {goal: (each * n).tolist() for goal, n in wanted.items()}
        row["rows_to"] = {goal: row["rows"] * n for goal, n in wanted.items()}
        row["extrapolated"] = True
    return row


def _bias(row: dict[str, Any]) -> str:
    """The last columns."""
    if "eigenvalues" not in row:
        return "- | - | -"
    low, high = row["eigenvalues"]
    return f"{row['mean_error']:.3f} | {row['sd_error']:.1%} | {low:.2f} to {high:.2f}"


def main() -> None:
    """Make what is missing, each in a process of its own, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs=2, metavar=("METHOD", "ROWS"), help="in this process")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of each peer")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    options = parser.parse_args()
    if options.table:
        print(table())
    elif options.only:
        keep(*options.only, options.budget)
    else:
        cold = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}
        for rows in ROWS:
            for method in METHODS:
                if not path_of(method, rows).exists():
                    command = [sys.executable, "-m", "studies.large_data.against_peers"]
                    command += ["--only", method, rows, "--budget", str(options.budget)]
                    subprocess.run(command, check=True, env=cold)


if __name__ == "__main__":
    main()
