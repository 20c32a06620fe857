"""Mueller-Brown at the paper's alpha = .07, r = .25, s = 2, at T = 1 and 2.

m, M, Omega and dtau are not given. Ours: m = .1, M = 10, Omega = 1, psi ``code``, and dtau = .009,
which makes a mean step of about .002; SGLD runs at the mean step found.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from sundman.paper import figures, toys
from sundman.paper.measured import Measured, less
from sundman.paper.run import Findings, Task
from sundman.paper.toys import Toy, bias, magnitude_difference, significant
from sundman.paper.units import Numbers
from sundman.report.model import Outcome, Table, Verdict

CLOCK: dict[str, Any] = {
    "alpha": 0.07, "m": 0.1, "M": 10.0, "r": 0.25, "s": 2.0, "omega": 1.0, "psi": "code",
}  # fmt: skip
DTAU = 0.009
TEMPERATURES = (1.0, 2.0)
VIEW = ((-2.7, 2.0), (-1.6, 2.7))
SHOWN = ("right", "top", "left", "U", "virial")


def runs_at(task: Task, temperature: float) -> dict[str, tuple[Toy, Numbers]]:
    """SA-SGLD and, at its mean step, SGLD."""
    toy = Toy(
        "muller-brown",
        DTAU,
        task.scale.toy,
        clock=CLOCK,
        temperature=temperature,
        seed=task.seed,
    )
    adaptive = toys.run(task.bench, f"fig-muller-brown/SA-SGLD-{temperature:g}", toy, keep=True)
    fixed = replace(toy, step=significant(adaptive["mean_dt"]), clock={})
    return {
        "SGLD": (
            fixed,
            toys.run(task.bench, f"fig-muller-brown/SGLD-{temperature:g}", fixed, keep=True),
        ),
        "SA-SGLD": (toy, adaptive),
    }


def examine(task: Task) -> Findings:
    """Run what is missing, then table, figures and verdicts."""
    rows, numbers, verdicts, shown = [], {}, [], []
    for T in TEMPERATURES:
        made = runs_at(task, T)
        units = {name: unit for name, (_, unit) in made.items()}
        numbers[f"T = {T:g}"] = units
        for name, unit in units.items():
            rows.append(toys.row_of(f"T = {T:g}, {name}", unit, "weighted", SHOWN))
        rows.append(
            toys.row_of(f"T = {T:g}, SA-SGLD unweighted", units["SA-SGLD"], "unweighted", SHOWN)
        )
        verdicts += judge(units, T, task.bench.scale)
        target = toys.target_of(made["SGLD"][0])
        draws = {
            name: toys.draws_of(task.bench, f"fig-muller-brown/{name}-{T:g}", toy)
            for name, (toy, _) in made.items()
        }
        about = f"Müller-Brown, T = {T:g}"
        shown += [
            figures.samples(
                target, draws, VIEW, f"{about}: draws", f"Draws over contours, {about}"
            ),
            figures.density_error(
                target,
                draws,
                f"{about}: error of the density",
                f"Maps of found minus exact, {about}",
            ),
        ]
        if TEMPERATURES[-1] == T:
            shown.append(
                figures.stepsizes(
                    draws["SA-SGLD"], f"{about}: steps of SA-SGLD", "Step of a chain; histogram"
                )
            )
    columns = ["", "mean dt", *(f"{name} %" for name in SHOWN), "total variation", "lost"]
    title = "Müller-Brown: bias in percent of the exact value"
    return Findings(
        settings={
            "SA-SGLD": {"dtau": DTAU, **CLOCK, "lag": "none"},
            "given by the paper": ["alpha", "r", "s"],
            "temperatures": list(TEMPERATURES),
            "budget": asdict(task.scale.toy),
        },
        numbers=numbers,
        verdicts=verdicts,
        tables=[Table(title, columns, rows, "± standard error; right, top, left: the wells")],
        figures=shown,
    )


def judge(units: dict[str, Numbers], temperature: float, scale: str) -> list[Verdict]:
    """Is SA-SGLD more accurate, and does its step vary at all?"""
    sa, sgld = units["SA-SGLD"], units["SGLD"]
    low, high = sa["dt_1_99"]
    variation = high / low - 1
    heat: Measured = magnitude_difference(bias(sa, "virial"), bias(sgld, "virial"))
    well: Measured = magnitude_difference(bias(sa, "right"), bias(sgld, "right"))
    outcome: Outcome = less(heat, -0.01)
    varies: Outcome = "reproduces" if variation > 0.5 else (
        "partly" if variation > 0.1 else "does not reproduce"
    )  # fmt: skip
    about = f"T = {temperature:g}; m, M, Omega, dtau ours. Scale {scale}."
    return [
        Verdict(
            f"Müller-Brown, T = {temperature:g}: SA-SGLD is more accurate than SGLD at one mean "
            "step",
            "better exploration of the wells",
            f"|bias| of the temperature, and of the mass of the right well, SA-SGLD minus SGLD: "
            f"{heat.text(percent=True, sign=True)}, {well.text(percent=True, sign=True)}",
            f"{100 * heat.error:.2g}%, {100 * well.error:.2g}%",
            outcome,
            "Judged by the temperature: lower by more than 2 standard errors reproduces; a gain of "
            f"1% excluded does not; else too short to tell. {about}",
        ),
        Verdict(
            f"Müller-Brown, T = {temperature:g}: the step adapts along the path",
            "the step varies with the landscape",
            f"1 to 99% of the steps: {low:.3g} to {high:.3g}, {100 * variation:.0f}% apart",
            "none",
            varies,
            f"Reproduces if more than 50% apart, partly if more than 10%. {about}",
        ),
    ]
