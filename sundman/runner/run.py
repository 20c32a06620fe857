"""``sample``: run a sampler on a target and return weighted draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from sundman import check
from sundman.draws import Draws
from sundman.gradients import Streamed
from sundman.runner import blocks, loop, start
from sundman.runner.divergence import first_divergence, warn_divergence
from sundman.samplers import Sampler

PyTree = Any
_MOST_STEPS = 2**32 - 1


def _identity(position: PyTree) -> PyTree:
    return position


def _gather(records: list[loop.Record]) -> tuple[PyTree, np.ndarray, dict[str, np.ndarray]]:
    """Values, weight and statistics, blocks joined along the draws: axes (chain, draw, ...)."""

    def join(*parts: np.ndarray) -> np.ndarray:
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return np.swapaxes(whole, 0, 1)

    return jax.tree.map(join, *records)


def _count_draws(steps: int | None, thin: int, thin_time: float | None, draws: int | None) -> int:
    check.count("thin", thin, least=1)
    if thin_time is not None:
        check.positive(thin_time=thin_time)
        if draws is None or steps is not None or thin != 1:
            raise ValueError(
                "thin_time keeps draws= positions a physical time apart, however many steps that "
                f"takes: give draws and not steps or thin; got draws={draws}, steps={steps}"
            )
        check.count("draws", draws, least=1)
        return draws
    if (steps is None) == (draws is None):
        raise ValueError(f"give one of steps= and draws=; got steps={steps}, draws={draws}")
    if draws is not None:
        check.count("draws", draws, least=1)
        return draws
    assert steps is not None
    check.count("steps", steps, least=1)
    if steps < thin:
        raise ValueError(f"no draw would be kept: steps={steps} is less than thin={thin}")
    return steps // thin


def sample(
    target: Any,
    sampler: Sampler,
    *,
    key: Array,
    steps: int | None = None,
    init: PyTree | None = None,
    chains: int = 1,
    burn_in: int = 0,
    thin: int = 1,
    thin_time: float | None = None,
    draws: int | None = None,
    batch_size: int | None = None,
    replace: bool = False,
    collect: Callable[[PyTree], PyTree] | None = None,
    online: Callable[[PyTree], PyTree] | None = None,
    weighting: str = "leaving",
    stats: Sequence[str] = loop.STATS,
    per_chain: bool | None = None,
) -> Draws:
    """Run ``sampler`` on ``target`` and return weighted draws.

    Averages over the target are sum(weight f(position)) / sum(weight); see
    :mod:`sundman.estimate`.

    Args:
      target: a potential U(position) -> scalar, one of :mod:`sundman.targets`, a
        :class:`sundman.Posterior`, or a gradient estimator from :mod:`sundman.gradients`.
      sampler: any sampler of :mod:`sundman.samplers`.
      key: a JAX random key. The same key gives the same draws.
      steps: steps after the burn-in; steps // thin draws are kept per chain.
      init: one position for all chains, or one per chain along a leading axis; a target has a
        default. Where the potential accepts either reading, a vector is one position.
      chains: independent chains, run together.
      burn_in: steps made first and not kept.
      thin: keep every thin-th position.
      thin_time: keep ``draws`` positions this much physical time apart instead; they are an
        unweighted sample.
      draws: the number of draws per chain, in place of ``steps``.
      batch_size: rows of the posterior's data per gradient; all if not given. Without
        replacement within an epoch, unless ``replace``.
      collect: keep ``collect(position)`` instead of the position.
      online: average ``online(position)`` over the draws in constant memory, into
        ``draws.online``.
      weighting: ``"leaving"`` weights a position with the dt of the step that leaves it,
        ``"arriving"`` with that of the step that led to it, ``"equal"`` not at all.
      stats: what to record with each draw besides its weight, dt and potential: ``"time"``,
        ``"grad_norm"``, ``"zeta"``. Recording all of them every step costs a tiny target as much
        as the step.
      per_chain: whether ``init`` has one position per chain, to overrule that reading.
    """
    check.count("chains", chains, least=1)
    check.count("burn_in", burn_in, least=0)
    check.choice("weighting", weighting, ("leaving", "arriving", "equal"))
    for name in stats:
        check.choice("stats", name, loop.STATS)
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"sampler must be a sundman sampler, such as sundman.sgld(1e-3); got {sampler!r}"
        )
    kept = _count_draws(steps, thin, thin_time, draws)
    if burn_in + kept * thin > _MOST_STEPS:
        raise ValueError(
            "burn_in + steps must be below 2**32, the range of the noise counter; "
            f"got {burn_in + kept * thin}"
        )
    gradient = start.as_gradient(target, batch_size, replace)
    if thin_time is not None and isinstance(gradient, Streamed):
        raise ValueError("thin_time needs in-memory data: host batches come step by step")
    sampler = start.settle_temperature(target, sampler)
    positions = start.first_positions(target, init, chains, per_chain)
    chain = start.start_chains(positions, sampler, key, chains)
    weighting = weighting if thin_time is None else "equal"
    plan = loop.Plan(gradient, sampler, collect or _identity, weighting, tuple(stats), online)
    size = blocks.draws_per_block(chain, plan.collect, chains, kept)
    if thin_time is None:
        by = blocks.by_batches if isinstance(gradient, Streamed) else blocks.by_steps
        pieces = by(chain, plan, burn_in=burn_in, draws=kept, thin=thin, size=size)
    else:
        pieces = blocks.by_time(
            chain, plan, burn_in=burn_in, draws=kept, interval=thin_time, size=size
        )
    del chain, positions
    outputs = list(pieces)
    chain, averages, _ = outputs[-1]
    values, weight, recorded = _gather([jax.tree.map(np.asarray, r) for *_, r in outputs])
    last = jax.tree.map(np.asarray, chain.position)

    recorded = {"dt": weight, **recorded}
    diverged = first_divergence(recorded, last)
    if (diverged >= 0).any():
        warn_divergence(diverged)
        end = np.where(diverged < 0, kept, diverged)
        weight = np.where(np.arange(kept) < end[:, None], weight, 0.0).astype(weight.dtype)
    run = {"draws": kept, "burn_in": burn_in, "thin": thin, "thin_time": thin_time}
    run |= {"batch_size": batch_size, "weighting": weighting, "chains": chains}
    return Draws(
        values=values,
        weight=weight,
        stats=recorded,
        diverged=diverged,
        last=last,
        settings={**sampler.settings, **run},
        has_position=collect is None,
        online=None if averages is None else blocks.trusted(averages, diverged < 0),
    )
