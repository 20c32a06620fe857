"""One chain of a Bayesian network on images: run, resumable, its ensemble scored, its steps timed.

784-w-w-10 with ReLU, batch 100, T = 1. Steps are learning rates h on the mean loss U/N, in which
the paper's adaptive settings are m = .5, M = 2, s = 2, alpha = 1000 and Omega = N^2:

    G = grad(U/N),  zeta <- rho zeta + (1 - rho)/alpha ||G||^2,  rho = exp(-alpha dtau / N),
    h = psi(zeta) dtau,  noise sqrt(2 h / N)

The chain keeps the class probabilities at the test points, not its positions.

What the adaptive clock costs is the time of a step of SA-SGLD by that of SGLD. Stretches of both,
already compiled, take turns, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import jax.numpy as jnp

import sundman
from studies.sa_sgld import experiment
from studies.sa_sgld.experiment import Console, Numbers, PyTree, ResultCache, Task
from studies.sa_sgld.scoring import ChainRun, score
from studies.sa_sgld.statistics import Measurement, over_seeds
from sundman import gradients, models, native, priors
from sundman.clocks import SundmanSettings
from sundman.data.base import Dataset
from sundman.draws.trust import AllDivergedError
from sundman.native import native_noise
from sundman.noise import Stream
from sundman.report.model import Outcome, Verdict
from sundman.samplers import SamplerState

BATCH = 100
CLOCK: SundmanSettings = {"alpha": 1000.0, "m": 0.5, "M": 2.0}
_DIGITS = "digits"
TIMED_STEPS, TURNS = 100, 30
Scales = tuple[tuple[str, float], ...]
Stretch = Callable[[PyTree], PyTree]
Times = dict[str, list[float]]


@dataclass(frozen=True)
class Chain:
    """Everything that makes one chain what it is.

    Attributes:
      prior: ``"gaussian"``, ``"horseshoe"``, or ``"fixed"``: Gaussian with the given ``scales``.
      sampler: ``"sgld"`` at the step ``h``, or ``"sa-sgld"`` at ``dtau`` and ``r``.
      step: h or dtau.
      r: the exponent of psi.
      width, epochs, burn_in, thin: as in :class:`studies.sa_sgld.experiment.NetworkBudget`.
      skip: epochs kept in the log-probability curve but left out of the ensemble.
      seed: of start, minibatches and noise.
      data: ``"mnist"`` or ``"digits"``.
      scales: the standard deviation for each parameter array, by path.
    """

    prior: str
    sampler: str
    step: float
    r: float
    width: int
    epochs: int
    burn_in: int
    thin: int
    seed: int
    data: str
    skip: int = 0
    scales: Scales = ()


@functools.cache
def load(data: str | None) -> Dataset:
    """MNIST from a directory (None: where it is found), or scikit-learn's digits by that name."""
    if data == _DIGITS:
        return sundman.data.digits()
    return sundman.data.mnist(data)


def load_for(data: str | Path | None) -> Dataset:
    """The data of a task, loaded once."""
    return load(None if data is None else str(data))


def name_of(data: str | Path | None) -> str:
    """What the data of an experiment are called in its settings."""
    return _DIGITS if str(data) == _DIGITS else "mnist"


def prior_rules(prior: str, scales: Scales = ()) -> priors.PriorLike:
    """The prior of kernels and biases; the horseshoe as in the code behind the paper's table."""
    if prior == "gaussian":
        return {"kernel": priors.gaussian(1.41, fan_in="leading"), "bias": priors.gaussian(1.0)}
    if prior == "fixed":
        return {path: priors.gaussian(scale) for path, scale in scales}
    return {
        "kernel": priors.horseshoe(1.41, fan_in="leading", jacobian=False),
        "bias": priors.horseshoe(1.0, jacobian=False),
    }


@functools.cache
def posterior_of(prior: str, scales: Scales, data: Dataset) -> sundman.Posterior:
    """The posterior of a prior; chains share it, and with it one copy of the data."""
    return sundman.Posterior(
        models.mlp_apply, prior=prior_rules(prior, scales), data=tuple(data.train)
    )


@functools.cache
def predictions(posterior: sundman.Posterior, data: Dataset) -> Callable[[PyTree], jax.Array]:
    """A function from a position to its class probabilities at the test points."""
    x_test = jnp.asarray(data.test.x)
    return lambda position: posterior.predict(position, x_test)


def sampler_of(chain: Chain) -> sundman.Sampler:
    """The chain's sampler, its step a learning rate."""
    rate = sundman.LearningRate(chain.step)
    if chain.sampler == "sgld":
        return sundman.sgld(rate)
    clock: SundmanSettings = {**CLOCK, "r": chain.r}
    return sundman.sa_sgld(rate, **clock)


def get(cache: ResultCache, name: str, chain: Chain) -> ChainRun | None:
    """What a chain gave, if it was run."""
    numbers = cache.get(name, asdict(chain))
    return None if numbers is None else ChainRun.from_json(numbers)


def run(cache: ResultCache, name: str, chain: Chain, data: str | Path | None) -> ChainRun:
    """Stretch a chain, or read what it gave if it was run.

    Args:
      cache: the runs that are done.
      name: of this one.
      chain: its settings.
      data: the directory of MNIST, None to look for it, or ``"digits"``.

    Returns:
      Its scores, its steps, its log-probability curves.
    """
    settings = asdict(chain)

    def work() -> Numbers:
        store = cache.chain_directory(name, settings)
        return sample_and_score(chain, load_for(data), store, cache.console).to_json()

    return ChainRun.from_json(cache.get_or_run(name, settings, work))


def sample_and_score(
    chain: Chain, data: Dataset, store: Path, console: Console | None = None
) -> ChainRun:
    """Stretch the chain, or the rest of it, in ``store``; then score its ensemble.

    Args:
      chain: its settings.
      data: what the network learns.
      store: the chain's directory.
      console: shows the progress, if there is one.

    Returns:
      What the chain gave.
    """
    posterior = posterior_of(chain.prior, chain.scales, data)
    batch = min(BATCH, posterior.size // 10)
    per_epoch = math.ceil(posterior.size / batch)
    start, noise = jax.random.split(jax.random.key(chain.seed))
    sizes = [data.test.x.shape[1], chain.width, chain.width, data.classes or 10]
    burn_in = per_epoch * chain.burn_in
    try:
        draws = experiment.sample(
            posterior,
            sampler_of(chain),
            init=models.mlp_init(start, sizes),
            key=noise,
            burn_in=burn_in,
            steps=per_epoch * (chain.epochs - chain.burn_in),
            thin=chain.thin,
            batch_size=batch,
            collect=predictions(posterior, data),
            stats=("grad_norm", "zeta") if chain.sampler == "sa-sgld" else ("grad_norm",),
            progress=False if console is None else None,
            store=store,
            resume=True,
        )
    except AllDivergedError:
        return ChainRun(diverged_step=burn_in, steps_per_epoch=per_epoch)
    skipped = round(len(draws) * chain.skip / (chain.epochs - chain.burn_in))
    return score(draws, posterior, data.test.y, skipped, per_epoch)


def step_times(task: Task, chains: dict[str, Chain]) -> Times:
    """Milliseconds of a step of each chain, measured or read."""
    settings = {kind: asdict(chain) for kind, chain in chains.items()}
    data = task.data
    return task.cache.get_or_run(
        "table1/cost", settings, lambda: measure_step_times(chains, load_for(data))
    )


def measure_step_times(chains: dict[str, Chain], data: Dataset) -> Times:
    """Milliseconds of a step of each chain, turn by turn."""
    first = next(iter(chains.values()))
    posterior = posterior_of(first.prior, first.scales, data)
    sizes = [data.test.x.shape[1], first.width, first.width, data.classes or 10]
    start = posterior.position(models.mlp_init(jax.random.key(0), sizes))
    batch = min(BATCH, posterior.size // 10)
    stretches = {
        name: stepping(sampler_of(chain).in_time(posterior.size), posterior, batch)
        for name, chain in chains.items()
    }

    def once(stretch: Stretch) -> float:
        began = time.perf_counter()
        jax.block_until_ready(stretch(start))
        return 1e3 * (time.perf_counter() - began) / TIMED_STEPS

    for stretch in stretches.values():
        once(stretch)
    turns = [{name: once(each) for name, each in stretches.items()} for _ in range(TURNS)]
    return {name: [turn[name] for turn in turns] for name in stretches}


def stepping(sampler: sundman.Sampler, posterior: sundman.Posterior, batch: int) -> Stretch:
    """A compiled function that makes ``TIMED_STEPS`` steps from a position, as a run makes them."""
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
            return jax.lax.scan(one, first, length=TIMED_STEPS)[0][0]

    compiled = jax.jit(steps)
    return lambda position: compiled(position, estimator)


def cost_verdict(times: Times, width: int, scale: str) -> Verdict:
    """Negligible is taken as 5% or less."""
    pairs = zip(times["sa-sgld"], times["sgld"], strict=True)
    ratio: Measurement = over_seeds([one / other for one, other in pairs])
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
