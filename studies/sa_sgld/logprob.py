"""The log-probability of the growing ensemble, from the chains of the table: no new runs.

    L_k = mean_i log( sum_{d<=k} w_d p(y_i | x_i, theta_d) / sum_{d<=k} w_d )

over the test points i, for the first k draws after the burn-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from studies.sa_sgld import table1
from studies.sa_sgld.experiment import Findings, Task
from studies.sa_sgld.figures import Figure, lines
from studies.sa_sgld.scoring import ChainRun
from studies.sa_sgld.statistics import Measurement, equivalent, less, over_seeds
from studies.sa_sgld.table1 import Rows
from sundman.report.model import Outcome, Table, Verdict


def curves_of(chains: Mapping[int, ChainRun]) -> dict[int, np.ndarray]:
    """The curve of each seed that has one."""
    return {seed: chain.curve() for seed, chain in chains.items() if chain.curve_weighted}


def difference(rows: Rows, one: str, other: str, share: float) -> Measurement:
    """L of one row minus that of another after a share of the draws, over the seeds of both."""
    a, b = curves_of(rows[one]), curves_of(rows[other])
    return over_seeds([at(a[seed], share) - at(b[seed], share) for seed in a if seed in b])


def at(curve: np.ndarray, share: float) -> float:
    """The value after a share of the draws."""
    return float(curve[max(0, round(share * len(curve)) - 1)])


def run(task: Task) -> Findings:
    """The curves of the table's chains, which are run if they are missing."""
    own = replace(task.cache, earlier_seconds={})  # the time of the table's chains is the table's
    rows = table1.run_rows(replace(task, cache=own))
    ends = {
        row: {str(share): over_seeds([at(c, share) for c in curves_of(chains).values()])
              for share in (0.1, 0.5, 1.0)}
        for row, chains in rows.items()
        if chains
    }  # fmt: skip
    return Findings(
        settings=table1.settings_of(task, [row for row, chains in rows.items() if chains]),
        numbers={
            row: {
                str(seed): np.round(curve, 5).tolist() for seed, curve in curves_of(chains).items()
            }
            for row, chains in rows.items()
        },
        verdicts=[judge(rows, prior, task) for prior in table1.DTAU if rows[f"{prior}/sa-sgld"]],
        tables=[table_of(ends)],
        figures=[figure(rows, prior) for prior in table1.DTAU if rows[f"{prior}/sa-sgld"]],
    )


def table_of(ends: Mapping[str, Mapping[str, Measurement]]) -> Table:
    """L after a tenth, a half and all of the draws."""
    lines_ = [
        [row, *(m.text() + (f" ± {m.half:.2g}" if np.isfinite(m.half) else "") for m in e.values())]
        for row, e in ends.items()
    ]
    heads = ["row", "10% of the draws", "50%", "all"]
    return Table("Log-probability of the ensemble, 95% interval over seeds", heads, lines_)


def judge(rows: Rows, prior: str, task: Task) -> Verdict:
    """Horseshoe: SA-SGLD ends higher. Gaussian: no difference."""
    one, other = f"{prior}/sa-sgld", f"{prior}/sgld-matched"
    end, early = (difference(rows, one, other, share) for share in (1.0, 0.1))
    higher = prior == "horseshoe"
    lower = Measurement(-end.value, end.error, end.quantile)
    outcome: Outcome = less(lower, -0.006) if higher else equivalent(end, table1.LAST_DIGIT)
    rule = (
        "Reproduces if higher at the end by more than half of the 95% interval over seeds; a gain "
        "of .006, the table's, excluded does not."
        if higher
        else "Reproduces if the 95% interval over seeds of the difference at the end is within "
        ".001, the last digit of the paper's table. (The rule was that it contains 0.)"
    )
    budget = task.scale.table
    return Verdict(
        f"Log-probability, {prior} prior: SA-SGLD's curve is "
        f"{'above' if higher else 'that of'} SGLD's at the same mean step",
        "figure, no numbers",
        f"difference at the end {end.text(sign=True)}, after a tenth {early.text(sign=True)}",
        f"{end.error:.2g}, {early.error:.2g}",
        outcome,
        f"{rule} Width {budget.width}, {budget.epochs} epochs (scale {task.cache.scale}).",
    )


def figure(rows: Rows, prior: str) -> Figure:
    """Mean curves over seeds, one for each row."""
    drawn = {}
    for row, chains in rows.items():
        curves = list(curves_of(chains).values())
        if row.startswith(prior) and curves:
            mean = np.mean(curves, axis=0)
            drawn[f"{row} ({len(curves)} seeds)"] = (np.arange(1, len(mean) + 1), mean)
    return lines(
        drawn,
        f"Log-probability of the growing ensemble, {prior} prior",
        "Curves that rise as the ensemble grows, one for each sampler",
        xlabel="draws after the burn-in",
        ylabel="mean log-probability on the test set",
        xscale="log",
    )
