"""Engines: how a piece of a run is computed, by data in memory, by host batches, by time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from sundman.data.host import HostBatches, stacked
from sundman.runner import health, loop, timed
from sundman.runner.chain_mapping import draws_first
from sundman.runner.guard import Work

_STREAMED_STEPS = 64


class Piece(NamedTuple):
    """A part of a run between two looks of the host: ``draws`` draws, or ``steps`` of burn-in."""

    draws: int
    steps: int


class Engine(Protocol):
    """Computes one piece of a run; ``low`` is the lowest potential of each chain so far."""

    def burn(self, work: Work, low: np.ndarray, piece: Piece) -> tuple[Work, health.Health]:
        """Steps without draws."""
        ...

    def draw(
        self, work: Work, low: np.ndarray, piece: Piece
    ) -> tuple[Work, loop.Record, health.Health]:
        """A block of draws; its records have axes (draw, chain)."""
        ...


class InMemory(NamedTuple):
    """Draws ``thin`` steps apart, data on the device."""

    plan: loop.Plan
    thin: int
    capacity: int

    def burn(self, work: Work, low: np.ndarray, piece: Piece) -> tuple[Work, health.Health]:
        """Steps without draws."""
        chain, found = loop.advance(self.plan, work.chain, low, jnp.uint32(piece.steps))
        return work._replace(chain=chain), found

    def draw(
        self, work: Work, low: np.ndarray, piece: Piece
    ) -> tuple[Work, loop.Record, health.Health]:
        """A block of draws."""
        chain, averages, record, found = loop.block(
            self.plan,
            work.chain,
            work.averages,
            low,
            jnp.uint32(piece.draws),
            capacity=self.capacity,
            thin=self.thin,
        )
        return Work(chain, averages), draws_first(record, chain.position), found


class ByTime(NamedTuple):
    """Draws ``interval`` of physical time apart, data on the device."""

    plan: loop.Plan
    interval: float
    capacity: int

    def burn(self, work: Work, low: np.ndarray, piece: Piece) -> tuple[Work, health.Health]:
        """Steps without draws."""
        inner, found = InMemory(self.plan, 1, 1).burn(Work(work.chain.chain, None), low, piece)
        return work._replace(chain=work.chain._replace(chain=inner.chain)), found

    def draw(
        self, work: Work, low: np.ndarray, piece: Piece
    ) -> tuple[Work, loop.Record, health.Health]:
        """A block of draws."""
        state, averages, record, found = timed.block(
            self.plan,
            work.chain,
            work.averages,
            low,
            jnp.uint32(piece.draws),
            jnp.float32(self.interval),
            capacity=self.capacity,
        )
        return Work(state, averages), draws_first(record, state.chain.position), found


def most_batches(host: HostBatches, memory: int) -> int:
    """How many batches to hand to the device at a time."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(host.peek()))
    return max(1, min(_STREAMED_STEPS, memory // size))


class Streaming:
    """Draws ``thin`` steps apart on batches from the host, prepared in a thread.

    ``done`` steps were made before: their batches are taken from the iterator and left.
    """

    def __init__(
        self, plan: loop.Plan, thin: int, most: int, pieces: Sequence[Piece], done: int
    ) -> None:
        self.plan, self.thin, self.most = plan, thin, most
        host: HostBatches = plan.gradient.posterior.host  # type: ignore[attr-defined]
        lengths = itertools.chain.from_iterable(self._lengths(piece) for piece in pieces)
        self._batches = stacked(itertools.islice(host.endless(), done, None), lengths)

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

    def burn(self, work: Work, low: np.ndarray, piece: Piece) -> tuple[Work, health.Health]:
        """Steps without draws."""
        chain, found, good, worst = work.chain, None, np.zeros(len(low), int), np.zeros(len(low))
        for length in self._lengths(Piece(0, piece.steps)):
            chain, found = loop.advance(
                self.plan, chain, low, jnp.uint32(length), next(self._batches), streamed=True
            )
            going = worst < health.RUNAWAY
            good = good + np.where(going, found.steps, 0)
            low, worst = np.asarray(found.low), np.maximum(worst, found.worst)
        assert found is not None  # a piece has steps
        return work._replace(chain=chain), found._replace(steps=good, worst=worst)

    def draw(
        self, work: Work, low: np.ndarray, piece: Piece
    ) -> tuple[Work, loop.Record, health.Health]:
        """A block of draws; with many steps between draws, a draw at a time."""
        at_once = self.thin <= self.most
        parts = [(piece.draws, self.thin)] if at_once else [(1, 1)] * piece.draws
        records, found, worst = [], None, np.zeros(len(low))
        for draws, thin in parts:
            chain, averages, record, found = loop.block(
                self.plan,
                work.chain,
                work.averages,
                low,
                jnp.uint32(draws),
                next(self._batches),
                capacity=draws,
                thin=thin,
            )
            work = Work(chain, averages)
            records.append(draws_first(record, chain.position))
            if not at_once:
                work, after = self.burn(work, found.low, Piece(0, self.thin - 1))
                found = after._replace(worst=np.maximum(found.worst, after.worst))
            low, worst = np.asarray(found.low), np.maximum(worst, found.worst)
        assert found is not None  # a piece has draws
        found = found._replace(worst=worst)
        return work, jax.tree.map(lambda *leaves: np.concatenate(leaves), *records), found

    def close(self) -> None:
        """Stop the thread."""
        self._batches.close()  # type: ignore[attr-defined]
