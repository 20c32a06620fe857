"""``sundman demo``: two targets with exact moments, a network, and a report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import check, models
from sundman.cli import options
from sundman.cli.bnn import run as bnn_run
from sundman.cli.bnn.plan import Plan, make_plan
from sundman.cli.demo import toys as demo_toys
from sundman.cli.demo.toys import TITLES, Toy
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
)
from sundman.cli.settings import Request
from sundman.report import Figure, Report, Section, Table, write

_BATCH, _FIT_STEPS = 32, 3_000
_TO_SEE = (
    "To see: at one mean step SA-LM comes nearest to filling the star's arms; its step (colour) is "
    "long in the open centre and short in the arms. On Müller-Brown the integrator alone does it."
)


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
    size = demo_toys.SMALL if quick else demo_toys.FULL
    toys = [demo_toys.compare(target, size, seed) for target in demo_toys.targets_shown()]
    for toy in toys:
        for table in toy.tables:
            print_table(out, table)
    network = compare_networks(size.network_steps, seed)
    print_table(out, network.table())
    png = demo_toys.draw_figure(toys)
    (path / FIGURE).write_bytes(png)
    page = path / REPORT
    seconds = time.perf_counter() - began
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
        return {name: bnn_run.scores_of(self.plan, each) for name, each in self.predictives.items()}

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
    recorded = bnn_run.recorded_predictions(plan)
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
        "SA-SGLD ensemble": np.asarray(bnn_run.predictive(plan, draws)),
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
                    bnn_run.reliability(network.predictives, network.plan.data.test.y),
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
        f"{name}, {'dtau' if 'dtau' in draws.settings else 'h'}": (
            f"{draws.settings.get('dtau', draws.settings.get('h', np.nan)):.4g}"
        )
        for name, draws in toy.runs.items()
    }
