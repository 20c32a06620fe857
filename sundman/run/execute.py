"""The run itself: piece after piece, guarded, its draws into a sink, its course to watchers."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from contextlib import closing

import jax
import numpy as np
import optax

from sundman.draws import trust
from sundman.draws.trust import (
    FALLS,
    NO_DRAW,
    AllDivergedError,
    Divergence,
    DivergenceError,
    Ended,
    Failure,
)
from sundman.noise import Stream
from sundman.run.engines import StoppedWithin
from sundman.run.setup import RunSetup, engine
from sundman.run.sinks import DrawSink
from sundman.run.spec import RunSpec
from sundman.run.state import Progress, RunState, Timed
from sundman.run.step import Record
from sundman.run.stopping import StopRule
from sundman.watch.events import BlockReport, Summary, Watcher, stretches, summarise

_STARTS_CHECKED = 16  # chains lost at once, each of which costs a gradient to look at
_FAR_BELOW = -1e20  # a potential that no chain meets but one that falls without bound


def execute(
    spec: RunSpec,
    setup: RunSetup,
    state: RunState,
    sink: DrawSink,
    watchers: Sequence[Watcher],
    rule: StopRule | None = None,
) -> RunState:
    """Do the pieces that are left of a run.

    Args:
      spec: what was asked.
      setup: made of it.
      state: where the run is; it is moved on, so that no other copy of it is kept.
      sink: takes the draws.
      watchers: are told how it goes.
      rule: may end it before.

    Returns:
      The state at the end.
    """
    began, seconds_before = time.perf_counter(), state.progress.seconds
    left = setup.pieces[state.progress.pieces :]
    events: list[Divergence] = []
    falls = False
    before = _failure(spec, state, setup, [], falls=False)
    if before is not None or _is_over(state, setup, rule):  # stopped after its last state was saved
        over, ended = _ending(state, setup, rule)
        _tell(ended, watchers)
        sink.after_piece(state, over=over, save=False, failure=before, ended=ended)
        left = []
    if isinstance(before, DivergenceError):
        raise before
    layout = setup.layout
    state = state._replace(chains=layout.place(state.chains), averages=layout.place(state.averages))
    if layout.mesh is not None:
        for watcher in watchers:
            watcher.event("devices", f"on {layout}")
    with closing(engine(spec, setup, state, left, sink.asked_to_stop)) as compute:
        for piece in left:
            record = None
            if piece.draws:
                try:
                    now, raw, health = compute.draw(state, piece)
                except StoppedWithin:
                    sink.after_piece(state, over=False, save=True)  # which stops
                    raise
                record = jax.tree.map(lambda leaf, n=piece.draws: _first(leaf, n), raw)
                potential = record.stats["potential"]
                del raw
                state, record, lost = setup.guard.after_block(state, now, record, health)
                sink.add(record)
                if rule is not None:
                    rule.add(record)
                falls |= any(_falls(potential[:, event.chain], setup) for event in lost)
            else:
                now, health = compute.burn(state, piece)
                state, lost = setup.guard.after_burn_in(state, now, health)
                low = np.asarray(health.low)
                falls |= any(low[event.chain] < _FAR_BELOW for event in lost)
            del now
            _check_start(lost, state, setup)
            seconds = time.perf_counter() - began
            done = state.progress
            steps = done.steps + piece.steps
            if isinstance(state.chains, Timed):
                steps = int(np.max(layout.gather(state.now.state.clock.step)))
            draws = done.draws + piece.draws
            progress = Progress(done.pieces + 1, steps, draws, seconds_before + seconds)
            state = state._replace(progress=progress)
            for event in lost:
                message = trust.describe_divergence(event, spec.settings)
                for watcher in watchers:
                    watcher.event("divergence", message, chain=event.chain, step=event.step)
            events += lost
            over, ended = _ending(state, setup, rule)
            if watchers:
                report = _report(state, spec, setup, record, seconds)
                report = report if rule is None else report._replace(look=rule.look)
                for watcher in watchers:
                    watcher.block(report)
            _tell(ended, watchers)
            failure = _failure(spec, state, setup, lost, falls=falls)
            last = setup.ends_short and state.progress.pieces == len(setup.pieces) - 1
            save = last or isinstance(failure, DivergenceError)
            sink.after_piece(state, over=over, save=save, failure=failure, ended=ended)
            if isinstance(failure, DivergenceError):
                raise failure
            if over:
                break
    message = trust.divergence_summary(state.divergences, events, spec.settings)
    if message is not None:
        message += f" {FALLS}" if falls else ""
        warnings.warn(message, trust.DivergenceWarning, stacklevel=3)
    if state.progress.draws == 0:
        raise AllDivergedError(NO_DRAW + (f". {FALLS}" if falls else ""))
    return state


def _failure(
    spec: RunSpec, state: RunState, setup: RunSetup, lost: Sequence[Divergence], *, falls: bool
) -> Failure | None:
    """What the run is going to raise, if anything; ``lost`` are the chains of this piece."""
    if spec.on_divergence == "raise" and state.divergences.times.any():
        first = min(lost, key=lambda event: event.step, default=state.divergences.first())
        return DivergenceError(trust.describe_divergence(first, spec.settings))
    if _is_over(state, setup) and state.progress.draws == 0:
        return AllDivergedError(NO_DRAW + (f". {FALLS}" if falls else ""))
    return None


def _falls(potential: np.ndarray, setup: RunSetup) -> bool:
    """Whether U of a chain that ran away went down, not up, as far as it was finite."""
    U = potential.reshape(len(potential), -1)[:, 0].astype(np.float64)
    finite = np.isfinite(U)
    good = U if finite.all() else U[: int(np.argmin(finite))]
    if len(good) < len(U) and np.isneginf(U[len(good)]):
        return True
    far = 10.0 * float(np.max(setup.guard.scale))
    return len(good) > 1 and good[-1] == good.min() and bool(good[0] - good[-1] > far)


def _is_over(state: RunState, setup: RunSetup, rule: StopRule | None = None) -> bool:
    done = state.progress.pieces == len(setup.pieces)
    done |= rule is not None and rule.ended is not None
    return done or bool(state.divergences.frozen.all())


def _ending(state: RunState, setup: RunSetup, rule: StopRule | None) -> tuple[bool, Ended | None]:
    """Whether the run is over after this piece; and how it ended, if it had a rule."""
    over = _is_over(state, setup)
    if rule is None:
        return over, None
    if rule.ended is None:
        rule.after_piece(state, over=over, lost=bool(state.divergences.frozen.all()))
    return over or rule.ended is not None, rule.ended


def _tell(ended: Ended | None, watchers: Sequence[Watcher]) -> None:
    if ended is not None:
        for watcher in watchers:
            watcher.event("until", str(ended), by=ended.by)


def _first(leaf: np.ndarray | jax.Array, number: int) -> np.ndarray:
    """The first rows of an array, without the room that was made for more."""
    host = np.asarray(leaf)
    return host if len(host) == number else host[:number].copy()


def _check_start(lost: Sequence[Divergence], state: RunState, setup: RunSetup) -> None:
    """Raise if U or its gradient was not finite where a chain began: no step can mend that."""
    if state.progress.steps > 0:
        return
    # draws a time apart do not tell the step, and a gradient that is not finite shows one later
    begun = [event.chain for event in lost if event.step <= 1]
    chains = setup.layout.gather(state.now) if begun else state.now
    for number in begun[:_STARTS_CHECKED]:
        chain = jax.tree.map(lambda leaf, i=number: leaf[i], chains)  # put back where it began
        stream = Stream(chain.state.key, chain.state.clock.step)
        value, grads = setup.plan.gradient(stream, chain.position, setup.example)
        U, norm = float(np.ravel(value)[0]), float(optax.tree.norm(grads))
        if not (math.isfinite(U) and math.isfinite(norm)):
            raise ValueError(
                "U and its gradient must be finite where a chain begins: at the first position of "
                f"chain {number} U = {U:.6g} and |grad U| = {norm:.6g}; give another init"
            )


def _report(
    state: RunState, spec: RunSpec, setup: RunSetup, record: Record | None, seconds: float
) -> BlockReport:
    """What the watchers are told after a piece."""
    done = state.progress
    stats: dict[str, Summary] = {}
    by_chain = None
    stage = "exploration" if done.draws else "burn-in"
    if record is not None:
        stage = "sampling"
        recorded = {"dt": record.weight, **record.stats}
        columns = {name: _first_number(column) for name, column in recorded.items()}
        weight = np.asarray(record.weight).T
        stats = summarise(columns, weight)
        by_chain = stretches(columns, weight)
    return BlockReport(
        stage=stage,
        block=done.pieces,
        draws=done.draws,
        total_draws=spec.draws,
        steps=done.steps,
        total_steps=None
        if spec.thin_time is not None
        else sum(piece.steps for piece in setup.pieces),
        chains=spec.chains,
        diverged=int(np.sum(state.divergences.times > 0)),
        seconds=seconds,
        stats=stats,
        by_chain=by_chain,
    )


def _first_number(column: np.ndarray | jax.Array) -> np.ndarray:
    """Axes (chain, draw); of a statistic with several numbers per draw, the first."""
    host = np.asarray(column)
    return np.swapaxes(host.reshape(*host.shape[:2], -1)[..., 0], 0, 1)
