"""What the adaptive clock costs: the time of a step of SA-SGLD by that of SGLD.

Stretches of both, already compiled, take turns, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

import jax

import sundman
from sundman import gradients, models, native
from sundman._types import PyTree
from sundman.configuration import native_noise
from sundman.data.base import Dataset
from sundman.noise import Stream
from sundman.paper import network
from sundman.paper.experiment import Task
from sundman.paper.measured import Measured, over_seeds
from sundman.paper.network import Chain
from sundman.report.model import Outcome, Verdict
from sundman.samplers import SamplerState

Run = Callable[[PyTree], PyTree]
STEPS, TURNS = 100, 30
Times = dict[str, list[float]]


def step_times(task: Task, chains: dict[str, Chain]) -> Times:
    """Milliseconds of a step of each chain, measured or read."""
    settings = {kind: asdict(chain) for kind, chain in chains.items()}
    data = task.data
    return task.cache.get_or_run(
        "table1/cost", settings, lambda: measure(chains, network.load_for(data))
    )


def measure(chains: dict[str, Chain], data: Dataset) -> Times:
    """Milliseconds of a step of each chain, turn by turn."""
    first = next(iter(chains.values()))
    posterior = network.posterior_of(first.prior, first.scales, data)
    sizes = [data.test.x.shape[1], first.width, first.width, data.classes or 10]
    start = posterior.position(models.mlp_init(jax.random.key(0), sizes))
    batch = min(network.BATCH, posterior.size // 10)
    runs = {
        name: stepping(network.sampler_of(chain).in_time(posterior.size), posterior, batch)
        for name, chain in chains.items()
    }

    def once(run: Run) -> float:
        began = time.perf_counter()
        jax.block_until_ready(run(start))
        return 1e3 * (time.perf_counter() - began) / STEPS

    for run in runs.values():
        once(run)
    turns = [{name: once(run) for name, run in runs.items()} for _ in range(TURNS)]
    return {name: [turn[name] for turn in turns] for name in runs}


def stepping(sampler: sundman.Sampler, posterior: sundman.Posterior, batch: int) -> Run:
    """A compiled function that makes ``STEPS`` steps from a position, as the runner makes them."""
    estimator = gradients.minibatch(posterior, batch)
    begin: Callable[..., PyTree] = sampler.init

    def steps(position: PyTree, estimator: gradients.GradientEstimator) -> PyTree:
        def one(
            carry: tuple[PyTree, SamplerState], nothing: None
        ) -> tuple[tuple[PyTree, SamplerState], None]:
            params, state = carry
            stream = Stream(state.key, state.clock.step)
            evaluation, _ = estimator.evaluate(stream, params)
            return sampler.step(evaluation.grads, state, params), nothing

        with native.using(native_noise()):
            first = (position, begin(position, jax.random.key(1)))
            return jax.lax.scan(one, first, length=STEPS)[0][0]

    compiled = jax.jit(steps)
    return lambda position: compiled(position, estimator)


def verdict(times: Times, width: int, scale: str) -> Verdict:
    """Negligible is taken as 5% or less."""
    pairs = zip(times["sa-sgld"], times["sgld"], strict=True)
    ratio: Measured = over_seeds([one / other for one, other in pairs])
    outcome: Outcome = "not tested"
    if ratio.value + ratio.half < 1.05:
        outcome = "reproduces"
    elif ratio.value - ratio.half > 1.05:
        outcome = "partly" if ratio.value < 1.2 else "does not reproduce"
    return Verdict(
        "The extra cost of adaptive steps is negligible",
        "negligible",
        f"time of a step, SA-SGLD by SGLD: {ratio.text()}",
        f"{ratio.error:.2g}",
        outcome,
        "Reproduces if the 95% interval over turns is below 1.05; beyond it, partly up to 1.2; not "
        f"tested if 1.05 is inside. Horseshoe prior, width {width} (scale {scale}).",
    )
