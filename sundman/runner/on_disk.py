"""Runs on disk: begin one, or go on with one that was broken off."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sundman._types import PyTree
from sundman.draws import Draws
from sundman.runner import description, session, stored
from sundman.runner.call import Call, Parts, prepare
from sundman.runner.engine import Piece
from sundman.runner.guard import Losses, Work
from sundman.runner.session import Done
from sundman.runner.stop import Stop
from sundman.store import checkpoint
from sundman.store.directory import Run, absolute, create, differences, exists, open_run
from sundman.store.files import Lock, StoreError
from sundman.store.opened import open_draws
from sundman.watch.events import Watcher
from sundman.watch.watchers import RunLog, all_watchers, watched


def begin(
    call: Call,
    path: str | os.PathLike[str],
    *,
    every: int | None,
    go_on: bool,
    progress: Any,
    watchers: Sequence[Watcher],
) -> Draws:
    """A new run at ``path``; or, if ``go_on`` and it is there, the rest of it."""
    where = absolute(path)
    if go_on and exists(where):
        return _continue(open_run(where), call, every, progress, watchers)
    parts = prepare(call)
    structure, shapes = description.layout(call, parts)
    losses = parts.guard.losses
    state = stored.state_of(Done(), parts.work, losses, parts.replicas)
    saved = None if go_on else call  # whoever says go on gives the call, and its data, again
    run = create(where, description.describe(call, parts), saved, structure, shapes, state)
    seen = all_watchers(progress, watchers, RunLog(run.log))
    return _work(run, call, parts, Done(), every, seen, None)


def go_on_with(
    path: str | os.PathLike[str],
    every: int | None,
    progress: Any,
    watchers: Sequence[Watcher],
) -> Draws:
    """The rest of the run at ``path``, by the call saved there; a finished one is opened."""
    run = open_run(path)
    if run.progress()["finished"]:
        return open_draws(path)
    return _continue(run, None, every, progress, watchers)


def _continue(
    run: Run, given: Call | None, every: int | None, progress: Any, watchers: Sequence[Watcher]
) -> Draws:
    run.lock = Lock(run.path)
    try:
        call: Call = run.call() if given is None else given
        parts = prepare(call, Piece(**run.about["size"]))
        differing = differences(run.about["identity"], description.identify(call, parts))
        if not differing and given is not None:
            before, now = run.about["first_potential"], description.first_potential(parts)
            if not np.isclose(before, now, rtol=1e-3, equal_nan=True):
                what = "the potential of the first position"
                differing = [f"{what}: the stored run has {before:.6g}, this one {now:.6g}"]
        if differing:
            raise StoreError(
                f"{run.path} is another run: {'; '.join(differing)}. Use the same arguments, or "
                "another store"
            )
        if run.progress()["finished"]:
            run.lock.release()
            return open_draws(run.path)
        if run.about["jax"] != jax.__version__:
            warnings.warn(
                f"{run.path} was begun with jax {run.about['jax']}, this is {jax.__version__}: "
                "the draws to come may differ in the last digits from an uninterrupted run",
                stacklevel=4,
            )
        done = _restore(run, parts)
    except BaseException:
        run.lock.release()
        raise
    log = RunLog(run.log, keep_draws=done.draws, keep_steps=done.steps)
    note = f"resumed after draw {done.draws:,} of {call.draws:,}"
    return _work(run, call, parts, done, every, all_watchers(progress, watchers, log), note)


def _restore(run: Run, parts: Parts) -> Done:
    """Put the newest whole checkpoint into ``parts``; how far it is."""
    number, tree = checkpoint.load_latest(run.checkpoints.resolve())
    checkpoint.remove_from(run.checkpoints, number + 1)

    def put(like: PyTree, leaves: dict[str, np.ndarray]) -> PyTree:
        old, structure = jax.tree.flatten(like)
        new = [leaves[name] for name in sorted(leaves)]
        shapes = [(leaf.shape, leaf.dtype) for leaf in old]
        if shapes != [(leaf.shape, leaf.dtype) for leaf in new]:
            raise StoreError(f"the checkpoint in {run.path} does not fit this sampler's state")
        return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in new])

    chain = put(parts.work.chain, tree["work"])
    parts.work = Work(chain, put(parts.work.averages, tree.get("averages", {})))
    parts.guard.losses = Losses(**tree["losses"])
    told = tree["done"]
    done = Done(*(told[name].item() for name in Done._fields))
    run.arrays().check(run.about["arrays"], done.draws)
    return done


def _work(
    run: Run,
    call: Call,
    parts: Parts,
    done: Done,
    every: int | None,
    watchers: Sequence[Watcher],
    note: str | None,
) -> Draws:
    assert run.lock is not None
    try:
        with Stop() as stop, watched(watchers, call.settings, note):
            keeper = stored.Disk(run, every, stop, watchers, done.draws, parts.replicas)
            session.run(call, parts, keeper, watchers, done)
    finally:
        run.lock.release()
    return open_draws(run.path)
