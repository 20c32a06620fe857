"""Robustness: the log-probability against the step, for SGLD and SA-SGLD (dtau = .35, r = .5).

SGLD runs at each h; SA-SGLD at dtau = .7 h, which gives it a mean step near h (.35 at h = .5, as
published). Per-tensor horseshoe. The published figure has SGLD diverge for h in [.45, .55] at width
1200; narrower networks do not diverge there.

Ablation. The curvature along a horseshoe scale sigma of n weights is about 2n/(N sigma^2), which
sets the limit of stability. With the scales frozen - a Gaussian prior with sigma fixed where the
SA-SGLD chain left it, and where it began - SGLD should survive h = .5. At the quick scale it is
run only if SGLD with free scales does not survive that step.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from sundman.paper import network
from sundman.paper.figures import Figure, lines
from sundman.paper.network import Chain
from sundman.paper.robustness_verdicts import diverged, judge
from sundman.paper.run import Findings, Task
from sundman.paper.units import Numbers
from sundman.report.model import Table

R, DTAU_PER_H, ABLATED = 0.5, 0.7, 0.5


def chain_of(task: Task, sampler: str, step: float, **settings: Any) -> Chain:
    """A chain that keeps its draws from the first epoch on, to see where it diverges."""
    budget = task.scale.robustness
    made: dict[str, Any] = {
        "prior": "horseshoe",
        "sampler": sampler,
        "step": step,
        "r": R,
        "width": budget.width,
        "epochs": budget.epochs,
        "burn_in": 0,
        "skip": budget.burn_in,
        "thin": budget.thin,
        "seed": task.seed,
        "data": network.name_of(task.data),
    }
    return Chain(**{**made, **settings})


def unit(task: Task, name: str, chain: Chain) -> Numbers:
    """The numbers of one chain."""
    numbers = network.run(task.bench, f"fig-robustness/{name}", chain, task.data)
    assert numbers is not None
    return numbers


def prior_scales(factors: dict[str, float], width: int, inputs: int) -> dict[str, float]:
    """sigma of each array: its factor times 1.41/sqrt(fan_in) for kernels, times 1 for biases."""
    fan_in = {"layer_0": inputs, "layer_1": width, "layer_2": width}
    return {
        path: factor * (1.41 / math.sqrt(fan_in[path.split("/")[0]]) if "kernel" in path else 1.0)
        for path, factor in factors.items()
    }


def ablation(task: Task, learned: dict[str, float]) -> dict[str, Numbers]:
    """SGLD at h = .5 with the scales frozen at their learned and at their first values."""
    inputs = network.load(None if task.data is None else str(task.data)).test.x.shape[1]
    made = {}
    for name, factors in (
        ("learned", {path: round(value, 4) for path, value in learned.items()}),
        ("initial", dict.fromkeys(learned, 1.0)),
    ):
        scales = prior_scales(factors, task.scale.robustness.width, inputs)
        chain = chain_of(task, "sgld", ABLATED, prior="fixed", scales=tuple(scales.items()))
        made[name] = unit(task, f"frozen-{name}", chain)
    return made


def examine(task: Task) -> Findings:
    """Run what is missing, then table, figures and verdicts."""
    sgld, adaptive = {}, {}
    for h in task.scale.steps:
        sgld[h] = unit(task, f"sgld-{h:g}", chain_of(task, "sgld", h))
        dtau = round(DTAU_PER_H * h, 4)
        adaptive[h] = unit(task, f"sa-sgld-{dtau:g}", chain_of(task, "sa-sgld", dtau))
    source = adaptive[ABLATED] if ABLATED in adaptive else next(iter(adaptive.values()))
    lost = ABLATED in sgld and diverged(sgld[ABLATED])
    frozen = ablation(task, source["scales"]) if lost or task.scale.ablation else {}
    budget = task.scale.robustness
    return Findings(
        settings={
            **asdict(budget),
            "h": list(task.scale.steps),
            "dtau": [round(DTAU_PER_H * h, 4) for h in task.scale.steps],
            "clock": {**network.CLOCK, "r": R, "s": 2.0, "psi": "code", "omega": "N^2"},
            "prior": "horseshoe, one scale per tensor",
            "data": network.name_of(task.data),
            "frozen scales": "Gaussian prior, sigma fixed at the values SA-SGLD ended with / 1",
        },
        numbers={
            "SGLD": {f"{h:g}": trimmed(u) for h, u in sgld.items()},
            "SA-SGLD": {f"{h:g}": trimmed(u) for h, u in adaptive.items()},
            "frozen": {name: trimmed(u) for name, u in frozen.items()},
        },
        verdicts=judge(sgld, adaptive, frozen, budget, task.bench.scale),
        tables=[table_of(sgld, adaptive, frozen)],
        figures=figures_of(sgld, adaptive),
    )


def trimmed(numbers: Numbers) -> Numbers:
    """A unit without its ensemble's curves and its times; the members' own values stay."""
    left_out = ("curve", "seconds", "ms_per_step")
    return {k: v for k, v in numbers.items() if not k.startswith(left_out)}


def table_of(
    sgld: dict[float, Numbers], adaptive: dict[float, Numbers], frozen: dict[str, Numbers]
) -> Table:
    """A line for each chain."""

    def row(name: str, u: Numbers) -> list[str]:
        scores = u["weighted"]
        step = "" if u["mean_step"] is None else f"{u['mean_step']:.3f}"
        end = f"diverged at step {u['diverged_step']}" if u["diverged_step"] is not None else (
            "log-probability lost" if diverged(u) else "runs on"
        )  # fmt: skip
        if scores is None:
            return [name, step, "", "", end]
        return [name, step, f"{scores['nll']:.4f}", f"{100 * scores['accuracy']:.2f}", end]

    rows = [row(f"SGLD h = {h:g}", u) for h, u in sgld.items()]
    rows += [row(f"SA-SGLD dtau = {DTAU_PER_H * h:.3g}", u) for h, u in adaptive.items()]
    rows += [row(f"SGLD h = {ABLATED}, scales frozen ({n})", u) for n, u in frozen.items()]
    heads = ["chain", "mean step", "NLL", "accuracy %", ""]
    return Table("Robustness: ensembles of the second part of each chain", heads, rows)


def figures_of(sgld: dict[float, Numbers], adaptive: dict[float, Numbers]) -> list[Figure]:
    """NLL against the mean step, and log-probability along each chain."""
    curves, styles = {}, {}
    for name, units in (("SGLD", sgld), ("SA-SGLD", adaptive)):
        good = [u for u in units.values() if not diverged(u)]
        curves[name] = ([u["mean_step"] for u in good], [u["weighted"]["nll"] for u in good])
        styles[name] = {"marker": "o"}
        bad = [h for h, u in units.items() if diverged(u)]
        if bad:
            top = max(curves[name][1], default=1.0)
            curves[f"{name}, diverged"] = (bad, [top] * len(bad))
            styles[f"{name}, diverged"] = {"marker": "x", "linestyle": "none", "markersize": 8}
    along = {}
    for name, units in (("SGLD", sgld), ("SA-SGLD", adaptive)):
        for h, u in units.items():
            if h in (min(units), ABLATED, max(units)):
                values = [math.nan if v is None else v for v in u["member"]]
                along[f"{name}, h about {h:g}"] = (range(1, len(values) + 1), values)
    return [
        lines(
            curves,
            "Robustness: NLL of the ensemble against the mean step",
            "NLL of both samplers against the step; crosses mark chains that diverged",
            xlabel="mean step h",
            ylabel="NLL",
            styles=styles,
        ),
        lines(
            along,
            "Robustness: log-probability of single draws along the chain",
            "Log-probability of each draw, from the start of each chain",
            xlabel="draw",
            ylabel="mean log-probability on the test set",
        ),
    ]
