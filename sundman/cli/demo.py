"""``sundman demo``: a million rows, a network and a table, each without a setting."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import check, estimate
from sundman.cli import options
from sundman.cli.bnn.plan import BnnSettings, make_plan
from sundman.cli.bnn.run import SeedScores, run_networks
from sundman.cli.bnn.scores import calibration_figure, held_out_targets
from sundman.cli.errors import RunFailed, as_user_error
from sundman.cli.output import (
    FIGURE,
    HOUSES,
    REPORT,
    console,
    first_free_directory,
    prepare_directory,
    print_line,
    print_table,
    report_citations,
    report_facts,
    verdict_text,
    write_results,
)
from sundman.cli.settings import Request
from sundman.report import Figure, Report, Section, Table, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_COLUMNS = 20
_SHOWN = 40  # held-out prices in the picture


class Size(NamedTuple):
    """How much to run; the table's ``epochs`` are None where it ends by its own rule."""

    rows: int
    steps: int
    digits_epochs: int
    houses: int
    houses_epochs: int | None


FULL = Size(1_000_000, 10_000, 1_000, 400, None)
SMALL = Size(20_000, 400, 20, 60, 400)


def demo(
    output: Annotated[
        Path | None,
        options.output("--output", "-o", text="Directory. [default: sundman-demo]"),
    ] = None,
    seed: Annotated[
        int, options.run("--seed", text="Of all random numbers. [default: 2026]")
    ] = 2026,
    force: options.Force = False,
    no_cache: options.NoCache = False,
    quick: Annotated[
        bool, options.run("--quick", text="A fiftieth of the work: a try-out, not a result.")
    ] = False,
) -> None:
    """A million rows, a network and a table, without a setting; about a minute on two cores.

    A logistic regression on a million rows of made-up data, whose coefficients are known; a network
    on scikit-learn's digits; and a table of made-up house prices, with names and gaps. Each ends in
    a verdict that says whether to trust it. The last line but three is the path of a report.

    For example:

    sundman demo --output demo
    """
    began = time.perf_counter()
    options.use_compilation_cache(not no_cache)
    with as_user_error():
        check.count("seed", seed, least=0)
    path = prepare_directory(output or first_free_directory(Path("sundman-demo")), force)
    out, size = console(), SMALL if quick else FULL
    print_line(out, f"1 of 3: a logistic regression on {size.rows:,} rows.")
    regression = sample_many_rows(size, seed)
    print_table(out, regression.table())
    print_line(out, f"Verdict: {regression.draws.verdict}")
    print_line(out, "2 of 3: a network on pictures of digits, as sundman bnn digits makes it.")
    asked = {"name": "digits", "seed": seed, "epochs": size.digits_epochs}
    digits = _networks(asked, path / "digits")
    print_line(out, "3 of 3: a table with names and gaps, as sundman bnn --csv makes it.")
    table = path / HOUSES
    table.write_text(made_up_houses(size.houses, seed))
    asked = {"csv": table, "target": "price", "task": "regression", "seed": seed}
    asked |= {"width": 20, "depth": 1}
    if size.houses_epochs is None:
        asked["until"] = "ess=120,rhat=1.1"
    else:
        asked["epochs"] = size.houses_epochs
    houses = _networks(asked, path / "houses")
    picture = draw_picture(regression, houses)
    (path / FIGURE).write_bytes(picture.png)
    seconds = time.perf_counter() - began
    verdicts = {
        f"{size.rows:,} rows": regression.draws,
        "digits": next(iter(digits.runs.values())),
        "house prices": next(iter(houses.runs.values())),
    }
    results = {"rows": regression.as_json(), "digits": digits.as_json(), "houses": houses.as_json()}
    write_results(path, {"seed": seed, "seconds": seconds, **results})
    report = _report(regression, digits, houses, picture, verdicts, seed, seconds)
    write(report, path / REPORT)
    if quick:
        print_line(out, "A try-out: these runs are too short to be trusted.")
    print_line(out, f"All three: {verdict_text(verdicts)}")
    print_line(out, f"{time.perf_counter() - began:.0f} s. Report: {path / REPORT}")
    for line in _next(path):
        print_line(out, line)


def _next(path: Path) -> list[str]:
    """What to try after it."""
    houses = shlex.quote(str(path / HOUSES))
    return [
        "Try next, with a table of yours in the place of this one:",
        f"  sundman bnn --csv {houses} --target price --task regression",
        f"  sundman predict {shlex.quote(str(path / 'houses'))} {houses}",
    ]


def _networks(asked: Mapping[str, object], path: Path) -> SeedScores:
    """The command ``sundman bnn`` with these settings."""
    path.mkdir()
    plan = make_plan(Request(BnnSettings.read(None), dict(asked), {}))
    results = run_networks(plan, path)
    if results is None:
        raise RunFailed("the demo is for one process; run it without --num-processes")
    return results


@dataclass(frozen=True)
class ManyRows:
    """A logistic regression on made-up rows: its draws, and the true coefficients."""

    draws: sundman.Draws
    truth: np.ndarray
    rows: int
    seconds: float

    @property
    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior mean and standard deviation of each."""
        covariance = np.asarray(estimate.covariance(self.draws))
        return np.asarray(estimate.mean(self.draws).value), np.sqrt(np.diag(covariance))

    def as_json(self) -> dict[str, object]:
        """The numbers, for a file."""
        mean, sd = self.coefficients
        assert self.draws.verdict is not None
        return {
            "rows": self.rows,
            "seconds": self.seconds,
            "truth": self.truth.tolist(),
            "mean": mean.tolist(),
            "sd": sd.tolist(),
            "tuning": str(self.draws.tuning),
            "verdict": self.draws.verdict.as_json(),
        }

    def table(self) -> Table:
        """What a reader asks first."""
        mean, sd = self.coefficients
        inside = np.abs(mean - self.truth) < 1.645 * sd
        effective = float(np.min(estimate.ess(self.draws)))
        rows = [
            ["coefficients in their 90% intervals", f"{inside.sum()} of {len(inside)}"],
            ["median width of these intervals", f"{2 * 1.645 * np.median(sd):.3g}"],
            ["effective draws, of the slowest coefficient", f"{effective:,.0f}"],
            ["seconds, warm-up and compiling included", f"{self.seconds:.1f}"],
        ]
        title = f"Logistic regression, {self.rows:,} rows, {len(inside)} coefficients"
        return Table(title, ["", ""], rows, f"{self.draws.tuning}")


def sample_many_rows(size: Size, seed: int) -> ManyRows:
    """Made-up rows of correlated columns, and the posterior of their coefficients."""
    random = np.random.default_rng(seed)
    truth = random.normal(size=_COLUMNS).astype(np.float32) / np.sqrt(_COLUMNS, dtype=np.float32)
    common = random.standard_normal((size.rows, 1), dtype=np.float32)
    x = 0.8 * random.standard_normal((size.rows, _COLUMNS), dtype=np.float32) + 0.6 * common
    y = random.random(size.rows, dtype=np.float32) < 1.0 / (1.0 + np.exp(-x @ truth))
    posterior = sundman.Posterior(
        _linear, data=(x, y.astype(np.int32)), likelihood=sundman.likelihoods.bernoulli()
    )
    began = time.perf_counter()
    draws = sundman.sample(
        posterior, init=jnp.zeros(_COLUMNS), key=jax.random.key(seed), chains=4, steps=size.steps
    )
    return ManyRows(draws, truth, size.rows, time.perf_counter() - began)


def _linear(w: jax.Array, x: jax.Array) -> jax.Array:
    return x @ w


def made_up_houses(rows: int, seed: int) -> str:
    """A table of house prices as people have them: numbers, names and gaps."""
    random = np.random.default_rng(seed)
    area = random.gamma(9.0, 10.0, rows).round()
    rooms = np.clip((area / 25.0 + random.normal(0.0, 0.8, rows)).round(), 1, 9)
    age = random.uniform(0.0, 80.0, rows).round()
    city = random.choice(["Bern", "Oslo", "Rome"], rows, p=[0.3, 0.2, 0.5])
    by_city = np.select([city == "Bern", city == "Oslo"], [80.0, 40.0])
    price = 60.0 + 2.2 * area + 15.0 * rooms - 0.5 * age + by_city + random.normal(0.0, 25.0, rows)
    known = random.random(rows) > 0.05
    lines = ["area,rooms,age,city,price"]
    for i in range(rows):
        cells = f"{area[i]:.0f}", f"{rooms[i]:.0f}" if known[i] else "", f"{age[i]:.0f}", city[i]
        lines.append(",".join([*cells, f"{1000.0 * price[i]:.0f}"]))
    return "\n".join(lines) + "\n"


def draw_picture(regression: ManyRows, houses: SeedScores) -> Figure:
    """Coefficients against the truth, and held-out prices in their intervals."""
    from sundman.report.figures import draw  # here, since it loads matplotlib

    truth = held_out_targets(houses.plan)
    mixture = next(iter(houses.predictives.values()))
    assert isinstance(mixture, sundman.NormalMixture)
    low, high = mixture.interval(0.9)
    inside = float(np.mean((low <= truth) & (truth <= high)))

    def draw_on(canvas: Canvas) -> None:
        left, right = canvas.subplots(1, 2)
        _coefficients(left, regression)
        some = np.argsort(truth)[:: max(1, len(truth) // _SHOWN)]
        place = np.arange(len(some))
        right.vlines(place, low[some] / 1e3, high[some] / 1e3, color="C0", linewidth=3, alpha=0.4)
        right.plot(place, truth[some] / 1e3, "o", color="0.1", markersize=3)
        right.set(title="Prices not seen before", xlabel="house", ylabel="price in thousands")

    alt = (
        f"Left, {len(regression.truth)} coefficients from {regression.rows:,} rows against their "
        "true values: on the diagonal. Right, held-out house prices and their 90% intervals, which "
        f"hold {inside:.0%} of them."
    )
    caption = (
        f"Left: mean and 90% interval of each coefficient, {regression.rows:,} rows; the line is "
        f"the truth. Right: 90% intervals hold {inside:.0%} of {len(truth)} held-out prices."
    )
    return draw(draw_on, title="What came out.", alt=alt, caption=caption)


def _coefficients(ax: Axes, regression: ManyRows) -> None:
    mean, sd = regression.coefficients
    ends = [float(regression.truth.min()), float(regression.truth.max())]
    ax.plot(ends, ends, color="0.6", linewidth=0.8)
    ax.errorbar(regression.truth, mean, 1.645 * sd, fmt="o", markersize=3)
    ax.set(title="Coefficients", xlabel="the truth", ylabel="posterior")


def _report(
    regression: ManyRows,
    digits: SeedScores,
    houses: SeedScores,
    picture: Figure,
    verdicts: Mapping[str, sundman.Draws],
    seed: int,
    seconds: float,
) -> Report:
    """The verdicts and the picture first; then scores, calibration and intervals of each."""
    networks = {"Digits": digits, "House prices": houses}
    return Report(
        title="sundman: the demo",
        summary=f"{verdict_text(verdicts)}\n\nThree runs without a setting, in {seconds:.0f} s: a "
        f"logistic regression on {regression.rows:,} rows, a network on pictures of digits, and a "
        "table of house prices.",
        command=f"sundman demo --seed {seed}",
        settings={},
        made=report_facts(seed, seconds),
        sections=[
            Section("What came out", figures=[picture]),
            Section(
                f"{regression.rows:,} rows",
                f"{regression.draws.verdict}",
                tables=[regression.table()],
            ),
            *(
                Section(
                    title,
                    "\n\n".join([verdict_text(each.runs), *each.sentences()]),
                    tables=[each.table()],
                    figures=[calibration_figure(each.plan, each.predictives)],
                )
                for title, each in networks.items()
            ),
            Section(
                "What next",
                "A table of your own: `sundman bnn --csv FILE --target COLUMN`, and new rows of "
                "it: `sundman predict`. In Python: `sundman.sample(posterior)`. The made-up table "
                f"is `{HOUSES}`; each network has a report of its own in its directory.",
            ),
        ],
        citations=report_citations(verdicts.values()),
    )
