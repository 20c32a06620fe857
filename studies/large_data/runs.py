"""``sample(posterior, init=zeros, key=..., steps=20_000)`` and nothing else, held to the truth.

python -m studies.large_data.runs                 # what is missing, three seeds of each problem
python -m studies.large_data.runs NAME --seeds 1  # only these
python -m studies.large_data.runs --table         # what there is, as Markdown
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import sundman
from studies.large_data import problems, scores, truth
from studies.large_data.problems import Problem

STEPS, SEEDS = 20_000, (1, 2, 3)
MEAN, SD, EIGENVALUE = 0.05, 0.03, 0.05  # errors that are allowed; the last beyond chance


def path_of(name: str, seed: int) -> Path:
    """Where the row of a run is kept."""
    return truth.RESULTS / "rows" / f"{name}-seed-{seed}.json"


def flattened(position: Any) -> np.ndarray:
    """Positions as (chain, draw, coordinate), in the order of ``ravel_pytree``."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(position)]
    return np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)


def rows_touched(draws: sundman.Draws, rows: int) -> float:
    """How many row gradients a tuned run took, all chains together, and those of its centre."""
    tuning = draws.tuning
    assert tuning is not None
    gradients = draws.chains * (tuning.gradients + len(draws))
    anchor = tuning.control_variate
    if anchor is None:
        return float(gradients) * int(draws.settings["batch_size"] or rows)
    return 2.0 * anchor.batch_size * gradients + anchor.passes * rows


def run(problem: Problem, seed: int) -> dict[str, Any]:
    """A row of the table."""
    posterior = problem.posterior()
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.TrustWarning)
        warnings.simplefilter("ignore", sundman.DivergenceWarning)
        draws = sundman.sample(
            posterior, init=problem.init, key=jax.random.key(seed), steps=STEPS, progress=False
        )
    seconds = time.perf_counter() - began
    assert draws.tuning is not None
    assert draws.verdict is not None
    found = scores.score(flattened(draws.position), draws.weight, truth.read(problem.name))
    chosen, anchor = draws.tuning.chosen, draws.tuning.control_variate
    return {
        "name": problem.name,
        "seed": seed,
        "about": problem.about,
        "rows": problem.rows,
        "coordinates": problem.size,
        **found,
        "ok": bool(draws.verdict.ok),
        "verdict": str(draws.verdict),
        "why": draws.tuning.why,
        "seconds": seconds,
        "rows_touched": rows_touched(draws, problem.rows),
        "h": chosen.h,
        "gamma": chosen.gamma,
        "batch_size": None if anchor is None else anchor.batch_size,
        "diverged": int(draws.diverged.sum()),
    }


def failures(row: dict[str, Any]) -> list[str]:
    """What a run misses, in words; nothing if it is as good as it should be."""
    if "error" in row:
        return [row["error"]]
    found = []
    if not row["mean_error"] <= MEAN:
        found.append(f"a mean is {row['mean_error']:.2g} sd off")
    if not row["sd_error"] <= SD:
        found.append(f"an sd is {row['sd_error']:.1%} off")
    if not row["beyond"] <= EIGENVALUE:
        low, high = row["eigenvalues"]
        found.append(f"eigenvalues from {low:.2f} to {high:.2f}, {row['beyond']:.2f} beyond chance")
    if not row["ok"]:
        found.append(f"verdict: {row['verdict']}")
    return found


def rows(names: Sequence[str] = problems.NAMES) -> list[dict[str, Any]]:
    """All rows that there are."""
    paths = [path_of(name, seed) for name in names for seed in SEEDS]
    return [json.loads(path.read_text()) for path in paths if path.exists()]


def table(found: Sequence[dict[str, Any]]) -> str:
    """A line of Markdown for each posterior, the worst of its seeds."""
    lines = [
        "| posterior | coordinates | mean / sd | sds | eigenvalues | of exact draws | "
        "effective draws | good verdicts | seconds | passes |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["name"] for row in found):
        seeds = [row for row in found if row["name"] == name]
        if errors := [row["error"] for row in seeds if "error" in row]:
            lines.append(f"| {name} | {errors[0]} |" + " |" * 8)
            continue
        ends, exact = (
            np.array([row[field] for row in seeds])
            for field in ("eigenvalues", "exact_eigenvalues")
        )
        worst = {
            field: max(row[field] for row in seeds)
            for field in ("mean_error", "sd_error", "coordinates", "rows_touched", "rows")
        }
        seconds = [row["seconds"] for row in seeds]
        lines.append(
            f"| {name} | {worst['coordinates']} | {worst['mean_error']:.3f} | "
            f"{worst['sd_error']:.1%} | {ends[:, 0].min():.2f} to {ends[:, 1].max():.2f} | "
            f"{exact[:, 0].min():.2f} to {exact[:, 1].max():.2f} | "
            f"{min(row['ess'] for row in seeds):,.0f} | "
            f"{sum(row['ok'] for row in seeds)} of {len(seeds)} | "
            f"{min(seconds):.0f} to {max(seconds):.0f} | "
            f"{worst['rows_touched'] / worst['rows']:,.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", default=problems.NAMES, metavar="NAME")
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS)
    parser.add_argument("--again", action="store_true", help="also what there is")
    parser.add_argument("--table", action="store_true", help="only print what there is")
    options = parser.parse_args()
    if options.table:
        found = rows(options.names)
        print(table(found))
        print(f"\n{sum(not failures(row) for row in found)} of {len(found)} are as good as wanted.")
        return
    for name in options.names:
        missing = [s for s in options.seeds if options.again or not path_of(name, s).exists()]
        if not missing or not truth.path_of(name).exists():
            continue
        problem = problems.make(name)
        for seed in missing:
            try:
                row = run(problem, seed)
            except (ValueError, FloatingPointError) as error:
                row = {"name": name, "seed": seed, "error": f"{type(error).__name__}: {error}"}
            path_of(name, seed).parent.mkdir(parents=True, exist_ok=True)
            path_of(name, seed).write_text(json.dumps(row, indent=1) + "\n")
            bad = failures(row)
            print(f"{name} seed {seed}: {'; '.join(bad) if bad else 'good'}", flush=True)


if __name__ == "__main__":
    main()
