"""Integrators that change how another one moves, and share its facts.

Whitened: any integrator in coordinates z, position = L z, where the law has unit size.

    dz = the integrator's step for the gradient L' G,    position <- position + L dz

Momentum, friction, step and the noise of the gradient (``sigma``) are those of z. L is frozen, so
that this is the same scheme after a change of variables and there is no term to correct for. It is
what makes one step and one friction fit every direction: a Gaussian of condition 1e4 becomes one
of condition 1. :func:`sundman.auto` finds L.

Staged: any integrator as an optimizer at the beginning of each cycle, as a sampler after it.

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
from sundman.integrators.base import Integrator
from sundman.noise import Stream
from sundman.scaling import Scale
from sundman.value import Settings, public_name, static


class Wrapped(Integrator):
    """``moves_by`` with something around it; the temperature is this one's."""

    _: KW_ONLY
    moves_by: Integrator

    @property
    def weak_order(self) -> int | None:  # type: ignore[override]  # others have it on the class
        """That of the integrator."""
        return self.moves_by.weak_order

    @property
    def kinetic(self) -> bool:  # type: ignore[override]  # others have it on the class
        """Whether the integrator is."""
        return self.moves_by.kinetic

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]  # others have it on the class
        """Those of the integrator."""
        return self.moves_by.references

    @property
    def needs_value(self) -> bool:  # type: ignore[override]  # others have it on the class
        """Whether the integrator does."""
        return self.moves_by.needs_value

    @property
    def has_weights(self) -> bool:  # type: ignore[override]  # others have it on the class
        """Whether the integrator has."""
        return self.moves_by.has_weights

    @property
    def biased(self) -> bool:
        """Whether the integrator is."""
        return self.moves_by.biased

    @property
    def replicas(self) -> int:
        """How many copies the integrator moves."""
        return self.moves_by.replicas

    @property
    def stages(self) -> Stages | None:
        """Those of the integrator."""
        return self.moves_by.stages

    @property
    def settings(self) -> Settings:
        """Those of the integrator, and its own."""
        moves_by = self.moves_by.settings
        own = {**super().settings, "moves_by": moves_by["integrator"]}
        return {**moves_by, **own}

    def init(self, params: PyTree) -> PyTree:
        """That of the integrator."""
        return self.moves_by.init(params)

    def weigh(self, state: PyTree) -> Array:
        """That of the integrator."""
        return self.moves_by.weigh(state)


class Whitened(Wrapped):
    """``moves_by`` in the coordinates z, position = L z."""

    _: KW_ONLY
    scale: Scale

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self.moves_by).__name__
        if self.moves_by.uses_position:
            raise ValueError(
                f"{name} has a metric of its own, a function of the position: it cannot be used in "
                "whitened coordinates"
            )
        if self.moves_by.replicas > 1:
            raise ValueError(f"{name} moves several copies: whiten the integrator that it is of")

    @property
    def label(self) -> str:  # type: ignore[override]  # others have it on the class
        """That of the integrator."""
        return f"{self.moves_by.label}, whitened"

    @property
    def follows_work(self) -> bool:  # type: ignore[override]  # others have it on the class
        """Whether the integrator does."""
        return self.moves_by.follows_work

    @property
    def settings(self) -> Settings:
        """Those of the integrator; of the scale its size."""
        shape = " x ".join(str(n) for n in self.scale.shape)
        return {**super().settings, "scale": f"{public_name(type(self.scale))} {shape}"}

    def __repr__(self) -> str:
        """How to make it."""
        integrator = self.moves_by.with_temperature(self.temperature)
        return f"integrators.whitened({integrator!r}, {self.scale!r})"

    def init(self, params: PyTree) -> PyTree:
        """That of the integrator; raises if L is not for such positions."""
        self.scale.check_fits(params)
        return self.moves_by.init(params)

    def move(
        self,
        stream: Stream,
        grads: PyTree,
        state: PyTree,
        params: PyTree,
        dt: PyTree,
        **value: Array,
    ) -> tuple[PyTree, PyTree]:
        """The integrator's move, in z."""
        inside = self.moves_by.with_temperature(self.T)
        updates, state = inside.move(stream, self.scale.inward(grads), state, params, dt, **value)
        return self.scale.outward(updates), state


def whitened(integrator: Integrator, scale: Scale) -> Whitened:
    """``integrator`` in the coordinates z, position = L z.

        scale = sundman.scaling.diagonal(jnp.array([1.0, 100.0]))
        integrator = integrators.whitened(integrators.baoab(gamma=1.0), scale)
        sampler = sundman.compose(integrator, sundman.clocks.constant(0.3))

    Args:
      integrator: any integrator without a metric of its own; its temperature is that of the law.
      scale: L, such as :func:`sundman.scaling.diagonal` of the standard deviations.

    Returns:
      An integrator of the position.
    """
    return Whitened(integrator.temperature, moves_by=integrator.with_temperature(None), scale=scale)


class Staged(Wrapped):
    """``moves_by`` at temperature 0 in the first ``explore`` of every ``cycle`` steps."""

    _: KW_ONLY
    cycle: int = static()
    explore: int = static()

    def __post_init__(self) -> None:
        super().__post_init__()
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
