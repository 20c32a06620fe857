"""The gradient's squared norm less the part that is noise."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.clocks.base import time_dtype
from sundman.clocks.monitors.base import Monitor, total_square
from sundman.value import Number


class NoiseMemory(NamedTuple):
    """The average of ||G||^2 less noise; the gradient before, if the noise is estimated by it."""

    signal: Array
    before: PyTree


class NoiseCorrected(Monitor):
    """q = max(m, 0), m an average of ||G_n||^2 less its noise: the step follows U, not noise.

    The noise is sigma^2 d if ``sigma`` is known, and ||G_n - G_{n-1}||^2 / 2 if it is not: what
    differs between two steps is noise as long as grad U hardly moves in one. Averaging before the
    floor keeps the floor from making a bias. Batches without replacement are negatively
    correlated, which this does not see.

    Args:
      sigma: the standard deviation of the noise in each coordinate, if it is known.
      average: the newest number's share of the average.
    """

    sigma: Number | None = None
    _: KW_ONLY
    average: Number = 0.05

    def __post_init__(self) -> None:
        if self.sigma is not None:
            self._settle(sigma=check.not_negative)
        self._settle(average=check.positive)
        if check.known(self.average) and self.average > 1.0:
            raise ValueError(f"average is a share, at most 1; got average={self.average!r}")

    def init(self, params: PyTree) -> NoiseMemory:
        """Nothing seen."""
        before = jax.tree.map(jnp.zeros_like, params) if self.sigma is None else None
        return NoiseMemory(jnp.zeros((), time_dtype(params)), before)

    def measure(self, grads: PyTree, params: PyTree, memory: NoiseMemory, step: Array):
        """q and what is remembered; the first gradient counts in full if noise is not known."""
        dtype = memory.signal.dtype
        if self.sigma is None:
            change = jax.tree.map(jnp.subtract, grads, memory.before)
            noise = jnp.where(step == 0, 0.0, 0.5 * total_square(change, dtype))
        else:
            noise = self.sigma**2 * sum(leaf.size for leaf in jax.tree.leaves(params))
        less_noise = total_square(grads, dtype) - noise
        # An average of few numbers first: the one number of the first step is soon forgotten.
        share = jnp.maximum(self.average, 1.0 / (1.0 + step.astype(dtype)))
        signal = memory.signal + share * (less_noise - memory.signal)
        before = grads if self.sigma is None else None
        return jnp.maximum(signal, 0.0), NoiseMemory(signal, before)
