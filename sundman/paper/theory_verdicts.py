"""What the runs on the quartic say about the theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sundman.paper.measured import Measured, all_of, equal
from sundman.paper.units import Numbers
from sundman.report.model import Outcome, Verdict

Fits = Mapping[str, Mapping[str, Measured]]


def judge(
    fits: Fits, rate: Measured, conditions: Sequence[Numbers], lost: int, scale: str
) -> list[Verdict]:
    """One verdict for each statement of the theory."""
    return [
        order(fits, scale),
        both_weights(fits, scale),
        convergence(rate, scale),
        correlation(fits["memoryless"]["limit"], scale),
        with_memory(fits["memory"]["limit"], scale),
        lagged(fits["lagged"]["limit"], scale),
        moments(conditions, lost, scale),
        assumptions(),
    ]


def order(fits: Fits, scale: str) -> Verdict:
    """Slope 1 on logarithmic axes."""
    slope = fits["order"]["slope"]
    return Verdict(
        "The bias of weighted averages is O(h)",
        "slope 1",
        f"slope {slope.text()}",
        f"{slope.error:.2g}",
        equal(slope - 1.0, margin=0.2, resolution=0.5),
        "Quartic, clock with memory, leaving weights. Reproduces within 2 standard errors of 1, "
        f"partly within .2 more: next orders bend the line. Scale {scale}.",
    )


def both_weights(fits: Fits, scale: str) -> Verdict:
    """dt_k of the theorem or dt_{k+1} of its proof."""
    arriving, leaving = fits["arriving"]["limit"], fits["order"]["limit"]
    outcome = all_of([equal(part, resolution=0.05) for part in (arriving, leaving)])
    return Verdict(
        "The theorem's weight dt_k and its proof's dt_{k+1} have the same limit",
        "f(theta_k) weighted with dt_k; the proof has dt_{k+1}",
        f"limits of the bias: {arriving.text(percent=True, sign=True)} (dt_k), "
        f"{leaving.text(percent=True, sign=True)} (dt_k+1)",
        f"{100 * arriving.error:.2g}%, {100 * leaving.error:.2g}%",
        outcome,
        "Reproduces if both limits are within 2 standard errors of 0; they are of the same paths, "
        f"so they err together. Scale {scale}.",
    )


def convergence(rate: Measured, scale: str) -> Verdict:
    """The error along a path with decreasing steps."""
    return Verdict(
        "The weighted average converges almost surely (decreasing steps)",
        "converges",
        f"error falls as time^{rate.text()}",
        f"{rate.error:.2g}",
        equal(rate - -0.5, margin=0.15, resolution=0.5),
        "dt ~ n^(-1/3). Reproduces if the exponent against physical time is within 2 standard "
        "errors (over groups of paths) of -1/2, partly within .15 more. A finite run cannot "
        f"prove a limit. Scale {scale}.",
    )


def correlation(end: Measured, scale: str) -> Verdict:
    """Memoryless: does the covariance of step and gradient vanish?"""
    return _no_bias_left(
        "The correlation of step and gradient noise leaves no bias as h -> 0 (memoryless clock)",
        "the term is of higher order",
        end,
        0.0,
        f"Gradient noise 2, alpha dtau >> 1. Reproduces if within 2 standard errors of 0. Scale "
        f"{scale}.",
    )


def with_memory(end: Measured, scale: str) -> Verdict:
    """With (1 - rho)/alpha = O(h) it does vanish."""
    return _no_bias_left(
        "The same with a memory, (1 - rho)/alpha = O(h)",
        "the term is O(h²) per step",
        end,
        0.01,
        f"alpha = 5. Reproduces within 2 standard errors of 0, partly within 1% more. Scale "
        f"{scale}.",
    )


def lagged(end: Measured, scale: str) -> Verdict:
    """Our cure: the step is set before the gradient is seen."""
    return _no_bias_left(
        "A lagged clock cures the correlation (ours, not the paper's)",
        "not in the paper",
        end,
        0.01,
        f"Memoryless clock, lag full, gradient noise 2. Reproduces within 2 standard errors of 0, "
        f"partly within 1% more. Scale {scale}.",
    )


def _no_bias_left(claim: str, paper: str, end: Measured, margin: float, note: str) -> Verdict:
    """Is the bias of E[x²], extrapolated to h = 0, none?"""
    return Verdict(
        claim,
        paper,
        f"limit of the bias of E[x²] {end.text(percent=True, sign=True)}",
        f"{100 * end.error:.2g}%",
        equal(end, margin=margin, resolution=0.1),
        note,
    )


def moments(conditions: Sequence[Numbers], lost: int, scale: str) -> Verdict:
    """For how many settings is there a step at all?"""
    possible = sum(bool(entry["possible"]) for entry in conditions)
    outcome: Outcome = "partly"
    if possible in (0, len(conditions)):
        outcome = "reproduces" if possible else "does not reproduce"
    needed = {entry["bounds"]: entry["M"] / entry["m"] for entry in conditions}
    said = ", ".join(f"a > {ratio:g} sigma ({name})" for name, ratio in needed.items())
    return Verdict(
        "Moments are bounded for small h: gamma(h) = 2amh - C1 M²h² - 2 sigma M h > 0",
        "for h small enough",
        f"some h fulfils it in {possible} of {len(conditions)} settings; it needs {said}",
        "exact",
        outcome,
        "Two terms are linear in h, so a m > sigma M is needed whatever h. Reproduces if every "
        "setting has an h, partly if some have. The condition is sufficient, not necessary: our "
        f"runs with noise on the quartic lost {lost} chains. Scale {scale}.",
    )


def assumptions() -> Verdict:
    """The growth of the gradient on the paper's own targets."""
    radii = (10.0, 100.0)
    growth = [abs(2 * r + 2000 * r**3) / r for r in radii]  # |dU/dx| / r on the diagonal x = y = r
    grows = growth[1] > 10 * growth[0]
    return Verdict(
        "The assumptions (Lipschitz gradient) cover the star",
        "assumed",
        f"|dU/dx| / r on the diagonal at r = 10, 100: {growth[0]:.2g}, {growth[1]:.2g}",
        "exact",
        "does not reproduce" if grows else "reproduces",
        "A Lipschitz gradient grows at most linearly: the ratio would stay bounded. Explicit steps "
        "can run away there.",
    )
