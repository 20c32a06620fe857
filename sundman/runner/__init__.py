"""The runner: chains, blocks, thinning, guards."""

from sundman.runner.divergence import DivergenceError, DivergenceWarning
from sundman.runner.run import sample

__all__ = ["DivergenceError", "DivergenceWarning", "sample"]
