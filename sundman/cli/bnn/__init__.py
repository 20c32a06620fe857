"""``sundman bnn``: Bayesian neural networks on known data sets or one's own data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sundman.cli import farm, options
from sundman.cli.bnn.plan import BnnSettings, make_plan
from sundman.cli.bnn.run import run_networks
from sundman.cli.errors import UserError
from sundman.cli.output import (
    first_free_directory,
    join_directory,
    path_of_first,
    prepare_directory,
)
from sundman.cli.settings import SETTINGS, Request

_DATA = "Your own data"


@options.with_sampler_settings
def bnn(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="One of {data}.",
            show_default=False,
        ),
    ] = None,
    x: Annotated[
        Path | None,
        typer.Option("--x", help="Features, a .npy file.", rich_help_panel=_DATA),
    ] = None,
    y: Annotated[
        Path | None,
        typer.Option("--y", help="Targets, a .npy file.", rich_help_panel=_DATA),
    ] = None,
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv",
            help="Both, a CSV file with a header; names, gaps, ; and tabs are fine.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Its column to predict.", rich_help_panel=_DATA),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns", help="Columns to learn from: a,b,c. [default: all]", rich_help_panel=_DATA
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", help="Columns not to learn from: a,b,c.", rich_help_panel=_DATA),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task",
            help="classification or regression; by default by the targets: names and up to 20 "
            "whole numbers are classes.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    test_fraction: Annotated[
        float | None,
        typer.Option(
            "--test-fraction",
            help="Share held out. [default: 0.2, at most 20,000 rows]",
            rich_help_panel=_DATA,
        ),
    ] = None,
    split: Annotated[
        int | None,
        typer.Option(
            "--split", help="Which split of own or UCI data. [default: 0]", rich_help_panel=_DATA
        ),
    ] = None,
    prior: Annotated[
        options.Text,
        options.run(
            "--prior",
            text="One of {priors}; horseshoe alone has one scale per tensor. [default: gaussian]",
        ),
    ] = None,
    width: Annotated[
        options.Count,
        options.run("--width", text="Units in each hidden layer. [default: 50; MNIST: 400]"),
    ] = None,
    depth: Annotated[
        options.Count, options.run("--depth", text="Hidden layers. [default: 2; regression: 1]")
    ] = None,
    epochs: Annotated[
        options.Count,
        options.run(
            "--epochs",
            text="In total, a warm-up not counted. [default: as many as make 20,000 steps, of auto "
            "10,000; regressions 6,000 to 40,000, small ones up to ten times as many, until "
            "ess=200,rhat=1.05]",
        ),
    ] = None,
    burn_in_epochs: Annotated[
        options.Count,
        options.run("--burn-in-epochs", text="The first of them. [default: half; auto: none]"),
    ] = None,
    batch: Annotated[
        options.Count,
        options.run(
            "--batch",
            text="Rows per step. [default: 32; MNIST: 100; auto: a quarter of them up to 500, "
            "regressions up to 20,000]",
        ),
    ] = None,
    thin: options.Thin = None,
    until: options.Until = None,
    chains: Annotated[
        options.Count,
        options.run(
            "--chains",
            text="Chains of each seed. [default: 1; auto: 4, of large networks and tables 2]",
        ),
    ] = None,
    seeds: Annotated[
        options.Count,
        options.run("--seeds", text="How many runs, each of its own seed. [default: 1]"),
    ] = None,
    seed: options.Seed = None,
    array_task: farm.ArrayTask = None,
    array_tasks: farm.ArrayTasks = None,
    temperature: options.Temperature = None,
    sampler: options.Sampler = None,
    data: Annotated[
        Path | None,
        options.output("--data", text="Directory of the data sets: it has mnist/, uci/yacht/, ..."),
    ] = None,
    download: Annotated[
        bool, options.output("--download", text="Download a data set that is not there.")
    ] = False,
    config: options.Config = None,
    output: options.Output = None,
    force: options.Force = False,
    no_cache: options.NoCache = False,
    *,
    sampler_settings: Mapping[str, object],
) -> None:
    """Sample the weights of a network, and score its predictive on held-out data.

    Without a sampler and settings of one it is auto, which finds its own in a warm-up and says how
    far the result can be trusted. Every run is stored, may be stopped and resumed, and the command
    ends in a report. Results go to runs/bnn-NAME unless --output is given.

    Other samplers, {samplers}. Their steps (--step, --dtau) are learning rates on the mean
    loss, as for an optimizer; omega is in units of the squared gradient of the mean loss.

    For example:

    sundman bnn digits --seeds 3

    sundman bnn mnist --data DIR --prior horseshoe --dtau 0.2 --epochs 30 --output mnist

    sundman bnn --csv houses.csv --target price --drop notes

    sundman bnn digits --until ess=400,rhat=1.01

    sundman bnn --x x.npy --y y.npy --sampler sgld --step 0.05

    sundman bnn mnist --seeds 40 --array-task $SLURM_ARRAY_TASK_ID --output mnist
    """
    options.use_compilation_cache(not no_cache)
    files = {"x": x, "y": y, "csv": csv, "data": data}
    in_options = options.without_unset(
        **{key: None if path is None else str(path.absolute()) for key, path in files.items()},
        name=name,
        target=target,
        columns=columns,
        drop=drop,
        task=task,
        test_fraction=test_fraction,
        split=split,
        download=download or None,
        sampler=sampler,
        prior=prior,
        width=width,
        depth=depth,
        epochs=epochs,
        burn_in_epochs=burn_in_epochs,
        batch=batch,
        thin=thin,
        until=until,
        chains=chains,
        seeds=seeds,
        seed=seed,
        temperature=temperature,
    )
    plan = make_plan(Request(BnnSettings.read(config), in_options, sampler_settings))
    part = farm.task_of(array_task, array_tasks, plan.settings.seeds)
    if part is not None:
        if output is None or force:
            raise UserError(
                "the tasks of an array share a directory; give --output, and no --force"
            )
        run_networks(plan, join_directory(output, plan.settings), part=part)
        return
    called = plan.data.name.replace(" ", "-")

    def prepared() -> Path:
        directory = output or first_free_directory(Path("runs") / f"bnn-{called}")
        return prepare_directory(directory, force)

    run_networks(plan, path_of_first(prepared))


def repeat(path: Path, page: Path | None) -> None:
    """Go on with the command whose results are in a directory; what is finished is only read."""
    request = Request(BnnSettings.read(path / SETTINGS))
    run_networks(make_plan(request), path, resuming=True, page=page)
