"""Settings that work for every sampler on every target.

Where the authors of SA-SGLD gave settings of their clock, SA-SGLD has them; the bounds and dtau
they left open on Mueller-Brown are ours. All other adaptive samplers are on the scale-free clock
with a memory of 100 steps, whose step is dtau where the squared gradient is ``g_ref``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax

from sundman.cli.samplers import adaptive, has_momentum
from sundman.targets import Target

MEMORY = 0.01  # alpha dtau
_FRICTION = 5.0
_CYCLE = 2000


class Steps(NamedTuple):
    """Steps that suit a target: without and with momentum; a typical squared gradient."""

    overdamped: float
    kinetic: float
    g_ref: float | None = None


_STEPS = {
    "star": Steps(4e-4, 0.008),
    "muller-brown": Steps(2e-3, 0.03),
    "funnel": Steps(2e-3, 0.01, 100.0),
    "mixture": Steps(0.05, 0.1),
    "banana": Steps(0.02, 0.1),
    "gaussian": Steps(0.1, 0.15),
    "double-well": Steps(0.01, 0.05),
    "quartic": Steps(0.02, 0.1),
}
_PUBLISHED: dict[str, dict[str, Any]] = {
    "star": {"dtau": 1e-3, "alpha": 0.5, "m": 0.1, "M": 10.0, "r": 0.5, "omega": 100.0},
    "muller-brown": {"dtau": 0.01, "alpha": 0.07, "m": 0.1, "M": 10.0, "r": 0.25},
    "mixture": {"dtau": 0.01, "alpha": 0.1, "m": 0.5, "M": 50.0, "r": 0.5},
    "funnel": {"dtau": 0.002, "alpha": 0.8, "m": 0.1, "M": 10.0, "r": 1.0},
}
TEMPERATURES = {"muller-brown": 2.0}  # at 1 no chain of this length crosses the barriers


def _steps(target: Target) -> Steps:
    found = _STEPS[target.name]
    if target.name == "gaussian":
        stiffest = target.truth["stiffest"] / target.temperature  # its smallest variance
        found = Steps(found.overdamped * stiffest, found.kinetic * stiffest**0.5)
    return found


def clock(dtau: float, g_ref: float) -> dict[str, Any]:
    """The scale-free clock with its default settings."""
    return {
        "dtau": dtau,
        "alpha": MEMORY / dtau,
        "M": 10.0,
        "r": 0.5,
        "omega": g_ref,
        "psi": "scale_free",
        "lag": "guarded",
    }


def _own(target: Target, name: str, step: float) -> dict[str, Any]:
    """What only this sampler has: a preconditioner's scale, cycles, a range of energies."""
    if name in ("psgld", "adam-sgld"):
        slope = math.sqrt(_squared_gradient(target) / target.dim)
        return {"h": step * slope, "eps": 0.1 * slope}
    if name.startswith("cyclical"):
        return {"h": 4.0 * step, "cycle": _CYCLE}
    if name == "contour-sgld":
        assert target.exact is not None
        energies = jax.vmap(target.potential)(target.exact(jax.random.key(0), 4096))
        return {"low": float(energies.min()), "high": float(energies.max())}
    return {}


def _squared_gradient(target: Target) -> float:
    return float(_steps(target).g_ref or target.truth["grad2"])


def complete(target: Target, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings given, and for the rest those that suit the target."""
    steps = _steps(target)
    step = steps.kinetic if has_momentum(name) else steps.overdamped
    friction = {"gamma": _FRICTION} if has_momentum(name) else {}
    if not adaptive(name):
        return {"h": step, **friction, **_own(target, name, step), **given}
    if name == "sa-sgld" and target.name in _PUBLISHED:
        return {**_PUBLISHED[target.name], "psi": "code", "lag": "none", **given}
    g_ref = _squared_gradient(target)
    dtau = given.get("dtau", step)
    dtau = dtau if isinstance(dtau, int | float) and dtau > 0 else step  # refused when it is built
    return {**clock(dtau, g_ref), **friction, **given}
