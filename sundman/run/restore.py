"""A stored run that is to go on: recognised, brought back to its last checkpoint, made longer."""

from __future__ import annotations

import warnings
from dataclasses import asdict

import jax
import numpy as np

from sundman._files import sync_directory
from sundman._trees import first_difference, with_named_leaves
from sundman._types import PyTree, Settings
from sundman.draws.trust import Divergences
from sundman.run import fingerprint, hosts
from sundman.run.disk_sink import progress_of
from sundman.run.schedule import Sizes
from sundman.run.setup import RunSetup
from sundman.run.spec import RunSpec
from sundman.run.state import Progress, RunState
from sundman.store import array_writer, checkpoint
from sundman.store.array_writer import ArrayWriter
from sundman.store.directory import Run
from sundman.store.files import StoreError, StoreWarning, writing


def size_of(run: Run) -> Sizes:
    """How large the pieces of the run are, which must not change."""
    size = dict(run.about["size"])
    growing, look = size.pop("growing", False), size.pop("look", 0)
    sound = type(growing) is bool and {*size} == {"draws", "steps"}
    sound &= type(look) is int and look >= 0
    if not sound or not all(type(n) is int and n > 0 for n in size.values()):
        raise StoreError(f"{run.path / 'run.json'} is damaged: size makes no sense")
    return Sizes(**size, growing=growing, look=look)


def refuse_another(run: Run, spec: RunSpec, setup: RunSetup, first: RunState) -> None:
    """Raise if what was asked is not this run."""
    identity = fingerprint.identify(spec, setup, first)
    differing = fingerprint.differences(run.about, identity)
    if not differing:
        later = run.about.get("schedule_steps", [])
        probed = fingerprint.probe(setup, first, later)
        differing = fingerprint.differences(run.about, identity, probed)
    if differing:
        raise StoreError(
            f"{run.path} is another run: {'; '.join(differing)}. Use the same arguments, or "
            "another store"
        )


def warn_of_versions(run: Run) -> None:
    """Warn if something that may change the last digits is not what the run was begun with."""
    stored, now = run.about["versions"], fingerprint.versions()
    differing = [
        f"{name} {stored.get(name)}, which is {now.get(name)} here"
        for name in sorted({*stored, *now})
        if stored.get(name) != now.get(name)
    ]
    if differing:
        warnings.warn(
            f"{run.path} was begun with {', '.join(differing)}: the draws to come may differ in "
            "the last digits from an uninterrupted run",
            StoreWarning,
            stacklevel=5,
        )


def restore(run: Run, setup: RunSetup, first: RunState) -> tuple[RunState, ArrayWriter]:
    """The newest whole checkpoint before which all draws are whole, and the draws up to it."""
    state = hosts.on_first(lambda: _go_back(run, setup, first))
    number = hosts.highest(0 if state is None else state.progress.pieces)[0]
    if state is None:
        state = _as_state(run, checkpoint.load(run.checkpoints, run.id, number), first)
    return state, run.writer(run.progress())


def _go_back(run: Run, setup: RunSetup, first: RunState) -> RunState:
    """The state of that checkpoint; what comes after it is dropped.

    A checkpoint in the middle of a piece, as the end of a shorter run leaves it, is passed over.
    """
    draws = run.writer(run.progress())
    sound, reason = draws.sound_draws()
    ends = np.cumsum([0, *(piece.draws for piece in setup.pieces)])
    failures = [] if reason is None else [str(reason)]
    for number, saved in checkpoint.newest_first(run.checkpoints, run.id):
        if isinstance(saved, StoreError):
            failures.append(str(saved))
            continue
        state = _as_state(run, saved, first)
        done = state.progress
        if done.draws > sound or not 0 <= done.pieces < len(ends):
            continue
        if done.pieces == number and ends[number] == done.draws:
            break
    else:
        said = "; ".join(failures) or f"there is none in {run.checkpoints}"
        raise StoreError(f"no usable checkpoint: {said}. The run has to be started again")
    if failures:
        warnings.warn(
            f"the run is damaged, going back to draw {done.draws}: {'; '.join(failures)}",
            StoreWarning,
            stacklevel=8,
        )
    with writing("where the run goes on from", run.path, done.draws):
        draws.cut(done.draws)
        run.write_progress(draws, progress_of(state, setup.layout, finished=False))
        draws.drop_rest()
        checkpoint.remove_from(run.checkpoints, number + 1)
    return state


def _as_state(run: Run, saved: checkpoint.Tree, first: RunState) -> RunState:
    """A checkpoint as a state like the first one."""

    def part(name: str, like: PyTree) -> PyTree:
        try:
            read = with_named_leaves(like, saved.get(name, {}))
        except KeyError as missing:
            raise StoreError(
                f"the checkpoint in {run.path} does not fit this sampler's state: {name} has no "
                f"or an unknown {missing}"
            ) from None
        if differs := first_difference(like, read):
            raise StoreError(
                f"the checkpoint in {run.path} does not fit this sampler's state: {differs}. "
                "Another version of sundman made it: its draws can be read here, but to go on the "
                "run has to be started again"
            )
        return read

    return RunState(
        chains=jax.device_put(part("chains", first.chains)),
        averages=jax.device_put(part("averages", first.averages)),
        divergences=Divergences(*part("divergences", first.divergences)),
        progress=Progress(*(leaf.item() for leaf in part("progress", first.progress))),
    )


def lengthen(run: Run, spec: RunSpec, draws: ArrayWriter, first_draws: int) -> None:
    """Make room for the draws of a longer run, which is not finished any more."""
    with writing("a longer run", run.path, draws.draws):
        (run.path / "verdict.json").unlink(missing_ok=True)
        sync_directory(run.path)
        infos = array_writer.lengthen(draws.path, run.infos, spec.draws)
        changed: Settings = {"draws": spec.draws}
        if spec.until is not None:
            changed["until"] = str(spec.until)
        before = {n: _without(run.about[n], "until") for n in ("settings", "identity")}
        settings = {**before["settings"], **changed}
        identity = {**before["identity"], **{n: str(v) for n, v in changed.items()}}
        rule = None if spec.until is None else asdict(spec.until)
        about = {**run.about, "draws": spec.draws, "until": rule, "first_draws": first_draws}
        run.write_about({**about, "settings": settings, "identity": identity}, infos)


def _without(settings: Settings, name: str) -> Settings:
    return {key: value for key, value in settings.items() if key != name}
