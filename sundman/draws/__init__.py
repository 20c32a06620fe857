"""Weighted draws: in memory or on disk, resampled, averaged online; what diverged; the verdict."""

from sundman.draws.archive import export
from sundman.draws.divergence import AllDivergedError, DivergenceError, DivergenceWarning
from sundman.draws.draws import Draws, Restart
from sundman.draws.trust import Reason, TrustWarning, Verdict

__all__ = [
    "AllDivergedError",
    "DivergenceError",
    "DivergenceWarning",
    "Draws",
    "Reason",
    "Restart",
    "TrustWarning",
    "Verdict",
    "export",
]
