"""The runner: chains, blocks, thinning."""

from sundman.runner.run import DivergenceWarning, sample

__all__ = ["DivergenceWarning", "sample"]
