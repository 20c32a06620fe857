"""Weighted draws: in memory or on disk, resampled, averaged online, and what diverged."""

from sundman.draws.divergence import AllDivergedError, DivergenceError, DivergenceWarning
from sundman.draws.draws import Draws

__all__ = ["AllDivergedError", "DivergenceError", "DivergenceWarning", "Draws"]
