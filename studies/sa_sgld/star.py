"""The star: U = x^2 + 1000 x^2 y^2 + y^2, at the settings of the research code.

SA-SGLD with m = .1, M = 10, r = .5, s = 2, alpha = .5, dtau = 1e-3, Omega = 100 and psi
``research_code`` against SGLD at h = 4e-4, both from the origin. Then from exact draws: dtau halved
again and again, the three weights, the three lags, and gradients with white noise.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from studies.sa_sgld import figures, toys
from studies.sa_sgld.experiment import Findings, Task
from studies.sa_sgld.statistics import Measurement, all_of, equal, less, limit, log_slope
from studies.sa_sgld.toys import Toy, ToyRun, Weighting, magnitude_difference, significant
from sundman.clocks import SundmanSettings
from sundman.report.model import Outcome, Table, Verdict

CLOCK: SundmanSettings = {
    "alpha": 0.5, "m": 0.1, "M": 10.0, "r": 0.5, "s": 2.0, "omega": 100.0, "psi": "research_code",
}  # fmt: skip
DTAU, H, SIGMA = 1e-3, 4e-4, 20.0
VIEW = ((-2.1, 2.1), (-2.1, 2.1))
SHOWN = ("r2", "x2y2", "outer", "U", "virial")


def research(task: Task) -> dict[str, Toy]:
    """The two runs of the figure."""
    base = Toy("star", H, task.scale.toy, start="default", seed=task.seed)
    return {"SGLD": base, "SA-SGLD": replace(base, step=DTAU, clock=CLOCK)}


def sweep(task: Task) -> tuple[list[ToyRun], list[ToyRun]]:
    """SA-SGLD at dtau, dtau/2, ... and SGLD at the mean step each had."""
    adaptive, fixed = [], []
    for k in range(task.scale.sweep):
        toy = Toy("star", DTAU / 2**k, task.scale.toy, clock=CLOCK, seed=task.seed + 10 + k)
        adaptive.append(toys.run(task.cache, f"fig-star/sweep-sa-sgld-{k}", toy))
        matched = replace(toy, step=significant(adaptive[-1].mean_dt), clock={})
        fixed.append(toys.run(task.cache, f"fig-star/sweep-sgld-{k}", matched))
    return adaptive, fixed


def variants(task: Task) -> dict[str, ToyRun]:
    """Weights of the arriving step, lagged clocks, and gradients with noise."""
    base = Toy("star", DTAU, task.scale.toy, clock=CLOCK, seed=task.seed + 10)
    settings = {"arriving weights": replace(base, weighting="arriving")}
    for lag in ("full", "guarded"):
        settings[f"lag {lag}"] = replace(base, clock={**CLOCK, "lag": lag})
    noisy = replace(base, sigma=SIGMA)
    for lag in ("none", "full", "guarded"):
        settings[f"noise {SIGMA:g}, lag {lag}"] = replace(noisy, clock={**CLOCK, "lag": lag})
    runs = {
        name: toys.run(task.cache, f"fig-star/{name.replace(', ', '-').replace(' ', '-')}", toy)
        for name, toy in settings.items()
    }
    step = significant(runs[f"noise {SIGMA:g}, lag none"].mean_dt)
    fixed = replace(noisy, step=step, clock={})
    runs[f"noise {SIGMA:g}, SGLD"] = toys.run(task.cache, "fig-star/noise-SGLD", fixed)
    return runs


def run(task: Task) -> Findings:
    """Run what is missing, then tables, figures and verdicts."""
    main = research(task)
    runs = {n: toys.run(task.cache, f"fig-star/{n}", t, keep=True) for n, t in main.items()}
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
            "research": {name: each.to_json() for name, each in runs.items()},
            "sweep": {
                "SA-SGLD": [each.to_json() for each in adaptive],
                "SGLD": [each.to_json() for each in fixed],
            },
            "variants": {name: each.to_json() for name, each in others.items()},
            "fits": {name: asdict(fit) for name, fit in fits.items()},
        },
        verdicts=judge(runs, adaptive, fixed, fits, task.cache.scale),
        tables=tables_of(runs, adaptive, fixed, others),
        figures=figures_of(task, main, adaptive, fixed, fits),
    )


def series_of(
    adaptive: list[ToyRun], fixed: list[ToyRun]
) -> tuple[tuple[str, list[ToyRun], Weighting], ...]:
    """The three lines of the figure: label, runs, and which of their averages."""
    return (
        ("SA-SGLD", adaptive, "weighted"),
        ("SA-SGLD unweighted", adaptive, "unweighted"),
        ("SGLD", fixed, "weighted"),
    )


def fits_of(adaptive: list[ToyRun], fixed: list[ToyRun]) -> dict[str, Measurement]:
    """Slopes of log |bias| and limits of the bias, against the mean step."""
    steps = [run.mean_dt for run in adaptive]
    fits = {}
    for name in ("r2", "x2y2"):
        for label, runs, kind in series_of(adaptive, fixed):
            points = [run.bias(name, kind) for run in runs]
            fits[f"limit {name} {label}"] = limit(steps, points)
            fits[f"slope {name} {label}"] = log_slope(steps, points)
    return fits


def tables_of(
    main: dict[str, ToyRun],
    adaptive: list[ToyRun],
    fixed: list[ToyRun],
    others: dict[str, ToyRun],
) -> list[Table]:
    """Biases in percent, with standard errors."""
    columns = ["", "mean dt", *(f"{name} %" for name in SHOWN), "total variation", "lost"]

    def row(name: str, run: ToyRun, kind: Weighting = "weighted") -> list[str]:
        return toys.row_of(name, run, kind, SHOWN)

    rows = [row(f"{name}, research settings", run) for name, run in main.items()]
    rows.append(row("SA-SGLD, unweighted", main["SA-SGLD"], "unweighted"))
    for k, (one, other) in enumerate(zip(adaptive, fixed, strict=True)):
        label = f"dtau = {DTAU / 2**k:.3g}"
        rows.append(row(f"SA-SGLD, {label}", one))
        rows.append(row(f"SA-SGLD, {label}, unweighted", one, "unweighted"))
        rows.append(row("SGLD at that mean step", other))
    rows += [row(name, run) for name, run in others.items()]
    return [Table("Star: bias in percent of the exact value", columns, rows, "± standard error")]


def figures_of(
    task: Task,
    main: dict[str, Toy],
    adaptive: list[ToyRun],
    fixed: list[ToyRun],
    fits: dict[str, Measurement],
) -> list[figures.Figure]:
    """Draws, density errors, steps, and bias against the step."""
    target = toys.target_of(main["SGLD"])
    runs = {name: toys.draws_of(task.cache, f"fig-star/{name}", toy) for name, toy in main.items()}
    curves, slopes = {}, {}
    for label, series, kind in series_of(adaptive, fixed):
        for name, text in (("r2", "E[x²+y²]"), ("x2y2", "E[x²y²]")):
            key = f"{label}, {text}"
            curves[key] = [(run.mean_dt, run.bias(name, kind)) for run in series]
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


def judge(
    runs: dict[str, ToyRun],
    adaptive: list[ToyRun],
    fixed: list[ToyRun],
    fits: dict[str, Measurement],
    scale: str,
) -> list[Verdict]:
    """One verdict for each claim about the star."""
    sgld, sa = runs["SGLD"], runs["SA-SGLD"]
    return [
        mean_step(sa, scale),
        unbiased(sa, scale),
        in_the_limit(fits["limit r2 SA-SGLD"], fits["limit x2y2 SA-SGLD"], scale),
        weights_needed(fits["limit r2 SA-SGLD unweighted"], scale),
        ridges(sgld, scale),
        more_accurate(adaptive[0], fixed[0], scale),
        oscillations(sgld, sa, scale),
    ]


def mean_step(sa: ToyRun, scale: str) -> Verdict:
    """SGLD's h is said to be SA-SGLD's mean step."""
    off = abs(sa.mean_dt / 4e-4 - 1)
    outcome: Outcome = (
        "reproduces" if off < 0.05 else "partly" if off < 0.2 else "does not reproduce"
    )
    low, high = sa.dt_1_99
    return Verdict(
        "Star: SA-SGLD's mean step is the 4e-4 given to SGLD",
        "4e-4",
        f"{sa.mean_dt:.3g} (1 to 99%: {low:.2g} to {high:.2g})",
        "< 1%",
        outcome,
        f"Reproduces within 5%, partly within 20%. Scale {scale}.",
    )


def unbiased(sa: ToyRun, scale: str) -> Verdict:
    """Is there no bias at the published step, "without introducing bias" taken at its word?"""
    b = sa.bias("r2")
    return Verdict(
        "Star: SA-SGLD's weighted averages are unbiased at the published step",
        "adaptive steps without introducing bias",
        f"bias of E[x²+y²] {b.text(percent=True, sign=True)}",
        f"{100 * b.error:.2g}%",
        equal(b, margin=0.02),
        f"Reproduces if |bias| is within 2 standard errors, partly if within 2% more. Scale "
        f"{scale}.",
    )


def in_the_limit(r2: Measurement, x2y2: Measurement, scale: str) -> Verdict:
    """The bias extrapolated to a step of 0."""
    outcome = all_of([equal(r2, resolution=0.3), equal(x2y2, resolution=0.3)])
    return Verdict(
        "Star: the weighted averages tend to the truth as the step goes to 0",
        "bias O(h)",
        f"limits of the biases of E[x²+y²], E[x²y²]: {r2.text(percent=True, sign=True)}, "
        f"{x2y2.text(percent=True, sign=True)}",
        f"{100 * r2.error:.2g}%, {100 * x2y2.error:.2g}%",
        outcome,
        f"Parabola through the biases at dtau, dtau/2, ...; reproduces if the limits are "
        f"within 2 standard errors of 0, where these are below 15%. Scale {scale}.",
    )


def weights_needed(unweighted: Measurement, scale: str) -> Verdict:
    """Unweighted averages sample pi/psi, another law."""
    beyond = abs(unweighted.value) > unweighted.half
    return Verdict(
        "Star: without the weights the averages stay biased as the step goes to 0",
        "weights are part of the theorem",
        f"limit of the bias of E[x²+y²] {unweighted.text(percent=True, sign=True)}",
        f"{100 * unweighted.error:.2g}%",
        "reproduces" if beyond else "not tested",
        "Reproduces if the limit is more than 2 standard errors from 0; else the run is too short "
        f"to tell. Scale {scale}.",
    )


def ridges(sgld: ToyRun, scale: str) -> Verdict:
    """Too much mass beyond +-1, the paper says."""
    mass, exact = sgld.average("outer"), sgld.weighted["outer"].exact
    excess = mass - exact
    outcome: Outcome = "not tested"
    if abs(excess.value) > excess.half:
        outcome = "reproduces" if excess.value > 0 else "does not reproduce"
    return Verdict(
        "Star: SGLD oversamples the outer ridges",
        "oversamples",
        f"P(|x| > 1 or |y| > 1) = {mass.text()}; exact {exact:.4f}",
        f"{mass.error:.2g}",
        outcome,
        f"By the sign of the difference, if it is beyond 2 standard errors: SGLD has too little "
        f"mass there where it is negative. Scale {scale}.",
    )


def more_accurate(sa: ToyRun, sgld: ToyRun, scale: str) -> Verdict:
    """Smaller biases at one mean step."""
    parts = {name: magnitude_difference(sa.bias(name), sgld.bias(name)) for name in ("r2", "x2y2")}
    outcome = all_of([less(part, -0.01) for part in parts.values()])
    text = ", ".join(part.text(percent=True, sign=True) for part in parts.values())
    return Verdict(
        "Star: SA-SGLD is more accurate than SGLD at the same mean step",
        "more accurate",
        f"|bias| of E[x²+y²], E[x²y²], SA-SGLD minus SGLD: {text}",
        ", ".join(f"{100 * part.error:.2g}%" for part in parts.values()),
        outcome,
        "Reproduces if both differences are below 0 by more than 2 standard errors; both chains "
        f"from exact draws. Scale {scale}.",
    )


def oscillations(sgld: ToyRun, sa: ToyRun, scale: str) -> Verdict:
    """The distance from the exact law, cell by cell."""
    one, other = sa.total_variation, sgld.total_variation
    assert one is not None
    assert other is not None
    outcome: Outcome = "reproduces" if one < 0.98 * other else "does not reproduce"
    return Verdict(
        "Star: SA-SGLD's density is nearer to the exact one",
        "visibly better",
        f"total variation {one:.4f}, SGLD {other:.4f}",
        "not estimated",
        outcome,
        f"Reproduces if smaller by more than 2%. Half the summed difference over 60 x 60 cells. "
        f"Scale {scale}.",
    )
