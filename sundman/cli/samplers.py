"""Samplers by name, with the settings each of them has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sundman
from sundman.cli.errors import UserError, at_the_door, nearest, unknown
from sundman.recipes import RECIPES, Recipe

Settings = dict[str, Any]
_OF_THE_RUN = ("temperature",)


def names(*, for_networks: bool = False) -> tuple[str, ...]:
    """The samplers one can ask for, as they are written on the command line."""
    return tuple(each.option for each in RECIPES.values() if each.for_networks or not for_networks)


def recipe(name: str) -> Recipe:
    """What is known of the sampler of that name."""
    return RECIPES[name.replace("-", "_")]


def known(name: str, *, for_networks: bool = False) -> str:
    """The name as it is spelled here, hyphens for underscores; refused if there is none."""
    spelled = str(name).strip().lower().replace("_", "-")
    among = names(for_networks=for_networks)
    if spelled not in names():
        raise unknown("sampler", str(name), among)
    if spelled not in among:
        raise UserError(
            f"{spelled} has no settings here that suit every network; use one of "
            f"{', '.join(among)}, or sundman.{spelled.replace('-', '_')} in Python"
        )
    return spelled


def several(names: str | Sequence[str]) -> list[str]:
    """The samplers to compare: two or more different ones."""
    split = names.split(",") if isinstance(names, str) else names
    chosen = list(dict.fromkeys(known(name) for name in split if str(name).strip()))
    if len(chosen) < 2:
        raise UserError(
            "--compare needs two or more different samplers; write --compare sgld,sa-sgld, or "
            "--sampler for one"
        )
    return chosen


def settings_of(name: str) -> tuple[str, ...]:
    """The settings a sampler has, the temperature apart, which belongs to the run."""
    return tuple(key for key in recipe(name).settings if key not in _OF_THE_RUN)


def distribute(
    names: Sequence[str], given: Mapping[str, Any], flags: Mapping[str, Any]
) -> dict[str, Settings]:
    """The settings given for each sampler.

    ``given`` is the table [settings] of a file: what is said for all samplers, and tables named
    after one. ``flags`` win. A setting that none of the samplers has is refused.
    """
    own = {known(key): value for key, value in given.items() if isinstance(value, Mapping)}
    common = {key: value for key, value in given.items() if not isinstance(value, Mapping)}
    for key in (*common, *flags):
        _check_key(key, names)
    settings = {}
    for name in names:
        for key in own.get(name, {}):
            _check_key(key, [name])
        merged = {**common, **own.get(name, {}), **flags}
        settings[name] = {key: value for key, value in merged.items() if key in settings_of(name)}
    return settings


def _check_key(key: str, names: Sequence[str]) -> None:
    if any(key in settings_of(name) for name in names):
        return
    if key in _OF_THE_RUN:
        raise UserError(f"{key} is a setting of the run, not of the sampler; use --{key}")
    who = names[0] if len(names) == 1 else "none of these samplers"
    has = "has no setting" if len(names) == 1 else "has a setting"
    step = {"h": "dtau", "dtau": "h"}.get(key)
    if step is not None:
        raise UserError(f"{who} {has} {key}; its step is {step}: use --{step}")
    every = list(dict.fromkeys(k for name in names for k in settings_of(name)))
    raise UserError(f"{who} {has} {key!r}; {nearest(key, every)}")


def build(name: str, settings: Mapping[str, Any], temperature: float) -> sundman.Sampler:
    """The sampler of that name with these settings."""
    chosen = recipe(name)
    rest = {key: value for key, value in settings.items() if key != chosen.step_name}
    with at_the_door():
        return chosen.make(settings[chosen.step_name], temperature=temperature, **rest)
