"""The runner: chains, blocks, thinning."""

from sundman.runner.divergence import DivergenceWarning
from sundman.runner.run import sample

__all__ = ["DivergenceWarning", "sample"]
