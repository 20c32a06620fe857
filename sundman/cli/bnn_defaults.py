"""Settings of samplers for networks, in learning-rate units.

A step h or dtau is a learning rate on the mean loss U/N, and omega is that of the mean loss, too
(:mod:`sundman.units`); all other settings are as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sundman
from sundman import check, units
from sundman.cli.errors import at_the_door
from sundman.cli.samplers import recipe
from sundman.cli.toy_defaults import MEMORY

_PUBLISHED = {"alpha": 1000.0, "m": 0.5, "M": 2.0, "r": 0.25, "omega": 1.0, "psi": "code"}
_MEAN_SQUARE = 1000.0  # |grad U|^2 of a regression, per training row: a rough guess


def _step(name: str, classes: int | None, prior: str, size: int) -> float:
    """A learning rate that suits the likelihood and the prior."""
    kinetic = recipe(name).kinetic
    if classes is None:  # dt as in our runs on the UCI tables
        return units.learning_rate(1e-3 if kinetic else 5e-7, size, kinetic=kinetic)
    if kinetic:
        return 2e-3
    if prior != "horseshoe":
        return 0.025
    return 0.2 if size > 20_000 else 0.1


def complete(
    name: str, given: Mapping[str, Any], *, classes: int | None, prior: str, size: int
) -> dict[str, Any]:
    """The settings given, and for the rest those that suit the data."""
    chosen, step = recipe(name), _step(name, classes, prior, size)
    friction = {"gamma": 5.0 if classes is None else 20.0} if chosen.kinetic else {}
    if not chosen.adaptive:
        return {"h": step, **friction, **given}
    if name == "sa-sgld" and classes is not None:
        return {"dtau": step, **_PUBLISHED, "lag": "none", **given}
    dtau = given.get("dtau", step)
    with at_the_door():
        check.positive(dtau=dtau)
    alpha = MEMORY / units.time_step(dtau, size, kinetic=chosen.kinetic)
    clock = {"dtau": dtau, "alpha": alpha, **friction}
    if classes is not None:
        return {**_PUBLISHED, **clock, "lag": "guarded", **given}
    clock |= {"M": 10.0, "r": 0.25 if chosen.kinetic else 0.5, "omega": _MEAN_SQUARE / size}
    return {**clock, "psi": "scale_free", "lag": "guarded", **given}


def with_rates(name: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the step as the learning rate it is."""
    step = recipe(name).step_name
    with at_the_door():
        check.positive(**{step: settings[step]})
        return {**settings, step: sundman.LearningRate(settings[step])}
