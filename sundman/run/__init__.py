"""A run: what was asked, set up, executed piece by piece, guarded, into a sink of draws."""

from sundman.run.sampling import sample

__all__ = ["sample"]
