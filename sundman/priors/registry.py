"""The priors by name: what ``sundman bnn --prior`` and :func:`named` know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sundman import check
from sundman.priors.base import Prior

_REGISTRY: dict[str, Callable[..., Prior]] = {}


def register(name: str, build: Callable[..., Prior]) -> None:
    """Let a prior be found by its name, with hyphens: by :func:`named` and by ``sundman bnn``.

    Args:
      name: its name, in lower case with hyphens.
      build: its constructor; it takes ``scale`` and ``fan_in``, and has defaults for the rest.
    """
    if isinstance(build, Prior) or not callable(build):
        raise TypeError(f"build must be a constructor of priors, got build={build!r}")
    if name != name.lower().replace("_", "-") or not name.strip():
        raise ValueError(f"name must be lower-case words with hyphens, got name={name!r}")
    if name in _REGISTRY and _REGISTRY[name] is not build:
        raise ValueError(f"there is a prior of this name already, got name={name!r}")
    _REGISTRY[name] = build


def names() -> tuple[str, ...]:
    """The names :func:`named` knows."""
    return tuple(_REGISTRY)


def named(name: str, **settings: Any) -> Prior:
    """The prior of that name, hyphens or underscores; settings go to its constructor."""
    known = str(name).replace("_", "-").lower()
    if known not in _REGISTRY:
        check.choice("name", name, names())
    return _REGISTRY[known](**settings)
