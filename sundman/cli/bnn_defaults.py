"""Settings of samplers for networks, in learning-rate units.

A step h or dtau is a learning rate on the mean loss U/N. Samplers without momentum take the
time dt = h / N, those with momentum dt = sqrt(h / N), as h is the learning rate of SGD with
momentum. omega is in units of |grad(U/N)|^2, that is, of N^2; all other settings are as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sundman import check
from sundman.cli.errors import at_the_door
from sundman.cli.samplers import adaptive, has_momentum
from sundman.cli.toy_defaults import MEMORY

_PUBLISHED = {"alpha": 1000.0, "m": 0.5, "M": 2.0, "r": 0.25, "omega": 1.0, "psi": "code"}
_MEAN_SQUARE = 1000.0  # |grad U|^2 of a regression, per training row: a rough guess


def time_of(name: str, h: float, size: int) -> float:
    """The time dt of a learning rate."""
    return math.sqrt(h / size) if has_momentum(name) else h / size


def rate_of(name: str, dt: float, size: int) -> float:
    """The learning rate of a time dt."""
    return dt * dt * size if has_momentum(name) else dt * size


def _step(name: str, classes: int | None, prior: str, size: int) -> float:
    """A learning rate that suits the likelihood and the prior."""
    if classes is None:  # dt as in our runs on the UCI tables
        return rate_of(name, 1e-3 if has_momentum(name) else 5e-7, size)
    if has_momentum(name):
        return 2e-3
    if prior != "horseshoe":
        return 0.025
    return 0.2 if size > 20_000 else 0.1


def complete(
    name: str, given: Mapping[str, Any], *, classes: int | None, prior: str, size: int
) -> dict[str, Any]:
    """The settings given, and for the rest those that suit the data."""
    step = _step(name, classes, prior, size)
    friction = {"gamma": 5.0 if classes is None else 20.0} if has_momentum(name) else {}
    if not adaptive(name):
        return {"h": step, **friction, **given}
    if name == "sa-sgld" and classes is not None:
        return {"dtau": step, **_PUBLISHED, "lag": "none", **given}
    dtau = given.get("dtau", step)
    with at_the_door():
        check.positive(dtau=dtau)
    found = {"dtau": dtau, "alpha": MEMORY / time_of(name, dtau, size), **friction}
    if classes is not None:
        return {**_PUBLISHED, **found, "lag": "guarded", **given}
    found |= {"M": 10.0, "r": 0.25 if has_momentum(name) else 0.5, "omega": _MEAN_SQUARE / size}
    return {**found, "psi": "scale_free", "lag": "guarded", **given}


def physical(name: str, settings: Mapping[str, Any], size: int) -> dict[str, Any]:
    """The settings in the units of the sampler: physical time, gradient of U."""
    found = dict(settings)
    with at_the_door():
        for key in ("h", "dtau"):
            if key in found:
                check.positive(**{key: found[key]})
                found[key] = time_of(name, found[key], size)
        if "omega" in found:
            check.positive(omega=found["omega"])
            found["omega"] = found["omega"] * float(size) ** 2
    return found
