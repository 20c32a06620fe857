"""Weighted draws: in memory or on disk, resampled, averaged online; what diverged; the verdict."""

from sundman.draws.draws import Draws, Restart
from sundman.draws.exports import export
from sundman.draws.trust import (
    AllDivergedError,
    DivergenceError,
    DivergenceWarning,
    Ended,
    Reason,
    TrustWarning,
    Verdict,
)

__all__ = [
    "AllDivergedError",
    "DivergenceError",
    "DivergenceWarning",
    "Draws",
    "Ended",
    "Reason",
    "Restart",
    "TrustWarning",
    "Verdict",
    "export",
]
