"""How the cost of a step grows with the problem: dimension, chains, batch, data; and with the run.

    python -m studies.speed.scaling [--rounds 5] [--only dimension data]

Each line of sizes is one interleaved run of ``sundman.sample`` that keeps one draw in many, so that
storage does not matter. The slope of log time against log size is fitted by least squares to the
medians from ``linear_from`` on: below, the fixed cost of a step, or of a run, is seen. Its standard
error is that of the residuals, so it includes any curvature. Writes
``results/scaling.json`` and ``scaling.png``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import sundman
from studies import report
from studies.speed import scaling_figure
from studies.timing import Case, arguments, keep_to, measure, summary
from sundman import models, targets

FIGURE = Path(__file__).with_name("scaling.png")
STAR = targets.star()
STAR_SAMPLER = sundman.sa_sgld(1e-3, alpha=0.5, m=0.1, M=10.0, r=0.5, omega=100.0)
TOLERANCE = 0.05


class Line(NamedTuple):
    """Sizes to run, from where the cost should follow ``goal``'s power, and what is timed."""

    label: str
    time: str
    sizes: list[int]
    case: Callable[[int], Case]
    linear_from: int
    goal: float | None = None


def keep_nothing(position: Any) -> Array:
    """Keep nothing of a position."""
    del position
    return jnp.float32(0.0)


def run(target: Any, sampler: sundman.Sampler, steps: int, **more: Any) -> Case:
    """A run of so many steps that keeps nothing; its own count of seconds."""

    def once(number: int) -> float:
        key = jax.random.key(number)
        given = {"steps": steps, "thin": steps, "collect": keep_nothing, "progress": False}
        draws = sundman.sample(target, sampler, key=key, **given, **more)
        return float(draws.settings["seconds"])

    return Case(once, steps)


def half_square(x: Array) -> Array:
    """A standard Gaussian's potential."""
    return 0.5 * jnp.sum(x * x)


def by_dimension(size: int) -> Case:
    steps = int(np.clip(1e9 / size, 20, 20_000))
    return run(half_square, sundman.sgld(1e-3), steps, init=jnp.zeros(size))


def by_chains(size: int) -> Case:
    return run(STAR, STAR_SAMPLER, int(np.clip(4e6 / size, 200, 200_000)), chains=size)


def network(rows: int, batch: int, sizes: list[int], steps: int) -> Case:
    """SGLD on a network with made-up classes."""
    generator = np.random.default_rng(0)
    x = generator.normal(size=(rows, sizes[0])).astype(np.float32)
    y = generator.integers(0, sizes[-1], rows).astype(np.int32)
    posterior = sundman.Posterior(models.mlp_apply, data=(x, y))
    init = models.mlp_init(jax.random.key(0), sizes)
    sampler = sundman.sgld(posterior.time_step(1e-3, kinetic=False))
    return run(posterior, sampler, steps, init=init, batch_size=batch)


def by_batch(size: int) -> Case:
    return network(10_000, size, [64, 50, 50, 10], int(np.clip(2e5 / size, 500, 5000)))


def by_rows(size: int) -> Case:
    return network(size, 100, [20, 50, 50, 10], 2000)


def by_steps(size: int) -> Case:
    """The whole time of a call, one draw in a hundred kept."""

    def once(number: int) -> None:
        key = jax.random.key(number)
        sundman.sample(STAR, STAR_SAMPLER, key=key, steps=size, thin=100, progress=False)

    return Case(once, 1)


LINES = {
    "dimension": Line(
        "parameters",
        "time of a step",
        [10**2, 10**3, 10**4, 10**5, 10**6, 3 * 10**6, 10**7, 3 * 10**7, 10**8],
        by_dimension,
        10**6,
        1.0,
    ),
    "chains": Line(
        "chains", "time of a step of all", [1, 4, 16, 64, 256, 1000, 3000, 10_000], by_chains, 256
    ),
    "batch": Line("rows in a batch", "time of a step", [10, 30, 100, 300, 1000], by_batch, 100),
    "data": Line(
        "rows of data", "time of a step", [10**3, 10**4, 10**5, 10**6], by_rows, 10**3, 0.0
    ),
    "steps": Line(
        "steps",
        "time of a run",
        [10**3, 10**4, 10**5, 10**6, 3 * 10**6, 10**7],
        by_steps,
        10**6,
        1.0,
    ),
}


def slope(sizes: np.ndarray, times: np.ndarray) -> tuple[float, float]:
    """Of log time against log size, by least squares, with its standard error."""
    x, y = np.log(sizes), np.log(times)
    x, y = x - x.mean(), y - y.mean()
    found = float(x @ y / (x @ x))
    rest = float(np.sum((y - found * x) ** 2)) / max(1, len(x) - 2)
    return found, float(np.sqrt(rest / (x @ x)))


def follow(line: Line, rounds: int) -> dict[str, Any]:
    """Time one line and fit it."""
    cases = {str(size): line.case(size) for size in line.sizes}
    spent = measure(cases, rounds)
    medians = np.array([np.median(spent.times[name]) for name in cases])
    sizes = np.array(line.sizes, float)
    linear = sizes >= line.linear_from
    found, error = slope(sizes[linear], medians[linear])
    return {
        "sizes": line.sizes,
        "seconds": [summary(spent.times[name]) for name in cases],
        "steps": [case.steps for case in cases.values()],
        "linear_from": line.linear_from,
        "slope": found,
        "slope_error": error,
        "goal": line.goal,
        "met": None if line.goal is None else abs(found - line.goal) <= TOLERANCE,
        "cores_of_others": spent.others,
    }


def show(found: dict[str, Any]) -> None:
    table = report.table("Slope of log time against log size", "", "from", "slope", "goal", "")
    for name, row in found.items():
        goal = "" if row["goal"] is None else f"{row['goal']:.2f} ± {TOLERANCE:.2f}"
        verdict = {None: "", True: "met", False: "[bold]missed[/bold]"}[row["met"]]
        fitted = f"{row['slope']:.3f} ± {row['slope_error']:.3f}"
        table.add_row(name, f"{row['linear_from']:.0e}", fitted, goal, verdict)
    report.console().print(table)


def main() -> None:
    parser = arguments(__doc__, "scaling", rounds=5)
    parser.add_argument("--only", nargs="*", choices=LINES, default=list(LINES))
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args()
    keep_to(options.cores)
    found = {name: follow(LINES[name], options.rounds) for name in options.only}
    show(found)
    report.write(options.output, settings=report.settings(rounds=options.rounds), lines=found)
    labels = {name: (LINES[name].label, LINES[name].time) for name in found}
    scaling_figure.draw(found, labels, options.figure)


if __name__ == "__main__":
    main()
