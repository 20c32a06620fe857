"""Chains side by side or one after the other.

Many small chains are one vector: every step moves all of them. A few small chains are better run
each by itself: XLA makes one kernel of the loop of a single chain, and several of the loop of four,
which then takes five times as long a chain. They share the program of a single chain and the cores
of the machine, a thread each. Chains of a network share nothing, and together they leave the cache,
so on a CPU each of them, too, runs through a whole block before the next; its products of matrices
have the cores.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sundman._types import PyTree
from sundman.run.step import Plan
from sundman.samplers import Sampler

_LARGE_POSITION = 10_000  # elements: a network
_FEW_CHAINS = 31
_SETTINGS: dict[str, Callable[..., AbstractContextManager[object]]] = {
    "jax_enable_x64": jax.enable_x64,
    "jax_debug_nans": jax.debug_nans,
    "jax_default_matmul_precision": jax.default_matmul_precision,
    "jax_default_device": jax.default_device,
}


def each_chain(run: Callable[..., PyTree], plan: Plan, *chains: PyTree) -> PyTree:
    """``run(plan, *chain)`` for every chain along the leading axis.

    A single chain runs as it is, without a batch axis: a batched matrix product with a batch of
    one is several times slower than a plain one on CPU. A stacked sampler is mapped over with the
    chains.
    """

    def one(sampler: Sampler, *chain: PyTree) -> PyTree:
        return run(plan.replace(sampler=sampler, stacked=False), *chain)

    if len(jax.tree.leaves(chains)[0]) > 1:
        axes = (0 if plan.stacked else None, *[0] * len(chains))
        return jax.vmap(one, axes)(plan.sampler, *chains)
    sampler = _first(plan.sampler) if plan.stacked else plan.sampler
    alone = one(sampler, *_first(chains))
    return jax.tree.map(lambda leaf: leaf[None], alone)


def _first(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[0], tree)


def runs_sequentially(positions: PyTree, side_by_side: bool | None = None) -> bool:
    """Whether one program runs chains at these positions one after the other.

    Args:
      positions: with a leading axis of chains.
      side_by_side: decided already, for chains that are a part of more: see :class:`Plan`.
    """
    leaves = jax.tree.leaves(positions)
    if side_by_side is not None:
        return len(leaves[0]) > 1 and not side_by_side
    few = len(leaves[0]) <= _FEW_CHAINS
    return len(leaves[0]) > 1 and (few or _is_large(leaves)) and jax.default_backend() == "cpu"


def runs_in_threads(positions: PyTree) -> bool:
    """Whether a few small chains are better run each by itself, on all cores."""
    leaves = jax.tree.leaves(positions)
    return runs_sequentially(positions) and not _is_large(leaves)


def _is_large(leaves: Sequence[Array]) -> bool:
    return sum(math.prod(leaf.shape[1:]) for leaf in leaves) >= _LARGE_POSITION


def map_in_threads(
    run: Callable[..., tuple[PyTree, ...]], plan: Plan, *chains: PyTree
) -> list[tuple[PyTree, ...]]:
    """``run(plan, *chain)`` for every chain, with an axis of one chain, on all cores.

    Args:
      run: dispatches a compiled program; several threads call it at once.
      plan: the loop's plan.
      *chains: with a leading axis of chains.

    Returns:
      What it gave, chain by chain, when all of it is there.
    """
    number = len(jax.tree.leaves(chains)[0])
    samplers = split(plan.sampler, number) if plan.stacked else [plan.sampler] * number
    settings = {name: getattr(jax.config, name) for name in _SETTINGS}

    def one(sampler: Sampler, chain: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        with _settings(settings):
            return jax.block_until_ready(run(plan.replace(sampler=sampler), *chain))

    with ThreadPoolExecutor(min(number, _cores())) as pool:
        return list(pool.map(one, samplers, split(chains, number)))


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _settings(values: Mapping[str, object]) -> Generator[None]:
    """What ``with jax.enable_x64():`` and its like have set, which a new thread does not see."""
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(_SETTINGS[name](value))
        yield


def split(tree: PyTree, number: int) -> list[PyTree]:
    """The part of each of ``number`` chains, with an axis for it; on the host, as is :func:`join`.

    These arrays are small and on the CPU: a program of their own would take longer to compile.
    """
    host = jax.tree.map(np.asarray, tree)
    return [jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], host) for i in range(number)]


def join(parts: Sequence[PyTree]) -> PyTree:
    """One tree of what :func:`split` took apart."""
    return jax.device_put(jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts))


def map_sequentially(run: Callable[..., PyTree], plan: Plan, *chains: PyTree) -> PyTree:
    """``run(plan, *chains)``, which takes chains with a leading axis, on one after the other."""

    def one(sampler_and_chain: tuple[PyTree, ...]) -> PyTree:
        sampler, own = sampler_and_chain
        alone = plan if not plan.stacked else plan.replace(sampler=_one_more_axis(sampler))
        return run(alone, *_one_more_axis(own))

    return lax.map(one, (plan.sampler if plan.stacked else (), chains))


def _one_more_axis(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[None], tree)


def put_chain_axis(tree: PyTree) -> PyTree:
    """What :func:`map_sequentially` gave without the axis of one chain that ``run`` puts first."""
    return jax.tree.map(lambda leaf: leaf.squeeze(1), tree)


def draw_in_blocks(
    draw: Callable[..., tuple[PyTree, ...]],
    plan: Plan,
    count: Array,
    capacity: int,
    positions: PyTree,
    *chains: PyTree,
) -> tuple[PyTree, ...]:
    """``count`` draws of every chain and the records they leave.

    Chains that run one after the other share one set of records, written in place: a copy of each
    chain's records would take a tenth of the time of a small target.

    Args:
      draw: ``draw(index, plan, *chain)`` gives the chain after its draw ``index`` and a record.
      plan: the loop's plan.
      count: draws.
      capacity: draws the records have room for, so that blocks of any length share a program.
      positions: of the chains, which say how these are best run.
      *chains: what is carried, with a leading axis of chains.

    Returns:
      The chains, and the records with axes (draw, chain), or (chain, draw) if chains run one after
      the other.
    """

    @partial(jax.jit, inline=True)  # its shapes and its body are one trace
    def of_all(plan: Plan, index: Array, chains: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        return each_chain(partial(draw, index), plan, *chains)

    def over_draws(
        plan: Plan,
        chains: tuple[PyTree, ...],
        records: PyTree,
        place: Callable[[Array, Array, Array], Array],
    ) -> tuple[PyTree, ...]:
        def body(index: Array, carry: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
            chains, records = carry
            *chains, record = of_all(plan, index, chains)
            return tuple(chains), jax.tree.map(partial(place, index), records, record)

        return lax.fori_loop(jnp.uint32(0), count, body, (chains, records))

    *_, record = jax.eval_shape(of_all, plan, jnp.uint32(0), chains)
    if not runs_sequentially(positions, plan.side_by_side):
        room = jax.tree.map(lambda x: lax.empty((capacity, *x.shape), x.dtype), record)
        in_row = lambda index, to, leaf: lax.dynamic_update_index_in_dim(to, leaf, index, 0)  # noqa: E731
        chains, records = over_draws(plan, chains, room, in_row)
        return *chains, records

    def one_chain(number: Array, carry: tuple[PyTree, ...]) -> tuple[PyTree, ...]:
        chains, records = carry
        alone = plan.replace(sampler=_only(number, plan.sampler)) if plan.stacked else plan

        def in_place(index: Array, to: Array, leaf: Array) -> Array:
            return lax.dynamic_update_slice(
                to, leaf[:, None], (number, index, *[jnp.uint32(0)] * (leaf.ndim - 1))
            )

        own, records = over_draws(alone, _only(number, chains), records, in_place)
        put = lambda to, leaf: lax.dynamic_update_slice_in_dim(to, leaf, number, 0)  # noqa: E731
        return jax.tree.map(put, chains, own), records

    room = jax.tree.map(lambda x: lax.empty((x.shape[0], capacity, *x.shape[1:]), x.dtype), record)
    number_of = jnp.uint32(len(jax.tree.leaves(chains)[0]))
    chains, records = lax.fori_loop(jnp.uint32(0), number_of, one_chain, (chains, room))
    return *chains, records


def _only(number: Array, tree: PyTree) -> PyTree:
    """The part of one chain, with an axis for it."""
    return jax.tree.map(lambda leaf: lax.dynamic_slice_in_dim(leaf, number, 1, 0), tree)


def join_draws(records: Sequence[PyTree], draws: int) -> PyTree:
    """The first ``draws`` of the records of single chains on the host, with axes (draw, chain)."""

    def side_by_side(*leaves: Array) -> np.ndarray:
        chain_first = np.stack([np.asarray(leaf)[:draws, 0] for leaf in leaves])
        return np.swapaxes(chain_first, 0, 1)

    return jax.tree.map(side_by_side, *records)


def draws_first(records: PyTree, swap: bool) -> PyTree:
    """The records of a block on the host with axes (draw, chain); ``swap``: they are the others."""
    return jax.tree.map(lambda x: np.swapaxes(np.asarray(x), 0, 1) if swap else x, records)
