"""Runs on disk: begin one, go on with one that was broken off, or make one longer."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import NamedTuple

import jax
from jax.sharding import Mesh

from sundman import check
from sundman._types import PyTree, Settings
from sundman.draws import Draws
from sundman.draws.draws import open_draws
from sundman.draws.stored import ended_of
from sundman.draws.trust import AllDivergedError, DivergenceError, Ended
from sundman.run import centred, fingerprint, hosts
from sundman.run.centred import Found
from sundman.run.devices import Layout, choose
from sundman.run.disk_sink import DiskSink, Stop, interruption, to_checkpoint
from sundman.run.execute import execute
from sundman.run.inputs import TargetLike
from sundman.run.restore import lengthen, refuse_another, restore, size_of, warn_of_versions
from sundman.run.schedule import Sizes
from sundman.run.setup import (
    RunSetup,
    as_first_process,
    begin_warm_up,
    prepare,
    with_tuned_sampler,
)
from sundman.run.spec import RunSpec, Until, check_spec
from sundman.run.state import Progress, RunState
from sundman.run.stopping import StopRule
from sundman.store import array_writer, checkpoint
from sundman.store.array_writer import ArrayWriter
from sundman.store.directory import AGAIN, Run, absolute, clean, create, exists, open_run
from sundman.store.files import Lock, StoreError, StoreWarning, writing
from sundman.store.lazy_array import LazyArray
from sundman.tune.saved import owner_of, pack, to_bytes, unpack
from sundman.tune.state import Problem, WarmUp
from sundman.tune.warm_up import advance
from sundman.verdict import safe_judge, warn
from sundman.watch.events import ScalarLogger, Watcher, watched
from sundman.watch.log import RunLog, as_watchers
from sundman.watch.progress import ProgressOption, all_watchers

_WARM_UP, _TUNING, _CENTRE = "warm-up.npz", "tuning.npz", "centre.npz"
_GIVEN_AGAIN = {"target": "it was begun with resume=True, which leaves its target to the caller"}


class _Watching(NamedTuple):
    """How often a run is saved, who is told of it, and which devices it is to be on."""

    checkpoint_every: int | None
    progress: ProgressOption
    watchers: Sequence[Watcher]
    layout_of: Callable[[RunSpec], Layout]


def resume(
    path: str | os.PathLike[str],
    *,
    target: TargetLike | None = None,
    collect: Callable[[PyTree], PyTree] | None = None,
    online: Callable[[PyTree], PyTree] | None = None,
    checkpoint_every: int | None = None,
    progress: ProgressOption = None,
    watchers: Sequence[Watcher | ScalarLogger] = (),
    mesh: Mesh | None = None,
    shard_parameters: bool = False,
) -> Draws:
    """Go on with a run that was stopped or killed, and return all its draws.

    The draws are bit for bit those of a run that was never interrupted, on the same machine and
    version of JAX. A run that is finished is opened. Functions are imported by module and name;
    one that has no such name is given again, and refused if it is another one.

        draws = sundman.resume("runs/mnist")

    Args:
      path: what ``store=`` was.
      target: what is sampled, if it has to be given again.
      collect: as for :func:`sundman.sample`, if it has to be given again.
      online: as for :func:`sundman.sample`, if it has to be given again.
      checkpoint_every: blocks between checkpoints; by default half a minute.
      progress: as for :func:`sundman.sample`.
      watchers: others to be told how it goes.
      mesh: as for :func:`sundman.sample`; it need not be that of the run so far.
      shard_parameters: as for :func:`sundman.sample`.

    Returns:
      The draws, which stay on disk and are read when they are used.
    """
    if checkpoint_every is not None:
        check.count("checkpoint_every", checkpoint_every, least=1)
    run = open_run(path)
    known, draws = run.progress(), None
    if known["finished"]:
        _fail_again(known)
        draws = _judged_if_whole(run, None, None)
    if draws is None:
        given = _given(target=target, collect=collect, online=online)
        layout_of = partial(choose, mesh=mesh, shard_parameters=shard_parameters)
        watching = _Watching(checkpoint_every, progress, as_watchers(watchers), layout_of)
        draws = _continue(run, partial(_stored_spec, given), watching)
    if hosts.is_first():
        warn(draws.verdict, stacklevel=2)
    return draws


def extend(
    path: str | os.PathLike[str],
    *,
    steps: int | None = None,
    draws: int | None = None,
    until: Until | None = None,
    target: TargetLike | None = None,
    collect: Callable[[PyTree], PyTree] | None = None,
    online: Callable[[PyTree], PyTree] | None = None,
    checkpoint_every: int | None = None,
    progress: ProgressOption = None,
    watchers: Sequence[Watcher | ScalarLogger] = (),
    mesh: Mesh | None = None,
    shard_parameters: bool = False,
) -> Draws:
    """Make a run on disk longer, and return all its draws, old and new.

    They are bit for bit those of a run that was as long from the beginning. The last block, of
    about a second, may be done again for it. A run that was ended by a rule goes on from there
    without that rule, one whose rule was not met goes on with it.

        draws = sundman.extend("runs/mnist", steps=10_000)

    Args:
      path: what ``store=`` was.
      steps: how many more steps; a draw is kept every ``thin`` of them.
      draws: how many more draws per chain, instead of ``steps``.
      until: a rule that may end it before, in place of the one it has: see :func:`sundman.until`.
      target: what is sampled, if it has to be given again: see :func:`sundman.resume`.
      collect: if it has to be given again.
      online: if it has to be given again.
      checkpoint_every: blocks between checkpoints; by default half a minute.
      progress: as for :func:`sundman.sample`.
      watchers: others to be told how it goes.
      mesh: as for :func:`sundman.sample`; it need not be that of the run so far.
      shard_parameters: as for :func:`sundman.sample`.

    Returns:
      The draws, which stay on disk and are read when they are used.
    """
    if checkpoint_every is not None:
        check.count("checkpoint_every", checkpoint_every, least=1)
    if (steps is None) == (draws is None):
        raise ValueError(f"give one of steps= and draws=; got steps={steps}, draws={draws}")
    check.count("steps" if draws is None else "draws", steps if draws is None else draws, least=1)
    run = open_run(path)
    _fail_again(run.progress())
    given = _given(target=target, collect=collect, online=online)

    def longer(spec: RunSpec, ended: Ended | None) -> RunSpec:
        more = draws
        if more is None:
            assert steps is not None
            if spec.sampler.clock.stages is not None or spec.thin_time is not None:
                raise ValueError(
                    "draws of this run are not a fixed number of steps apart: say draws="
                )
            more = steps // spec.thin
            if more == 0:
                raise ValueError(
                    f"no draw would be kept: steps={steps} is less than thin={spec.thin}"
                )
        by_rule = ended is not None and ended.by in ("rule", "seconds")
        so_far = ended.draws if ended is not None and by_rule else spec.draws
        rule = _left_of(spec.until, ended) if until is None else until
        return replace(spec, draws=so_far + more, until=rule)

    layout_of = partial(choose, mesh=mesh, shard_parameters=shard_parameters)
    watching = _Watching(checkpoint_every, progress, as_watchers(watchers), layout_of)
    longer_draws = _continue(run, partial(_stored_spec, given), watching, longer)
    if hosts.is_first():
        warn(longer_draws.verdict, stacklevel=2)
    return longer_draws


def _left_of(rule: Until | None, ended: Ended | None) -> Until | None:
    """What is left of a rule, when a part of it has ended the run."""
    if rule is None or ended is None or ended.by not in ("rule", "seconds"):
        return rule
    return replace(rule, seconds=None) if ended.by == "seconds" and rule.looks else None


def _given(**arguments: object) -> dict[str, object]:
    return {name: value for name, value in arguments.items() if value is not None}


def _stored_spec(given: Mapping[str, object], run: Run) -> RunSpec:
    """What was asked of a run, as it is stored and with what is given again."""
    call = run.call(given)
    names = {field.name for field in fields(RunSpec)}
    if not {*call} <= names or not names - {*call} <= {"tuning", "until", "gradient"}:
        raise StoreError(f"{run.path / 'call.json'} is damaged: it is not the call of a run")
    try:  # it may have become longer, or have another rule now
        rule = run.about.get("until") and Until(**run.about["until"])
        call.setdefault("gradient", "minibatch")  # of a run begun before there was a choice
        spec = replace(RunSpec(**call), draws=run.about["draws"], until=rule)
        check_spec(spec)
    except (ValueError, TypeError, AttributeError) as error:
        raise StoreError(f"{run.path / 'call.json'} is damaged: {error}") from None
    return spec


def _fail_again(progress: Settings) -> None:
    """Raise what the run raised when it failed, if it did."""
    failure = progress.get("failure")
    if not isinstance(failure, list) or len(failure) != 2:
        return
    kind, message = failure
    raise (AllDivergedError if kind == "AllDivergedError" else DivergenceError)(str(message))


def start_stored(
    spec: RunSpec,
    path: str | os.PathLike[str],
    *,
    checkpoint_every: int | None,
    resume: bool,
    progress: ProgressOption,
    watchers: Sequence[Watcher | ScalarLogger],
    layout: Layout,
) -> Draws:
    """A new run at ``path``; or, if ``resume`` and it is there, the rest of it.

    Args:
      spec: what was asked.
      path: the directory.
      checkpoint_every: blocks between checkpoints.
      resume: whether a run that is there may be gone on with.
      progress: what to show.
      watchers: others to be told how it goes.
      layout: the devices it is going to be on.

    Returns:
      The draws, which stay on disk.
    """
    where = absolute(path)
    everyone = as_watchers(watchers)
    watching = _Watching(checkpoint_every, progress, everyone, lambda _: layout)
    there = hosts.highest(int(hosts.is_first() and exists(where)))[0]
    if resume and there:
        return _continue(open_run(where), lambda _: spec, watching)
    spec, found = centred.settled(spec)
    warm = None if spec.auto is None else begin_warm_up(spec, found)
    setup, state = _prepared(spec, layout, warm)
    like, shapes = fingerprint.layout(spec, setup, state)
    about = fingerprint.describe(spec, setup, state, like)
    kept = (f.name for f in fields(spec) if f.name not in ("tuning", "until"))
    arguments = {name: getattr(spec, name) for name in kept}
    left_out = {}
    if resume:  # whoever says so gives the call again, and its data need not be copied
        left_out = _GIVEN_AGAIN
        del arguments["target"]
    saved = to_checkpoint(state, setup.replicas)
    fingerprint.check_hosts(spec, setup, state)
    created = hosts.on_first(
        lambda: create(where, about, arguments, left_out, shapes, saved, layout.group)
    )
    run = open_run(where) if created is None else created
    try:
        if hosts.is_first() and found.centre is not None:
            run.write_file(_CENTRE, centred.pack(found, run.id))
        if not resume and hosts.is_first():
            _say_how_to_resume(run)
        if warm is not None:
            spec, setup, state = _tuned(run, spec, *warm, setup)
        draws = run.writer(run.progress())
    except BaseException:
        if run.lock is not None:
            run.lock.release()
        raise
    everyone = []
    if hosts.is_first():
        everyone = all_watchers(progress, watchers, RunLog(run.log))
    return _execute(run, draws, spec, setup, state, watching._replace(watchers=everyone), None)


def _say_how_to_resume(run: Run) -> None:
    """Warn at the start of a run that needs more than its path to be resumed."""
    reasons: Mapping[str, str] = run.about["resumable"]
    if reasons:
        again = ", ".join(f"{name}=..." for name in reasons)
        warnings.warn(
            f"if this run is broken off, it needs to be given again what has no name to import: "
            f"{'; '.join(reasons.values())}. Go on with sundman.resume({str(run.path)!r}, {again}) "
            f"or with the same call, {AGAIN}",
            StoreWarning,
            stacklevel=4,
        )
    if run.about.get("in_main"):
        warnings.warn(
            f"if this run is broken off, {', '.join(run.about['in_main'])} will be found by name "
            "only where this script or notebook runs: go on from here, give it again there, or put "
            "it into a module, which sundman.resume imports from anywhere",
            StoreWarning,
            stacklevel=4,
        )


def _prepared(
    spec: RunSpec,
    layout: Layout,
    warm: tuple[Problem, WarmUp] | None,
    size: Sizes | None = None,
) -> tuple[RunSetup, RunState]:
    """The run set up as it was asked for, before any warm-up."""
    if warm is None:
        return prepare(spec, size, layout=layout)
    untuned, begins = with_tuned_sampler(spec, *warm)
    return prepare(untuned, size, begins, layout)


def _tuned(
    run: Run, spec: RunSpec, problem: Problem, warm: WarmUp, untuned: RunSetup
) -> tuple[RunSpec, RunSetup, RunState]:
    """The run after its warm-up, which is saved after each window and gone on with from there."""
    began, saved, first = time.perf_counter(), run.file(_WARM_UP), warm
    tuned = run.file(_TUNING)
    if tuned is not None:
        run.check_owner(_TUNING, owner_of(tuned))
    if saved is not None:
        warm = _saved_warm_up(run, saved, problem, first)
    with Stop() as stop:
        while not warm.over:
            warm = advance(problem, warm)
            if hosts.is_first():
                run.write_file(_WARM_UP, pack(warm, run.id))
            if stop.signal is not None and not warm.over:
                message = f'stopped in the warm-up; go on with sundman.resume("{run.path}")'
                raise interruption(stop.signal, message)
    spec, begins = with_tuned_sampler(spec, problem, as_first_process(problem, first, warm))
    setup, state = prepare(spec, untuned.size, begins, untuned.layout)
    state = state._replace(progress=Progress(seconds=time.perf_counter() - began))
    assert spec.tuning is not None
    plain, arrays = spec.tuning.to_parts()

    def save() -> None:
        if run.file(_TUNING) is None:
            with writing("a checkpoint", run.path, 0):
                saved_state = to_checkpoint(state, setup.replicas)
                checkpoint.save(run.checkpoints, run.id, 0, saved_state)
            numbers = {**plain, "settings": spec.settings, "run": run.id}
            run.write_file(_TUNING, to_bytes(numbers, arrays))

    hosts.on_first(save)
    return spec, setup, state


def _settled(run: Run, spec: RunSpec) -> tuple[RunSpec, Found]:
    """What was asked, with what the run has decided about its gradient, and its first centre."""
    known = run.about["settings"]
    if spec.auto is not None and spec.gradient is None and "gradient" in known:
        spec = replace(spec, gradient=known["gradient"])
    stored = run.file(_CENTRE)
    if stored is None or spec.gradient != "control_variate":
        return centred.settled(spec)
    try:
        run.check_owner(_CENTRE, owner_of(stored))
        found = centred.unpack(stored)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{run.path / _CENTRE} is damaged: {error!r:.200}. Remove it, and sundman.resume "
            "makes it again"
        ) from None
    return centred.with_centre(spec, found), found


def _saved_warm_up(run: Run, saved: bytes, problem: Problem, first: WarmUp) -> WarmUp:
    """The warm-up of a run as far as it was saved.

    Args:
      run: its directory.
      saved: the content of the file.
      problem: what is warmed up.
      first: before its first window.
    """
    try:
        run.check_owner(_WARM_UP, owner_of(saved))
        return unpack(saved, problem, first)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(
            f"{run.path / _WARM_UP} is damaged: {error!r:.200}. Remove it, and sundman.resume "
            "makes it again"
        ) from None


def _continue(
    run: Run,
    asked: Callable[[Run], RunSpec],
    watching: _Watching,
    longer: Callable[[RunSpec, Ended | None], RunSpec] | None = None,
) -> Draws:
    """Go on with a run, if it is the one that was asked for.

    Args:
      run: its directory.
      asked: gives what was asked.
      watching: how often it is saved, who is told, and on which devices it is.
      longer: makes of what was asked, and of how it ended, a longer run, if it is to be one.
    """
    lock = hosts.on_first(lambda: Lock(run.path))
    try:
        run = open_run(run.path)  # which another process may have made longer by now
        run.lock = lock
        hosts.on_first(lambda: clean(run))
        spec, found = _settled(run, asked(run))
        layout = watching.layout_of(spec)
        first_draws = run.about.get("first_draws", spec.draws)
        warm = None
        if spec.auto is not None:
            warm = begin_warm_up(replace(spec, draws=first_draws), found)
        size = size_of(run)
        setup, first = _prepared(spec, layout, warm, size)
        refuse_another(run, spec, setup, first)
        known = run.progress()
        _fail_again(known)
        like, _ = fingerprint.layout(spec, setup, first)
        found = None
        if known["finished"] and longer is None:
            found = _judged_if_whole(run, spec, like)
        if found is not None:
            if lock is not None:
                lock.release()
            return found
        fingerprint.check_hosts(spec, setup, first)
        warn_of_versions(run)
        if longer is not None:
            spec = longer(spec, ended_of(run, known))
            check_spec(spec)
            array_writer.longer(run.infos, spec.draws)  # which may have too many files for it
            setup, first = _prepared(spec, layout, warm, size)
        if warm is not None:
            spec, setup, first = _tuned(run, spec, *warm, setup)
        begun = warm is None or checkpoint.numbers(run.checkpoints) not in ([], [0])
        state, draws = restore(run, setup, first) if begun else (first, run.writer(known))
        if longer is not None:
            hosts.on_first(lambda: lengthen(run, spec, draws, first_draws))
            run = open_run(run.path)
            run.lock = lock
            draws = run.writer(run.progress())
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    done, everyone = state.progress, []
    note = f"resumed after draw {done.draws:,} of {spec.draws:,}"
    if hosts.is_first():
        log = RunLog(run.log, keep_draws=done.draws, keep_steps=done.steps)
        everyone = all_watchers(watching.progress, watching.watchers, log)
    return _execute(run, draws, spec, setup, state, watching._replace(watchers=everyone), note)


def _execute(
    run: Run,
    draws: ArrayWriter,
    spec: RunSpec,
    setup: RunSetup,
    state: RunState,
    watching: _Watching,
    note: str | None,
) -> Draws:
    like, _ = fingerprint.layout(spec, setup, state)
    every, _, watchers, _ = watching
    try:
        rule = _rule(spec, setup, state, draws, like["values"])
        with (
            Stop() as stop,
            watched(watchers, spec.settings, note),
            DiskSink(run, draws, every, stop, watchers, setup.replicas, setup.layout) as sink,
        ):
            execute(spec, setup, state, sink, watchers, rule)
        return _judged(run, spec, like)
    finally:
        if run.lock is not None:
            run.lock.release()


def _rule(
    spec: RunSpec, setup: RunSetup, state: RunState, draws: ArrayWriter, like: PyTree
) -> StopRule | None:
    """The rule of a run, if it has one, that knows the draws that are there."""
    if spec.until is None:
        return None
    rule = StopRule(spec.until, spec, setup)
    leaves = [LazyArray(draws, name) for name in draws.infos if name.startswith("values/")]
    values = jax.tree.unflatten(jax.tree.structure(like), leaves)
    rule.recall(values, LazyArray(draws, "weight"), LazyArray(draws, "stats/potential"), state)
    return rule


def _judged_if_whole(
    run: Run, spec: RunSpec | None, like: Mapping[str, PyTree] | None
) -> Draws | None:
    """As :func:`_judged`; None if some draws are damaged and are to be made again."""
    try:
        return _judged(run, spec, like)
    except StoreError:
        if run.writer(run.progress()).sound_draws()[1] is None:
            raise  # it is something else
        return None


def _judged(run: Run, spec: RunSpec | None, like: Mapping[str, PyTree] | None) -> Draws:
    """The draws of a finished run with the verdict on it, which is made if there is none yet."""
    draws = open_draws(run.path, like)
    if draws.verdict is None:
        verdict = safe_judge(draws, None if spec is None else spec.target)
        if hosts.is_first():
            with suppress(OSError):  # the draws are there, and without it they are judged again
                run.write_verdict(verdict.as_json(), len(draws))
        object.__setattr__(draws, "verdict", verdict)
    return draws
