"""Is the law right? Configurational and kinetic temperature, their drift, Stein discrepancy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sundman import estimate
from sundman.diagnosis.table import Row, Verdict, sparkline
from sundman.draws import Draws
from sundman.estimate import Estimate
from sundman.estimate.convergence import with_reference
from sundman.estimate.temperature import virial_of
from sundman.gradients import Potential

_SIGMAS = 3.0
_LOOK, _BAD = 0.02, 0.1  # off by more than this share of T
_STIFF_BAD = 0.3  # of the stiffest direction
_BLOCKS = 10
_STEIN_LOOK = 3.0  # times the discrepancy of independent draws


def temperature_rows(
    draws: Draws, potential: Potential | None, temperature: float
) -> Iterator[Row]:
    """Configurational temperature and its drift, and the kinetic one if it was recorded.

    Args:
      draws: the run, or evenly spaced draws of it.
      potential: U, to compute the virial at every draw; None to take the virial recorded.
      temperature: T of the law. Nothing is said of a law at temperature 0.
    """
    if not temperature > 0:
        return
    if potential is None and "virial" not in draws.stats:
        note = 'unknown: give the target, or sample with stats=(..., "virial")'
        yield Row("temperature", None, None, "", note)
    else:
        virial = virial_of(draws, potential)
        recorded = Draws(virial, draws.weight, {"virial": virial}, draws.diverged_at, None)
        yield _row("temperature", estimate.configurational_temperature(recorded), temperature)
        blocks = min(_BLOCKS, len(draws) // 10)
        if blocks >= 3:
            drift = _drift(estimate.temperature_by_block(recorded, blocks), temperature)
            if drift is not None:
                yield drift
    if "kinetic_temperature" in draws.stats:
        yield _row("kinetic temperature", estimate.kinetic_temperature(draws), temperature)


def stiff_row(draws: Draws, potential: Potential, temperature: float, most: int) -> Row:
    """The temperature along the stiffest direction, where a step that is too large shows first.

    Args:
      draws: the run, with its positions.
      potential: U.
      temperature: T of the law, above 0.
      most: compute no more than so many gradients.
    """
    value, error = (
        float(part[0])
        for part in estimate.stiff_temperature(draws, potential, directions=1, most=most)
    )
    hot = (value - temperature) / temperature
    verdict: Verdict = "good"
    note = f"should be {temperature:g}"
    if hot * temperature > _SIGMAS * error and hot > _BAD:
        verdict = "bad" if hot > _STIFF_BAD else "look"
        note += (
            f": {100 * hot:.2g}% too hot, more than chance; try a smaller step or larger batches"
        )
    return Row("temperature, stiffest direction", value, error, verdict, note)


def discrepancy_row(draws: Draws, potential: Potential, temperature: float, most: int) -> Row:
    """The Stein discrepancy, next to that of as many independent draws.

    Args:
      draws: the run, with its positions.
      potential: U.
      temperature: T of the law, above 0.
      most: compute it on no more than so many draws.
    """
    distance, independent = with_reference(draws, potential, temperature=temperature, most=most)
    verdict: Verdict = "good" if distance <= _STEIN_LOOK * independent else "look"
    note = f"as many independent draws would give about {independent:.2g}"
    if verdict == "look":
        note += ": slow mixing, or another law"
    return Row("Stein discrepancy", distance, None, verdict, note)


def _judge(off: float, error: float, temperature: float) -> Verdict:
    """The verdict on a temperature that is ``off`` by this much: only if 3 errors show it."""
    share = abs(off) / temperature
    if not np.isfinite(share):
        return "bad"
    if abs(off) > _SIGMAS * error and share > _LOOK:
        return "bad" if share > _BAD else "look"
    return "look" if _SIGMAS * error > _BAD * temperature else "good"


def _row(name: str, measured: Estimate, temperature: float) -> Row:
    off = measured.value - temperature
    verdict = _judge(off, measured.error, temperature)
    percent = 100 * abs(off) / temperature
    share = f"{percent:.2g}%" if percent < 100 else f"{percent:,.0f}%"
    share += f" too {'hot' if off > 0 else 'cold'}"
    note = f"should be {temperature:g}"
    if abs(off) > _SIGMAS * measured.error:
        note += f": {share}"
        if verdict != "good":
            note += ", more than chance; try a smaller step or "
            note += "larger batches" if off > 0 else "a longer run"
    elif verdict == "look":
        note += ": agrees, but is not known well; run longer"
    return Row(name, measured.value, measured.error, verdict, note)


def _drift(blocks: Estimate, temperature: float) -> Row | None:
    """A straight line through the blocks: its rise from the first to the last."""
    known = np.isfinite(blocks.value) & (blocks.error > 0)
    if known.sum() < 3:
        return None
    value = blocks.value[known]
    place = np.flatnonzero(known) - np.flatnonzero(known).mean()
    span = place[-1] - place[0]
    rise = float(span * np.sum(place * value) / np.sum(place**2))
    spread = float(span * np.sqrt(np.mean(blocks.error[known] ** 2) / np.sum(place**2)))
    shows = abs(rise) > _SIGMAS * spread
    verdict = _judge(rise, spread, temperature) if shows else "good"
    bars = sparkline(value, low=min(0.0, value.min()))
    note = "no drift beyond chance" if verdict == "good" else "lengthen the burn-in"
    return Row(
        "temperature drift", rise, spread, verdict, f"{bars} over {len(value)} blocks; {note}"
    )
