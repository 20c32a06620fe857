"""``sample``: run a sampler on a target and return weighted draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.draws import Draws
from sundman.runner import loop, start
from sundman.samplers import Sampler
from sundman.targets import Target

PyTree = Any
_BLOCK_BYTES = 64 * 2**20
_MOST_STEPS = 2**32 - 1


class DivergenceWarning(UserWarning):
    """Some chains left the region where the potential and its gradient are finite."""


def _identity(position: PyTree) -> PyTree:
    return position


def _draws_per_block(chain: loop.Chain, collect: Callable, chains: int, draws: int) -> int:
    """As many draws as fit the block's memory, preferring a divisor of the total."""
    one = jax.eval_shape(lambda c: collect(jax.tree.map(lambda leaf: leaf[0], c)), chain.position)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(one)) + 6 * 4
    most = max(1, min(draws, _BLOCK_BYTES // (size * chains)))
    return next((n for n in range(most, most // 2, -1) if draws % n == 0), most)


def _gather(records: list[loop.Record]) -> loop.Record:
    """Blocks joined along the draws, axes (chain, draw, ...)."""

    def join(*parts: np.ndarray) -> np.ndarray:
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return np.swapaxes(whole, 0, 1)

    return jax.tree.map(join, *records)


def _find_divergence(record: loop.Record, last: PyTree) -> np.ndarray:
    """Index of each chain's first non-finite draw, the number of draws if only its end is."""
    finite = np.isfinite(record.stats["potential"]) & np.isfinite(record.stats["grad_norm"])
    draws = finite.shape[1]
    first = np.where(finite.all(axis=1), draws, np.argmin(finite, axis=1))
    ended = np.ones(len(first), bool)
    for leaf in jax.tree.leaves(last):
        ended &= np.isfinite(np.asarray(leaf).reshape(len(first), -1)).all(axis=1)
    return np.where(ended & (first == draws), -1, first)


def _warn_divergence(diverged: np.ndarray, burn_in: int, thin: int) -> None:
    lost = np.flatnonzero(diverged >= 0)
    first = lost[np.argmin(diverged[lost])]
    step = burn_in + int(diverged[first]) * thin
    warnings.warn(
        f"{len(lost)} of {len(diverged)} chains diverged: the potential or its gradient is not "
        f"finite; chain {first} first, by step {step}. Their draws from there on have weight 0. "
        "Use a smaller step (h or dtau), or a clock with a smaller lower bound m.",
        DivergenceWarning,
        stacklevel=3,
    )


def sample(
    target: Any,
    sampler: Sampler,
    *,
    key: Array,
    steps: int,
    init: PyTree | None = None,
    chains: int = 1,
    burn_in: int = 0,
    thin: int = 1,
    collect: Callable[[PyTree], PyTree] | None = None,
    weighting: str = "leaving",
    per_chain: bool | None = None,
) -> Draws:
    """Run ``sampler`` on ``target`` and return weighted draws.

    Averages over the target are sum(weight f(position)) / sum(weight); see
    :mod:`sundman.estimate`.

    Args:
      target: a potential U(position) -> scalar, one of :mod:`sundman.targets`, or a gradient
        estimator from :mod:`sundman.gradients`.
      sampler: any sampler of :mod:`sundman.samplers`.
      key: a JAX random key. The same key gives the same draws.
      steps: steps after the burn-in; steps // thin draws are kept per chain.
      init: one position for all chains, or one per chain along a leading axis; a target has a
        default. Where the potential accepts either reading, a vector is one position.
      chains: independent chains, run together.
      burn_in: steps made first and not kept.
      thin: keep every thin-th position.
      collect: keep ``collect(position)`` instead of the position.
      weighting: ``"leaving"`` weights a position with the dt of the step that leaves it,
        ``"arriving"`` with that of the step that led to it, ``"equal"`` not at all.
      per_chain: whether ``init`` has one position per chain, to overrule that reading.
    """
    check.count("chains", chains, least=1)
    check.count("steps", steps, least=1)
    check.count("burn_in", burn_in, least=0)
    check.count("thin", thin, least=1)
    check.choice("weighting", weighting, ("leaving", "arriving", "equal"))
    if not isinstance(sampler, Sampler):
        raise TypeError(
            f"sampler must be a sundman sampler, such as sundman.sgld(1e-3); got {sampler!r}"
        )
    if burn_in + steps > _MOST_STEPS:
        raise ValueError(
            f"burn_in + steps must be below 2**32, the range of the noise counter; "
            f"got {burn_in + steps}"
        )
    draws = steps // thin
    if draws == 0:
        raise ValueError(f"no draw would be kept: steps={steps} is less than thin={thin}")
    if init is None and isinstance(target, Target):
        init = target.start
    if init is None:
        raise ValueError("init is needed: the first position, or one for each chain")

    gradient = start.as_gradient(target)
    if isinstance(target, Target) and per_chain is None:
        per_chain = jnp.ndim(init) == 2
    positions = start.first_positions(init, chains, gradient.potential, per_chain)
    chain = start.start_chains(positions, sampler, key, chains)
    keep = _identity if collect is None else collect
    if burn_in:
        chain = loop.advance(chain, jnp.uint32(burn_in), gradient=gradient, sampler=sampler)

    size = _draws_per_block(chain, keep, chains, draws)
    records: list[loop.Record] = []
    for begin in range(0, draws, size):
        chain, record = loop.block(
            chain,
            draws=min(size, draws - begin),
            thin=thin,
            gradient=gradient,
            sampler=sampler,
            collect=keep,
            weighting=weighting,
        )
        records.append(record)
    record = _gather([jax.tree.map(np.asarray, record) for record in records])
    last = jax.tree.map(np.asarray, chain.position)

    diverged = _find_divergence(record, last)
    weight = record.weight
    if (diverged >= 0).any():
        _warn_divergence(diverged, burn_in, thin)
        end = np.where(diverged < 0, draws, diverged)
        weight = np.where(np.arange(draws) < end[:, None], weight, 0.0).astype(weight.dtype)
    settings = {
        **sampler.settings,
        "steps": steps,
        "burn_in": burn_in,
        "thin": thin,
        "weighting": weighting,
    }
    return Draws(
        values=record.values,
        weight=weight,
        stats={"dt": record.weight, **record.stats},
        diverged=diverged,
        last=last,
        settings=settings,
        has_position=collect is None,
    )
