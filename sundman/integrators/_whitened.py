"""Whitened: any integrator in coordinates z, position = L z, where the law has unit size.

    dz = the integrator's step for the gradient L' G,    position <- position + L dz

Momentum, friction, step and the noise of the gradient (``sigma``) are those of z. L is frozen, so
that this is the same scheme after a change of variables and there is no term to correct for. It is
what makes one step and one friction fit every direction: a Gaussian of condition 1e4 becomes one
of condition 1. :func:`sundman.auto` finds L.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

from jax import Array

from sundman._types import PyTree
from sundman.integrators._wrapped import Wrapped
from sundman.integrators.base import Integrator
from sundman.noise import Stream
from sundman.scaling import Scale
from sundman.value import Settings, public_name


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
