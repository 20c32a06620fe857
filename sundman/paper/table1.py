"""The table: SGLD and SA-SGLD on MNIST under the Gaussian and the horseshoe prior.

Rows, for each prior: SA-SGLD at the published settings (dtau = .2 for the horseshoe; the Gaussian's
is not given, ours is .025); SGLD at the mean step this SA-SGLD chain had; SGLD at its own best
step, known from earlier work. Each ensemble is scored weighted by dt, as the theory has it, and
unweighted, as the table was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from sundman.paper import cost, network
from sundman.paper.measured import Measured, over_seeds
from sundman.paper.network import Chain
from sundman.paper.paper import BEST
from sundman.paper.run import Findings, Task
from sundman.paper.table1_verdicts import judge, tabulate
from sundman.paper.units import Bench, Numbers

DTAU = {"gaussian": 0.025, "horseshoe": 0.2}
R = 0.25
KINDS = ("sa-sgld", "sgld-matched", "sgld-best")
_LEFT_OUT = ("curve", "member", "scales", "seconds", "ms_per_step")
ROWS = tuple(f"{prior}/{kind}" for prior in DTAU for kind in KINDS)


def seeds_of(task: Task) -> list[int]:
    """The seeds of the budget."""
    return [task.seed + i for i in range(task.scale.table.seeds)]


def chain_of(task: Task, prior: str, sampler: str, step: float, seed: int) -> Chain:
    """A row's chain."""
    budget = task.scale.table
    return Chain(
        prior=prior,
        sampler=sampler,
        step=step,
        r=R,
        width=budget.width,
        epochs=budget.epochs,
        burn_in=0 if budget.keep_all else budget.burn_in,
        skip=budget.burn_in if budget.keep_all else 0,
        thin=budget.thin,
        seed=seed,
        data=network.name_of(task.data),
    )


def row_unit(task: Task, bench: Bench, row: str, seed: int) -> Numbers | None:
    """One row's chain for one seed; a matched row first needs the mean step of SA-SGLD."""
    prior, kind = row.split("/")
    if kind == "sa-sgld":
        chain = chain_of(task, prior, "sa-sgld", DTAU[prior], seed)
    elif kind == "sgld-best":
        chain = chain_of(task, prior, "sgld", BEST[prior]["h"], seed)
    else:
        adaptive = row_unit(task, bench, f"{prior}/sa-sgld", seed)
        if adaptive is None or adaptive["mean_step"] is None:
            return None
        chain = chain_of(task, prior, "sgld", round(adaptive["mean_step"], 4), seed)
    return network.run(bench, f"table1/{prior}-{kind}-{seed}", chain, task.data)


def rows_done(task: Task) -> dict[str, dict[int, Numbers]]:
    """Run the rows asked for; then all units that are there, by row and seed."""
    for seed in seeds_of(task) if task.seeds is None else task.seeds:
        for row in ROWS if task.rows is None else task.rows:
            if row not in ROWS:
                raise ValueError(f"the rows are {', '.join(ROWS)}; got {row!r}")
            row_unit(task, task.bench, row, seed)
    reading = replace(task.bench, make=False)
    seeds = sorted({*seeds_of(task), *(task.seeds or ())})
    found = {row: {seed: row_unit(task, reading, row, seed) for seed in seeds} for row in ROWS}
    return {
        row: {seed: unit for seed, unit in units.items() if unit is not None}
        for row, units in found.items()
    }


def cost_unit(task: Task) -> Numbers:
    """The time of a step of both samplers, taken in turns."""
    chains = {
        kind: chain_of(task, "horseshoe", kind, DTAU["horseshoe"], task.seed)
        for kind in ("sgld", "sa-sgld")
    }
    settings = {kind: asdict(chain) for kind, chain in chains.items()}

    def work() -> Numbers:
        return cost.measure(chains, network.load(None if task.data is None else str(task.data)))

    numbers = task.bench.unit("table1/cost", settings, work)
    assert numbers is not None
    return numbers


def summary(units: dict[int, Numbers], kind: str) -> dict[str, Measured]:
    """Mean over seeds of each score of an ensemble, in the table's units."""
    scored = [unit[kind] for unit in units.values() if unit[kind] is not None]
    factors = {"nll": 1.0, "accuracy": 100.0, "ece15": 100.0, "ece30": 100.0, "brier": 1.0}
    return {
        name: over_seeds([factor * score[name] for score in scored])
        for name, factor in factors.items()
    }


def rounded(unit: Numbers) -> Numbers:
    """A unit without its curves, which are another figure, and its times, which vary."""
    return {k: v for k, v in unit.items() if not k.startswith(_LEFT_OUT)}


def examine(task: Task) -> Findings:
    """Run what is missing, then the table and its verdicts."""
    rows, times = rows_done(task), cost_unit(task)
    summaries = {
        f"{row}, {kind}": summary(units, kind)
        for row, units in rows.items()
        for kind in (("weighted", "unweighted") if row.endswith("sa-sgld") else ("weighted",))
        if units
    }
    numbers: dict[str, Any] = {
        "runs": {
            row: {str(seed): rounded(unit) for seed, unit in units.items()}
            for row, units in rows.items()
        },
        "summary": {
            name: {score: asdict(found) for score, found in scores.items()}
            for name, scores in summaries.items()
        },
        "timing": {"ms per step": times},
    }
    return Findings(
        settings=settings_of(task, [row for row, units in rows.items() if units]),
        numbers=numbers,
        verdicts=[
            *judge(rows, task.scale.table, task.bench.scale),
            cost.verdict(times, task.scale.table.width, task.bench.scale),
        ],
        tables=[tabulate(rows, summaries)],
    )


def settings_of(task: Task, rows: Sequence[str]) -> dict[str, Any]:
    """Every setting of the table."""
    return {
        **asdict(task.scale.table),
        "data": network.name_of(task.data),
        "batch": network.BATCH,
        "clock": {**network.CLOCK, "r": R, "s": 2.0, "psi": "code", "omega": "N^2", "lag": "none"},
        "dtau": DTAU,
        "best h of SGLD": {prior: best["h"] for prior, best in BEST.items()},
        "rows": list(rows),
    }
