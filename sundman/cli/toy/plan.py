"""What to run on a target with exact moments: samplers whose settings are settled and checked.

Settings that are not given suit the target. Where the authors of SA-SGLD gave settings of their
clock, SA-SGLD has them; the bounds and dtau they left open on Mueller-Brown are ours. All other
adaptive samplers are on the scale-free clock with a memory of 100 steps, whose step is dtau where
the squared gradient is the target's usual one. The sampler ``auto`` finds its own.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from sundman import Until, check, metric_tensors, targets
from sundman.cli import options, samplers
from sundman.cli.errors import UserError, as_user_error, nearest, unknown
from sundman.cli.samplers import ALPHA_DTAU, SamplerSettings
from sundman.cli.settings import CommandSettings, Request
from sundman.recipes.registry import KnownTarget
from sundman.targets import Target, suggest

_FRICTION = 5.0


@dataclass(frozen=True)
class ToySettings(CommandSettings):
    """Every setting of ``sundman toy``, by the key of its settings file.

    ``settings`` is what was given for the samplers; in a plan, all settings of each by its name.
    """

    command: ClassVar[str] = "toy"
    target: str | None = None
    sampler: str | None = "sa-sgld"
    compare: str | Sequence[str] | None = None
    steps: int = 200_000
    burn_in: int = 20_000
    thin: int = 10
    until: str | None = None
    chains: int = 16
    seed: int = 0
    temperature: float | None = None
    noise_sigma: float = 0.0
    target_settings: Mapping[str, object] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """What to run: the target, the samplers by name, every setting, and a rule that may end it."""

    target: Target
    samplers: dict[str, samplers.AnySampler]
    settings: ToySettings
    until: Until | None = None


def make_plan(request: Request) -> Plan:
    """Settle every setting, and check them before anything is run."""
    asked = ToySettings.asked_in(request)
    if asked.target is None:
        raise UserError(f"no target is given; write sundman toy {targets.names()[0]}, for instance")
    for_target = {
        **samplers.table("target_settings", request.in_file.get("target_settings", {})),
        **asked.target_settings,
    }
    _check_counts(asked)
    until = options.rule(asked.until, asked.chains, (asked.steps - asked.burn_in) // asked.thin)
    target = _target(asked.target, asked.temperature, for_target)
    compare = None if "sampler" in request.in_options else asked.compare
    names = samplers.names_to_compare(compare) if compare else [samplers.known_name(asked.sampler)]
    for_samplers = samplers.table("settings", asked.settings)
    own = samplers.distribute(names, for_samplers, request.sampler_settings)
    settings = {name: _complete_settings(target, name, own[name]) for name in names}
    return Plan(
        target,
        {
            name: samplers.build(name, _with_metric(target, each), target.temperature)
            for name, each in settings.items()
        },
        dataclasses.replace(
            asked,
            target=target.name,
            sampler=None if compare else names[0],
            compare=names if compare else None,
            temperature=target.temperature,
            target_settings=for_target,
            settings=settings,
        ),
        until,
    )


def _check_counts(asked: ToySettings) -> None:
    with as_user_error():
        for name, least in (("steps", 1), ("burn_in", 0), ("thin", 1), ("chains", 1), ("seed", 0)):
            check.count(name, getattr(asked, name), least=least)
        check.not_negative(noise_sigma=asked.noise_sigma)
    steps_kept = asked.steps - asked.burn_in
    if steps_kept < asked.thin:
        raise UserError(
            f"no draw would be kept: burn_in={asked.burn_in} of steps={asked.steps} leaves "
            f"{max(steps_kept, 0)} steps, thin={asked.thin}; use more steps or a shorter burn-in"
        )


def _target(name: str, temperature: float | None, settings: Mapping[str, object]) -> Target:
    spelled = str(name).replace("_", "-").lower()
    if spelled not in targets.names():
        raise unknown("target", str(name), targets.names())
    registered = targets.registered(spelled)
    parameters = inspect.signature(registered.build).parameters
    has = [key for key in parameters if key != "temperature"]
    for key in settings:
        if key not in has:
            raise UserError(
                f"target {spelled} has no setting {key!r}; {nearest(key, has or ['none'])}"
            )
    if temperature is None:
        temperature = registered.toy_temperature
    with as_user_error():
        return targets.named(spelled, temperature=temperature, **settings)


def _complete_settings(target: Target, name: str, own: SamplerSettings) -> SamplerSettings:
    """The sampler's settings that were given, and for the rest those that suit the target."""
    if name == samplers.AUTO:
        return samplers.complete_auto(own)
    chosen, suggested = samplers.recipe(name), suggest(target)
    squared_gradient = suggested.squared_gradient
    assert squared_gradient is not None  # suggest finds one
    step = suggested.kinetic if chosen.kinetic else suggested.overdamped
    friction = {"gamma": _FRICTION} if "gamma" in chosen.settings else {}
    if not chosen.adaptive:
        known = cast(KnownTarget, target)  # a recipe that needs exact draws says so without them
        suits = chosen.suggest(known, step, squared_gradient) if chosen.suggest else {}
        # A metric is made anew when the sampler is built: settings are written as text.
        by_name = {key: _name_of_metric(value) for key, value in suits.items()}
        return {"h": step, **friction, **by_name, **own}
    if name == "sa-sgld" and target.published:
        return {**target.published, "psi": "research_code", "lag": "none", **own}
    dtau = own.get("dtau", step)
    dtau = dtau if isinstance(dtau, int | float) and dtau > 0 else step  # refused when it is built
    clock = samplers.scale_free_clock(dtau, ALPHA_DTAU / dtau, r=0.5, omega=squared_gradient)
    return {**clock, **friction, **own}


def _name_of_metric(value: object) -> object:
    return value.name if isinstance(value, metric_tensors.Metric) else value


def _with_metric(target: Target, settings: SamplerSettings) -> SamplerSettings:
    """The settings with a metric in place of its name."""
    if "metric" not in settings:
        return settings
    if settings["metric"] != "monge":
        raise UserError(
            f"metric is monge, the only one with settings that suit every target; got "
            f"{settings['metric']!r}. Others are for Python: sundman.metric_tensors"
        )
    alpha = (suggest(target).squared_gradient or 1.0) ** -0.5
    return {**settings, "metric": metric_tensors.monge(target.potential, alpha)}
