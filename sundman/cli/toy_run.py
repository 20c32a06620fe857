"""A toy run: samplers on a target with exact moments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax

import sundman
from sundman import check, gradients, targets
from sundman.cli import folder, samplers, screen, toml, toy_defaults, toy_table
from sundman.cli.errors import RunFailed, UserError, at_the_door, nearest, unknown
from sundman.cli.sampling import sampled
from sundman.targets import Target

DEFAULTS: dict[str, Any] = {
    "target": None,
    "sampler": "sa-sgld",
    "compare": None,
    "steps": 200_000,
    "burn_in": 20_000,
    "thin": 10,
    "chains": 16,
    "seed": 0,
    "temperature": None,
    "noise_sigma": 0.0,
    "target_settings": {},
    "settings": {},
}


class Plan(NamedTuple):
    """What to run: the target, the samplers by name, and every setting."""

    target: Target
    samplers: dict[str, sundman.Sampler]
    settings: dict[str, Any]


def plan(config: Mapping[str, Any], flags: Mapping[str, Any], sets: Mapping[str, Any]) -> Plan:
    """Settings from defaults, file and flags, in this order, checked before anything is run."""
    asked = {**DEFAULTS, **config, **flags}
    if asked["target"] is None:
        raise UserError(f"no target is given; write sundman toy {targets.names()[0]}, for instance")
    if "sampler" in flags:
        asked["compare"] = None
    _check_counts(asked)
    target = _target(asked)
    compare = asked["compare"]
    names = samplers.several(compare) if compare else [samplers.known(asked["sampler"])]
    given = samplers.distribute(names, _mapping(asked, "settings"), sets)
    settings = {name: toy_defaults.complete(target, name, given[name]) for name in names}
    built = {
        name: samplers.build(name, toy_defaults.with_metric(target, own), target.temperature)
        for name, own in settings.items()
    }
    effective = {**asked, "target": target.name, "temperature": target.temperature}
    effective |= {"sampler": None, "compare": names} if compare else {"sampler": names[0]}
    return Plan(target, built, {**effective, "settings": settings})


def _mapping(asked: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    if not isinstance(asked[key], Mapping):
        raise UserError(f"{key} is a table, got {asked[key]!r}; write it as [{key}]")
    return asked[key]


def _check_counts(asked: Mapping[str, Any]) -> None:
    with at_the_door():
        for name, least in (("steps", 1), ("burn_in", 0), ("thin", 1), ("chains", 1), ("seed", 0)):
            check.count(name, asked[name], least=least)
        check.not_negative(noise_sigma=asked["noise_sigma"])
    kept = asked["steps"] - asked["burn_in"]
    if kept < asked["thin"]:
        raise UserError(
            f"no draw would be kept: burn_in={asked['burn_in']} of steps={asked['steps']} leaves "
            f"{max(kept, 0)} steps, thin={asked['thin']}; use more steps or a shorter burn-in"
        )


def _target(asked: Mapping[str, Any]) -> Target:
    name = str(asked["target"]).replace("_", "-").lower()
    if name not in targets.names():
        raise unknown("target", str(asked["target"]), targets.names())
    given = dict(_mapping(asked, "target_settings"))
    constructor = targets.registered(name).build
    has = [key for key in inspect.signature(constructor).parameters if key != "temperature"]
    for key in given:
        if key not in has:
            raise UserError(
                f"target {name} has no setting {key!r}; {nearest(key, has or ['none'])}"
            )
    temperature = asked["temperature"]
    if temperature is None:
        temperature = targets.registered(name).toy_temperature
    with at_the_door():
        return targets.named(name, temperature=temperature, **given)


def sample(plan: Plan, name: str, path: Path | None, resuming: bool) -> sundman.Draws | None:
    """The draws of one sampler, on disk if there is a directory; None if there are none."""
    settings, target = plan.settings, plan.target
    sigma = settings["noise_sigma"]
    return sampled(
        gradients.noisy(target.potential, sigma) if sigma > 0 else target,
        plan.samplers[name],
        key=jax.random.key(settings["seed"]),
        init=target.start,
        per_chain=False,
        chains=settings["chains"],
        steps=settings["steps"] - settings["burn_in"],
        burn_in=settings["burn_in"],
        thin=settings["thin"],
        store=None if path is None else path / folder.RUNS / name,
        resume=resuming and path is not None,
    )


def run(plan: Plan, path: Path | None, *, resuming: bool = False, page: Path | None = None) -> None:
    """Run all samplers, print the table, and write results and report if there is a directory."""
    out = screen.console()
    if path is not None and not resuming:
        toml.write(path / folder.SETTINGS, "toy", plan.settings)
    with folder.resumable(path):
        tried = {name: sample(plan, name, path, resuming) for name in plan.samplers}
    runs = {name: draws for name, draws in tried.items() if draws is not None}
    if not runs:
        raise RunFailed("all chains diverged; use a smaller step")
    for name in tried.keys() - runs.keys():
        screen.say(out, f"{name}: all chains diverged in the burn-in; use a smaller step")
    found = toy_table.Found(plan.target, runs)
    for table in found.tables():
        screen.show(out, table)
    if path is not None:
        from sundman.cli.toy_report import report
        from sundman.report import write

        folder.write_results(path, found.numbers())
        page = page or path / folder.REPORT
        write(report(found, plan.settings, path), page)
        screen.say(out, f"Report: {page}")
    if found.all_lost():
        raise RunFailed("all chains diverged; use a smaller step")
