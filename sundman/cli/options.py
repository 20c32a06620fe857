"""Options that several commands have, and the commands' help, which shows what is registered."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import os
import tomllib
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import jax
import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

import sundman
from sundman import data, priors
from sundman.cli import samplers
from sundman.cli.errors import UserError, as_user_error, nearest
from sundman.data.files import cache_directory

_SAMPLER, _RUN, _OUTPUT = "Sampler settings", "The run", "Input and output"
_PROCESSES = "Several processes"


def _setting(*names: str, text: str) -> OptionInfo:
    """An option of the sampler."""
    return typer.Option(*names, help=text, rich_help_panel=_SAMPLER, show_default=False)


def run(*names: str, text: str) -> OptionInfo:
    """An option of the run."""
    return typer.Option(*names, help=text, rich_help_panel=_RUN, show_default=False)


def output(*names: str, text: str) -> OptionInfo:
    """An option about files."""
    return typer.Option(*names, help=text, rich_help_panel=_OUTPUT, show_default=False)


def processes(*names: str, text: str) -> OptionInfo:
    """An option about the other processes of a run."""
    return typer.Option(*names, help=text, rich_help_panel=_PROCESSES, show_default=False)


Number = float | None
Count = int | None
Text = str | None

Sampler = Annotated[Text, _setting("--sampler", text="The sampler's name; see above.")]
Temperature = Annotated[Number, run("--temperature", "-T", text="T of the law exp(-U/T).")]
Seed = Annotated[Count, run("--seed", text="Of all random numbers. [default: 0]")]
Thin = Annotated[Count, run("--thin", text="Keep one draw every so many steps.")]
Until = Annotated[
    Text,
    run("--until", text="End it before when it is done: ess=400,rhat=1.01 or seconds=60."),
]
Config = Annotated[
    Path | None, output("--config", text="A TOML file of settings; options given here win.")
]
Output = Annotated[Path | None, output("--output", "-o", text="Directory for the results.")]
Force = Annotated[bool, output("--force", text="Replace the results that are there.")]
NoCache = Annotated[
    bool, output("--no-cache", text="Do not keep compiled programs in the user's cache.")
]

_SAMPLER_SETTINGS = {
    "h": Annotated[Number, _setting("--step", "--h", text="Step h of a fixed-step sampler.")],
    "dtau": Annotated[
        Number, _setting("--dtau", text="Step dtau of an adaptive one: dt = psi dtau.")
    ],
    "alpha": Annotated[Number, _setting("--alpha", text="Rate at which the clock forgets.")],
    "m": Annotated[Number, _setting("--m", text="Smallest psi.")],
    "M": Annotated[Number, _setting("--M", text="Largest psi.")],
    "r": Annotated[Number, _setting("--r", text="Exponent of zeta in psi.")],
    "omega": Annotated[Number, _setting("--omega", text="Scale of the squared gradient.")],
    "psi": Annotated[Text, _setting("--psi", text="psi: research_code, published or scale_free.")],
    "lag": Annotated[
        Text, _setting("--lag", text="Which zeta sets the step: none, full or guarded.")
    ],
    "gamma": Annotated[Number, _setting("--gamma", text="Friction of a sampler with momentum.")],
}
_SETS = Annotated[
    list[str] | None,
    _setting("--set", text="Any setting of the sampler, KEY=VALUE; may be repeated."),
]


def without_unset(**options: object) -> dict[str, object]:
    """The options that were given on the command line."""
    return {key: value for key, value in options.items() if value is not None and value != []}


def with_sampler_settings(command: Callable[..., None]) -> Callable[..., None]:
    """A command with an option for each setting of a sampler, and ``--set`` for any other.

    Its argument ``sampler_settings`` becomes those that are given on the command line, by name.
    """
    signature = inspect.signature(command, eval_str=True)
    own = [each for name, each in signature.parameters.items() if name != "sampler_settings"]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
        for name, option in {**_SAMPLER_SETTINGS, "sets": _SETS}.items()
    ]

    @functools.wraps(command)
    def with_options(*, sets: Sequence[str] | None, **arguments: object) -> None:
        named = without_unset(**{name: arguments.pop(name) for name in _SAMPLER_SETTINGS})
        settings = {**named, **assignments(sets or [], "--set")}
        command(**arguments, sampler_settings=settings)

    with_options.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    return with_options


def assignments(texts: Sequence[str], flag: str) -> dict[str, object]:
    """``["r=0.5", "lag=full"]`` as a mapping; values as in TOML, or plain text."""
    values: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"{flag} {text!r} is not KEY=VALUE; write it as {flag} r=0.5")
        values[key.strip()] = _toml_or_text(value.strip())
    return values


def rule(text: object, chains: int = 1, draws: float = math.inf) -> sundman.Until | None:
    """``"ess=400,rhat=1.01"`` as a rule that ends a run of at most so many draws; None if none."""
    if text is None:
        return None
    if not isinstance(text, str):
        raise UserError(f"until is {text!r}; write it as ess=400,rhat=1.01")
    given = assignments(text.split(","), "--until")
    known = [each.name for each in dataclasses.fields(sundman.Until)]
    for name in given:
        if name not in known:
            raise UserError(f"--until has no {name!r}; {nearest(name, known)}")
    with as_user_error():
        until = sundman.Until(**cast("dict[str, float]", given))
        until.check_reachable(chains, draws)
        return until


def _toml_or_text(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def use_compilation_cache(wanted: bool) -> None:
    """Keep compiled programs from one command to the next, or, with ``--no-cache``, do not.

    They are in ``JAX_COMPILATION_CACHE_DIR`` if that is set, else in $XDG_CACHE_HOME/sundman/jax or
    ~/.cache/sundman/jax. A cache that cannot be written is done without, and a program in it that
    was cut off, by another command that was killed or is still writing it, is compiled again.
    """
    if not wanted:
        jax.config.update("jax_enable_compilation_cache", False)
        return
    directory = os.environ.get("JAX_COMPILATION_CACHE_DIR") or str(cache_directory() / "jax")
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError:
        return
    warnings.filterwarnings("ignore", message="Error .* persistent compilation cache entry")
    jax.config.update("jax_compilation_cache_dir", directory)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    jax.config.update("jax_raise_persistent_cache_errors", False)


def _with_registered_names(text: str | None) -> str | None:
    """A help text in which {samplers}, {data} and the like are the names that are registered."""
    if text is None or "{" not in text:
        return text
    return text.format(
        samplers=samplers.names_by_kind(),
        data=", ".join(data.names()),
        priors=", ".join(priors.names()),
    )


# The classes of contexts, parameters and formatters depend on the version of typer: Any here.
def _bare_flags(params: list[Any]) -> list[Any]:
    """The parameters; a flag has no type to show, though newer parsers would write <bool>."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose help has the names that are registered by now."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters."""
        return _bare_flags(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        documented: list[Any] = [self, *self.params]
        for each in documented:
            each.help = _with_registered_names(each.help)
        super().format_help(ctx, formatter)


class Group(TyperGroup):
    """The command that has all others."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Its parameters."""
        return _bare_flags(super().get_params(ctx))
