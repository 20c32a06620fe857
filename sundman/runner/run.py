"""``sample``: run a sampler on a target and return weighted draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.data.host import HostBatches, stacked
from sundman.draws import Draws
from sundman.gradients import Streamed
from sundman.runner import loop, online, start, timed
from sundman.samplers import Sampler

PyTree = Any
_BLOCK_BYTES = 64 * 2**20
_STREAMED_STEPS = 64
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


def _begin_online(chain: loop.Chain, plan: loop.Plan) -> online.Average | None:
    if plan.online is None:
        return None
    value = jax.eval_shape(jax.vmap(plan.online), chain.position)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), value)
    chains = len(chain.state.key)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], chains, axis=0), online.begin(one))


def _by_steps(
    chain: loop.Chain, plan: loop.Plan, *, burn_in: int, draws: int, thin: int, size: int
) -> Iterator[tuple[loop.Chain, online.Average | None, loop.Record]]:
    """Blocks of draws ``thin`` steps apart, after ``burn_in`` steps."""
    averages, data = _begin_online(chain, plan), plan.gradient.data
    if burn_in:
        chain = loop.advance(chain, jnp.uint32(burn_in), data, plan=plan)
    for length in _parts(draws, size):
        chain, averages, record = loop.block(
            chain, averages, data, None, plan=plan, draws=length, thin=thin
        )
        yield chain, averages, record


def _parts(total: int, most: int) -> list[int]:
    """``total`` in parts of ``most``, the last one what is left."""
    return [min(most, total - begin) for begin in range(0, total, most)]


def _streamed_steps(host: HostBatches) -> int:
    """How many batches to hand over at a time."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(host.peek()))
    return max(1, min(_STREAMED_STEPS, _BLOCK_BYTES // size))


def _by_batches(
    chain: loop.Chain, plan: loop.Plan, *, burn_in: int, draws: int, thin: int, size: int
) -> Iterator[tuple[loop.Chain, online.Average | None, loop.Record]]:
    """The same on host batches, which come in pieces of (draws, steps); some have no draw."""
    host = plan.gradient.posterior.host
    most = _streamed_steps(host)
    if thin <= most:
        pieces = [(n, n * thin) for n in _parts(draws, min(size, most // thin))]
    else:
        pieces = [(1, 1), *((0, n) for n in _parts(thin - 1, most))] * draws
    pieces = [(0, n) for n in _parts(burn_in, most)] + pieces
    averages, record = _begin_online(chain, plan), None
    batches = stacked(host.endless(), (steps for _, steps in pieces))
    for (length, steps), batch in zip(pieces, batches, strict=True):
        if length == 0:
            chain = loop.advance_streamed(chain, batch, plan=plan)
            continue
        if record is not None:
            yield chain, averages, record
        chain, averages, record = loop.block(
            chain, averages, None, batch, plan=plan, draws=length, thin=steps // length
        )
    yield chain, averages, record


def _by_time(
    chain: loop.Chain, plan: loop.Plan, *, burn_in: int, draws: int, interval: float, size: int
) -> Iterator[tuple[loop.Chain, online.Average | None, loop.Record]]:
    """Blocks of draws ``interval`` of physical time apart, after ``burn_in`` steps."""
    averages, data, length = _begin_online(chain, plan), plan.gradient.data, jnp.float32(interval)
    if burn_in:
        chain = loop.advance(chain, jnp.uint32(burn_in), data, plan=plan)
    state = timed.begin(chain, length, data, plan=plan)
    for count in _parts(draws, size):
        state, averages, record = timed.block(
            state, averages, length, data, plan=plan, draws=count
        )
        yield state.chain, averages, record


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


def _warn_divergence(diverged: np.ndarray) -> None:
    lost = np.flatnonzero(diverged >= 0)
    first = lost[np.argmin(diverged[lost])]
    warnings.warn(
        f"{len(lost)} of {len(diverged)} chains diverged: the potential or its gradient is not "
        f"finite; chain {first} first, by draw {int(diverged[first])}. Their draws from there on "
        "have weight 0. Use a smaller step (h or dtau), or a clock with a smaller lower bound m.",
        DivergenceWarning,
        stacklevel=3,
    )


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
      per_chain: whether ``init`` has one position per chain, to overrule that reading.
    """
    check.count("chains", chains, least=1)
    check.count("burn_in", burn_in, least=0)
    check.choice("weighting", weighting, ("leaving", "arriving", "equal"))
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
    plan = loop.Plan(gradient, sampler, collect or _identity, weighting, online)
    size = _draws_per_block(chain, plan.collect, chains, kept)
    if thin_time is None:
        by = _by_batches if isinstance(gradient, Streamed) else _by_steps
        blocks = by(chain, plan, burn_in=burn_in, draws=kept, thin=thin, size=size)
    else:
        blocks = _by_time(
            chain, plan, burn_in=burn_in, draws=kept, interval=thin_time, size=size
        )
    del chain, positions
    records = []
    for chain, averages, record in blocks:
        records.append(record)
    record = _gather([jax.tree.map(np.asarray, record) for record in records])
    last = jax.tree.map(np.asarray, chain.position)

    diverged = _find_divergence(record, last)
    weight = record.weight
    if (diverged >= 0).any():
        _warn_divergence(diverged)
        end = np.where(diverged < 0, kept, diverged)
        weight = np.where(np.arange(kept) < end[:, None], weight, 0.0).astype(weight.dtype)
    run = {"draws": kept, "burn_in": burn_in, "thin": thin, "thin_time": thin_time}
    run |= {"batch_size": batch_size, "weighting": weighting, "chains": chains}
    return Draws(
        values=record.values,
        weight=weight,
        stats={"dt": record.weight, **record.stats},
        diverged=diverged,
        last=last,
        settings={**sampler.settings, **run},
        has_position=collect is None,
        online=None if averages is None else jax.tree.map(np.asarray, averages),
    )
