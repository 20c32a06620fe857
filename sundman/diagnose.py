"""``diagnose``: one table that says whether a run can be trusted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import jax
import numpy as np
from jax import Array
from jax.custom_batching import sequential_vmap

from sundman import check
from sundman._types import PyTree
from sundman.diagnosis import Diagnosis, Row, heat, mixing, per_chain, steps
from sundman.draws import Draws
from sundman.estimate.stein import with_reference
from sundman.gradients import GradientEstimator, Potential
from sundman.posterior import Posterior

_MOST, _MOST_OF_POSTERIOR = 20_000, 200


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


def _potential(target: Any) -> Potential | None:
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


def _run(draws: Draws) -> Iterator[Row]:
    settings = draws.settings
    spacing = f"{draws.chains} chains of {len(draws):,}"
    if settings.get("thin_time") is not None:
        spacing += f", {settings['thin_time']:g} apart in time"
    elif settings.get("thin") is not None:
        apart = f"{settings['thin']} step{'s' if settings['thin'] > 1 else ''} apart"
        spacing += f", {apart} after {settings.get('burn_in', 0):,}"
    yield Row("draws", draws.chains * len(draws), None, "", spacing)
    evaluations = mixing.gradient_evaluations(settings)
    if evaluations:
        seconds = settings.get("seconds")
        note = f"in {seconds:.3g} s" if seconds else "steps times chains, burn-in included"
        yield Row("gradient evaluations", evaluations, None, "", note)
    lost = np.flatnonzero(draws.diverged >= 0)
    if len(lost) == 0:
        yield Row("diverged chains", 0, None, "good")
        return
    when = np.asarray(settings.get("diverged_step", draws.diverged))[lost]
    first = lost[np.argmin(when)]
    draw = int(draws.diverged[first])
    note = f"chain {first} first, by draw {draw}"
    step = settings["diverged_step"][first] if "diverged_step" in settings else -1
    if step < 0 and settings.get("thin") is not None and settings.get("thin_time") is None:
        step = settings.get("burn_in", 0) + draw * settings["thin"]
    if step >= 0:
        note += f", step {step:,}"
    yield Row("diverged chains", len(lost), None, "bad", f"{note}; use a smaller step")


def _discrepancy(draws: Draws, potential: Potential, temperature: float, most: int) -> Row:
    found, independent = with_reference(draws, potential, temperature=temperature, most=most)
    verdict = "good" if found <= 3 * independent else "look"
    note = f"as many independent draws would give about {independent:.2g}"
    if verdict == "look":
        note += ": slow mixing, or another law"
    return Row("Stein discrepancy", found, None, verdict, note)


def diagnose(
    draws: Draws,
    target: Any = None,
    *,
    temperature: float | None = None,
    components: int = 1000,
    most: int | None = None,
    show: bool = True,
    file: Any = None,
    console: Any = None,
) -> Diagnosis:
    """Print one table on the run and return it.

    Verdicts, "good" unless:

    - diverged chains: bad if there is one.
    - smallest ESS: look below 400, bad below 100; largest error / sd, which is 1 / sqrt(ESS):
      look above 0.05, bad above 0.1.
    - largest split R-hat: look above 1.01, bad above 1.05.
    - temperature, its drift, kinetic temperature: if off by more than 3 of its errors, look above
      2% of T, bad above 10%. A temperature that 3 errors leave open by more than 10%: look.
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
    """
    check.count("components", components, least=1)
    target = getattr(target, "posterior", target)
    if most is None:
        most = _MOST_OF_POSTERIOR if isinstance(target, Posterior) else _MOST
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
    found = Diagnosis(
        tuple(
            _rows(
                draws,
                potential,
                1.0 if temperature is None else float(temperature),
                components,
                most,
            )
        )
    )
    if show:
        found.show(file=file, console=console)
    return found


def _rows(
    draws: Draws, potential: Potential | None, temperature: float, components: int, most: int
) -> Iterator[Row]:
    yield from _run(draws)
    if not (np.asarray(draws.weight) > 0).any():
        return
    if draws.settings.get("per_chain"):
        yield from per_chain.rows(draws)
        return
    if jax.tree.leaves(draws.values):
        yield from mixing.rows(draws, components)
    some = draws.thin(-(-draws.chains * len(draws) // most)) if potential is not None else draws
    recorded = "virial" in draws.stats and len(some) < len(draws)
    yield from heat.rows(draws if recorded else some, None if recorded else potential, temperature)
    if potential is not None and temperature > 0:
        yield _discrepancy(draws, potential, temperature, min(most, 2000))
    yield from steps.rows(draws)
