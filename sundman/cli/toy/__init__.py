"""``sundman toy``: samplers on targets whose moments are known exactly."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sundman.cli import options
from sundman.cli.output import prepare_directory
from sundman.cli.settings import SETTINGS, Request
from sundman.cli.toy.plan import ToySettings, make_plan
from sundman.cli.toy.run import run_samplers


@options.with_sampler_settings
def toy(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="One of {targets}.",
            show_default=False,
        ),
    ] = None,
    sampler: options.Sampler = None,
    compare: Annotated[
        options.Text,
        options.run("--compare", text="Several samplers side by side: auto,sgld,sa-sgld."),
    ] = None,
    steps: Annotated[
        options.Count,
        options.run("--steps", text="Steps of each chain, burn-in included. [default: 200,000]"),
    ] = None,
    burn_in: Annotated[
        options.Count,
        options.run("--burn-in", text="The first of them, not kept. [default: 20,000]"),
    ] = None,
    thin: options.Thin = None,
    chains: Annotated[
        options.Count, options.run("--chains", text="Independent chains. [default: 16]")
    ] = None,
    seed: options.Seed = None,
    temperature: options.Temperature = None,
    noise_sigma: Annotated[
        options.Number,
        options.run("--noise-sigma", text="Gradient noise, its sd per coordinate. [default: 0]"),
    ] = None,
    target_set: Annotated[
        list[str] | None,
        options.run("--target-set", text="A setting of the target, as dim=20; may be repeated."),
    ] = None,
    config: options.Config = None,
    output: options.Output = None,
    force: options.Force = False,
    no_cache: options.NoCache = False,
    *,
    sampler_settings: Mapping[str, object],
) -> None:
    """Run samplers on a target whose moments are known, and compare with them.

    Samplers, {samplers}. Settings that are not given suit the target; the sampler auto finds its
    own in a warm-up, which takes the place of the burn-in.

    With --output the run is stored, may be stopped and resumed, and ends in a report.

    For example:

    sundman toy star

    sundman toy star --compare auto,sgld,sa-sgld,sa-lm,samadams --output star

    sundman toy funnel --sampler samadams --dtau 0.02 --set kappa=5 --target-set dim=5

    sundman toy star --sampler sgld --step 1e-4 --noise-sigma 20 --chains 64
    """
    options.use_compilation_cache(not no_cache)
    in_options = options.without_unset(
        target=target,
        sampler=sampler,
        compare=compare,
        steps=steps,
        burn_in=burn_in,
        thin=thin,
        chains=chains,
        seed=seed,
        temperature=temperature,
        noise_sigma=noise_sigma,
        target_settings=options.assignments(target_set, "--target-set") if target_set else None,
    )
    plan = make_plan(Request(ToySettings.read(config), in_options, sampler_settings))
    run_samplers(plan, prepare_directory(output, force) if output is not None else None)


def repeat(path: Path, page: Path | None) -> None:
    """Go on with the command whose results are in a directory; what is finished is only read."""
    request = Request(ToySettings.read(path / SETTINGS))
    run_samplers(make_plan(request), path, resuming=True, page=page)
