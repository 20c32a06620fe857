"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sundman.cli import toml

SAMPLER, RUN, OUTPUT = "Sampler settings", "The run", "Input and output"


def _setting(*names: str, text: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=SAMPLER, show_default=False)


def run(*names: str, text: str) -> Any:
    """An option of the run."""
    return typer.Option(*names, help=text, rich_help_panel=RUN, show_default=False)


def output(*names: str, text: str, **more: Any) -> Any:
    """An option about files."""
    return typer.Option(*names, help=text, rich_help_panel=OUTPUT, show_default=False, **more)


Number = float | None
Count = int | None
Text = str | None

Sampler = Annotated[Text, _setting("--sampler", text="The sampler's name; see above.")]
Step = Annotated[Number, _setting("--step", "--h", text="Step h of a fixed-step sampler.")]
Dtau = Annotated[Number, _setting("--dtau", text="Step dtau of an adaptive one: dt = psi dtau.")]
Alpha = Annotated[Number, _setting("--alpha", text="Rate at which the clock forgets.")]
Low = Annotated[Number, _setting("--m", text="Smallest psi.")]
High = Annotated[Number, _setting("--M", text="Largest psi.")]
Power = Annotated[Number, _setting("--r", text="Exponent of zeta in psi.")]
Omega = Annotated[Number, _setting("--omega", text="Scale of the squared gradient.")]
Psi = Annotated[Text, _setting("--psi", text="Form of psi: code, paper or scale_free.")]
Lag = Annotated[Text, _setting("--lag", text="Which zeta sets the step: none, full or guarded.")]
Gamma = Annotated[Number, _setting("--gamma", text="Friction of a sampler with momentum.")]
Sets = Annotated[
    list[str] | None,
    _setting("--set", text="Any setting of the sampler, KEY=VALUE; may be repeated."),
]
Temperature = Annotated[Number, run("--temperature", "-T", text="T of the law exp(-U/T).")]
Seed = Annotated[Count, run("--seed", text="Of all random numbers. [default: 0]")]
Thin = Annotated[Count, run("--thin", text="Keep one draw every so many steps.")]
Config = Annotated[
    Path | None, output("--config", text="A TOML file of settings; options given here win.")
]
Output = Annotated[Path | None, output("--output", "-o", text="Directory for the results.")]
Force = Annotated[bool, output("--force", text="Replace the results that are there.")]
NoCache = Annotated[
    bool, output("--no-cache", text="Do not keep compiled programs in the user's cache.")
]


SETTINGS = ("h", "dtau", "alpha", "m", "M", "r", "omega", "psi", "lag", "gamma")


def given(**flags: Any) -> dict[str, Any]:
    """The options that were given."""
    return {key: value for key, value in flags.items() if value is not None and value != []}


def sampler_settings(context: typer.Context) -> dict[str, Any]:
    """The settings of the sampler that were given, by options of their own or by ``--set``."""
    named = given(**{name: context.params[name] for name in SETTINGS})
    return {**named, **toml.assignments(context.params["sets"] or [], "--set")}


def with_names(text: str | None) -> str | None:
    """A help text in which {samplers}, {targets} and the like are the names that are registered."""
    from sundman import data, priors, targets
    from sundman.recipes import tables

    if text is None or "{" not in text:
        return text
    return text.format(
        samplers=tables.in_words(),
        network_samplers=tables.in_words(for_networks=True),
        targets=", ".join(targets.names()),
        data=", ".join(data.names()),
        priors=", ".join(priors.names()),
    )
