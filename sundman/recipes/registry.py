"""What is known of every recipe, once: tables, command line, citations and tests are made from it.

A recipe is a function that makes a sampler; ``@recipe`` adds it here with its facts. Order,
momentum, citation and the rest are facts of its integrator and clock.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from sundman import clocks
from sundman.clocks import Clock, SundmanSettings
from sundman.clocks.base import Schedule, Step
from sundman.integrators import Integrator
from sundman.samplers import Sampler

StepOrClock: TypeAlias = Step | Schedule | Clock
"""The step of a recipe: a physical time, a learning rate, a schedule, or a clock."""


_Make = TypeVar("_Make", bound=Callable[..., Sampler])


def as_clock(h: StepOrClock) -> Clock:
    """The clock of a step."""
    if isinstance(h, Clock):
        return h
    if callable(h):
        return clocks.schedule(h)
    return clocks.constant(h)


@dataclass(frozen=True)
class Recipe:
    """A sampler people know by name.

    Attributes:
      name: the function's, ``sa_sgld``.
      label: how papers write it, ``SA-SGLD``.
      make: the function.
      integrator: the class of its integrator.
      clock: the class of its clock.
      in_cycles: whether it explores and samples in turn.
      for_networks: whether default settings suit networks, so that the command line offers it.
    """

    name: str
    label: str
    make: Callable[..., Sampler]
    integrator: type[Integrator]
    clock: type[Clock]
    in_cycles: bool = False
    for_networks: bool = False

    @property
    def option(self) -> str:
        """The name on the command line, ``sa-sgld``."""
        return self.name.replace("_", "-")

    @property
    def adaptive(self) -> bool:
        """Whether its step is dtau, on the Sundman clock."""
        return self.clock.adaptive

    @property
    def kinetic(self) -> bool:
        """Whether there is a momentum."""
        return bool(self.integrator.kinetic)

    @property
    def step_name(self) -> str:
        """What its step is called."""
        return next(iter(inspect.signature(self.make).parameters))

    @property
    def settings(self) -> tuple[str, ...]:
        """The names of its settings, those of the clock included."""
        own = [name for name in inspect.signature(self.make).parameters if name != "clock"]
        clock = list(SundmanSettings.__annotations__) if self.adaptive else []
        return tuple(dict.fromkeys(own + clock))

    @property
    def references(self) -> tuple[str, ...]:
        """What to cite."""
        return (*self.clock.references, *self.integrator.references)

    @property
    def summary(self) -> str:
        """The first line of its documentation."""
        return (inspect.getdoc(self.make) or "").split("\n")[0]


RECIPES: dict[str, Recipe] = {}


def recipe(
    label: str,
    integrator: type[Integrator],
    clock: type[Clock],
    *,
    in_cycles: bool = False,
    for_networks: bool = False,
) -> Callable[[_Make], _Make]:
    """Register a function that makes a sampler, with its facts.

    Args:
      label: how papers write it.
      integrator: the class of its integrator.
      clock: the class of its clock.
      in_cycles: whether it explores and samples in turn.
      for_networks: whether the command line should offer it for networks.

    Returns:
      A decorator that leaves the function as it is.
    """

    def register(make: _Make) -> _Make:
        name = make.__name__
        known = RECIPES.get(name)
        if known is not None and _place(known.make) != _place(make):
            raise ValueError(
                f"there is a recipe of this name already, {_place(known.make)}: call the function "
                f"something else than {name!r}"
            )
        RECIPES[name] = Recipe(name, label, make, integrator, clock, in_cycles, for_networks)
        return make

    return register


def _place(function: Callable[..., object]) -> str:
    """Where a function is written: a cell or a module that runs again replaces its own recipes."""
    return f"{function.__module__}.{function.__qualname__}"


def label_of(sampler: Sampler) -> str:
    """The name of a sampler in a table: that of its recipe, or of its two factors."""
    integrator, clock = sampler.integrator, sampler.clock
    moves_by = getattr(integrator, "moves_by", integrator)
    for each in RECIPES.values():
        alike = type(moves_by) is each.integrator and type(clock) is each.clock
        if alike and each.in_cycles == (moves_by is not integrator):
            return each.label
    fixed = (each.label for each in RECIPES.values() if isinstance(integrator, each.integrator))
    return f"{next(fixed, integrator.label or type(integrator).__name__)}, {clock.label} clock"


def ordered() -> list[Recipe]:
    """The recipes: the usual ones first, those with a momentum later, biased ones last."""

    def place(recipe: Recipe) -> tuple[bool, bool, bool]:
        return recipe.integrator.weak_order is None, not recipe.for_networks, recipe.kinetic

    return sorted(RECIPES.values(), key=place)
