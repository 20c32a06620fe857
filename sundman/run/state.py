"""The state of a run: all there is between two blocks, one pytree with named leaves."""

from __future__ import annotations

from typing import NamedTuple

import jax
from jax import Array

from sundman._types import PyTree
from sundman.draws.online import RunningAverage
from sundman.draws.trust import Divergences
from sundman.samplers import SamplerState


class Chain(NamedTuple):
    """All there is to a chain between two steps; ``memory`` is the gradient estimator's."""

    position: PyTree
    state: SamplerState
    memory: PyTree = ()


class Timed(NamedTuple):
    """A chain that is drawn from at equal intervals of physical time.

    Attributes:
      chain: where it is.
      left: the position it left last.
      stats: the statistics of that position.
      ahead: its time past the next draw.
      lost: what rounding took from ``ahead``, so that draws stay as far apart as they should.
      allowed: how many steps it may still make in this call.
    """

    chain: Chain
    left: PyTree
    stats: dict[str, Array]
    ahead: Array
    lost: Array
    allowed: Array


class Progress(NamedTuple):
    """How far a run is: pieces, steps and draws per chain, and seconds of work."""

    pieces: int = 0
    steps: int = 0
    draws: int = 0
    seconds: float = 0.0


class RunState(NamedTuple):
    """What a run goes on from; a checkpoint is this, leaf by leaf.

    Attributes:
      chains: every chain, along a leading axis.
      averages: the online averages of every chain, if there are any.
      divergences: what is known of chains that ran away.
      progress: how far the run is.
    """

    chains: Chain | Timed
    averages: RunningAverage | None
    divergences: Divergences
    progress: Progress = Progress()

    @property
    def now(self) -> Chain:
        """The chains as they are now."""
        return self.chains.chain if isinstance(self.chains, Timed) else self.chains

    def position(self, replicas: int) -> PyTree:
        """The position of every chain: of several replicas, the first."""
        position = self.now.position
        return jax.tree.map(lambda leaf: leaf[:, 0], position) if replicas > 1 else position
