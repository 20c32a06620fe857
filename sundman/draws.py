"""Draws: positions, the weights that make them a sample of the target, and their statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

PyTree = Any


@dataclass(frozen=True)
class Draws:
    """Weighted draws; every array has the axes (chain, draw, ...).

    Attributes:
      values: what was kept of each position: the position itself, or what ``collect`` made of it.
      weight: dt of the step that leaves the position; 0 from where a chain diverged.
      stats: per draw ``dt``, ``time``, ``potential``, ``grad_norm`` and, with an adaptive
        clock, ``zeta``.
      diverged: for each chain the index of the draw from where it ran away to a non-finite
        potential or gradient, or -1.
      last: the final position of each chain.
      settings: the sampler's settings and those of the run.
      has_position: whether ``values`` are positions.
      online: averages of the function given as ``online=``, one per chain: ``weighted`` by
        time, ``equal`` with equal weights, and their ``weight`` and ``number``.
    """

    values: PyTree
    weight: np.ndarray
    stats: Mapping[str, np.ndarray]
    diverged: np.ndarray
    last: PyTree
    settings: Mapping[str, Any] = field(default_factory=dict)
    has_position: bool = True
    online: Any = None

    @property
    def position(self) -> PyTree:
        """The positions, if they were kept."""
        if not self.has_position:
            raise AttributeError(
                "the positions of this run were not kept, because collect= was given; "
                "what it returned is in draws.values"
            )
        return self.values

    @property
    def chains(self) -> int:
        """Number of chains."""
        return self.weight.shape[0]

    def __len__(self) -> int:
        """Number of draws per chain."""
        return self.weight.shape[1]

    def __repr__(self) -> str:
        """Sizes, not contents."""
        shapes = jax.tree.map(lambda leaf: leaf.shape, self.values)
        lost = int(np.sum(self.diverged >= 0))
        return f"Draws(chains={self.chains}, draws={len(self)}, values={shapes}, diverged={lost})"
