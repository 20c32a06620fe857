"""``sample``: run a sampler on a target and return weighted draws."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace as replace_fields
from typing import cast

from jax import Array
from jax.sharding import Mesh

from sundman import check
from sundman._types import PyTree
from sundman.draws import Draws
from sundman.native import native_noise
from sundman.run import devices, hosts
from sundman.run.centred import with_control_variate
from sundman.run.execute import execute
from sundman.run.fingerprint import check_hosts
from sundman.run.inputs import TargetLike, one_target, settle_temperature, settle_units
from sundman.run.setup import DEFAULT_STEPS, UNTUNED, prepare, warmed_up
from sundman.run.sinks import MemorySink
from sundman.run.spec import RunSpec, Until, check_spec, count_draws
from sundman.run.state import Progress
from sundman.run.step import STATS
from sundman.run.stopping import StopRule
from sundman.samplers import Sampler
from sundman.tune import Auto, auto
from sundman.verdict import safe_judge, warn
from sundman.watch.events import ScalarLogger, Watcher, check_watchers, watched
from sundman.watch.progress import ProgressOption, all_watchers


def sample(
    target: TargetLike | None = None,
    sampler: Sampler | Auto | None = None,
    *,
    key: Array,
    log_density: Callable[[PyTree], Array] | None = None,
    steps: int | None = None,
    init: PyTree | None = None,
    chains: int | None = None,
    burn_in: int = 0,
    thin: int = 1,
    thin_time: float | None = None,
    draws: int | None = None,
    batch_size: int | None = None,
    replace: bool | None = None,
    gradient: str | None = None,
    collect: Callable[[PyTree], PyTree] | None = None,
    online: Callable[[PyTree], PyTree] | None = None,
    weighting: str | None = None,
    stats: Sequence[str] = STATS,
    per_chain: bool | None = None,
    on_divergence: str = "freeze",
    until: Until | None = None,
    progress: ProgressOption = None,
    watchers: Sequence[Watcher | ScalarLogger] = (),
    store: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    mesh: Mesh | None = None,
    shard_parameters: bool = False,
) -> Draws:
    """Run ``sampler`` on ``target`` and return weighted draws.

    Averages over the target are sum(weight f(position)) / sum(weight); see
    :mod:`sundman.estimate`.

    Args:
      target: a potential U(position) -> scalar, one of :mod:`sundman.targets`, a
        :class:`sundman.Posterior`, or a gradient estimator from :mod:`sundman.gradients`.
      sampler: any sampler of :mod:`sundman.recipes`; without one, :func:`sundman.auto`, which finds
        its settings in a warm-up and says in ``draws.tuning`` what it found.
      key: a JAX random key. The same key gives the same draws.
      log_density: log p(position) -> scalar, up to a constant, instead of ``target``: U = -log p.
      steps: steps after the burn-in; steps // thin draws are kept per chain.
      init: one position for all chains, or one per chain along a leading axis; a target has a
        default. Where the potential accepts either reading, a vector is one position.
      chains: independent chains, run together; 1 if not given, 4 of a sampler that tunes itself.
      burn_in: steps made first and not kept.
      thin: keep every thin-th position.
      thin_time: keep ``draws`` positions this much physical time apart instead; they are an
        unweighted sample.
      draws: the number of draws per chain, in place of ``steps``.
      batch_size: rows of the posterior's data per gradient. If not given, all; or as many as suit a
        control variate, where there is one. Without replacement within an epoch, unless
        ``replace``.
      replace: rows drawn with replacement. If not given, without; but with it where a sampler that
        tunes itself takes the noise of the minibatches out, which then must be independent.
      gradient: ``"minibatch"``, or ``"control_variate"``, whose noise does not grow with the number
        of rows: minibatches say only what has changed since a centre, which is looked for first. If
        not given, a sampler that tunes itself takes what costs less for an effective draw, and any
        other plain minibatches. With a control variate ``potential`` is recorded less a constant.
      collect: keep ``collect(position)`` instead of the position.
      online: average ``online(position)`` over the draws in constant memory, into
        ``draws.online``.
      weighting: ``"leaving"`` weights a position with the dt of the step that leaves it,
        ``"arriving"`` with that of the step that led to it, ``"symmetric"`` with the mean of both,
        ``"equal"`` not at all. If not given, ``"leaving"``; ``"symmetric"`` of a sampler that
        tunes itself, or that follows the work of its steps.
      stats: what to record with each draw besides its weight, dt and potential: ``"time"``,
        ``"grad_norm"``, ``"zeta"``, ``"virial"`` = theta . G / d, whose mean is the temperature,
        ``"kinetic_temperature"`` where there is a momentum. Recording all of them every step
        costs a tiny target as much as the step.
      per_chain: whether ``init`` has one position per chain, to overrule that reading.
      on_divergence: what to do with a chain whose potential or gradient is not finite, or rises
        out of all proportion: ``"freeze"`` it where it was last good, with weight 0 from there on;
        ``"restart"`` it from there with new noise, with weight 0 up to the end of the block
        (``draws.restarts`` has each); or ``"raise"``.
      until: a rule that ends the run before its steps are used up, such as
        ``sundman.until(ess=400, rhat=1.01)``; see :func:`sundman.until`.
      progress: show how the run goes; by default if it takes long or the output is a terminal.
      watchers: others to be told how it goes, such as :class:`sundman.JsonLines`, or anything with
        ``log(dict, step)``, such as a run of wandb.
      store: a directory to write the draws to as they come, with checkpoints; the draws returned
        stay there and are read when used. See :func:`sundman.resume`.
      checkpoint_every: blocks between checkpoints (a block takes about a second); by default
        half a minute. SIGINT and SIGTERM make one and stop.
      resume: if ``store`` holds this same run already, go on with it; refused if anything
        differs. A run begun so is resumed by the same call, and its data are not copied to disk.
        Otherwise functions are found again by module and name; what has none, such as a lambda, is
        told of by a :class:`sundman.StoreWarning` when the run starts.
      mesh: devices for the run, ``jax.make_mesh((4, 2), ("chain", "data"))``: chains are spread
        over ``chain``, which gives the same draws to the last bit; the rows of a minibatch over
        ``data``, which gives them up to rounding. Without it, chains are spread over all devices
        that there are.
      shard_parameters: split the arrays of each chain over ``data`` as well, for a network that
        one device has no room for.

    Returns:
      The draws with their weights; those of a run on disk stay there and are read when used.
      ``draws.verdict`` says whether they can be trusted; if not, there is one
      :class:`sundman.TrustWarning` with what was seen and what to do, see :func:`sundman.judge`.
    """
    check.random_key(key)
    target = one_target(target, log_density)
    _check_names(stats)
    _check_path(store)
    check_watchers(watchers)
    asked = auto() if sampler is None else sampler
    if isinstance(asked, Auto):
        sampler, chains = UNTUNED, 4 if chains is None else chains
        steps = DEFAULT_STEPS if steps is None and draws is None else steps
    stages = sampler.clock.stages if isinstance(sampler, Sampler) else None
    if weighting is None:
        follows = isinstance(sampler, Sampler) and sampler.integrator.follows_work
        weighting = "symmetric" if isinstance(asked, Auto) or follows else "leaving"
    spec = RunSpec(
        target=target,
        sampler=cast(Sampler, sampler),  # which check_spec makes sure of
        key=key,
        init=init,
        chains=1 if chains is None else chains,
        burn_in=burn_in,
        draws=count_draws(steps, thin, thin_time, draws, burn_in, stages),
        thin=thin,
        thin_time=thin_time,
        batch_size=batch_size,
        replace=bool(replace),
        chooses_rows=replace is None,
        collect=collect,
        online=online,
        weighting=weighting,
        stats=tuple(stats),
        per_chain=per_chain,
        on_divergence=on_divergence,
        native=native_noise() and not shard_parameters,  # the kernels take whole arrays
        auto=asked if isinstance(asked, Auto) else None,
        until=until,
        gradient=gradient,
    )
    check_spec(spec)
    if spec.auto is None and gradient == "control_variate":
        spec = with_control_variate(spec)
    if checkpoint_every is not None:
        check.count("checkpoint_every", checkpoint_every, least=1)
    if store is None and (resume or checkpoint_every is not None):
        raise ValueError("resume and checkpoint_every are about a run on disk: give store=")
    if spec.auto is None:
        settled = settle_temperature(target, settle_units(target, spec.sampler))
        spec = replace_fields(spec, sampler=settled)
    layout = devices.choose(spec, mesh, shard_parameters)
    if store is not None:
        from sundman.run.resume import start_stored  # needs the packages of the extra "store"

        stored = start_stored(
            spec,
            store,
            checkpoint_every=checkpoint_every,
            resume=resume,
            progress=progress,
            watchers=watchers,
            layout=layout,
        )
        if hosts.is_first():
            warn(stored.verdict, stacklevel=2)
        return stored
    sink = MemorySink()
    everyone = all_watchers(progress, watchers) if hosts.is_first() else []
    begins = None
    progressed = Progress()
    if spec.auto is not None:
        began = time.perf_counter()
        spec, begins = warmed_up(spec)
        progressed = Progress(seconds=time.perf_counter() - began)
    setup, state = prepare(spec, begins=begins, layout=layout)
    check_hosts(spec, setup, state)
    state = state._replace(progress=progressed)
    rule = None if until is None else StopRule(until, spec, setup)
    with watched(everyone, spec.settings):
        state = execute(spec, setup, state, sink, everyone, rule)
    draws_kept = sink.draws(spec, state, layout)
    draws_kept = replace_fields(draws_kept, verdict=safe_judge(draws_kept, target))
    if hosts.is_first():
        warn(draws_kept.verdict, stacklevel=2)
    return draws_kept


def _check_names(stats: object) -> None:
    """``stats`` must be a sequence of names; which they may be is checked with the rest."""
    if isinstance(stats, str):
        raise TypeError(f"stats is a sequence of names: write stats=({stats!r},)")
    if not isinstance(stats, Iterable):
        raise TypeError(f"stats must be a sequence of names, () for none; got stats={stats!r}")


def _check_path(store: object) -> None:
    """``store`` must be a path, if it is given."""
    if store is not None and not isinstance(store, (str, os.PathLike)):
        raise TypeError(f"store must be the path of a directory, got store={store!r}")
    if store is not None and not str(store).strip():
        raise ValueError(f"store must be the path of a directory, got store={store!r}")
