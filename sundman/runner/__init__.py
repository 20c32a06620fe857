"""The runner: chains, blocks, thinning."""

from sundman.runner.sample import DivergenceWarning, sample

__all__ = ["DivergenceWarning", "sample"]
