"""``diagnose``: one table that says whether a run can be trusted.

In this order: what ran and what diverged, how much the draws tell (effective size, agreement of
the chains), temperature and law, stepsize and weights. Chains with own settings get a line each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, cast

import jax
import numpy as np
from jax import Array
from jax.custom_batching import sequential_vmap

from sundman import check, estimate
from sundman._types import PyTree
from sundman.diagnosis.mixing import (
    function_rows,
    mixing_rows,
    of_weights,
    some_components,
)
from sundman.diagnosis.table import Diagnosis, Row, Verdict, graded, sparkline
from sundman.diagnosis.temperature import discrepancy_row, stiff_row, temperature_rows
from sundman.draws import Draws
from sundman.estimate.moments import moments
from sundman.gradients import GradientEstimator, Potential
from sundman.posterior import Posterior
from sundman.targets import Target
from sundman.verdict.checks import is_network

if TYPE_CHECKING:
    from rich.console import Console


_GRADIENTS, _GRADIENTS_OF_POSTERIOR = 20_000, 200  # computed at most
_STEIN_DRAWS, _STIFF_DRAWS, _COMPONENTS_PER_CHAIN = 2000, 1000, 200
_BINS = 16
_HARDLY_ADAPTS = 0.2  # the share of draws at a bound from which the clock hardly adapts
_SHORT_MEMORY = 0.3  # alpha dtau: a shorter memory lets dt follow the noise of a minibatch


def diagnose(
    draws: Draws,
    target: Target | Posterior | GradientEstimator | Potential | None = None,
    *,
    temperature: float | None = None,
    components: int = 1000,
    most: int | None = None,
    show: bool = True,
    file: IO[str] | None = None,
    console: Console | None = None,
) -> Diagnosis:
    """Print one table on the run and return it.

    Verdicts, "good" unless:

    - law of the sampler: bad if it is biased by design.
    - diverged chains: bad if there is one.
    - smallest ESS: look below 400, bad below 100; largest error / sd, which is 1 / sqrt(ESS):
      look above 0.05, bad above 0.1.
    - largest split R-hat: look above 1.01, bad above 1.05.
    - the same of predictions: the log likelihood of rows of a posterior's data. The weights of one
      with 200 parameters or more say "look" at worst.
    - temperature, its drift, kinetic temperature: if off by more than 3 of its errors, look above
      2% of T, bad above 10%. A temperature that 3 errors leave open by more than 10%: look.
    - temperature, stiffest direction: too hot by 3 errors and 10% of T: look, and 30%: bad.
    - Stein discrepancy: look above 3 times that of independent draws.
    - draws at the smallest or largest step: look above 20%.
    - evenness of weights, (sum w)^2 / (n sum w^2): look below 0.5, bad below 0.1.

    Args:
      draws: of any run; of values on disk only some are held at a time.
      target: what was sampled, for the temperature and the Stein discrepancy: a potential, one of
        :mod:`sundman.targets`, or a posterior. Needs draws that kept their positions.
      temperature: T of the law; by default the sampler's.
      components: look at no more than so many components of the values, evenly spaced.
      most: compute no more than so many gradients of the target; 20,000 by default, 200 over the
        data of a posterior.
      show: print the table, with rich.
      file: where to print it; standard output by default.
      console: a rich console to print it on.

    Returns:
      The rows of the table, to iterate over or to look up by name.
    """
    check.count("components", components, least=1)
    target = getattr(target, "posterior", target)
    if most is None:
        most = _GRADIENTS_OF_POSTERIOR if isinstance(target, Posterior) else _GRADIENTS
    check.count("most", most, least=1)
    if not isinstance(draws, Draws):
        raise TypeError(
            "diagnose takes draws, as sundman.sample and sundman.Draws.open(path) give them; got "
            f"{draws!r}"
        )
    if temperature is None and "temperature" not in draws.facts.per_chain:
        stated = (draws.facts.temperature, getattr(target, "temperature", None), 1.0)
        temperature = next(T for T in stated if T is not None)
    potential = _potential(target) if draws.has_position else None
    law = 1.0 if temperature is None else float(temperature)
    diagnosis = Diagnosis(tuple(_rows(draws, target, potential, law, components, most)))
    if show:
        diagnosis.show(file=file, console=console)
    return diagnosis


def _rows(
    draws: Draws,
    target: object,
    potential: Potential | None,
    temperature: float,
    components: int,
    most: int,
) -> Iterator[Row]:
    yield from _run_rows(draws)
    if not (np.asarray(draws.weight) > 0).any():
        return
    if draws.facts.per_chain:
        yield from _chain_rows(draws)
        return
    if jax.tree.leaves(draws.values):
        rows = mixing_rows(draws, components)
        yield from map(of_weights, rows) if is_network(draws, target) else rows
    if isinstance(target, Posterior) and draws.has_position:
        yield from function_rows(draws, target)
    some = draws.thin(-(-draws.chains * len(draws) // most)) if potential is not None else draws
    if "virial" in draws.stats and len(some) < len(draws):  # every draw, as it was recorded
        yield from temperature_rows(draws, None, temperature)
    else:
        yield from temperature_rows(some, potential, temperature)
    if potential is not None and temperature > 0:
        if len(draws) >= 4:
            yield stiff_row(draws, potential, temperature, min(most, _STIFF_DRAWS))
        yield discrepancy_row(draws, potential, temperature, min(most, _STEIN_DRAWS))
    yield from stepsize_rows(draws)


def _potential(target: object) -> Potential | None:
    """U over all data; None if there is no target, or its data are streamed."""
    if target is None or (isinstance(target, Posterior) and target.host is not None):
        return None
    if isinstance(target, Posterior):
        return _one_at_a_time(target)
    potential = getattr(target, "potential", target)
    if callable(potential) and not isinstance(potential, GradientEstimator):
        return cast(Potential, potential)
    raise TypeError(
        "target must be a potential U(position) -> scalar, one of sundman.targets or a "
        f"sundman.Posterior; got {target!r}"
    )


def _one_at_a_time(posterior: Posterior) -> Potential:
    """The potential over all data, whose gradient holds the activations of one draw at a time."""

    @sequential_vmap
    def both(position: PyTree) -> tuple[Array, PyTree]:
        return jax.value_and_grad(posterior.potential)(position)

    @jax.custom_vjp
    def potential(position: PyTree) -> Array:
        return both(position)[0]

    potential.defvjp(both, lambda gradient, scale: (jax.tree.map(lambda g: scale * g, gradient),))
    return potential


def _run_rows(draws: Draws) -> Iterator[Row]:
    """What ran, what it cost, and which chains diverged."""
    facts = draws.facts
    spacing = f"{draws.chains} chains of {len(draws):,}"
    if facts.thin_time is not None:
        spacing += f", {facts.thin_time:g} apart in time"
    elif facts.thin is not None:
        apart = f"{facts.thin} step{'s' if facts.thin > 1 else ''} apart"
        spacing += f", {apart} after {facts.burn_in:,}"
    yield Row("draws", draws.chains * len(draws), None, "", spacing)
    evaluations = facts.gradient_evaluations
    if evaluations:
        note = (
            f"in {facts.seconds:.3g} s" if facts.seconds else "steps times chains, burn-in included"
        )
        yield Row("gradient evaluations", evaluations, None, "", note)
    if facts.biased:
        note = f"{facts.sampler}: biased by design, at any step; not that of the target"
        yield Row("law of the sampler", None, None, "bad", note)
    diverged = np.flatnonzero(draws.diverged)
    if len(diverged) == 0:
        yield Row("diverged chains", 0, None, "good")
        return
    steps = facts.diverged_step
    when = np.asarray(draws.diverged_at if steps is None else steps)[diverged]
    first = diverged[np.argmin(when)]
    draw = int(draws.diverged_at[first])
    note = f"chain {first} first, by draw {draw}"
    step = -1 if steps is None else steps[first]
    if step < 0 and facts.thin is not None and facts.thin_time is None:
        step = facts.burn_in + draw * facts.thin
    if step >= 0:
        note += f", step {step:,}"
    yield Row("diverged chains", len(diverged), None, "bad", f"{note}; use a smaller step")


def _chain_rows(draws: Draws) -> Iterator[Row]:
    """Of each chain its settings, its temperature, and how much its draws tell."""
    for index in range(draws.chains):
        chain = draws.chain(index)
        own = (f"{name}={chain.settings[name]:.4g}" for name in draws.facts.per_chain)
        label = f"chain {index}: {', '.join(own)}"
        if chain.diverged[0]:
            note = f"diverged by draw {int(chain.diverged_at[0])}"
            yield Row(label, None, None, "bad", note)
            continue
        values, _ = some_components(chain, _COMPONENTS_PER_CHAIN)
        part = Draws(values, chain.weight, {}, chain.diverged_at, None)
        size = float(np.nanmin(estimate.ess(part)))
        note = f"smallest ESS {size:,.0f}"
        steps, temperature = chain.facts.steps, chain.facts.temperature
        if steps:
            note += f", {1000 * size / steps:.3g} per 1000 gradients"
        law = 1.0 if temperature is None else temperature
        first = next(temperature_rows(chain, None, law), None)
        if first is None or first.value is None:
            yield Row(label, None, None, "", note)
        else:
            yield first._replace(name=label, note=f"temperature, {first.note}; {note}")


def stepsize_rows(draws: Draws) -> Iterator[Row]:
    """Stepsize, zeta and weights, as far as they were recorded."""
    if "dt" in draws.stats:
        yield from _dt(draws)
    yield from _zeta(draws)
    if draws.tuning is not None and draws.tuning.bias > 0:
        note = "at most about; estimate.step_bias has that of each average, auto(bias=) lessens it"
        yield Row("bias of the step / sd", draws.tuning.bias, None, "", note)
    weight = draws.weight[draws.weight > 0].astype(np.float64)
    share = float(weight.sum() ** 2 / (weight**2).sum() / len(weight))
    verdict = graded(-share, look=-0.5, bad=-0.1)
    note = {
        "good": "little is lost to unequal weights",
        "look": "unequal weights cost draws: bring m and M closer",
        "bad": "a few draws rule the averages: bring m and M closer",
    }
    yield Row("evenness of weights", share, None, verdict, f"1 is equal; {note[verdict]}")


def _dt(draws: Draws) -> Iterator[Row]:
    m, M, dtau = draws.facts.m, draws.facts.M, draws.facts.dtau
    dt = np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0]
    low, high = float(dt.min()), float(dt.max())
    if high <= low * (1 + 1e-6):
        yield Row("stepsize", float(dt.mean()), None, "", "the same at every draw")
        return
    counts, _ = np.histogram(np.log(dt), bins=_BINS)
    yield Row(
        "stepsize",
        float(dt.mean()),
        None,
        "",
        f"{low:.3g} {sparkline(counts)} {high:.3g} (log scale)",
    )
    if m is None or M is None or dtau is None:
        return
    for name, bound, step, share in (
        ("draws at the smallest step", "m", m * dtau, np.mean(dt <= 1.01 * m * dtau)),
        ("draws at the largest step", "M", M * dtau, np.mean(dt >= 0.99 * M * dtau)),
    ):
        verdict: Verdict = "look" if share > _HARDLY_ADAPTS else "good"
        note = f"dt within 1% of {bound} dtau = {step:.3g}"
        if verdict == "look":
            note += ": the clock hardly adapts there"
        yield Row(name, float(share), None, verdict, note)


def _zeta(draws: Draws) -> Iterator[Row]:
    facts = draws.facts
    a = facts.a
    if a is None and facts.alpha is not None and facts.dtau is not None:
        a = facts.alpha * facts.dtau
    if a is not None:
        note = "steps: 1 / (1 - exp(-alpha dtau))"
        verdict: Verdict = ""
        if a > _SHORT_MEMORY and facts.lag == "none" and facts.batch_size is not None:
            verdict = "look"
            note += ": dt follows the noise of single minibatches; lower alpha or set lag"
        yield Row("memory of zeta", -1.0 / math.expm1(-a), None, verdict, note)
    if "zeta" not in draws.stats:
        return
    zeta = np.asarray(draws.stats["zeta"], np.float64)
    zeta = zeta.reshape(*zeta.shape[:2], -1).mean(axis=2)
    alive = (draws.weight > 0).astype(np.float64)
    _, error, variance = moments(np.where(alive > 0, zeta, 0.0), alive)
    thin = facts.thin or 1
    evenly = facts.thin_time is None and not facts.resampled
    if evenly and variance > 0:
        tau = 0.5 * thin * float(error**2 / variance) * alive.sum()
        note = "steps: 1/2 + the sum of its autocorrelations"
        if tau < thin:
            note += f", not resolved by draws {thin} steps apart"
        yield Row("autocorrelation of zeta", tau, None, "", note)
