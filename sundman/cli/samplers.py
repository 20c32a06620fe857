"""Samplers by name, with the settings each of them has."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sundman
from sundman.cli.errors import UserError, at_the_door, nearest, unknown
from sundman.clocks import SundmanSettings

Settings = dict[str, Any]

RECIPES: dict[str, Callable[..., sundman.Sampler]] = {
    "sgld": sundman.sgld,
    "sa-sgld": sundman.sa_sgld,
    "lm": sundman.lm,
    "sa-lm": sundman.sa_lm,
    "sghmc": sundman.sghmc,
    "sa-sghmc": sundman.sa_sghmc,
    "baoab": sundman.baoab,
    "samadams": sundman.samadams,
    "sgnht": sundman.sgnht,
    "sa-sgnht": sundman.sa_sgnht,
    "obabo": sundman.obabo,
    "psgld": sundman.psgld,
    "adam-sgld": sundman.adam_sgld,
    "cyclical-sgld": sundman.cyclical_sgld,
    "cyclical-sghmc": sundman.cyclical_sghmc,
    "replica-exchange-sgld": sundman.replica_exchange_sgld,
    "contour-sgld": sundman.contour_sgld,
}
FOR_NETWORKS = tuple(RECIPES)[: tuple(RECIPES).index("psgld")]
_OF_THE_RUN = ("temperature",)


def known(name: str, among: Sequence[str] = tuple(RECIPES)) -> str:
    """The name as it is spelled here, hyphens for underscores; refused if there is none."""
    spelled = str(name).strip().lower().replace("_", "-")
    if spelled not in RECIPES:
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
    found = list(dict.fromkeys(known(name) for name in split if str(name).strip()))
    if len(found) < 2:
        raise UserError(
            "--compare needs two or more different samplers; write --compare sgld,sa-sgld, or "
            "--sampler for one"
        )
    return found


def adaptive(name: str) -> bool:
    """Whether the sampler is on the Sundman clock: its step is dtau, not h."""
    return "dtau" in inspect.signature(RECIPES[name]).parameters


def has_momentum(name: str) -> bool:
    """Whether the sampler moves a momentum, too: it has a friction."""
    return "gamma" in inspect.signature(RECIPES[name]).parameters


def settings_of(name: str) -> tuple[str, ...]:
    """The settings a sampler has, the temperature apart, which belongs to the run."""
    own = [key for key in inspect.signature(RECIPES[name]).parameters if key != "clock"]
    clock = list(SundmanSettings.__annotations__) if adaptive(name) else []
    return tuple(key for key in own + clock if key not in _OF_THE_RUN)


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
    found = {}
    for name in names:
        for key in own.get(name, {}):
            _check_key(key, [name])
        merged = {**common, **own.get(name, {}), **flags}
        found[name] = {key: value for key, value in merged.items() if key in settings_of(name)}
    return found


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
    step = "dtau" if adaptive(name) else "h"
    rest = {key: value for key, value in settings.items() if key != step}
    with at_the_door():
        return RECIPES[name](settings[step], temperature=temperature, **rest)
