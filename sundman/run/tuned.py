"""Runs whose sampler tunes itself: the warm-up, then a run with what it found."""

from __future__ import annotations

from dataclasses import replace

from sundman.gradients import Streamed
from sundman.recipes.kinetic import baoab
from sundman.run import inputs
from sundman.run.spec import RunSpec
from sundman.tune.state import Problem, WarmUp
from sundman.tune.warm_up import Start, begin, finish, warm_up

DEFAULT_STEPS = 20_000
UNTUNED = baoab(1.0)
"""Stands for the sampler in what was asked, until there is one."""


def start(spec: RunSpec) -> tuple[Problem, WarmUp]:
    """The warm-up of a run before its first window."""
    assert spec.auto is not None
    given = spec.auto.temperature
    temperature = inputs.temperature_of(spec.target, None if given is None else float(given))
    of_rows = spec.batch_size is not None  # the noise is measured on independent minibatches
    gradient = inputs.as_gradient(spec.target, spec.batch_size, of_rows)
    if isinstance(gradient, Streamed):
        raise ValueError(
            "a sampler that tunes itself looks at a minibatch twice, and host batches come once: "
            "give the posterior its data in memory, or give a sampler"
        )
    of_run = inputs.as_gradient(spec.target, spec.batch_size, spec.replace)
    positions = inputs.first_positions(spec.target, spec.init, spec.chains, spec.per_chain)
    return begin(
        spec.auto,
        gradient,
        of_run,
        positions,
        temperature,
        spec.key,
        independent=not of_rows or spec.replace or spec.chooses_rows,
        most_burn_in=spec.draws * spec.thin // 2,
    )


def with_tuned(spec: RunSpec, problem: Problem, warm: WarmUp) -> tuple[RunSpec, Start]:
    """The run with what the warm-up found, and where it begins."""
    begins, tuning = finish(problem, warm)
    of_rows = spec.batch_size is not None
    replaced = spec.replace or (of_rows and spec.chooses_rows and problem.noise_taken_out)
    return replace(spec, sampler=tuning.sampler, tuning=tuning, replace=replaced), begins


def tuned(spec: RunSpec) -> tuple[RunSpec, Start]:
    """The run after its warm-up, and where it begins."""
    problem, warm = start(spec)
    return with_tuned(spec, problem, warm_up(problem, warm))
