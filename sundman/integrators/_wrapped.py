"""Integrators that change how another one moves, and share its facts."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import Array, lax

from sundman import check
from sundman._types import PyTree
from sundman.clocks.base import Stages
from sundman.integrators.base import Integrator, Moved
from sundman.noise import Stream
from sundman.value import Number, Settings, static


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


class Kernel(Protocol):
    """A move that leaves exp(-U/T) as it is, such as :class:`sundman.posterior.ScaleMoves`."""

    def __call__(
        self, stream: Stream, position: PyTree, grads: PyTree, temperature: Number, /
    ) -> tuple[PyTree, PyTree]:
        """The position after the move and an estimate of the gradient of U there."""
        ...


class Interleaved(Wrapped):
    """``moves_by`` with another exact kernel before every so many steps.

    A kinetic scheme has half a kick open when a step begins, which belongs to where the kernel
    finds it; the half kick of the step belongs to where the kernel leaves it. So its whole kick is
    by the mean of the gradients at both.
    """

    _: KW_ONLY
    kernel: Kernel
    every: int = static(default=100)

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choices_are_static(every=self.every)
        check.count("every", self.every, least=1)
        name = type(self.moves_by).__name__
        if self.moves_by.needs_value:
            raise ValueError(f"{name} follows U from step to step: no other kernel may move it")
        if self.moves_by.replicas > 1:
            raise ValueError(f"{name} moves several copies: no other kernel goes with that")

    @property
    def label(self) -> str:  # type: ignore[override]  # others have it on the class
        """That of the integrator."""
        return f"{self.moves_by.label}, interleaved"

    @property
    def settings(self) -> Settings:
        """Those of the integrator, and how often the kernel moves; the kernel by its name."""
        return {**super().settings, "kernel": type(self.kernel).__name__, "every": self.every}

    def move(
        self, stream: Stream, grads: PyTree, state: PyTree, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, PyTree]:
        """The kernel's move, if it is due, and the integrator's."""

        def moved() -> tuple[PyTree, PyTree]:
            position, after = self.kernel(stream, params, grads, self.T)
            if self.kinetic:
                after = jax.tree.map(lambda one, other: 0.5 * (one + other), grads, after)
            return position, after

        due = stream.step % jnp.uint32(self.every) == 0
        position, slopes = lax.cond(due, moved, lambda: (params, grads))
        inside = self.moves_by.with_temperature(self.T)
        updates, state = inside.move(stream, slopes, state, position, dt)
        leaves, structure = jax.tree.flatten(params)
        changes = [
            change if isinstance(change, Moved) else change + (there - here)
            for change, there, here in zip(
                structure.flatten_up_to(updates), jax.tree.leaves(position), leaves, strict=True
            )
        ]
        return jax.tree.unflatten(structure, changes), state


def interleaved(integrator: Integrator, kernel: Kernel, *, every: int = 100) -> Interleaved:
    """``integrator`` with another kernel before every ``every``-th step.

    Args:
      integrator: any integrator of one copy of the position that takes no value of U.
      kernel: leaves exp(-U/T) as it is; a value.
      every: steps from one move of the kernel to the next.

    Returns:
      An integrator of the same law.
    """
    return Interleaved(
        integrator.temperature, moves_by=integrator.with_temperature(None), kernel=kernel,
        every=every,
    )  # fmt: skip
