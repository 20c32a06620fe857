"""Settings that work for every sampler on every target.

Where the authors of SA-SGLD gave settings of their clock, SA-SGLD has them; the bounds and dtau
they left open on Mueller-Brown are ours. All other adaptive samplers are on the scale-free clock
with a memory of 100 steps, whose step is dtau where the squared gradient is the target's usual one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sundman import metric_tensors
from sundman.cli.errors import UserError
from sundman.cli.samplers import recipe
from sundman.targets import Target, suggest

MEMORY = 0.01  # alpha dtau
_FRICTION = 5.0


def clock(dtau: float, squared_gradient: float) -> dict[str, Any]:
    """The scale-free clock with its default settings."""
    return {
        "dtau": dtau,
        "alpha": MEMORY / dtau,
        "M": 10.0,
        "r": 0.5,
        "omega": squared_gradient,
        "psi": "scale_free",
        "lag": "guarded",
    }


def complete(target: Target, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings given, and for the rest those that suit the target."""
    chosen, suggested = recipe(name), suggest(target)
    squared_gradient = suggested.squared_gradient
    assert squared_gradient is not None  # suggest finds one
    step = suggested.kinetic if chosen.kinetic else suggested.overdamped
    friction = {"gamma": _FRICTION} if "gamma" in chosen.settings else {}
    if not chosen.adaptive:
        own = chosen.suggest(target, step, squared_gradient) if chosen.suggest else {}
        # A metric is made anew when the sampler is built: settings are written as text.
        own = {key: _name(value) for key, value in own.items()}
        return {"h": step, **friction, **own, **given}
    if name == "sa-sgld" and target.published:
        return {**target.published, "psi": "code", "lag": "none", **given}
    dtau = given.get("dtau", step)
    dtau = dtau if isinstance(dtau, int | float) and dtau > 0 else step  # refused when it is built
    return {**clock(dtau, squared_gradient), **friction, **given}


def _name(value: Any) -> Any:
    return value.name if isinstance(value, metric_tensors.Metric) else value


def with_metric(target: Target, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a metric in place of its name."""
    if "metric" not in settings:
        return dict(settings)
    if settings["metric"] != "monge":
        raise UserError(
            f"metric is monge, the only one with settings that suit every target; got "
            f"{settings['metric']!r}. Others are for Python: sundman.metric_tensors"
        )
    alpha = (suggest(target).squared_gradient or 1.0) ** -0.5
    return {**settings, "metric": metric_tensors.monge(target.potential, alpha)}
