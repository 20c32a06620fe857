"""The theory on U = x^4/4 + x^2/2: order, convergence, correlation with the gradient noise.

    order         the bias of a weighted average is O(h): slope 1 on logarithmic axes
    convergence   on one path with decreasing steps the weighted mean tends to the truth
    correlation   dt depends on the noise of the gradient it multiplies: with a memoryless clock
                  the bias this makes stays as h -> 0; with a lag, or a memory, it vanishes
    moments       gamma(h) > 0 needs a m > sigma M

Clock: psi ``paper``, m = .1, M = 10, r = .5, g = |G|^2; alpha = 5 where it has a memory.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, replace
from typing import Any

import jax
import numpy as np

import sundman
from sundman import targets
from sundman.experiments import theory_verdicts, toys
from sundman.experiments.decreasing import decreasing_sa_sgld
from sundman.experiments.figures import Figure, against_step, lines
from sundman.experiments.fits import limit, log_slope
from sundman.experiments.measured import Measured, over_seeds
from sundman.experiments.moment import moment_condition
from sundman.experiments.run import Findings, Task
from sundman.experiments.toys import Toy, bias
from sundman.experiments.units import Numbers
from sundman.report.model import Table

PSI: dict[str, Any] = {"m": 0.1, "M": 10.0, "r": 0.5, "psi": "paper"}
MEMORY = {**PSI, "alpha": 5.0}
FORGETFUL = {**PSI, "alpha": 1e4, "omega": 1e-4}  # rho = 0: zeta_{n+1} = g_n
ORDER_DTAU, NOISE_DTAU, SIGMA = 0.02, 0.0125, 2.0
POWER, OFFSET, GROUPS = 1.0 / 3.0, 1000.0, 8
BOUNDS = {"star": (0.1, 10.0), "networks": (0.5, 2.0)}
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


def convergence(task: Task) -> Numbers:
    """Root mean square error of the running weighted mean over independent paths."""
    settings = {"dtau": 0.04, "power": POWER, "offset": OFFSET, **MEMORY}
    length, chains = task.scale.path, task.scale.toy.chains
    thin = max(1, length // 20_000)

    def work() -> Numbers:
        target = targets.quartic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sundman.DivergenceWarning)
            draws = sundman.sample(
                target,
                decreasing_sa_sgld(**settings),
                key=jax.random.key(task.seed + 50),
                chains=chains,
                steps=length,
                thin=thin,
                stats=("time",),
                progress=False,
            )
        x2 = np.asarray(draws.position, np.float64)[..., 0] ** 2
        weight = np.asarray(draws.weight, np.float64)
        running = np.cumsum(weight * x2, axis=1) / np.cumsum(weight, axis=1)
        at = np.unique(np.geomspace(len(draws) // 64, len(draws) - 1, 12).astype(int))
        squares = (running[:, at] - target.truth["x2"]) ** 2
        rms = np.sqrt(squares.mean(axis=0))
        return {
            "steps": (thin * (at + 1)).tolist(),
            "time": np.asarray(draws.stats["time"], np.float64)[:, at].mean(axis=0).tolist(),
            "rms": rms.tolist(),
            "one path": np.abs(running[0, at] - target.truth["x2"]).tolist(),
            "groups": np.sqrt([g.mean(axis=0) for g in np.array_split(squares, GROUPS)]).tolist(),
        }

    about = {**settings, "steps": length, "chains": chains, "thin": thin, "seed": task.seed}
    numbers = task.bench.unit("theory/convergence", about, work)
    assert numbers is not None
    return numbers


def rate_of(path: Numbers) -> Measured:
    """The exponent of the error against physical time: mean and error over groups of paths."""
    time = np.log(path["time"])
    return over_seeds([float(np.polyfit(time, np.log(rms), 1)[0]) for rms in path["groups"]])


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
    path = convergence(task)
    rate = rate_of(path)
    conditions = moments()
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
        },
        verdicts=theory_verdicts.judge(fits, rate, conditions, lost, task.bench.scale),
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
                name,
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
            curves,
            "Quartic: bias of E[x²] against the step",
            "Weighted biases fall with slope one; memoryless with noise and unweighted stay",
            slopes={name: both["slope"] for name, both in fits.items()},
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
