"""Mueller-Brown at the paper's alpha = .07, r = .25, s = 2, at T = 1 and 2.

m, M, Omega and dtau are not given. Ours: m = .1, M = 10, Omega = 1, psi ``research_code``, and
dtau = .009, which makes a mean step of about .002; SGLD runs at the mean step that this makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from studies.sa_sgld import figures, toys
from studies.sa_sgld.experiment import Findings, Task
from studies.sa_sgld.statistics import Measurement, less
from studies.sa_sgld.toys import Toy, ToyRun, significant
from sundman.clocks import SundmanSettings
from sundman.report.model import Outcome, Table, Verdict

CLOCK: SundmanSettings = {
    "alpha": 0.07, "m": 0.1, "M": 10.0, "r": 0.25, "s": 2.0, "omega": 1.0, "psi": "research_code",
}  # fmt: skip
DTAU = 0.009
TEMPERATURES = (1.0, 2.0)
VIEW = ((-2.7, 2.0), (-1.6, 2.7))
SHOWN = ("right", "top", "left", "U", "virial")
JUDGED = ("virial", "right")


def runs_at(task: Task, temperature: float) -> dict[str, tuple[Toy, ToyRun]]:
    """SA-SGLD and, at its mean step, SGLD."""
    toy = Toy(
        "muller-brown",
        DTAU,
        task.scale.toy,
        clock=CLOCK,
        temperature=temperature,
        seed=task.seed,
    )
    adaptive = toys.run(task.cache, f"fig-muller-brown/SA-SGLD-{temperature:g}", toy, keep=True)
    fixed = replace(toy, step=significant(adaptive.mean_dt), clock={})
    return {
        "SGLD": (
            fixed,
            toys.run(task.cache, f"fig-muller-brown/SGLD-{temperature:g}", fixed, keep=True),
        ),
        "SA-SGLD": (toy, adaptive),
    }


def run(task: Task) -> Findings:
    """Run what is missing, then table, figures and verdicts."""
    rows, numbers, verdicts, shown = [], {}, [], []
    for T in TEMPERATURES:
        both = runs_at(task, T)
        runs = {name: run for name, (_, run) in both.items()}
        numbers[f"T = {T:g}"] = {name: run.to_json() for name, run in runs.items()}
        for name, each in runs.items():
            rows.append(toys.row_of(f"T = {T:g}, {name}", each, "weighted", SHOWN))
        rows.append(
            toys.row_of(f"T = {T:g}, SA-SGLD unweighted", runs["SA-SGLD"], "unweighted", SHOWN)
        )
        target = toys.target_of(both["SGLD"][0])
        draws = {
            name: toys.draws_of(task.cache, f"fig-muller-brown/{name}-{T:g}", toy)
            for name, (toy, _) in both.items()
        }
        gains = toys.paired_magnitude_differences(target, draws["SA-SGLD"], draws["SGLD"], JUDGED)
        numbers[f"T = {T:g}"]["SA-SGLD minus SGLD, |bias|"] = {
            name: asdict(gain) for name, gain in gains.items()
        }
        verdicts += judge(runs["SA-SGLD"], gains, T, task.cache.scale)
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


def judge(
    adaptive: ToyRun, gains: Mapping[str, Measurement], temperature: float, scale: str
) -> list[Verdict]:
    """Is SA-SGLD more accurate, and does its step vary at all?

    Args:
      adaptive: the run of SA-SGLD.
      gains: |bias| of SA-SGLD minus that of SGLD, of the observables ``JUDGED``.
      temperature: T of both.
      scale: of the experiment.

    Returns:
      A verdict on each.
    """
    low, high = adaptive.dt_1_99
    variation = high / low - 1
    temperature_bias, well_bias = (gains[name] for name in JUDGED)
    outcome: Outcome = less(temperature_bias, -0.01)
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
            f"{temperature_bias.text(percent=True, sign=True)}, "
            f"{well_bias.text(percent=True, sign=True)}",
            f"{100 * temperature_bias.error:.2g}%, {100 * well_bias.error:.2g}%",
            outcome,
            "Judged by the temperature: lower by more than 2 standard errors reproduces; a gain of "
            "1% excluded does not; else too short to tell. Both run on the same noise, and the "
            "error is that of the differences between their chains (rule changed: it was as if the "
            f"two were independent, several times as large). {about}",
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
