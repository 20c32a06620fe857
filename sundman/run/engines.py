"""Engines: how a piece of a run is computed: data in memory, batches from the host, or by time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias

import jax
import numpy as np
from jax.typing import ArrayLike

from sundman._types import PyTree
from sundman.data.streaming import HostBatches, stacked
from sundman.draws.online import RunningAverage
from sundman.gradients import Streamed
from sundman.run import scan
from sundman.run.chain_mapping import join, join_draws, map_in_threads, runs_in_threads
from sundman.run.devices import Layout
from sundman.run.guard import RUNAWAY, Advanced, Health
from sundman.run.schedule import Piece
from sundman.run.state import Chain, RunState, Timed
from sundman.run.step import Plan, Record

_STREAMED_STEPS = 64
_STEPS_TO_SPARE = 16  # times as many as expected: steps may become shorter within a call


class StoppedWithin(Exception):
    """A run was asked to stop within a piece, which is then done again from its beginning."""


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
    layout: Layout
    thin: int
    capacity: int

    def burn(self, state: RunState, piece: Piece) -> tuple[Advanced, Health]:
        """Steps without draws."""
        steps, low = np.uint32(piece.steps), state.divergences.low

        def run(plan: Plan, chains: Chain, low: ArrayLike) -> tuple[Chain, Health]:
            return scan.advance(plan, chains, low, steps)

        if self.layout.mesh is None and runs_in_threads(state.now.position):
            chains, health = join(map_in_threads(run, self.plan, state.now, low))
        else:
            chains, health = self.layout.run(scan.advance, self.plan, (state.now, low), (steps,))
        return (chains, state.averages), self.layout.gather(health)

    def draw(self, state: RunState, piece: Piece) -> tuple[Advanced, Record, Health]:
        """A block of draws."""
        carried = (state.now, state.averages, state.divergences.low)
        return _drawn(
            scan.block,
            self.plan,
            self.layout,
            carried,
            (np.uint32(piece.draws),),
            capacity=self.capacity,
            thin=self.thin,
        )

    def close(self) -> None:
        """Nothing to give back."""


_TimedBlock: TypeAlias = tuple[Timed, RunningAverage | None, Record, Health]
_Block: TypeAlias = tuple[Chain | Timed, RunningAverage | None, Record, Health]


class ByTime(NamedTuple):
    """Draws ``interval`` of physical time apart, data on the device.

    However short the steps, a compiled call makes about ``steps`` of them: between two calls a run
    can be interrupted, and looks whether it is ``asked_to_stop``.
    """

    plan: Plan
    layout: Layout
    interval: float
    capacity: int
    steps: int
    asked_to_stop: Callable[[], bool]

    def burn(self, state: RunState, piece: Piece) -> tuple[Advanced, Health]:
        """Steps without draws."""
        assert isinstance(state.chains, Timed)
        (chain, averages), health = InMemory(self.plan, self.layout, 1, 1).burn(state, piece)
        assert isinstance(chain, Chain)
        return (state.chains._replace(chain=chain), averages), health

    def draw(self, state: RunState, piece: Piece) -> tuple[Advanced, Record, Health]:
        """A block of draws, by as many calls as it takes.

        Raises:
          StoppedWithin: if the run was asked to stop between two of them.
        """
        assert isinstance(state.chains, Timed)
        timed, averages, low = state.chains, state.averages, state.divergences.low
        records: list[Record] = []
        done, health, worst = 0, None, np.zeros(len(low))
        while done < piece.draws:
            count, now = self._some(timed, averages, low, piece.draws - done)
            timed, averages, record, health = now
            low, worst = np.asarray(health.low), np.maximum(worst, health.worst)
            records.append(jax.tree.map(lambda leaf, n=count: np.asarray(leaf)[:n], record))
            done += count
            if done < piece.draws:
                self._look_whether_to_stop()
        assert health is not None  # a piece has draws
        joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *records)
        return (timed, averages), joined, health._replace(worst=worst)

    def _look_whether_to_stop(self) -> None:
        if self.asked_to_stop():
            raise StoppedWithin

    def _some(
        self, timed: Timed, averages: RunningAverage | None, low: np.ndarray, most: int
    ) -> tuple[int, _TimedBlock]:
        """Up to ``most`` draws in about ``steps`` steps: how many, and what they leave."""
        count = min(most, self._affordable(timed))
        if count:
            block = self._block(timed, averages, low, count, self.steps * _STEPS_TO_SPARE)
            if self.layout.gather(block[0].allowed).all():
                return count, block
        there, steps = False, np.uint32(self.steps)
        while not there:  # a chain has more steps to its next draw than a call may take
            timed = self.layout.run(scan.approach, self.plan, (timed,), (steps,))
            there = not (self.layout.gather(timed.ahead) <= 0).any()
            if not there:
                self._look_whether_to_stop()
        return 1, self._block(timed, averages, low, 1, 1)

    def _block(
        self, timed: Timed, averages: RunningAverage | None, low: np.ndarray, count: int, most: int
    ) -> _TimedBlock:
        """``count`` draws by at most ``most`` steps."""
        numbers = (np.uint32(count), np.float32(self.interval), np.uint32(most))
        carried = (timed, averages, low)
        (after, sums), record, health = _drawn(
            scan.timed_block, self.plan, self.layout, carried, numbers, capacity=self.capacity
        )
        assert isinstance(after, Timed)
        return after, sums, record, health

    def _affordable(self, timed: Timed) -> int:
        """How many draws ``steps`` steps of the present length lead to."""
        dt = float(np.min(self.layout.gather(timed.chain.state.clock.dt)))
        return int(min(self.steps * dt / self.interval, self.capacity)) if dt > 0 else 0

    def close(self) -> None:
        """Nothing to give back."""


def _drawn(
    program: Callable[..., _Block],
    plan: Plan,
    layout: Layout,
    carried: tuple[Chain | Timed, RunningAverage | None, np.ndarray],
    others: tuple[PyTree, ...],
    **static: int,
) -> tuple[Advanced, Record, Health]:
    """A block of draws: of all chains in one call, or in threads.

    Args:
      program: gives the chains, averages, records and health after a block.
      plan: the loop's plan.
      layout: where the chains are.
      carried: the chains, their averages and lowest potentials before it.
      others: the program's other arguments, the number of draws first.
      **static: its static arguments.
    """
    chain = carried[0].chain if isinstance(carried[0], Timed) else carried[0]
    if layout.mesh is not None or not runs_in_threads(chain.position):
        block = layout.run(program, plan, carried, others, records=True, **static)
        chains, averages, record, health = block
        record = layout.draws_first(record, plan, chain.position)
        return (chains, averages), record, layout.gather(health)

    def run(plan: Plan, *chains: PyTree) -> _Block:
        return program(plan, *chains, *others, **static)

    alone = map_in_threads(run, plan, *carried)
    chains, averages, health = join([(one[0], one[1], one[3]) for one in alone])
    return (chains, averages), join_draws([one[2] for one in alone], int(others[0])), health


def most_batches(host: HostBatches, memory: int) -> int:
    """How many batches to hand to the device at a time."""
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(host.peek()))
    return max(1, min(_STREAMED_STEPS, memory // size))


class Streaming:
    """Draws ``thin`` steps apart on batches from the host, prepared in a thread."""

    def __init__(
        self,
        plan: Plan,
        layout: Layout,
        thin: int,
        most: int,
        pieces: Sequence[Piece],
        steps_done: int,
    ) -> None:
        """Start the thread.

        Args:
          plan: of the loop; its gradient is of a posterior whose data are host batches.
          layout: where the chains are.
          thin: steps between draws.
          most: batches handed over at a time.
          pieces: those that are left of the run.
          steps_done: made before; their batches are taken from the iterator and left.
        """
        self.plan, self.layout, self.thin, self.most = plan, layout, thin, most
        assert isinstance(plan.gradient, Streamed)
        host = plan.gradient.posterior.host
        assert host is not None
        lengths = itertools.chain.from_iterable(self._lengths(piece) for piece in pieces)
        self._rows = host.batch_size
        self._batches = stacked(host.endless(steps_done, layout.local_rows(self._rows)), lengths)

    def _block(self) -> PyTree:
        """The next batches, where they are used; until the next ones are asked for."""
        return self.layout.place_batches(next(self._batches), self._rows)

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
            numbers = (np.uint32(length), self._block())
            chains, health = self.layout.run(
                scan.advance, self.plan, (chains, low), numbers, streamed=True
            )
            health = self.layout.gather(health)
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
            chains, averages, record, health = self.layout.run(
                scan.block,
                self.plan,
                (chains, averages, low),
                (np.uint32(draws), self._block()),
                records=True,
                capacity=draws,
                thin=thin,
            )
            health = self.layout.gather(health)
            records.append(self.layout.draws_first(record, self.plan, chains.position))
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
