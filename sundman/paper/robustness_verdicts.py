"""What the chains at large steps say about robustness."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sundman.paper.scales import NetworkBudget
from sundman.paper.units import Numbers
from sundman.report.model import Outcome, Verdict

Units = Mapping[float, Numbers]
LOW, HIGH, WIDTH = 0.45, 0.55, 1200


def diverged(unit: Numbers) -> bool:
    """Not finite, or no better than guessing among ten classes at its end."""
    if unit["diverged_step"] is not None or unit["weighted"] is None:
        return True
    last = [v for v in unit["member"][-3:]]
    return any(v is None for v in last) or sum(last) / len(last) < -math.log(10.0)


def judge(
    sgld: Units, adaptive: Units, frozen: Mapping[str, Numbers], budget: NetworkBudget, scale: str
) -> list[Verdict]:
    """One verdict for each claim about large steps."""
    about = f"Width {budget.width}, {budget.epochs} epochs, one seed (scale {scale})."
    return [
        sgld_diverges(sgld, budget, about),
        adaptive_survives(sgld, adaptive, budget, about),
        mean_step(adaptive, budget, about),
        scales_are_the_limit(sgld, frozen, about),
    ]


def _inside(units: Units) -> dict[float, Numbers]:
    return {h: u for h, u in units.items() if LOW <= h <= HIGH}


def sgld_diverges(sgld: Units, budget: NetworkBudget, about: str) -> Verdict:
    """SGLD between .45 and .55."""
    inside = _inside(sgld)
    lost = [h for h, u in inside.items() if diverged(u)]
    outcome: Outcome = "partly"
    if not inside or (not lost and budget.width < WIDTH):
        outcome = "not tested"
    elif len(lost) in (0, len(inside)):
        outcome = "reproduces" if lost else "does not reproduce"
    all_lost = [f"{h:g}" for h, u in sgld.items() if diverged(u)]
    return Verdict(
        "Robustness: SGLD diverges for h in [.45, .55]",
        "diverges",
        f"{len(lost)} of {len(inside)} chains there diverged; of all steps: "
        f"{', '.join(all_lost) or 'none'}",
        "none, one seed",
        outcome,
        "Reproduces if all do, partly if some do. Below width 1200 SGLD is not expected to diverge "
        f"there, which then counts as not tested. {about}",
    )


def adaptive_survives(sgld: Units, adaptive: Units, budget: NetworkBudget, about: str) -> Verdict:
    """SA-SGLD at a mean step of about .5."""
    inside = _inside(adaptive)
    kept = [u for u in inside.values() if not diverged(u)]
    steps = ", ".join(f"{u['mean_step']:.2f}" for u in kept)
    nll = ", ".join(f"{u['weighted']['nll']:.3f}" for u in kept)
    contrast = any(diverged(u) for u in _inside(sgld).values())
    outcome: Outcome = "partly"
    if not inside or (not contrast and budget.width < WIDTH):
        outcome = "not tested"
    elif len(kept) in (0, len(inside)):
        outcome = "reproduces" if kept else "does not reproduce"
    return Verdict(
        "Robustness: SA-SGLD at a mean step of about .5 does not diverge",
        "runs on (dtau = .35, r = .5)",
        f"{len(kept)} of {len(inside)} chains run on, mean steps {steps or 'none'}, NLL "
        f"{nll or 'none'}",
        "none, one seed",
        outcome,
        "Reproduces if all run on, partly if some do; not tested at a width where SGLD does not "
        f"diverge either. {about}",
    )


def mean_step(adaptive: Units, budget: NetworkBudget, about: str) -> Verdict:
    """The published mean step tells which reading of the settings is meant."""
    unit = adaptive.get(0.5)
    found = None if unit is None else unit["mean_step"]
    outcome: Outcome = "not tested"
    if found is not None and budget.width >= WIDTH:
        off = abs(found / 0.5 - 1)
        outcome = "reproduces" if off < 0.1 else "partly" if off < 0.4 else "does not reproduce"
    return Verdict(
        "Robustness: SA-SGLD with dtau = .35 and r = .5 has a mean step of .5",
        "0.5",
        "not run" if found is None else f"{found:.3f}",
        "none, one seed",
        outcome,
        "In learning-rate units, second part of the chain. Reproduces within 10%, partly within "
        f"40%; not tested below width 1200. {about}",
    )


def scales_are_the_limit(sgld: Units, frozen: Mapping[str, Numbers], about: str) -> Verdict:
    """Our ablation: SGLD at h = .5 with the horseshoe's scales frozen."""
    free = sgld.get(0.5)
    kept = {name: not diverged(u) for name, u in frozen.items()}
    said = ", ".join(f"at {name}: {'runs on' if ok else 'diverges'}" for name, ok in kept.items())
    outcome: Outcome = "not tested"
    if kept and free is not None and diverged(free):
        outcome = "reproduces" if kept["learned"] else "does not reproduce"
    lost = "not run" if free is None else ("diverges" if diverged(free) else "runs on")
    return Verdict(
        "Ablation (ours): it is the horseshoe's scales that make SGLD diverge at h = .5",
        "not in the paper",
        f"scales free: {lost}; frozen {said or '(not run)'}",
        "none, one seed",
        outcome,
        "Frozen: a Gaussian prior with each tensor's sigma fixed. Reproduces if SGLD diverges with "
        f"free scales and runs on with the learned ones frozen. {about}",
    )
