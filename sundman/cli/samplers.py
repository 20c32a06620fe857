"""Samplers by name: the settings each of them has, the sampler they make, and its draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from typing import Any, ParamSpec, TypeAlias

import sundman
import sundman.contrib  # which registers its samplers, as sundman.recipes does
from sundman.cli.errors import UserError, as_user_error, nearest, unknown
from sundman.recipes import RECIPES, Recipe
from sundman.recipes.registry import ordered
from sundman.store import StoreWarning
from sundman.value import Number

SamplerSettings: TypeAlias = dict[str, Any]
"""Settings of one sampler by name; which they are and their types are the recipe's to say."""

AUTO = "auto"
"""The name of the sampler that tunes itself, which is not a recipe."""

AnySampler: TypeAlias = sundman.Sampler | sundman.Auto
ALPHA_DTAU = 0.01  # by default an adaptive clock remembers 100 steps
_SETTINGS_OF_THE_RUN = ("temperature",)
_Arguments = ParamSpec("_Arguments")


def names() -> tuple[str, ...]:
    """The recipes one can ask for, as they are written on the command line."""
    return tuple(each.option for each in RECIPES.values() if each.for_networks)


def recipe(name: str) -> Recipe:
    """What is known of the sampler of that name."""
    return RECIPES[name.replace("-", "_")]


def known_name(name: object) -> str:
    """The name as it is spelled here, hyphens for underscores; refused if there is none."""
    spelled = str(name).strip().lower().replace("_", "-")
    among = (AUTO, *names())
    everything = (AUTO, *(each.option for each in RECIPES.values()))
    if spelled not in everything:
        raise unknown("sampler", str(name), among)
    if spelled not in among:
        raise UserError(
            f"{spelled} has no settings here that suit every network; use one of "
            f"{', '.join(among)}, or sundman.{spelled.replace('-', '_')} in Python"
        )
    return spelled


def names_by_kind() -> str:
    """The names on the command line, by what their step is and whether they are biased."""
    groups: dict[str, list[str]] = {}
    for each in filter(lambda recipe: recipe.for_networks, ordered()):
        adaptive = "on the adaptive clock, with the step dtau"
        kind = adaptive if each.adaptive else "at a fixed step h"
        groups.setdefault(kind, []).append(each.option)
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in groups.items())


def settings_of(name: str) -> tuple[str, ...]:
    """The settings a sampler has, the temperature apart, which belongs to the run."""
    own = [field.name for field in fields(sundman.Auto)] if name == AUTO else recipe(name).settings
    return tuple(key for key in own if key not in _SETTINGS_OF_THE_RUN)


def table(key: str, value: object) -> Mapping[str, object]:
    """The value of ``key`` in a settings file, which must be a table."""
    if not isinstance(value, Mapping):
        raise UserError(f"{key} is a table, got {value!r}; write it as [{key}]")
    return value


def distribute(
    names: Sequence[str], in_file: Mapping[str, object], in_options: Mapping[str, object]
) -> dict[str, SamplerSettings]:
    """The settings that the user gave for each sampler; one that no sampler has is refused.

    Args:
      names: the samplers.
      in_file: the table [settings] of a file: what is said for all samplers, and tables named after
        one.
      in_options: the settings on the command line, which win.

    Returns:
      The settings by the sampler's name.
    """
    own = {known_name(key): value for key, value in in_file.items() if isinstance(value, Mapping)}
    common = {key: value for key, value in in_file.items() if not isinstance(value, Mapping)}
    for key in (*common, *in_options):
        _check_key(key, names)
    settings = {}
    for name in names:
        for key in own.get(name, {}):
            _check_key(key, [name])
        merged = {**common, **own.get(name, {}), **in_options}
        settings[name] = {key: value for key, value in merged.items() if key in settings_of(name)}
    return settings


def _check_key(key: str, names: Sequence[str]) -> None:
    if any(key in settings_of(name) for name in names):
        return
    if key in _SETTINGS_OF_THE_RUN:
        raise UserError(f"{key} is a setting of the run, not of the sampler; use --{key}")
    who = names[0] if len(names) == 1 else "none of these samplers"
    has = "has no setting" if len(names) == 1 else "has a setting"
    step = {"h": "dtau", "dtau": "h"}.get(key)
    if step is not None and list(names) == [AUTO]:
        raise UserError(f"auto finds its own step; leave out --{key}, or name a --sampler")
    if step is not None:
        raise UserError(f"{who} {has} {key}; its step is {step}: use --{step}")
    every = list(dict.fromkeys(k for name in names for k in settings_of(name)))
    raise UserError(f"{who} {has} {key!r}; {nearest(key, every)}")


def complete_auto(own: SamplerSettings) -> SamplerSettings:
    """The settings of the sampler that tunes itself: those given, and its defaults."""
    settings = {name: getattr(sundman.auto(), name) for name in settings_of(AUTO)}
    return {**{name: each for name, each in settings.items() if each is not None}, **own}


def scale_free_clock(dtau: Number, alpha: Number, *, r: float, omega: float) -> SamplerSettings:
    """The settings of the clock whose step is dtau where the squared gradient is ``omega``.

    Args:
      dtau: the step.
      alpha: the rate at which the clock forgets.
      r: the exponent of zeta in psi.
      omega: the usual squared gradient.

    Returns:
      Its settings by name.
    """
    clock = {"dtau": dtau, "alpha": alpha, "M": 10.0, "r": r, "omega": omega}
    return {**clock, "psi": "scale_free", "lag": "guarded"}


def build(name: str, settings: SamplerSettings, temperature: float) -> AnySampler:
    """The sampler of that name.

    Args:
      name: as on the command line.
      settings: its settings, the step among them.
      temperature: T of the run.

    Returns:
      The sampler; settings that it refuses are a :class:`UserError`.
    """
    if name == AUTO:
        with as_user_error():
            return sundman.auto(temperature=temperature, **settings)
    chosen = recipe(name)
    rest = {key: value for key, value in settings.items() if key != chosen.step_name}
    with as_user_error():
        return chosen.make(settings[chosen.step_name], temperature=temperature, **rest)


def _none_if_all_diverged(
    sample: Callable[_Arguments, sundman.Draws],
) -> Callable[_Arguments, sundman.Draws | None]:
    @wraps(sample)
    def sample_or_none(
        *arguments: _Arguments.args, **settings: _Arguments.kwargs
    ) -> sundman.Draws | None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sundman.TrustWarning)  # the last line says it
            # the command is made again from its settings, whatever has no name
            warnings.filterwarnings("ignore", "if this run is broken off", StoreWarning)
            try:
                return sample(*arguments, **settings)
            except sundman.AllDivergedError:
                return None

    return sample_or_none


sample_or_none = _none_if_all_diverged(sundman.sample)
"""``sundman.sample`` for commands: the draws, or None if every chain diverged before the first."""
