"""``sundman.sample`` for commands: a run whose chains are all lost is told, not raised."""

from __future__ import annotations

from typing import Any

import sundman
from sundman.runner.divergence import AllDivergedError


def sampled(*given: Any, **settings: Any) -> sundman.Draws | None:
    """The draws, or None if every chain diverged before the first."""
    try:
        return sundman.sample(*given, **settings)
    except AllDivergedError:
        return None
