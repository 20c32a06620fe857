"""The session: goes through the pieces of a run, guards, keeps and reports."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
import optax

from sundman._types import PyTree
from sundman.noise import Stream
from sundman.runner import divergence, loop
from sundman.runner.call import Call, Parts, engine
from sundman.runner.guard import Loss, Losses, Work
from sundman.runner.timed import Timed
from sundman.watch.events import BlockReport, Watcher, summarise


class Done(NamedTuple):
    """How far a run is: pieces, steps and draws per chain, and seconds of work."""

    pieces: int = 0
    steps: int = 0
    draws: int = 0
    seconds: float = 0.0


class Keeper(Protocol):
    """Where the draws of a run go."""

    def add(self, record: loop.Record) -> None:
        """Take the draws of a block, axes (draw, chain)."""
        ...

    def after_piece(self, done: Done, work: Work, losses: Losses, over: bool, save: bool) -> None:
        """A piece is done, its draws are added; ``save`` all there is if the run stops here."""
        ...


def last_chain(work: Work) -> loop.Chain:
    """The chains as they are now."""
    return work.chain.chain if isinstance(work.chain, Timed) else work.chain


def last_position(work: Work, replicas: int) -> PyTree:
    """The position of every chain now: of several replicas, the first."""
    position = last_chain(work).position
    return jax.tree.map(lambda leaf: leaf[:, 0], position) if replicas > 1 else position


def _report(
    done: Done, call: Call, parts: Parts, record: loop.Record | None, seconds: float
) -> BlockReport:
    losses = parts.guard.losses
    total = None if call.thin_time is not None else sum(piece.steps for piece in parts.pieces)
    stats: Mapping[str, Any] = {}
    stage = "exploration" if done.draws else "burn-in"
    if record is not None:
        stage = "sampling"
        columns = {"dt": record.weight, **record.stats}
        alive = np.asarray(record.weight).T > 0
        stats = summarise({name: _two_axes(column) for name, column in columns.items()}, alive)
    return BlockReport(
        stage=stage,
        block=done.pieces,
        draws=done.draws,
        total_draws=call.draws,
        steps=done.steps,
        total_steps=total,
        chains=call.chains,
        diverged=int(np.sum(losses.times > 0)),
        seconds=seconds,
        stats=dict(stats),
    )


def _two_axes(column: Any) -> np.ndarray:
    """Axes (chain, draw); a statistic with several numbers per draw shows the first."""
    return np.swapaxes(column.reshape(*column.shape[:2], -1)[..., 0], 0, 1)


def _on_host(record: loop.Record, count: int) -> loop.Record:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:count], record)


def _check_start(lost: Sequence[Loss], work: Work, parts: Parts) -> None:
    """Raise if U or its gradient was not finite where a chain began: no step can mend that."""
    begun = [loss.chain for loss in lost if loss.step == 0]
    if not begun:
        return
    chain = jax.tree.map(lambda leaf: leaf[begun[0]], last_chain(work))  # put back where it began
    stream = Stream(chain.state.key, chain.state.clock.step)
    value, grads = parts.plan.gradient(stream, chain.position, parts.example)
    U, norm = float(np.ravel(value)[0]), float(optax.tree.norm(grads))
    if math.isfinite(U) and math.isfinite(norm):
        return  # lost later: draws a time apart do not tell the step
    raise ValueError(
        f"U and its gradient must be finite where a chain begins: at the first position of chain "
        f"{begun[0]} U = {U:.6g} and |grad U| = {norm:.6g}; give another init"
    )


class Outcome(NamedTuple):
    """A run that came to its end."""

    done: Done
    work: Work
    losses: Losses


def run(
    call: Call, parts: Parts, keeper: Keeper, watchers: Sequence[Watcher], done: Done
) -> Outcome:
    """Do the pieces that are left; draws go to ``keeper``, reports to ``watchers``."""
    began, before_that = time.perf_counter(), done.seconds

    def over(done: Done) -> bool:
        return done.pieces == len(parts.pieces) or bool(guard.losses.frozen.all())

    left, guard, work = parts.pieces[done.pieces :], parts.guard, parts.work
    parts.work = Work(None, None)  # the only reference is the one that moves on
    told: list[Loss] = []
    with ExitStack() as stack:
        compute = engine(call, parts, left, done.steps)
        if hasattr(compute, "close"):
            stack.callback(compute.close)  # type: ignore[attr-defined]
        if over(done):  # stopped after its last state was saved
            keeper.after_piece(done, work, guard.losses, True, False)
            left = []
        for piece in left:
            record, low = None, guard.losses.low
            if piece.draws:
                now, raw, found = compute.draw(work, low, piece)
                record, first = _on_host(raw, piece.draws), (done.steps, done.draws)
                del raw
                work, record, lost = guard.after_block(work, now, record, found, first)
                keeper.add(record)
            else:
                now, found = compute.burn(work, low, piece)
                work, lost = guard.after_burn_in(work, now, found, (done.steps, done.draws))
            del now
            _check_start(lost, work, parts)
            seconds = time.perf_counter() - began
            steps = done.steps + piece.steps
            if isinstance(work.chain, Timed):
                steps = int(np.max(work.chain.chain.state.clock.step))
            done = Done(done.pieces + 1, steps, done.draws + piece.draws, before_that + seconds)
            for loss in lost:
                message = divergence.describe(loss, call.settings)
                for watcher in watchers:
                    watcher.event("divergence", message, chain=loss.chain, step=loss.step)
            told += lost
            for watcher in watchers:
                watcher.block(_report(done, call, parts, record, seconds))
            broken_off = bool(lost) and call.on_divergence == "raise"
            keeper.after_piece(done, work, guard.losses, over(done), broken_off)
            if broken_off:
                raise divergence.DivergenceError(
                    divergence.describe(min(lost, key=lambda loss: loss.step), call.settings)
                )
            if over(done):
                break
    said = divergence.summary(guard.losses, told, call.settings)
    if said is not None:
        warnings.warn(said, divergence.DivergenceWarning, stacklevel=3)
    if done.draws == 0:
        raise divergence.AllDivergedError(
            "every chain diverged in the burn-in: there is no draw to return"
        )
    return Outcome(done, work, guard.losses)
