"""``diagnose``: one table that says whether a run can be trusted.

In this order: what ran and what diverged, how much the draws tell (effective size, agreement of
the chains), temperature and law, stepsize and weights. Chains with own settings get a line each.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, cast

import jax
import numpy as np
from jax import Array
from jax.custom_batching import sequential_vmap

from sundman import check, estimate
from sundman._trees import leaf_paths
from sundman._types import PyTree
from sundman.diagnosis.function_space import function_rows, of_weights
from sundman.diagnosis.stepsize import stepsize_rows
from sundman.diagnosis.table import Diagnosis, Row, graded
from sundman.diagnosis.temperature import discrepancy_row, stiff_row, temperature_rows
from sundman.draws import Draws
from sundman.estimate.moments import moments, weights
from sundman.gradients import GradientEstimator, Potential
from sundman.posterior import Posterior
from sundman.targets import Target
from sundman.verdict.checks import is_network

if TYPE_CHECKING:
    from rich.console import Console

_GRADIENTS, _GRADIENTS_OF_POSTERIOR = 20_000, 200  # computed at most
_STEIN_DRAWS, _STIFF_DRAWS, _COMPONENTS_PER_CHAIN = 2000, 1000, 200
_ELEMENTS = 32 * 2**20  # of the components held in memory, over all draws


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
    if temperature is None and "temperature" not in draws.settings.get("per_chain", ()):
        stated = (draws.settings.get("temperature"), getattr(target, "temperature", None), 1.0)
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
    if draws.settings.get("per_chain"):
        yield from _chain_rows(draws)
        return
    if jax.tree.leaves(draws.values):
        rows = _mixing_rows(draws, components)
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
    settings = draws.settings
    spacing = f"{draws.chains} chains of {len(draws):,}"
    if settings.get("thin_time") is not None:
        spacing += f", {settings['thin_time']:g} apart in time"
    elif settings.get("thin") is not None:
        apart = f"{settings['thin']} step{'s' if settings['thin'] > 1 else ''} apart"
        spacing += f", {apart} after {settings.get('burn_in', 0):,}"
    yield Row("draws", draws.chains * len(draws), None, "", spacing)
    evaluations = _gradient_evaluations(settings)
    if evaluations:
        seconds = settings.get("seconds")
        note = f"in {seconds:.3g} s" if seconds else "steps times chains, burn-in included"
        yield Row("gradient evaluations", evaluations, None, "", note)
    diverged = np.flatnonzero(draws.diverged)
    if len(diverged) == 0:
        yield Row("diverged chains", 0, None, "good")
        return
    when = np.asarray(settings.get("diverged_step", draws.diverged_at))[diverged]
    first = diverged[np.argmin(when)]
    draw = int(draws.diverged_at[first])
    note = f"chain {first} first, by draw {draw}"
    step = settings["diverged_step"][first] if "diverged_step" in settings else -1
    if step < 0 and settings.get("thin") is not None and settings.get("thin_time") is None:
        step = settings.get("burn_in", 0) + draw * settings["thin"]
    if step >= 0:
        note += f", step {step:,}"
    yield Row("diverged chains", len(diverged), None, "bad", f"{note}; use a smaller step")


def _gradient_evaluations(settings: Mapping[str, Any]) -> int | None:
    """Steps times chains, burn-in included; None if the settings do not say."""
    steps = settings.get("steps")
    if steps is None and settings.get("thin_time") is None and "draws" in settings:
        steps = settings.get("burn_in", 0) + settings["draws"] * settings.get("thin", 1)
    return None if steps is None or "chains" not in settings else int(steps * settings["chains"])


def _mixing_rows(draws: Draws, components: int) -> Iterator[Row]:
    """Smallest effective size, its rates, worst R-hat, largest relative error."""
    values, labels = some_components(draws, components)
    _, error, variance = moments(values, weights(draws))
    broken = np.flatnonzero(~np.isfinite(variance))
    if len(broken):
        note = f"{labels[broken[0]]} first; of {len(labels)} components"
        yield Row("components not finite", len(broken), None, "bad", note)
    moving = np.isfinite(variance) & (variance > 0)
    if not moving.any():
        yield Row("smallest ESS", 0.0, None, "bad", "nothing moves: every value is constant")
        return
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(moving, variance / error**2, np.inf)
    worst = int(np.argmin(size))
    least = float(size[worst])
    of = f"{labels[worst]}, of {len(labels)} components"
    verdict = graded(-least, look=-400, bad=-100)
    yield Row("smallest ESS", least, None, verdict, f"{of}; 400 or more is good")
    evaluations = _gradient_evaluations(draws.settings)
    if evaluations:
        yield Row("ESS per 1000 gradients", 1000 * least / evaluations)
    if draws.settings.get("seconds"):
        yield Row("ESS per second", least / draws.settings["seconds"])
    if len(draws) >= 4:
        part = Draws(values, draws.weight, {}, draws.diverged_at, None)
        ratio = np.nan_to_num(np.asarray(estimate.split_rhat(part)), nan=1.0)
        worst_ratio = int(np.argmax(ratio))
        largest = float(ratio[worst_ratio])
        verdict = graded(largest, look=1.01, bad=1.05)
        note = {"good": "the chains agree", "look": "run longer", "bad": "the chains disagree"}
        yield Row(
            "largest split R-hat", largest, None, verdict, f"{labels[worst_ratio]}; {note[verdict]}"
        )
    relative = 1.0 / math.sqrt(least)
    verdict = graded(relative, look=0.05, bad=0.1)
    yield Row("largest error / sd", relative, None, verdict, f"{labels[worst]}; error of the mean")


def _chain_rows(draws: Draws) -> Iterator[Row]:
    """Of each chain its settings, its temperature, and how much its draws tell."""
    for index in range(draws.chains):
        chain = draws.chain(index)
        own = (f"{name}={chain.settings[name]:.4g}" for name in draws.settings["per_chain"])
        label = f"chain {index}: {', '.join(own)}"
        if chain.diverged[0]:
            note = f"diverged by draw {int(chain.diverged_at[0])}"
            yield Row(label, None, None, "bad", note)
            continue
        values, _ = some_components(chain, _COMPONENTS_PER_CHAIN)
        part = Draws(values, chain.weight, {}, chain.diverged_at, None)
        size = float(np.nanmin(estimate.ess(part)))
        note = f"smallest ESS {size:,.0f}"
        steps = chain.settings.get("steps")
        if steps:
            note += f", {1000 * size / steps:.3g} per 1000 gradients"
        first = next(temperature_rows(chain, None, float(chain.settings["temperature"])), None)
        if first is None or first.value is None:
            yield Row(label, None, None, "", note)
        else:
            yield first._replace(name=label, note=f"temperature, {first.note}; {note}")


def some_components(draws: Draws, most: int) -> tuple[np.ndarray, list[str]]:
    """At most ``most`` components, evenly spaced over all: (chain, draw, k) and their names.

    Fewer if the draws are very many. The values are read once, in blocks.
    """
    leaves = jax.tree.leaves(draws.values)
    sizes = [math.prod(leaf.shape[2:]) for leaf in leaves]
    ends = np.cumsum([0, *sizes])
    most = max(1, min(most, int(ends[-1]), _ELEMENTS // (draws.chains * len(draws))))
    chosen = np.linspace(0, ends[-1] - 1, most).astype(int)
    per_leaf = [
        chosen[(chosen >= first) & (chosen < last)] - first
        for first, last in itertools.pairwise(ends)
    ]
    dtype = np.result_type(np.float32, *(leaf.dtype for leaf in leaves))
    components = np.empty((draws.chains, len(draws), len(chosen)), dtype)
    for part, values in draws.blocks():
        flat = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(values)]
        columns = [leaf[..., index] for leaf, index in zip(flat, per_leaf, strict=True)]
        components[:, part] = np.concatenate(columns, axis=2)
    labels = [
        label
        for name, leaf, index in zip(leaf_paths(draws.values), leaves, per_leaf, strict=True)
        for label in _labels(name, leaf.shape[2:], index)
    ]
    return components, labels


def _labels(name: str, shape: tuple[int, ...], picked: np.ndarray) -> list[str]:
    if not shape:
        return [name]
    indices = zip(*np.unravel_index(picked, shape), strict=True)
    return [f"{name}[{', '.join(str(i) for i in index)}]" for index in indices]
