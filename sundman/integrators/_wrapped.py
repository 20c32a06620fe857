"""Integrators that change how another one moves, and share its facts."""

from __future__ import annotations

from dataclasses import KW_ONLY

from jax import Array

from sundman._types import PyTree
from sundman.clocks.base import Stages
from sundman.integrators.base import Integrator
from sundman.value import Settings


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
