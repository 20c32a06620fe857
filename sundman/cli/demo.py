"""``sundman demo``: two targets with exact moments, a network, and a report.

On each target there are four samplers at one mean step:

    SGLD      Euler-Maruyama at a fixed step
    SA-SGLD   the same on an adaptive clock, draws weighted by dt
    LM        Leimkuhler-Matthews at a fixed step
    SA-LM     the same on an adaptive clock

On the star SA-SGLD has its published settings; on Mueller-Brown the clock of SA-LM, at a mean step
of about 0.002. SGLD and LM then run at the mean step of SA-SGLD, and SA-LM at the dtau that gives
it the same: none is ahead by taking smaller steps. The ratios of dtau to the mean step are from
pilot runs; the table shows the mean steps that came out.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import check, estimate, models, targets
from sundman.cli import options
from sundman.cli.bnn import scores
from sundman.cli.bnn.plan import Plan, make_plan
from sundman.cli.errors import as_user_error
from sundman.cli.output import (
    FIGURE,
    REPORT,
    console,
    first_free_directory,
    prepare_directory,
    print_line,
    print_table,
    report_citations,
    report_facts,
    write_results,
)
from sundman.cli.settings import Request
from sundman.estimate import Estimate
from sundman.report import Figure, Report, Section, Table, write
from sundman.targets import Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_BATCH, _FIT_STEPS = 32, 3_000
_TO_SEE = (
    "To see: at one mean step SA-LM comes nearest to filling the star's arms; its step (colour) is "
    "long in the open centre and short in the arms. On Müller-Brown the integrator alone does it."
)
TITLES = {"star": "Star, T = 1", "muller-brown": "Müller-Brown, T = 2"}
_OBSERVABLES = {
    "star": {"r2": "E[x²+y²]", "x2y2": "E[x²y²]", "outer": "P(arm tips)", "virial": "E[x·∇U]"},
    "muller-brown": {"right": "P(right)", "top": "P(top)", "U": "E[U]", "virial": "E[x·∇U]"},
}
_CELLS_PER_SIDE = 60
_DRAWN = ("SGLD", "SA-SGLD", "SA-LM")
_VIEW = {"star": ((-2.1, 2.1), (-2.1, 2.1)), "muller-brown": ((-2.7, 2.0), (-1.6, 2.7))}
_DTAU_OVER_MEAN_STEP = {
    "star": {"SA-LM": 0.848},
    "muller-brown": {"SA-SGLD": 1.033, "SA-LM": 0.983},
}


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
        bool, options.run("--quick", text="A hundredth of the steps: a try-out, not a result.")
    ] = False,
) -> None:
    """Samplers against exact moments, and a Bayesian network; about a minute on two cores.

    SGLD, SA-SGLD, LM and SA-LM at one mean step on the star and on Mueller-Brown, then a network on
    scikit-learn's digits beside its single best fit. Ends with the path of a report.

    For example:

    sundman demo --output demo
    """
    began = time.perf_counter()
    options.use_compilation_cache(not no_cache)
    with as_user_error():
        check.count("seed", seed, least=0)
    path = prepare_directory(output or first_free_directory(Path("sundman-demo")), force)
    out = console()
    size = SMALL if quick else FULL
    toys = [compare_samplers(target, size, seed) for target in targets_shown()]
    for toy in toys:
        for table in toy.tables:
            print_table(out, table)
    network = compare_networks(size.network_steps, seed)
    print_table(out, network.table())
    png = draw_figure(toys)
    (path / FIGURE).write_bytes(png)
    page = path / REPORT
    seconds = time.perf_counter() - began
    numbers = {toy.target.name: toy.results() for toy in toys}
    write_results(path, {"seed": seed, "seconds": seconds, **numbers, "digits": network.scores})
    summary = _what_to_see(network, quick)
    write(_report(toys, network, png, summary, seed, seconds), page)
    print_line(out, summary)
    print_line(out, f"{time.perf_counter() - began:.0f} s. Report: {page}")


@dataclass(frozen=True)
class Network:
    """A network on scikit-learn's digits: the SA-SGLD ensemble beside the single best fit.

    Class probabilities on the test rows by name, and the chain behind the ensemble.
    """

    plan: Plan
    predictives: Mapping[str, np.ndarray]
    draws: sundman.Draws

    @cached_property
    def scores(self) -> dict[str, Mapping[str, float]]:
        """The scores of each on the test rows."""
        return {name: scores.scores_of(self.plan, each) for name, each in self.predictives.items()}

    def table(self) -> Table:
        """The scores of both."""
        rows, test_images = self.scores, len(self.plan.data.test.y)
        return Table(
            f"Digits, network {self.plan.network}, horseshoe prior: scores on {test_images} test "
            "images",
            ["", *next(iter(rows.values()))],
            [[name, *(f"{value:.4g}" for value in row.values())] for name, row in rows.items()],
        )


def compare_networks(steps: int, seed: int) -> Network:
    """The network by maximum a posteriori and by SA-SGLD, from the same start."""
    asked = {"name": "digits", "sampler": "sa-sgld", "prior": "horseshoe", "batch": _BATCH}
    plan = make_plan(Request(in_options=asked))
    first, fit, noise = jax.random.split(jax.random.key(seed), 3)
    init = models.mlp_init(first, plan.sizes)
    fit_steps = min(_FIT_STEPS, steps)
    best = sundman.map_estimate(plan.posterior, init, key=fit, steps=fit_steps, batch_size=_BATCH)
    recorded = scores.recorded_predictions(plan)
    draws = sundman.sample(
        plan.posterior,
        plan.sampler,
        init=init,
        key=noise,
        burn_in=steps // 2,
        steps=steps - steps // 2,
        thin=max(1, steps // 200),
        batch_size=_BATCH,
        collect=recorded.collect,
        online=recorded.online,
    )
    single = plan.posterior.predict(best, jnp.asarray(plan.data.test.x))
    predictives = {
        "best fit (MAP)": np.asarray(single),
        "SA-SGLD ensemble": np.asarray(scores.predictive(plan, draws)),
    }
    return Network(plan, predictives, draws)


def _what_to_see(network: Network, quick: bool) -> str:
    """What to look at, in words."""
    if quick:
        return "A try-out: these runs are too short to see anything in them."
    single, ensemble = (network.scores[name] for name in network.predictives)
    better = [key for key in ("NLL", "Brier") if ensemble[key] < single[key]]
    compared = f"lower {' and '.join(better)} than" if better else "no lower NLL than"
    return f"{_TO_SEE} On the digits the ensemble has a {compared} the single best fit."


def _report(
    toys: Sequence[Toy], network: Network, png: bytes, summary: str, seed: int, seconds: float
) -> Report:
    """Tables, the figure of the draws, and the network's reliability diagram."""
    from sundman.report.figures import along  # here, since it loads matplotlib

    drawn = Figure(
        "Draws over the exact contours.",
        "Draws of SGLD, SA-SGLD and SA-LM over exact contours of the star and of Müller-Brown, "
        "coloured by the step.",
        png,
        "All at one mean step. Contours hold 50, 90 and 99% of the mass.",
    )
    settings = {toy.target.name: _settings(toy) for toy in toys}
    return Report(
        title="sundman: the demo",
        summary=summary,
        command=f"sundman demo --seed {seed}",
        settings={**settings, "digits": network.plan.settings.as_dict()},
        made=report_facts(seed, seconds),
        sections=[
            Section("Draws", figures=[drawn]),
            *(Section(TITLES[toy.target.name], tables=list(toy.tables)) for toy in toys),
            Section(
                "A Bayesian network",
                "Digits of 8 x 8 pixels; the ensemble averages the draws of one SA-SGLD chain, "
                "weighted by their steps.",
                tables=[network.table()],
                figures=[
                    scores.reliability(network.predictives, network.plan.data.test.y),
                    along(network.draws, "potential", title="Potential", label="U"),
                    along(network.draws, "dt", title="Step along the run", label="dt", log=True),
                ],
            ),
        ],
        citations=report_citations(["sa-sgld", "sa-lm"]),
    )


def _settings(toy: Toy) -> dict[str, str]:
    """The step of each sampler."""
    return {
        f"{name}, h" if facts.dtau is None else f"{name}, dtau": f"{facts.dtau or facts.h:.4g}"
        for name, facts in ((name, draws.facts) for name, draws in toy.runs.items())
    }


class Size(NamedTuple):
    """How much to run."""

    chains: int
    steps: int
    burn_in: int
    thin: int
    network_steps: int


FULL = Size(128, 100_000, 20_000, 20, 20_000)
SMALL = Size(16, 2_000, 200, 20, 400)


def targets_shown() -> tuple[Target, Target]:
    """The targets of the demo."""
    return targets.star(), targets.muller_brown(temperature=2.0)


@dataclass(frozen=True)
class Toy:
    """The runs on one target, by the sampler's name."""

    target: Target
    runs: dict[str, sundman.Draws]

    @cached_property
    def estimates(self) -> dict[str, dict[str, Estimate]]:
        """The observables shown, with their standard errors; SA-SGLD also without its weights."""
        sa = self.runs["SA-SGLD"]
        bare = dataclasses.replace(sa, weight=np.ones_like(sa.weight))
        rows = {"SGLD": self.runs["SGLD"], "SA-SGLD": sa, "(no weights)": bare}
        rows |= {"LM": self.runs["LM"], "SA-LM": self.runs["SA-LM"]}
        return {name: self._moments(draws) for name, draws in rows.items()}

    def _moments(self, draws: sundman.Draws) -> dict[str, Estimate]:
        names, observables = _OBSERVABLES[self.target.name], self.target.observables
        means = estimate.mean(draws, lambda x: jnp.stack([observables[n](x) for n in names]))
        return {name: Estimate(*both) for name, *both in zip(names, *means, strict=True)}

    @cached_property
    def tables(self) -> tuple[Table, Table]:
        """Estimates and their bias; steps, distance from the exact law, effective draws."""
        shown, truth = _OBSERVABLES[self.target.name], self.target.truth
        rows = [["exact", *(f"{truth[key]:.5g}" for key in shown)]]
        for name, values in self.estimates.items():
            rows.append([name, *(_cell(values[key], truth[key]) for key in shown)])
        moments = Table(
            f"{TITLES[self.target.name]}: estimate, and bias in percent ± standard error",
            ["", *shown.values()],
            rows,
        )
        assert self.target.window is not None  # both targets are in the plane
        x, y = (np.linspace(*side, _CELLS_PER_SIDE + 1) for side in self.target.window)
        steps = Table(
            "The same runs: steps, distance from the exact law, independent draws they are worth",
            ["", "mean dt", "dt, 1 to 99 %", "total variation", "ESS of U", "chains lost"],
            [self._steps(name, draws, (x, y)) for name, draws in self.runs.items()],
        )
        return moments, steps

    @cached_property
    def effective_draws(self) -> dict[str, float]:
        """The effective sample size of U of each run."""
        return {
            name: float(estimate.ess(draws, self.target.potential))
            for name, draws in self.runs.items()
        }

    def results(self) -> dict[str, object]:
        """The numbers of the tables: value, standard error, both as percent of the exact one."""
        shown, truth = _OBSERVABLES[self.target.name], self.target.truth
        biases = {
            name: {shown[key]: _biased(values[key], truth[key]) for key in shown}
            for name, values in self.estimates.items()
        }
        steps = {name: draws.stats["dt"].mean().item() for name, draws in self.runs.items()}
        return {
            "exact": {shown[key]: truth[key] for key in shown},
            "estimates": biases,
            "mean dt": steps,
            "ESS of U": self.effective_draws,
        }

    def _steps(
        self, name: str, draws: sundman.Draws, edges: tuple[np.ndarray, np.ndarray]
    ) -> list[str]:
        dt = draws.stats["dt"]
        low, high = np.percentile(dt, [1, 99])
        return [
            name,
            f"{dt.mean():.3g}",
            f"{low:.2g} to {high:.2g}",
            f"{estimate.total_variation(draws, self.target, edges):.4f}",
            f"{self.effective_draws[name]:,.0f}",
            str(np.count_nonzero(draws.diverged)),
        ]


def _biased(estimated: Estimate, exact: float) -> dict[str, float]:
    """An estimate and how far it is off, both with their standard errors."""
    percent = 100 / abs(exact)
    return {
        "value": estimated.value,
        "error": estimated.error,
        "bias in percent": percent * (estimated.value - exact),
        "error in percent": percent * estimated.error,
    }


def _cell(estimated: Estimate, exact: float) -> str:
    off = _biased(estimated, exact)
    return f"{estimated.value:.4g}\n{off['bias in percent']:+.1f} ± {off['error in percent']:.1f} %"


def compare_samplers(target: Target, size: Size, seed: int) -> Toy:
    """The samplers on a target, SA-SGLD first: its mean step is that of the others."""

    def run(sampler: sundman.Sampler) -> sundman.Draws:
        return sundman.sample(
            target,
            sampler,
            key=jax.random.key(seed),
            chains=size.chains,
            steps=size.steps,
            burn_in=size.burn_in,
            thin=size.thin,
        )

    ratio = _DTAU_OVER_MEAN_STEP[target.name]
    if target.name == "star":
        adaptive = run(sundman.sa_sgld(1e-3, alpha=0.5, m=0.1, M=10.0, r=0.5, omega=100.0))
    else:
        adaptive = run(_scale_free(sundman.sa_sgld, target, 2e-3 * ratio["SA-SGLD"]))
    step = adaptive.stats["dt"].mean().item()
    runs = {
        "SGLD": run(sundman.sgld(step, target.temperature)),
        "SA-SGLD": adaptive,
        "LM": run(sundman.lm(step, target.temperature)),
        "SA-LM": run(_scale_free(sundman.sa_lm, target, step * ratio["SA-LM"])),
    }
    return Toy(target, runs)


def _scale_free(
    recipe: Callable[..., sundman.Sampler], target: Target, dtau: float
) -> sundman.Sampler:
    return recipe(
        dtau,
        temperature=target.temperature,
        alpha=0.01 / dtau,
        M=10.0,
        r=0.5,
        omega=target.truth["grad2"],
        psi="scale_free",
        lag="guarded",
    )


def draw_figure(toys: Sequence[Toy]) -> bytes:
    """Draws over exact contours, coloured by the step; a row per target, a column per sampler.

    As PNG.
    """
    # Here and below: matplotlib takes half a second to load, and help does not need it.
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    from sundman import plot
    from sundman.report.figures import png

    with plot.style():
        figure = Canvas(figsize=(9.6, 6.7))
        grid = figure.subplots(len(toys), len(_DRAWN), sharex="row", sharey="row")
        for row, toy in zip(grid, toys, strict=True):
            _draw_row(figure, row, toy)
        return png(figure, dpi=int(mpl.rcParams["savefig.dpi"]))


def _draw_row(figure: Canvas, row: Sequence[Axes], toy: Toy) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    from sundman import plot

    target_name, shade = toy.target.name, None
    low, high = np.percentile(toy.runs["SA-LM"].stats["dt"], [2, 98])
    for ax, name in zip(row, _DRAWN, strict=True):
        norm = LogNorm(low, high)
        shade = plot.points(ax, toy.runs[name], count=4000, norm=norm)
        plot.contours(ax, toy.target, zorder=2)
        ax.set(xlim=_VIEW[target_name][0], ylim=_VIEW[target_name][1], box_aspect=1)
        ax.set_title(name, fontweight="bold", pad=15)
        ax.text(0, 1.02, _caption(toy, name), transform=ax.transAxes, size=8)
        ax.set_ylabel(f"{TITLES[target_name]}\n\ny" if ax is row[0] else "")
    assert shade is not None  # there are samplers
    bar = figure.colorbar(shade, ax=list(row), extend="both", shrink=0.8, aspect=25)
    bar.set_label("step dt / 10⁻⁴")
    bar.locator, bar.minorlocator = MaxNLocator(5), NullLocator()
    bar.formatter = FuncFormatter(lambda dt, _: f"{1e4 * dt:g}")
    bar.update_ticks()


def _caption(toy: Toy, name: str) -> str:
    estimates, truth = toy.estimates[name], toy.target.truth
    if toy.target.name == "star":
        exact = 100 * truth["outer"]
        return f"{100 * estimates['outer'].value:.1f}% in the tips of the arms; exact {exact:.1f}%"
    return f"temperature {100 * (estimates['virial'].value / truth['virial'] - 1):+.1f}%"
