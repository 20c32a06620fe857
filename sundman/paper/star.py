"""The star: U = x^2 + 1000 x^2 y^2 + y^2, at the settings of the research code.

SA-SGLD with m = .1, M = 10, r = .5, s = 2, alpha = .5, dtau = 1e-3, Omega = 100, psi ``code``
against SGLD at h = 4e-4, both from the origin. Then from exact draws: dtau halved again and
again, the three weights, the three lags, and gradients with white noise.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from sundman.paper import figures, toys
from sundman.paper.fits import limit, log_slope
from sundman.paper.measured import Measured
from sundman.paper.run import Findings, Task
from sundman.paper.star_verdicts import judge
from sundman.paper.toys import Toy, bias, significant
from sundman.paper.units import Numbers
from sundman.report.model import Table

CLOCK: dict[str, Any] = {
    "alpha": 0.5, "m": 0.1, "M": 10.0, "r": 0.5, "s": 2.0, "omega": 100.0, "psi": "code",
}  # fmt: skip
DTAU, H, SIGMA = 1e-3, 4e-4, 20.0
VIEW = ((-2.1, 2.1), (-2.1, 2.1))
SHOWN = ("r2", "x2y2", "outer", "U", "virial")


def research(task: Task) -> dict[str, Toy]:
    """The two runs of the figure."""
    base = Toy("star", H, task.scale.toy, start="default", seed=task.seed)
    return {"SGLD": base, "SA-SGLD": replace(base, step=DTAU, clock=CLOCK)}


def sweep(task: Task) -> tuple[list[Numbers], list[Numbers]]:
    """SA-SGLD at dtau, dtau/2, ... and SGLD at the mean step each had."""
    adaptive, fixed = [], []
    for k in range(task.scale.sweep):
        toy = Toy("star", DTAU / 2**k, task.scale.toy, clock=CLOCK, seed=task.seed + 10 + k)
        adaptive.append(toys.run(task.bench, f"fig-star/sweep-sa-sgld-{k}", toy))
        matched = replace(toy, step=significant(adaptive[-1]["mean_dt"]), clock={})
        fixed.append(toys.run(task.bench, f"fig-star/sweep-sgld-{k}", matched))
    return adaptive, fixed


def variants(task: Task) -> dict[str, Numbers]:
    """Weights of the arriving step, lagged clocks, and gradients with noise."""
    base = Toy("star", DTAU, task.scale.toy, clock=CLOCK, seed=task.seed + 10)
    made = {"arriving weights": replace(base, weighting="arriving")}
    for lag in ("full", "guarded"):
        made[f"lag {lag}"] = replace(base, clock={**CLOCK, "lag": lag})
    noisy = replace(base, sigma=SIGMA)
    for lag in ("none", "full", "guarded"):
        made[f"noise {SIGMA:g}, lag {lag}"] = replace(noisy, clock={**CLOCK, "lag": lag})
    found = {
        name: toys.run(task.bench, f"fig-star/{name.replace(', ', '-').replace(' ', '-')}", toy)
        for name, toy in made.items()
    }
    step = significant(found[f"noise {SIGMA:g}, lag none"]["mean_dt"])
    fixed = replace(noisy, step=step, clock={})
    found[f"noise {SIGMA:g}, SGLD"] = toys.run(task.bench, "fig-star/noise-SGLD", fixed)
    return found


def examine(task: Task) -> Findings:
    """Run what is missing, then tables, figures and verdicts."""
    main = research(task)
    units = {n: toys.run(task.bench, f"fig-star/{n}", t, keep=True) for n, t in main.items()}
    adaptive, fixed = sweep(task)
    others = variants(task)
    fits = fits_of(adaptive, fixed)
    return Findings(
        settings={
            "SGLD": {"h": H},
            "SA-SGLD": {"dtau": DTAU, **CLOCK, "lag": "none"},
            "budget": asdict(task.scale.toy),
            "sweep": [DTAU / 2**k for k in range(task.scale.sweep)],
            "sigma of the noisy gradients": SIGMA,
        },
        numbers={
            "research": units,
            "sweep": {"SA-SGLD": adaptive, "SGLD": fixed},
            "variants": others,
            "fits": {name: asdict(fit) for name, fit in fits.items()},
        },
        verdicts=judge(units, adaptive, fixed, fits, task.bench.scale),
        tables=tables_of(units, adaptive, fixed, others),
        figures=figures_of(task, main, adaptive, fixed, fits),
    )


def fits_of(adaptive: list[Numbers], fixed: list[Numbers]) -> dict[str, Measured]:
    """Slopes of log |bias| and limits of the bias, against the mean step."""
    steps = [unit["mean_dt"] for unit in adaptive]
    made = {}
    for name in ("r2", "x2y2"):
        for label, units, kind in (
            ("SA-SGLD", adaptive, "weighted"),
            ("SA-SGLD unweighted", adaptive, "unweighted"),
            ("SGLD", fixed, "weighted"),
        ):
            points = [bias(unit, name, kind) for unit in units]
            made[f"limit {name} {label}"] = limit(steps, points)
            made[f"slope {name} {label}"] = log_slope(steps, points)
    return made


def tables_of(
    units: dict[str, Numbers],
    adaptive: list[Numbers],
    fixed: list[Numbers],
    others: dict[str, Numbers],
) -> list[Table]:
    """Biases in percent, with standard errors."""
    columns = ["", "mean dt", *(f"{name} %" for name in SHOWN), "total variation", "lost"]
    rows = [toys.row_of(f"{name}, research settings", u, "weighted", SHOWN) for name, u in
            units.items()]  # fmt: skip
    rows.append(toys.row_of("SA-SGLD, unweighted", units["SA-SGLD"], "unweighted", SHOWN))
    for k, (one, other) in enumerate(zip(adaptive, fixed, strict=True)):
        label = f"dtau = {DTAU / 2**k:.3g}"
        rows.append(toys.row_of(f"SA-SGLD, {label}", one, "weighted", SHOWN))
        rows.append(toys.row_of(f"SA-SGLD, {label}, unweighted", one, "unweighted", SHOWN))
        rows.append(toys.row_of("SGLD at that mean step", other, "weighted", SHOWN))
    rows += [toys.row_of(name, unit, "weighted", SHOWN) for name, unit in others.items()]
    return [Table("Star: bias in percent of the exact value", columns, rows, "± standard error")]


def figures_of(
    task: Task,
    main: dict[str, Toy],
    adaptive: list[Numbers],
    fixed: list[Numbers],
    fits: dict[str, Measured],
) -> list[figures.Figure]:
    """Draws, density errors, steps, and bias against the step."""
    target = toys.target_of(main["SGLD"])
    runs = {name: toys.draws_of(task.bench, f"fig-star/{name}", toy) for name, toy in main.items()}
    curves, slopes = {}, {}
    for label, units, kind in (
        ("SA-SGLD", adaptive, "weighted"),
        ("SA-SGLD unweighted", adaptive, "unweighted"),
        ("SGLD", fixed, "weighted"),
    ):
        for name, text in (("r2", "E[x²+y²]"), ("x2y2", "E[x²y²]")):
            key = f"{label}, {text}"
            curves[key] = [(unit["mean_dt"], bias(unit, name, kind)) for unit in units]
            slopes[key] = fits[f"slope {name} {label}"]
    return [
        figures.samples(
            target, runs, VIEW, "Star: draws", "Draws of SGLD and SA-SGLD over the star's contours"
        ),
        figures.density_error(
            target,
            {**runs, "SA-SGLD unweighted": toys.equal_weights(runs["SA-SGLD"])},
            "Star: error of the density",
            "Maps of found minus exact mass: SGLD lacks mass in the arms",
        ),
        figures.stepsizes(
            runs["SA-SGLD"], "Star: steps of SA-SGLD", "Step of one chain; histogram of all steps"
        ),
        figures.against_step(
            curves,
            "Star: bias against the mean step",
            "Bias of two averages falls with the step; unweighted it does not",
            slopes=slopes,
        ),
    ]
