"""Engines: how a piece of a run is computed: data in memory, batches from the host, or by time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from sundman._types import PyTree
from sundman.data.batches import HostBatches, stacked
from sundman.draws.online import Average
from sundman.gradients import Streamed
from sundman.run import scan
from sundman.run.chain_mapping import (
    draws_first,
    join,
    join_draws,
    map_in_threads,
    runs_in_threads,
)
from sundman.run.guard import RUNAWAY, Advanced, Health
from sundman.run.schedule import Piece
from sundman.run.state import Chain, RunState, Timed
from sundman.run.step import Plan, Record

_STREAMED_STEPS = 64


class Engine(Protocol):
    """Computes one piece of a run from the state before it."""

    def burn(self, state: RunState, piece: Piece) -> tuple[Advanced, Health]:
        """Steps without draws: the chains and averages after them, and their health."""
        ...

    def draw(self, state: RunState, piece: Piece) -> tuple[Advanced, Record, Health]:
        """A block of draws as well; the records have axes (draw, chain)."""
        ...

    def close(self) -> None:
        """Give back what the engine holds; there is no piece left."""
        ...


class InMemory(NamedTuple):
    """Draws ``thin`` steps apart, data on the device."""

    plan: Plan
    thin: int
    capacity: int

    def burn(self, state: RunState, piece: Piece) -> tuple[Advanced, Health]:
        """Steps without draws."""
        steps, low = jnp.uint32(piece.steps), state.divergences.low

        def run(plan: Plan, chains: Chain, low: ArrayLike) -> tuple[Chain, Health]:
            return scan.advance(plan, chains, low, steps)

        if runs_in_threads(state.now.position):
            chains, health = join(map_in_threads(run, self.plan, state.now, low))
        else:
            chains, health = run(self.plan, state.now, low)
        return (chains, state.averages), health

    def draw(self, state: RunState, piece: Piece) -> tuple[Advanced, Record, Health]:
        """A block of draws."""
        count = jnp.uint32(piece.draws)

        def run(plan: Plan, *chains: PyTree) -> tuple[Chain, Average | None, Record, Health]:
            return scan.block(plan, *chains, count, capacity=self.capacity, thin=self.thin)

        return _drawn(run, self.plan, piece.draws, state.now, state)

    def close(self) -> None:
        """Nothing to give back."""


class ByTime(NamedTuple):
    """Draws ``interval`` of physical time apart, data on the device."""

    plan: Plan
    interval: float
    capacity: int

    def burn(self, state: RunState, piece: Piece) -> tuple[Advanced, Health]:
        """Steps without draws."""
        assert isinstance(state.chains, Timed)
        (chain, averages), health = InMemory(self.plan, 1, 1).burn(state, piece)
        assert isinstance(chain, Chain)
        return (state.chains._replace(chain=chain), averages), health

    def draw(self, state: RunState, piece: Piece) -> tuple[Advanced, Record, Health]:
        """A block of draws."""
        assert isinstance(state.chains, Timed)
        count, interval = jnp.uint32(piece.draws), jnp.float32(self.interval)

        def run(plan: Plan, *chains: PyTree) -> tuple[Timed, Average | None, Record, Health]:
            return scan.timed_block(plan, *chains, count, interval, capacity=self.capacity)

        return _drawn(run, self.plan, piece.draws, state.chains, state)

    def close(self) -> None:
        """Nothing to give back."""


def _drawn(
    run: Callable[..., tuple[Chain | Timed, Average | None, Record, Health]],
    plan: Plan,
    draws: int,
    chains: Chain | Timed,
    state: RunState,
) -> tuple[Advanced, Record, Health]:
    """A block of draws as ``run`` computes it: of all chains in one call, or in threads."""
    carried = (chains, state.averages, state.divergences.low)
    positions = state.now.position
    if not runs_in_threads(positions):
        chains, averages, record, health = run(plan, *carried)
        return (chains, averages), draws_first(record, positions), health
    alone = map_in_threads(run, plan, *carried)
    chains, averages, health = join([(one[0], one[1], one[3]) for one in alone])
    return (chains, averages), join_draws([one[2] for one in alone], draws), health


def most_batches(host: HostBatches, memory: int) -> int:
    """How many batches to hand to the device at a time."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(host.peek()))
    return max(1, min(_STREAMED_STEPS, memory // size))


class Streaming:
    """Draws ``thin`` steps apart on batches from the host, prepared in a thread."""

    def __init__(
        self, plan: Plan, thin: int, most: int, pieces: Sequence[Piece], steps_done: int
    ) -> None:
        """Start the thread.

        Args:
          plan: of the loop; its gradient is of a posterior whose data are host batches.
          thin: steps between draws.
          most: batches handed over at a time.
          pieces: those that are left of the run.
          steps_done: made before; their batches are taken from the iterator and left.
        """
        self.plan, self.thin, self.most = plan, thin, most
        assert isinstance(plan.gradient, Streamed)
        host = plan.gradient.posterior.host
        assert host is not None
        lengths = itertools.chain.from_iterable(self._lengths(piece) for piece in pieces)
        self._batches = stacked(itertools.islice(host.endless(), steps_done, None), lengths)

    def _lengths(self, piece: Piece) -> Iterator[int]:
        """The numbers of batches that the compiled calls of a piece take."""
        if piece.draws and self.thin <= self.most:
            yield piece.draws * self.thin
            return
        for _ in range(max(piece.draws, 1)):
            left = self.thin if piece.draws else piece.steps
            if piece.draws:
                yield 1
                left -= 1
            yield from (min(self.most, left - begin) for begin in range(0, left, self.most))

    def burn(self, state: RunState, piece: Piece) -> tuple[Advanced, Health]:
        """Steps without draws."""
        chains, health = self._advance(state.now, state.divergences.low, piece.steps)
        return (chains, state.averages), health

    def _advance(self, chains: Chain, low: np.ndarray, steps: int) -> tuple[Chain, Health]:
        health, good, worst = None, np.zeros(len(low), int), np.zeros(len(low))
        for length in self._lengths(Piece(0, steps)):
            chains, health = scan.advance(
                self.plan, chains, low, jnp.uint32(length), next(self._batches), streamed=True
            )
            good = good + np.where(worst < RUNAWAY, health.steps, 0)
            low, worst = np.asarray(health.low), np.maximum(worst, health.worst)
        assert health is not None  # a piece has steps
        return chains, health._replace(steps=good, worst=worst)

    def draw(self, state: RunState, piece: Piece) -> tuple[Advanced, Record, Health]:
        """A block of draws; with many steps between draws, a draw at a time."""
        one_call = self.thin <= self.most
        calls = [(piece.draws, self.thin)] if one_call else [(1, 1)] * piece.draws
        chains, averages, low = state.now, state.averages, state.divergences.low
        records, health, worst = [], None, np.zeros(len(low))
        for draws, thin in calls:
            chains, averages, record, health = scan.block(
                self.plan,
                chains,
                averages,
                low,
                jnp.uint32(draws),
                next(self._batches),
                capacity=draws,
                thin=thin,
            )
            records.append(draws_first(record, chains.position))
            if not one_call:
                chains, after = self._advance(chains, health.low, self.thin - 1)
                health = after._replace(worst=np.maximum(health.worst, after.worst))
            low, worst = np.asarray(health.low), np.maximum(worst, health.worst)
        assert health is not None  # a piece has draws
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *records)
        return (chains, averages), joined, health._replace(worst=worst)

    def close(self) -> None:
        """Stop the thread."""
        self._batches.close()
