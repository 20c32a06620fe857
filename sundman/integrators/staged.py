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

from typing import Any

import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.clocks.base import Stages
from sundman.integrators.base import FusedMove, Integrator, PyTree
from sundman.noise import Stream


def staged(integrator: Integrator, *, cycle: int, explore: int) -> Integrator:
    """``integrator`` at temperature 0 in the first ``explore`` of every ``cycle`` steps."""
    check.count("cycle", cycle, least=1)
    check.count("explore", explore, least=0)
    if explore >= cycle:
        raise ValueError(
            f"explore must leave steps of a cycle to sample: explore={explore}, cycle={cycle}"
        )
    warm = integrator.settings["temperature"]

    def now(step: Array) -> Integrator:
        exploring = step % jnp.uint32(cycle) < jnp.uint32(explore)
        return integrator.at(jnp.where(exploring, 0.0, warm))

    def move(
        stream: Stream, grads: PyTree, state: Any, params: PyTree, dt: PyTree, **value: Array
    ) -> tuple[PyTree, Any]:
        return now(stream.step).move(stream, grads, state, params, dt, **value)

    def advance(
        stream: Stream, grads: PyTree, state: Any, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, Any]:
        fused = now(stream.step).move
        assert isinstance(fused, FusedMove)
        return fused.advance(stream, grads, state, params, dt)

    def at(temperature: Any) -> Integrator:
        return staged(integrator.at(temperature), cycle=cycle, explore=explore)

    settings = {
        **integrator.settings,
        "integrator": "staged",
        "moves_by": integrator.settings["integrator"],
        "cycle": cycle,
        "explore": explore,
    }
    fused = isinstance(integrator.move, FusedMove)
    return integrator._replace(
        move=FusedMove(move, advance) if fused else move,
        at=at,
        settings=settings,
        stages=Stages(cycle, explore),
    )
