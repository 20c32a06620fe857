"""Runs on disk: begin one, or go on with one that was broken off."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from sundman import check
from sundman._trees import with_named_leaves
from sundman._types import PyTree
from sundman.draws import Draws
from sundman.draws.divergence import Divergences
from sundman.run import fingerprint, tuned
from sundman.run.disk_sink import DiskSink, Stop, interruption, to_checkpoint
from sundman.run.execute import execute
from sundman.run.schedule import Piece
from sundman.run.setup import RunSetup, prepare
from sundman.run.spec import RunSpec
from sundman.run.state import Progress, RunState
from sundman.store import checkpoint
from sundman.store.directory import (
    FORMAT,
    Run,
    absolute,
    create,
    differences,
    exists,
    open_run,
)
from sundman.store.files import Lock, StoreError
from sundman.tune.saved import pack, to_bytes, unpack
from sundman.tune.state import Problem, WarmUp
from sundman.tune.warm_up import advance
from sundman.verdict.judging import safe_judge, warn
from sundman.watch.events import Watcher, watched
from sundman.watch.log import RunLog
from sundman.watch.progress import ProgressOption, all_watchers

_WARM_UP, _TUNING = "warm-up.npz", "tuning.npz"


def resume(
    path: str | os.PathLike[str],
    *,
    checkpoint_every: int | None = None,
    progress: ProgressOption = None,
    watchers: Sequence[Watcher] = (),
) -> Draws:
    """Go on with a run that was stopped or killed, and return all its draws.

    The draws are bit for bit those of a run that was never interrupted, on the same machine and
    version of JAX. A run that is finished is opened. The call is loaded from ``call.pkl`` by
    pickle: resume only runs you trust.

    Args:
      path: what ``store=`` was.
      checkpoint_every: blocks between checkpoints; by default half a minute.
      progress: as for :func:`sundman.sample`.
      watchers: others to be told how it goes.

    Returns:
      The draws, which stay on disk and are read when they are used.
    """
    if checkpoint_every is not None:
        check.count("checkpoint_every", checkpoint_every, least=1)
    run = open_run(path)
    if run.progress()["finished"]:
        draws = _judged(run, None)
    else:
        draws = _continue(run, None, checkpoint_every, progress, watchers)
    warn(draws.verdict, stacklevel=2)
    return draws


def start_stored(
    spec: RunSpec,
    path: str | os.PathLike[str],
    *,
    checkpoint_every: int | None,
    resume: bool,
    progress: ProgressOption,
    watchers: Sequence[Watcher],
) -> Draws:
    """A new run at ``path``; or, if ``resume`` and it is there, the rest of it.

    Args:
      spec: what was asked.
      path: the directory.
      checkpoint_every: blocks between checkpoints.
      resume: whether a run that is there may be gone on with.
      progress: what to show.
      watchers: others to be told how it goes.

    Returns:
      The draws, which stay on disk.
    """
    where = absolute(path)
    if resume and exists(where):
        return _continue(open_run(where), spec, checkpoint_every, progress, watchers)
    warm = None if spec.auto is None else tuned.start(spec)
    setup, state = _prepared(spec, warm)
    structure, shapes = fingerprint.layout(spec, setup, state)
    saved = None if resume else spec  # whoever says resume gives the call, and its data, again
    about = fingerprint.describe(spec, setup, state)
    run = create(where, about, saved, structure, shapes, to_checkpoint(state, setup.replicas))
    if warm is not None:
        try:
            spec, setup, state = _tuned(run, spec, *warm, setup.size)
        except BaseException:
            assert run.lock is not None
            run.lock.release()
            raise
    everyone = all_watchers(progress, watchers, RunLog(run.log))
    return _execute(run, spec, setup, state, checkpoint_every, everyone, None)


def _prepared(
    spec: RunSpec, warm: tuple[Problem, WarmUp] | None, size: Piece | None = None
) -> tuple[RunSetup, RunState]:
    """The run set up as it was asked for, before any warm-up."""
    if warm is None:
        return prepare(spec, size)
    untuned, begins = tuned.with_tuned(spec, *warm)
    return prepare(untuned, size, begins)


def _tuned(
    run: Run, spec: RunSpec, problem: Problem, warm: WarmUp, size: Piece
) -> tuple[RunSpec, RunSetup, RunState]:
    """The run after its warm-up, which is saved after each window and gone on with from there."""
    saved = run.file(_WARM_UP)
    if saved is not None:
        warm = unpack(saved, problem, warm)
    with Stop() as stop:
        while not warm.over:
            warm = advance(problem, warm)
            run.write_file(_WARM_UP, pack(warm))
            if stop.signal is not None and not warm.over:
                message = f'stopped in the warm-up; go on with sundman.resume("{run.path}")'
                raise interruption(stop.signal, message)
    spec, begins = tuned.with_tuned(spec, problem, warm)
    setup, state = prepare(spec, size, begins)
    assert spec.tuning is not None
    plain, arrays = spec.tuning.to_parts()
    if run.file(_TUNING) is None:
        checkpoint.save(run.checkpoints.resolve(), 0, to_checkpoint(state, setup.replicas))
        run.write_file(_TUNING, to_bytes({**plain, "settings": spec.settings}, arrays))
    return spec, setup, state


def _continue(
    run: Run,
    given: RunSpec | None,
    checkpoint_every: int | None,
    progress: ProgressOption,
    watchers: Sequence[Watcher],
) -> Draws:
    run.lock = Lock(run.path)
    try:
        if run.about["format"] < FORMAT:
            raise StoreError(
                f"{run.path} was begun by sundman {run.about.get('sundman')} in format "
                f"{run.about['format']}, whose states this version does not go on from: its draws "
                "can be opened; finish it with that version, or begin again in another store"
            )
        spec = cast(RunSpec, run.call()) if given is None else given
        warm = None if spec.auto is None else tuned.start(spec)
        size = Piece(**run.about["size"])
        setup, first = _prepared(spec, warm, size)
        differing = differences(run.about["identity"], fingerprint.identify(spec, setup, first))
        if not differing and given is not None:
            before = run.about["first_potential"]
            now = fingerprint.first_potential(setup, first)
            if not np.isclose(before, now, rtol=1e-3, equal_nan=True):
                what = "the potential of the first position"
                differing = [f"{what}: the stored run has {before:.6g}, this one {now:.6g}"]
        if differing:
            raise StoreError(
                f"{run.path} is another run: {'; '.join(differing)}. Use the same arguments, or "
                "another store"
            )
        if run.progress()["finished"]:
            draws = _judged(run, spec)
            run.lock.release()
            return draws
        if run.about["jax"] != jax.__version__:
            warnings.warn(
                f"{run.path} was begun with jax {run.about['jax']}, this is {jax.__version__}: "
                "the draws to come may differ in the last digits from an uninterrupted run",
                stacklevel=4,
            )
        if warm is not None:
            spec, setup, first = _tuned(run, spec, *warm, size)
        begun = warm is None or checkpoint.numbers(run.checkpoints) not in ([], [0])
        state = _restore(run, first) if begun else first
    except BaseException:
        run.lock.release()
        raise
    done = state.progress
    log = RunLog(run.log, keep_draws=done.draws, keep_steps=done.steps)
    note = f"resumed after draw {done.draws:,} of {spec.draws:,}"
    everyone = all_watchers(progress, watchers, log)
    return _execute(run, spec, setup, state, checkpoint_every, everyone, note)


def _restore(run: Run, first: RunState) -> RunState:
    """The newest whole checkpoint, as a state like the first one."""
    number, saved = checkpoint.load_latest(run.checkpoints.resolve())
    checkpoint.remove_from(run.checkpoints, number + 1)

    def part(name: str, like: PyTree) -> PyTree:
        try:
            read = with_named_leaves(like, saved.get(name, {}))
        except KeyError as missing:
            raise StoreError(
                f"the checkpoint in {run.path} does not fit this sampler's state: {name} has no "
                f"or an unknown {missing}"
            ) from None
        shapes = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in jax.tree.leaves(like)]
        if shapes != [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(read)]:
            raise StoreError(f"the checkpoint in {run.path} does not fit this sampler's state")
        return read

    state = RunState(
        chains=jax.tree.map(jnp.asarray, part("chains", first.chains)),
        averages=jax.tree.map(jnp.asarray, part("averages", first.averages)),
        divergences=Divergences(*part("divergences", first.divergences)),
        progress=Progress(*(leaf.item() for leaf in part("progress", first.progress))),
    )
    run.arrays().check(run.about["arrays"], state.progress.draws)
    return state


def _execute(
    run: Run,
    spec: RunSpec,
    setup: RunSetup,
    state: RunState,
    checkpoint_every: int | None,
    watchers: Sequence[Watcher],
    note: str | None,
) -> Draws:
    assert run.lock is not None
    written = state.progress.draws
    try:
        with Stop() as stop, watched(watchers, spec.settings, note):
            sink = DiskSink(run, checkpoint_every, stop, watchers, written, setup.replicas)
            execute(spec, setup, state, sink, watchers)
        return _judged(run, spec)
    finally:
        run.lock.release()


def _judged(run: Run, spec: RunSpec | None) -> Draws:
    """The draws of a finished run with the verdict on it, which is made if there is none yet."""
    draws = Draws.open(run.path)
    if draws.verdict is None:
        verdict = safe_judge(draws, None if spec is None else spec.target)
        with suppress(OSError):  # the draws are there, and without it they are judged again
            run.write_verdict(verdict.as_json())
        object.__setattr__(draws, "verdict", verdict)
    return draws
