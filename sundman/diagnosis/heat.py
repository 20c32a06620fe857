"""Is the temperature right? Configurational and kinetic temperature, and their drift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sundman import estimate
from sundman.diagnosis.table import Row, sparkline
from sundman.draws import Draws
from sundman.estimate import Estimate
from sundman.estimate.temperature import virial_of

_SIGMAS = 3.0
_LOOK, _BAD = 0.02, 0.1
_BLOCKS = 10


def _judge(off: float, error: float, temperature: float) -> str:
    """The verdict on a temperature that is ``off`` by this much: only if 3 errors show it."""
    share = abs(off) / temperature
    if not np.isfinite(share):
        return "bad"
    if abs(off) > _SIGMAS * error and share > _LOOK:
        return "bad" if share > _BAD else "look"
    return "look" if _SIGMAS * error > _BAD * temperature else "good"


def _row(name: str, found: Estimate, temperature: float) -> Row:
    off = found.value - temperature
    verdict = _judge(off, found.error, temperature)
    percent = 100 * abs(off) / temperature
    share = f"{percent:.2g}%" if percent < 100 else f"{percent:,.0f}%"
    share += f" too {'hot' if off > 0 else 'cold'}"
    note = f"should be {temperature:g}"
    if abs(off) > _SIGMAS * found.error:
        note += f": {share}"
        if verdict != "good":
            note += ", more than chance; try a smaller step or "
            note += "larger batches" if off > 0 else "a longer run"
    elif verdict == "look":
        note += ": agrees, but is not known well; run longer"
    return Row(name, found.value, found.error, verdict, note)


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


def rows(draws: Draws, potential: Any, temperature: float) -> Iterator[Row]:
    """Configurational temperature and its drift, and the kinetic one if it was recorded."""
    if not temperature > 0:
        return
    if potential is None and "virial" not in draws.stats:
        note = 'unknown: give the target, or sample with stats=(..., "virial")'
        yield Row("temperature", None, None, "", note)
    else:
        virial = virial_of(draws, potential)
        recorded = Draws(virial, draws.weight, {"virial": virial}, draws.diverged, None)
        yield _row("temperature", estimate.configurational_temperature(recorded), temperature)
        blocks = min(_BLOCKS, len(draws) // 10)
        if blocks >= 3:
            drift = _drift(estimate.temperature_by_block(recorded, blocks), temperature)
            if drift is not None:
                yield drift
    if "kinetic_temperature" in draws.stats:
        yield _row("kinetic temperature", estimate.kinetic_temperature(draws), temperature)
