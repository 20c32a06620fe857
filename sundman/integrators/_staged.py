"""Stages: any integrator as an optimizer at the beginning of each cycle, as a sampler after it.

    the temperature of step n is 0 where n mod cycle < explore, and T where not

Zhang, Li, Zhang, Chen, Wilson (2020), "Cyclical stochastic gradient MCMC for Bayesian deep
learning". It goes with a clock of the same cycles, :func:`sundman.clocks.cyclical`, whose long
steps explore; draws are taken from the sampling stages alone.

Within the basin that a cycle ends in, the weighted draws have the law exp(-U/T) as the steps get
small and the stage long. How often each basin is found is up to the exploration, which knows no
temperature: the shares of the basins are not those of the target, unless it is symmetric. In our
tests a well that holds .12 of a tilted double well got .994(2), each of two like wells .50(1).
A momentum is cold when sampling begins, and warms up within a few 1/gamma.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.clocks.base import Stages
from sundman.integrators._wrapped import Wrapped
from sundman.integrators.base import Integrator
from sundman.noise import Stream
from sundman.value import static


class Staged(Wrapped):
    """``moves_by`` at temperature 0 in the first ``explore`` of every ``cycle`` steps."""

    _: KW_ONLY
    cycle: int = static()
    explore: int = static()

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choices_are_static(cycle=self.cycle, explore=self.explore)
        check.count("cycle", self.cycle, least=1)
        check.count("explore", self.explore, least=0)
        if self.explore >= self.cycle:
            raise ValueError(
                "explore must leave steps of a cycle to sample: "
                f"explore={self.explore}, cycle={self.cycle}"
            )

    @property
    def label(self) -> str:  # type: ignore[override]  # others have it on the class
        """That of the integrator."""
        return f"{self.moves_by.label} in cycles"

    @property
    def takes_split_gradients(self) -> bool:  # type: ignore[override]  # others have it on the class
        """Whether the integrator does."""
        return self.moves_by.takes_split_gradients

    @property
    def stages(self) -> Stages:
        """The cycles."""
        return Stages(self.cycle, self.explore)

    def __repr__(self) -> str:
        """How to make it."""
        integrator = self.moves_by.with_temperature(self.temperature)
        return f"integrators.staged({integrator!r}, cycle={self.cycle}, explore={self.explore})"

    def move(
        self,
        stream: Stream,
        grads: PyTree,
        state: PyTree,
        params: PyTree,
        dt: PyTree,
        **value: Array,
    ) -> tuple[PyTree, PyTree]:
        """The integrator's, at the temperature of this step."""
        exploring = stream.step % jnp.uint32(self.cycle) < jnp.uint32(self.explore)
        now = self.moves_by.with_temperature(jnp.where(exploring, 0.0, self.T))
        return now.move(stream, grads, state, params, dt, **value)


def staged(integrator: Integrator, *, cycle: int, explore: int) -> Staged:
    """``integrator`` at temperature 0 in the first ``explore`` of every ``cycle`` steps.

    Args:
      integrator: any integrator; its temperature is that of the steps that sample.
      cycle: steps of a cycle.
      explore: how many of them explore.

    Returns:
      An integrator, for a clock of the same cycles.
    """
    return Staged(
        integrator.temperature,
        moves_by=integrator.with_temperature(None),
        cycle=cycle,
        explore=explore,
    )
