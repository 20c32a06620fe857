"""Chains with settings of their own: a line for each, since they are not one sample."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sundman import estimate
from sundman.diagnosis import heat
from sundman.diagnosis.mixing import some_components
from sundman.diagnosis.table import Row
from sundman.draws import Draws

_COMPONENTS = 200


def rows(draws: Draws) -> Iterator[Row]:
    """Of each chain its settings, its temperature, and how much its draws tell."""
    names = draws.settings["per_chain"]
    for index in range(draws.chains):
        chain = draws.chain(index)
        own = ", ".join(f"{name}={chain.settings[name]:.4g}" for name in names)
        label = f"chain {index}: {own}"
        if chain.diverged[0] >= 0:
            note = f"diverged by draw {int(chain.diverged[0])}"
            yield Row(label, None, None, "bad", note)
            continue
        values, _ = some_components(chain, _COMPONENTS)
        part = Draws(values, chain.weight, {}, chain.diverged, None)
        size = float(np.nanmin(estimate.ess(part)))
        note = f"smallest ESS {size:,.0f}"
        steps = chain.settings.get("steps")
        if steps:
            note += f", {1000 * size / steps:.3g} per 1000 gradients"
        warmth = next(iter(heat.rows(chain, None, float(chain.settings["temperature"]))), None)
        if warmth is None or warmth.value is None:
            yield Row(label, None, None, "", note)
        else:
            yield warmth._replace(name=label, note=f"temperature, {warmth.note}; {note}")
