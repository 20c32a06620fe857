"""A run in blocks: how many draws each compiled call makes, and what it is fed with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sundman.data.host import HostBatches, stacked
from sundman.gradients import Streamed
from sundman.runner import loop, online, timed

PyTree = Any
_BLOCK_BYTES = 64 * 2**20
_STREAMED_STEPS = 64


def draws_per_block(chain: loop.Chain, collect: Callable, chains: int, draws: int) -> int:
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


def by_steps(
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


def by_batches(
    chain: loop.Chain, plan: loop.Plan, *, burn_in: int, draws: int, thin: int, size: int
) -> Iterator[tuple[loop.Chain, online.Average | None, loop.Record]]:
    """The same on host batches, which come in pieces of (draws, steps); some have no draw."""
    assert isinstance(plan.gradient, Streamed)
    host = plan.gradient.posterior.host
    assert host is not None
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
    assert record is not None  # there is at least one draw
    yield chain, averages, record


def by_time(
    chain: loop.Chain, plan: loop.Plan, *, burn_in: int, draws: int, interval: float, size: int
) -> Iterator[tuple[loop.Chain, online.Average | None, loop.Record]]:
    """Blocks of draws ``interval`` of physical time apart, after ``burn_in`` steps."""
    averages, data, length = _begin_online(chain, plan), plan.gradient.data, jnp.float32(interval)
    if burn_in:
        chain = loop.advance(chain, jnp.uint32(burn_in), data, plan=plan)
    state = timed.begin(chain, length, data, plan=plan)
    for count in _parts(draws, size):
        state, averages, record = timed.block(state, averages, length, data, plan=plan, draws=count)
        yield state.chain, averages, record


def trusted(averages: online.Average, good: np.ndarray) -> online.Average:
    """Averages on the host, NaN for the chains that ran away: their last draws rule the average."""

    def of_good_chains(leaf: Any) -> np.ndarray:
        host = np.asarray(leaf)
        return np.where(good.reshape(-1, *[1] * (host.ndim - 1)), host, np.nan)

    return jax.tree.map(of_good_chains, averages)
