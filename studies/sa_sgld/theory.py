"""The theory on U = x^4/4 + x^2/2: order, convergence, correlation with the gradient noise.

    order         the bias of a weighted average is O(h): slope 1 on logarithmic axes
    convergence   on one path with decreasing steps the weighted mean tends to the truth
    correlation   dt depends on the noise of the gradient it multiplies: with a memoryless clock
                  the bias this makes stays as h -> 0; with a lag, or a memory, it vanishes
    moments       gamma(h) > 0 needs a m > sigma M

Clock: psi ``published``, m = .1, M = 10, r = .5, g = |G|^2; alpha = 5 where it has a memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

import numpy as np

from studies.sa_sgld import theory_assumptions, toys
from studies.sa_sgld.experiment import Findings, Task
from studies.sa_sgld.figures import Figure, against_step, lines
from studies.sa_sgld.statistics import Measurement, all_of, equal, equivalent, limit, log_slope
from studies.sa_sgld.theory_assumptions import OFFSET, POWER, Path
from studies.sa_sgld.toys import Toy, ToyRun, Weighting
from sundman.clocks import SundmanSettings
from sundman.report.model import Table, Verdict

PSI: SundmanSettings = {"m": 0.1, "M": 10.0, "r": 0.5, "psi": "published"}
CLOCK_WITH_MEMORY: SundmanSettings = {**PSI, "alpha": 5.0}
FORGETFUL: SundmanSettings = {**PSI, "alpha": 1e4, "omega": 1e-4}  # rho = 0: zeta_{n+1} = g_n
ORDER_DTAU, NOISE_DTAU, SIGMA = 0.02, 0.0125, 2.0
_NO_BIAS = 0.005  # of a limit, as a share of the exact value
LABELS = {
    "order": "memory, leaving weights",
    "arriving": "memory, arriving weights",
    "unweighted": "memory, unweighted",
    "memoryless": "noise 2, memoryless",
    "lagged": "noise 2, memoryless, lagged",
    "memory": "noise 2, memory",
}


@dataclass(frozen=True)
class Curve:
    """The bias of E[x^2] at each mean step of a series, with its slope and its limit."""

    points: list[tuple[float, Measurement]]
    slope: Measurement
    limit: Measurement


Curves = Mapping[str, Curve]


def series(
    task: Task,
    name: str,
    dtau: float,
    seed: int,
    *,
    clock: SundmanSettings,
    sigma: float = 0.0,
    weighting: str = "leaving",
) -> list[ToyRun]:
    """A run at dtau, dtau/2, dtau/4, ...

    Args:
      task: of the experiment.
      name: of the series.
      dtau: the largest step.
      seed: added to the task's.
      clock: settings of the adaptive clock.
      sigma: of the noise of the gradient.
      weighting: ``"leaving"`` or ``"arriving"``.

    Returns:
      The runs, from the largest step to the smallest.
    """
    budget = replace(task.scale.toy, chains=4 * task.scale.toy.chains)
    base = Toy("quartic", dtau, budget, clock=clock, sigma=sigma, weighting=weighting)
    return [
        toys.run(
            task.cache,
            f"theory/{name}-{k}",
            replace(base, step=dtau / 2**k, seed=task.seed + seed + k),
        )
        for k in range(task.scale.sweep)
    ]


def curve_of(runs: list[ToyRun], kind: Weighting = "weighted") -> Curve:
    """(mean step, bias) of each run, and the fits through these."""
    points = [(run.mean_dt, run.bias("x2", kind)) for run in runs]
    steps, biases = [h for h, _ in points], [b for _, b in points]
    return Curve(points, log_slope(steps, biases), limit(steps, biases))


def run(task: Task) -> Findings:
    """Run what is missing, then fits, table, figures and verdicts."""
    lagging: SundmanSettings = {**FORGETFUL, "lag": "full"}
    runs = {
        "order": series(task, "order", ORDER_DTAU, 0, clock=CLOCK_WITH_MEMORY),
        "arriving": series(
            task, "arriving", ORDER_DTAU, 0, clock=CLOCK_WITH_MEMORY, weighting="arriving"
        ),
        "memoryless": series(task, "memoryless", NOISE_DTAU, 20, clock=FORGETFUL, sigma=SIGMA),
        "lagged": series(task, "lagged", NOISE_DTAU, 20, clock=lagging, sigma=SIGMA),
        "memory": series(task, "memory", NOISE_DTAU, 20, clock=CLOCK_WITH_MEMORY, sigma=SIGMA),
    }
    curves = {name: curve_of(each) for name, each in runs.items()}
    curves["unweighted"] = curve_of(runs["order"], "unweighted")
    path = theory_assumptions.convergence(task, CLOCK_WITH_MEMORY)
    rate = theory_assumptions.rate_of(path)
    conditions, (zetas, keeps_target) = (
        theory_assumptions.moments(),
        theory_assumptions.one_zeta_or_many(task),
    )
    lost = sum(each.lost for each in runs["memoryless"])
    scale = task.cache.scale
    return Findings(
        settings={
            "target": "x^4/4 + x^2/2",
            "clock": CLOCK_WITH_MEMORY,
            "memoryless clock": FORGETFUL,
            "dtau": {"order": ORDER_DTAU, "noise": NOISE_DTAU},
            "sigma": SIGMA,
            "decreasing": {"dtau": 0.04, "power": POWER, "offset": OFFSET},
            "budget": asdict(task.scale.toy),
        },
        numbers={
            "runs": {name: [each.to_json() for each in of_name] for name, of_name in runs.items()},
            "fits": {
                name: {"slope": asdict(curve.slope), "limit": asdict(curve.limit)}
                for name, curve in curves.items()
            },
            "convergence": {**path.to_json(), "slope against time": asdict(rate)},
            "moment condition": conditions,
            "one zeta or many": zetas,
        },
        verdicts=[
            order(curves, scale),
            both_weights(curves, scale),
            theory_assumptions.converges(rate, scale),
            correlation(curves["memoryless"].limit, scale),
            with_memory(curves["memory"].limit, scale),
            lagged(curves["lagged"].limit, scale),
            theory_assumptions.moments_bounded(conditions, lost, scale),
            theory_assumptions.lipschitz(),
            keeps_target,
        ],
        tables=[table_of(curves)],
        figures=figures_of(curves, path),
    )


def table_of(curves: Curves) -> Table:
    """Biases, slope and limit of each series."""
    rows = []
    for name, curve in curves.items():
        slope, end = curve.slope, curve.limit
        cells = [
            f"{100 * b.value:+.2f} ± {100 * b.error:.2f} (dt {h:.3g})" for h, b in curve.points
        ]
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


def figures_of(curves: Curves, path: Path) -> list[Figure]:
    """Bias against the step, and error against the length of a path."""
    steps = np.asarray(path.steps, float)
    guide = path.rms[0] * (steps / steps[0]) ** (-(1 - POWER) / 2)
    return [
        against_step(
            {LABELS[name]: curve.points for name, curve in curves.items()},
            "Quartic: bias of E[x²] against the step",
            "Weighted biases fall with slope one; memoryless with noise and unweighted stay",
            slopes={LABELS[name]: curve.slope for name, curve in curves.items()},
        ),
        lines(
            {
                "all paths (root mean square)": (steps, path.rms),
                "one path": (steps, path.one_path),
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


def order(curves: Curves, scale: str) -> Verdict:
    """Slope 1 on logarithmic axes."""
    slope = curves["order"].slope
    return Verdict(
        "The bias of weighted averages is O(h)",
        "slope 1",
        f"slope {slope.text()}",
        f"{slope.error:.2g}",
        equal(slope - 1.0, margin=0.2, resolution=0.5),
        "Quartic, clock with memory, leaving weights. Reproduces within 2 standard errors of 1, "
        f"partly within .2 more: next orders bend the line. Scale {scale}.",
    )


def both_weights(curves: Curves, scale: str) -> Verdict:
    """dt_k of the theorem or dt_{k+1} of its proof."""
    arriving, leaving = curves["arriving"].limit, curves["order"].limit
    difference = arriving - leaving  # as if independent, which is the wider
    outcome = all_of([equivalent(part, _NO_BIAS) for part in (arriving, leaving, difference)])
    return Verdict(
        "The theorem's weight dt_k and its proof's dt_{k+1} have the same limit",
        "f(theta_k) weighted with dt_k; the proof has dt_{k+1}",
        f"limits of the bias: {arriving.text(percent=True, sign=True)} (dt_k), "
        f"{leaving.text(percent=True, sign=True)} (dt_k+1)",
        f"{100 * arriving.error:.2g}%, {100 * leaving.error:.2g}%",
        outcome,
        "Reproduces if the 95% intervals of both limits and of their difference are within .5%. "
        "(The rule was that both are within 2 standard errors of 0: limits by a fitted parabola "
        f"err together by more than that, since they are of the same paths.) Scale {scale}.",
    )


def correlation(end: Measurement, scale: str) -> Verdict:
    """Memoryless: does the covariance of step and gradient vanish?"""
    return _no_bias_left(
        "The correlation of step and gradient noise leaves no bias as h -> 0 (memoryless clock)",
        "the term is of higher order",
        end,
        0.0,
        f"Gradient noise 2, alpha dtau >> 1. Reproduces if within 2 standard errors of 0. Scale "
        f"{scale}.",
    )


def with_memory(end: Measurement, scale: str) -> Verdict:
    """With (1 - rho)/alpha = O(h) it does vanish."""
    return _no_bias_left(
        "The same with a memory, (1 - rho)/alpha = O(h)",
        "the term is O(h²) per step",
        end,
        0.01,
        f"alpha = 5. Reproduces within 2 standard errors of 0, partly within 1% more. Scale "
        f"{scale}.",
    )


def lagged(end: Measurement, scale: str) -> Verdict:
    """Our cure: the step is set before the gradient is seen."""
    return _no_bias_left(
        "A lagged clock cures the correlation (ours, not the paper's)",
        "not in the paper",
        end,
        0.01,
        f"Memoryless clock, lag full, gradient noise 2. Reproduces within 2 standard errors of 0, "
        f"partly within 1% more. Scale {scale}.",
    )


def _no_bias_left(claim: str, paper: str, end: Measurement, margin: float, note: str) -> Verdict:
    """Is the bias of E[x²], extrapolated to h = 0, none?"""
    return Verdict(
        claim,
        paper,
        f"limit of the bias of E[x²] {end.text(percent=True, sign=True)}",
        f"{100 * end.error:.2g}%",
        equal(end, margin=margin, resolution=0.1),
        note,
    )
