"""Networks: one chain per seed, and the scores of its predictive on the test rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import metrics, models
from sundman.cli import folder, screen, toml
from sundman.cli.bnn_plan import Plan
from sundman.cli.bnn_scores import Seeds
from sundman.cli.errors import RunFailed
from sundman.cli.sampling import sampled

_WATCHED = 100  # test rows whose predictive is kept at every draw, of a classification


def kept(plan: Plan) -> dict[str, Any]:
    """What is kept of each draw: predictives; one object for all seeds, so that it compiles once.

    A regression keeps them at all test rows, a classification at some, and the average at all.
    """
    predict, x_test = plan.posterior.predict, jnp.asarray(plan.data.test.x)
    if plan.data.classes is None:
        return {"collect": functools.partial(predict, x=x_test)}
    return {
        "collect": functools.partial(predict, x=x_test[:_WATCHED]),
        "online": functools.partial(predict, x=x_test),
    }


def sample(
    plan: Plan, seed: int, keep: Mapping[str, Any], path: Path, resuming: bool
) -> sundman.Draws | None:
    """The chain of one seed, on disk; None if it diverged in the burn-in."""
    posterior, settings = plan.posterior, plan.settings
    start, noise = jax.random.split(jax.random.key(seed))
    epochs, burn_in = settings["epochs"], settings["burn_in_epochs"]
    return sampled(
        posterior,
        plan.sampler,
        init=models.mlp_init(start, plan.sizes),
        per_chain=False,
        key=noise,
        burn_in=plan.steps_per_epoch * burn_in,
        steps=plan.steps_per_epoch * (epochs - burn_in),
        thin=settings["thin"],
        batch_size=None if settings["batch"] >= posterior.size else settings["batch"],
        **keep,
        store=path / folder.RUNS / f"seed-{seed}",
        resume=resuming,
    )


def predictive(plan: Plan, draws: sundman.Draws) -> Any:
    """Class probabilities (row, class), or a mixture of normals in the target's own units."""
    if plan.data.classes is not None:
        return np.asarray(draws.online.weighted[0])
    data, weight = plan.data, np.asarray(draws.weight[0], np.float64)
    kept = np.flatnonzero(weight > 0)
    mean, sd = (np.asarray(leaf[0])[kept, :, 0].astype(np.float64) for leaf in draws.values)
    return sundman.NormalMixture(
        mean * data.y_scale + data.y_mean, sd * data.y_scale, weight[kept] / weight.sum()
    )


def scores(plan: Plan, found: Any) -> Mapping[str, float]:
    """The scores of a predictive on the test rows."""
    data = plan.data
    if data.classes is not None:
        return {
            "NLL": metrics.nll(found, data.test.y),
            "accuracy %": 100 * metrics.accuracy(found, data.test.y),
            "ECE % (15 bins)": 100 * metrics.ece(found, data.test.y, bins=15),
            "Brier": metrics.brier(found, data.test.y),
        }
    truth = data.test.y.astype(np.float64) * data.y_scale + data.y_mean
    low, high = found.interval(0.9)
    return {
        "RMSE": float(metrics.rmse(found.centre, truth)),
        "NLL": float(metrics.normal_mixture_nll(found.mean, found.sd, found.weight, truth)),
        "coverage of 90% intervals, %": 100 * float(metrics.coverage(low, high, truth)),
    }


def run(plan: Plan, path: Path, *, resuming: bool = False, page: Path | None = None) -> None:
    """Run every seed, print the scores, write results and report."""
    from sundman.cli.bnn_report import report
    from sundman.report import write

    out, settings = screen.console(), plan.settings
    for sentence in plan.decisions:
        screen.say(out, sentence)
    layers = "-".join(str(size) for size in plan.sizes)
    screen.say(
        out,
        f"Network {layers}, {settings['prior']} prior, {plan.name}; {settings['epochs']} epochs of "
        f"{plan.steps_per_epoch} steps, {settings['burn_in_epochs']} of them burn-in.",
    )
    if not resuming:
        toml.write(path / folder.SETTINGS, "bnn", settings)
    seeds = range(settings["seed"], settings["seed"] + settings["seeds"])
    keep = kept(plan)
    with folder.resumable(path):
        tried = {f"seed-{seed}": sample(plan, seed, keep, path, resuming) for seed in seeds}
    runs = {
        name: draws
        for name, draws in tried.items()
        if draws is not None and (draws.weight > 0).any()
    }
    if not runs:
        raise RunFailed("all chains diverged before their first draw; use a smaller step")
    found = {name: predictive(plan, draws) for name, draws in runs.items()}
    lost = [name for name in tried if name not in runs]
    rows = {name: scores(plan, each) for name, each in found.items()}
    table = Seeds(runs, rows, lost, plan)
    screen.show(out, table.table())
    folder.write_results(path, table.numbers())
    page = page or path / folder.REPORT
    write(report(plan, runs, found, table, path), page)
    screen.say(out, f"Report: {page}")
    if all((draws.diverged >= 0).all() for draws in runs.values()):
        raise RunFailed("all chains diverged; use a smaller step")
