"""The targets by name: what ``sundman toy`` and :func:`named` know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sundman import check
from sundman.targets.base import Target


class Registered(NamedTuple):
    """A target that is known by its name.

    Attributes:
      build: its constructor, with ``temperature`` among its keyword arguments.
      toy_temperature: T of ``sundman toy`` unless another is asked for.
    """

    build: Callable[..., Target]
    toy_temperature: float = 1.0


_REGISTRY: dict[str, Registered] = {}


def register(name: str, build: Callable[..., Target], *, toy_temperature: float = 1.0) -> None:
    """Let a target be found by its name, with hyphens: by :func:`named` and by ``sundman toy``.

    Args:
      name: its name, which the target must have, too.
      build: its constructor; it takes ``temperature`` and any settings, all with defaults.
      toy_temperature: T of ``sundman toy`` unless another is asked for.
    """
    if isinstance(build, Target) or not callable(build):
        raise TypeError(f"build must be a constructor of targets, got build={build!r}")
    check.positive(toy_temperature=toy_temperature)
    if name != name.lower().replace("_", "-") or not name.strip():
        raise ValueError(f"name must be lower-case words with hyphens, got name={name!r}")
    if name in _REGISTRY and _REGISTRY[name].build is not build:
        raise ValueError(f"there is a target of this name already, got name={name!r}")
    _REGISTRY[name] = Registered(build, float(toy_temperature))


def registered(name: str) -> Registered:
    """The constructor and the toy temperature of the target of that name."""
    known = str(name).replace("_", "-").lower()
    if known not in _REGISTRY:
        check.choice("name", name, names())
    return _REGISTRY[known]


def names() -> tuple[str, ...]:
    """The names :func:`named` knows."""
    return tuple(_REGISTRY)


def named(name: str, **settings: Any) -> Target:
    """The target of that name, hyphens or underscores; settings go to its constructor."""
    return registered(name).build(**settings)
