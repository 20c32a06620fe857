"""What the runs on the star say about the paper's claims."""

from __future__ import annotations

from sundman.paper.measured import Measured, all_of, equal, less
from sundman.paper.toys import bias, found, magnitude_difference
from sundman.paper.units import Numbers
from sundman.report.model import Outcome, Verdict


def judge(
    units: dict[str, Numbers],
    adaptive: list[Numbers],
    fixed: list[Numbers],
    fits: dict[str, Measured],
    scale: str,
) -> list[Verdict]:
    """One verdict for each claim about the star."""
    sgld, sa = units["SGLD"], units["SA-SGLD"]
    return [
        mean_step(sa, scale),
        unbiased(sa, scale),
        in_the_limit(fits["limit r2 SA-SGLD"], fits["limit x2y2 SA-SGLD"], scale),
        weights_needed(fits["limit r2 SA-SGLD unweighted"], scale),
        ridges(sgld, scale),
        more_accurate(adaptive[0], fixed[0], scale),
        oscillations(sgld, sa, scale),
    ]


def mean_step(sa: Numbers, scale: str) -> Verdict:
    """SGLD's h is said to be SA-SGLD's mean step."""
    found_step = sa["mean_dt"]
    off = abs(found_step / 4e-4 - 1)
    outcome: Outcome = (
        "reproduces" if off < 0.05 else "partly" if off < 0.2 else "does not reproduce"
    )
    low, high = sa["dt_1_99"]
    return Verdict(
        "Star: SA-SGLD's mean step is the 4e-4 given to SGLD",
        "4e-4",
        f"{found_step:.3g} (1 to 99%: {low:.2g} to {high:.2g})",
        "< 1%",
        outcome,
        f"Reproduces within 5%, partly within 20%. Scale {scale}.",
    )


def unbiased(sa: Numbers, scale: str) -> Verdict:
    """Is there no bias at the published step, "without introducing bias" taken at its word?"""
    b = bias(sa, "r2")
    return Verdict(
        "Star: SA-SGLD's weighted averages are unbiased at the published step",
        "adaptive steps without introducing bias",
        f"bias of E[x²+y²] {b.text(percent=True, sign=True)}",
        f"{100 * b.error:.2g}%",
        equal(b, margin=0.02),
        f"Reproduces if |bias| is within 2 standard errors, partly if within 2% more. Scale "
        f"{scale}.",
    )


def in_the_limit(r2: Measured, x2y2: Measured, scale: str) -> Verdict:
    """The bias extrapolated to a step of 0."""
    outcome = all_of([equal(r2, resolution=0.3), equal(x2y2, resolution=0.3)])
    return Verdict(
        "Star: the weighted averages tend to the truth as the step goes to 0",
        "bias O(h)",
        f"limits of the biases of E[x²+y²], E[x²y²]: {r2.text(percent=True, sign=True)}, "
        f"{x2y2.text(percent=True, sign=True)}",
        f"{100 * r2.error:.2g}%, {100 * x2y2.error:.2g}%",
        outcome,
        f"Parabola through the biases at dtau, dtau/2, ...; reproduces if the limits are "
        f"within 2 standard errors of 0, where these are below 15%. Scale {scale}.",
    )


def weights_needed(unweighted: Measured, scale: str) -> Verdict:
    """Unweighted averages sample pi/psi, another law."""
    beyond = abs(unweighted.value) > unweighted.half
    return Verdict(
        "Star: without the weights the averages stay biased as the step goes to 0",
        "weights are part of the theorem",
        f"limit of the bias of E[x²+y²] {unweighted.text(percent=True, sign=True)}",
        f"{100 * unweighted.error:.2g}%",
        "reproduces" if beyond else "not tested",
        "Reproduces if the limit is more than 2 standard errors from 0; else the run is too short "
        f"to tell. Scale {scale}.",
    )


def ridges(sgld: Numbers, scale: str) -> Verdict:
    """Too much mass beyond +-1, the paper says."""
    mass, exact = found(sgld, "outer"), sgld["weighted"]["outer"]["exact"]
    excess = mass - exact
    outcome: Outcome = "not tested"
    if abs(excess.value) > excess.half:
        outcome = "reproduces" if excess.value > 0 else "does not reproduce"
    return Verdict(
        "Star: SGLD oversamples the outer ridges",
        "oversamples",
        f"P(|x| > 1 or |y| > 1) = {mass.text()}; exact {exact:.4f}",
        f"{mass.error:.2g}",
        outcome,
        f"By the sign of the difference, if it is beyond 2 standard errors: SGLD has too little "
        f"mass there where it is negative. Scale {scale}.",
    )


def more_accurate(sa: Numbers, sgld: Numbers, scale: str) -> Verdict:
    """Smaller biases at one mean step."""
    parts = {
        name: magnitude_difference(bias(sa, name), bias(sgld, name)) for name in ("r2", "x2y2")
    }
    outcome = all_of([less(part, -0.01) for part in parts.values()])
    text = ", ".join(part.text(percent=True, sign=True) for part in parts.values())
    return Verdict(
        "Star: SA-SGLD is more accurate than SGLD at the same mean step",
        "more accurate",
        f"|bias| of E[x²+y²], E[x²y²], SA-SGLD minus SGLD: {text}",
        ", ".join(f"{100 * part.error:.2g}%" for part in parts.values()),
        outcome,
        "Reproduces if both differences are below 0 by more than 2 standard errors; both chains "
        f"from exact draws. Scale {scale}.",
    )


def oscillations(sgld: Numbers, sa: Numbers, scale: str) -> Verdict:
    """The distance from the exact law, cell by cell."""
    one, other = sa["total_variation"], sgld["total_variation"]
    outcome: Outcome = "reproduces" if one < 0.98 * other else "does not reproduce"
    return Verdict(
        "Star: SA-SGLD's density is nearer to the exact one",
        "visibly better",
        f"total variation {one:.4f}, SGLD {other:.4f}",
        "not estimated",
        outcome,
        f"Reproduces if smaller by more than 2%. Half the summed difference over 60 x 60 cells. "
        f"Scale {scale}.",
    )
