"""Test densities exp(-U/T) with exact moments, draws and cell masses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sundman import check
from sundman.targets.banana import banana
from sundman.targets.base import Target
from sundman.targets.double_well import double_well
from sundman.targets.funnel import funnel
from sundman.targets.gaussian import gaussian
from sundman.targets.mixture import mixture
from sundman.targets.muller_brown import muller_brown
from sundman.targets.quartic import quartic
from sundman.targets.star import star

_BUILDERS: dict[str, Callable[..., Target]] = {
    "star": star,
    "muller-brown": muller_brown,
    "funnel": funnel,
    "gaussian": gaussian,
    "mixture": mixture,
    "banana": banana,
    "double-well": double_well,
    "quartic": quartic,
}


def names() -> tuple[str, ...]:
    """The names :func:`named` knows."""
    return tuple(_BUILDERS)


def named(name: str, **settings: Any) -> Target:
    """The target of that name, hyphens or underscores; settings go to its constructor."""
    known = str(name).replace("_", "-")
    if known not in _BUILDERS:
        check.choice("name", name, names())
    return _BUILDERS[known](**settings)


__all__ = [
    "Target",
    "banana",
    "double_well",
    "funnel",
    "gaussian",
    "mixture",
    "muller_brown",
    "named",
    "names",
    "quartic",
    "star",
]
