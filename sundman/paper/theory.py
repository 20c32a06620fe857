"""The theory on U = x^4/4 + x^2/2: order, convergence, correlation with the gradient noise.

    order         the bias of a weighted average is O(h): slope 1 on logarithmic axes
    convergence   on one path with decreasing steps the weighted mean tends to the truth
    correlation   dt depends on the noise of the gradient it multiplies: with a memoryless clock
                  the bias this makes stays as h -> 0; with a lag, or a memory, it vanishes
    moments       gamma(h) > 0 needs a m > sigma M

Clock: psi ``paper``, m = .1, M = 10, r = .5, g = |G|^2; alpha = 5 where it has a memory.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np

from sundman.paper import blockwise, theory_verdicts, toys
from sundman.paper.convergence import OFFSET, POWER, convergence, rate_of
from sundman.paper.figures import Figure, against_step, lines
from sundman.paper.fits import limit, log_slope
from sundman.paper.measured import Measured
from sundman.paper.moment import moment_condition
from sundman.paper.run import Findings, Task
from sundman.paper.toys import Toy, bias
from sundman.paper.units import Numbers
from sundman.report.model import Table

PSI: dict[str, Any] = {"m": 0.1, "M": 10.0, "r": 0.5, "psi": "paper"}
MEMORY = {**PSI, "alpha": 5.0}
FORGETFUL = {**PSI, "alpha": 1e4, "omega": 1e-4}  # rho = 0: zeta_{n+1} = g_n
ORDER_DTAU, NOISE_DTAU, SIGMA = 0.02, 0.0125, 2.0
BOUNDS = {"star": (0.1, 10.0), "networks": (0.5, 2.0)}
LABELS = {
    "order": "memory, leaving weights",
    "arriving": "memory, arriving weights",
    "unweighted": "memory, unweighted",
    "memoryless": "noise 2, memoryless",
    "lagged": "noise 2, memoryless, lagged",
    "memory": "noise 2, memory",
}
NOISE_TO_DRIFT = (0.0, 0.001, 0.01, 0.1, 1.0)


def series(task: Task, name: str, dtau: float, seed: int, **settings: Any) -> list[Numbers]:
    """A run at dtau, dtau/2, dtau/4, ..."""
    budget = replace(task.scale.toy, chains=4 * task.scale.toy.chains)
    return [
        toys.run(
            task.bench,
            f"theory/{name}-{k}",
            Toy("quartic", dtau / 2**k, budget, seed=task.seed + seed + k, **settings),
        )
        for k in range(task.scale.sweep)
    ]


def moments() -> list[Numbers]:
    """The condition for several ratios of noise to dissipativity, a = C1 = 1."""
    return [
        {
            "bounds": name,
            "m": m,
            "M": M,
            "sigma/a": ratio,
            **asdict(moment_condition(a=1.0, m=m, M=M, C1=1.0, sigma=ratio)),
        }
        for name, (m, M) in BOUNDS.items()
        for ratio in NOISE_TO_DRIFT
    ]


def examine(task: Task) -> Findings:
    """Run what is missing, then fits, table, figures and verdicts."""
    noisy = {"sigma": SIGMA}
    runs = {
        "order": series(task, "order", ORDER_DTAU, 0, clock=MEMORY),
        "arriving": series(task, "arriving", ORDER_DTAU, 0, clock=MEMORY, weighting="arriving"),
        "memoryless": series(task, "memoryless", NOISE_DTAU, 20, clock=FORGETFUL, **noisy),
        "lagged": series(
            task, "lagged", NOISE_DTAU, 20, clock={**FORGETFUL, "lag": "full"}, **noisy
        ),
        "memory": series(task, "memory", NOISE_DTAU, 20, clock=MEMORY, **noisy),
    }
    curves = {name: points_of(units) for name, units in runs.items()}
    curves["unweighted"] = points_of(runs["order"], "unweighted")
    fits = {
        name: {"slope": log_slope(*columns(points)), "limit": limit(*columns(points))}
        for name, points in curves.items()
    }
    path = convergence(task, MEMORY)
    rate = rate_of(path)
    conditions, (blocks, keeps_target) = moments(), blockwise.examine(task)
    lost = sum(unit["lost"] for unit in runs["memoryless"])
    return Findings(
        settings={
            "target": "x^4/4 + x^2/2",
            "clock": MEMORY,
            "memoryless clock": FORGETFUL,
            "dtau": {"order": ORDER_DTAU, "noise": NOISE_DTAU},
            "sigma": SIGMA,
            "decreasing": {"dtau": 0.04, "power": POWER, "offset": OFFSET},
            "budget": asdict(task.scale.toy),
        },
        numbers={
            "runs": runs,
            "fits": {n: {k: asdict(v) for k, v in both.items()} for n, both in fits.items()},
            "convergence": {**path, "slope against time": asdict(rate)},
            "moment condition": conditions,
            "one zeta or many": blocks,
        },
        verdicts=[
            *theory_verdicts.judge(fits, rate, conditions, lost, task.bench.scale),
            keeps_target,
        ],
        tables=[table_of(curves, fits)],
        figures=figures_of(curves, fits, path),
    )


def points_of(units: list[Numbers], kind: str = "weighted") -> list[tuple[float, Measured]]:
    """(mean step, bias) of each run."""
    return [(unit["mean_dt"], bias(unit, "x2", kind)) for unit in units]


def columns(points: list[tuple[float, Measured]]) -> tuple[list[float], list[Measured]]:
    """Steps and biases."""
    return [h for h, _ in points], [b for _, b in points]


def table_of(curves: dict[str, Any], fits: dict[str, dict[str, Measured]]) -> Table:
    """Biases, slope and limit of each series."""
    rows = []
    for name, points in curves.items():
        slope, end = fits[name]["slope"], fits[name]["limit"]
        cells = [f"{100 * b.value:+.2f} ± {100 * b.error:.2f} (dt {h:.3g})" for h, b in points]
        rows.append(
            [
                LABELS[name],
                "; ".join(cells),
                f"{slope.value:.2f} ± {slope.error:.2f}",
                f"{100 * end.value:+.2f} ± {100 * end.error:.2f}",
            ]
        )
    heads = ["series", "bias of E[x²], % (mean dt)", "slope", "limit as h -> 0, %"]
    return Table("Quartic: bias against the step", heads, rows, "± standard error")


def figures_of(
    curves: dict[str, Any], fits: dict[str, dict[str, Measured]], path: Numbers
) -> list[Figure]:
    """Bias against the step, and error against the length of a path."""
    steps = np.asarray(path["steps"], float)
    guide = path["rms"][0] * (steps / steps[0]) ** (-(1 - POWER) / 2)
    return [
        against_step(
            {LABELS[name]: points for name, points in curves.items()},
            "Quartic: bias of E[x²] against the step",
            "Weighted biases fall with slope one; memoryless with noise and unweighted stay",
            slopes={LABELS[name]: both["slope"] for name, both in fits.items()},
        ),
        lines(
            {
                "all paths (root mean square)": (steps, path["rms"]),
                "one path": (steps, path["one path"]),
                "slope -(1 - power)/2 = -1/3": (steps, guide),
            },
            "Error of the weighted mean along a path, decreasing steps",
            "The error falls as a power of the number of steps",
            xlabel="steps",
            ylabel="error of E[x²]",
            xscale="log",
            yscale="log",
        ),
    ]
