"""The demo's report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sundman.cli import made
from sundman.cli.bnn_report import reliability
from sundman.cli.demo_digits import Network
from sundman.cli.demo_toys import TITLES, Toy
from sundman.report import Figure, Report, Section
from sundman.report.figures import along

_TO_SEE = (
    "To see: at one mean step SA-LM comes nearest to filling the star's arms; its step (colour) is "
    "long in the open centre and short in the arms. On Müller-Brown the integrator alone does it."
)


def to_see(network: Network, quick: bool) -> str:
    """What to look at, in words."""
    if quick:
        return "A try-out: these runs are too short to see anything in them."
    single, ensemble = (network.scores[name] for name in network.found)
    better = [key for key in ("NLL", "Brier") if ensemble[key] < single[key]]
    told = f"lower {' and '.join(better)} than" if better else "no lower NLL than"
    return f"{_TO_SEE} On the digits the ensemble has a {told} the single best fit."


def report(
    toys: Sequence[Toy], network: Network, png: bytes, summary: str, seed: int, seconds: float
) -> Report:
    """Tables, the figure of the draws, and the network's reliability diagram."""
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
        settings={**settings, "digits": network.plan.settings},
        made=made.facts(seed, seconds),
        sections=[
            Section("Draws", figures=[drawn]),
            *(Section(TITLES[toy.target.name], tables=list(toy.tables)) for toy in toys),
            Section(
                "A Bayesian network",
                "Digits of 8 x 8 pixels; the ensemble averages the draws of one SA-SGLD chain, "
                "weighted by their steps.",
                tables=[network.table()],
                figures=[
                    reliability(network.found, network.plan.data.test.y),
                    along(network.draws, "potential", title="Potential", label="U"),
                    along(network.draws, "dt", title="Step along the run", label="dt", log=True),
                ],
            ),
        ],
        citations=made.cited(["sa-sgld", "sa-lm"]),
    )


def _settings(toy: Toy) -> dict[str, str]:
    """The step of each sampler."""
    return {
        f"{name}, {'dtau' if 'dtau' in draws.settings else 'h'}": (
            f"{draws.settings.get('dtau', draws.settings.get('h', np.nan)):.4g}"
        )
        for name, draws in toy.runs.items()
    }
