"""A run set up: the plan of its loop, its guard, its pieces, and the state it begins with.

A sampler that tunes itself is replaced first by what its warm-up finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from sundman._types import PyTree
from sundman.draws import online
from sundman.draws.online import RunningAverage
from sundman.draws.trust import Divergences
from sundman.gradients import GradientEstimator, RemembersGradients, Streamed
from sundman.noise import Purpose, Stream, fold, key_words
from sundman.posterior import Posterior
from sundman.recipes.kinetic import baoab
from sundman.run import centred, hosts, inputs, schedule
from sundman.run.centred import Found
from sundman.run.devices import Layout
from sundman.run.engines import ByTime, Engine, InMemory, Streaming, most_batches
from sundman.run.guard import Guard, rise_scale, size_of
from sundman.run.scan import approach, begin_timed
from sundman.run.schedule import Piece, Sizes
from sundman.run.spec import RunSpec
from sundman.run.state import Chain, RunState, Timed
from sundman.run.step import Plan, coldest
from sundman.samplers import Sampler, SamplerState
from sundman.tune.centre import Centre, estimator_at
from sundman.tune.saved import pack, unpack
from sundman.tune.state import Problem, WarmUp
from sundman.tune.warm_up import Start, begin, begin_at_centre, finish, warm_up
from sundman.value import static
from sundman.verdict.spots import MOST_PASSES, SHARE_OF_ROWS

_MOST_OCTAVES = 40
_MOST_STEPS = 2**27  # of a compiled call, so that 16 times as many can be counted
DEFAULT_STEPS = 20_000
UNTUNED = baoab(1.0)
"""Stands for the sampler in what was asked, until there is one."""


def identity(position: PyTree) -> PyTree:
    """The position itself."""
    return position


@dataclass(frozen=True)
class RunSetup:
    """What turns the state of a run into draws.

    Attributes:
      plan: what the compiled loops are made of.
      guard: what puts chains back that ran away.
      size: how large the pieces are.
      pieces: all pieces of the run.
      batches_per_call: how many host batches are handed over at a time, if data are streamed.
      example: such a batch.
      layout: where its chains and data are once it runs.
    """

    plan: Plan
    guard: Guard
    size: Sizes
    pieces: list[Piece]
    batches_per_call: int | None
    example: PyTree
    layout: Layout

    @property
    def replicas(self) -> int:
        """How many copies of a position the sampler moves."""
        return self.plan.sampler.integrator.replicas

    @property
    def ends_short(self) -> bool:
        """Whether the last piece has fewer draws than it would have in a longer run."""
        last = self.pieces[-1].draws if self.pieces else 0
        before = sum(piece.draws for piece in self.pieces) - last
        return 0 < last < schedule.block_at(before, self.size)


def prepare(
    spec: RunSpec,
    size: Sizes | None = None,
    begins: Start | None = None,
    layout: Layout | None = None,
) -> tuple[RunSetup, RunState]:
    """The run set up, and its first state, both still on one device.

    Args:
      spec: what was asked.
      size: that of its pieces, if it is known already.
      begins: where it begins after a warm-up.
      layout: the devices it is going to be on; one, if not given.
    """
    layout = layout or Layout(spec.chains)
    gradient = centred.gradient_of_run(spec)
    if spec.thin_time is not None and isinstance(gradient, Streamed):
        raise ValueError("thin_time needs in-memory data: host batches come step by step")
    sampler = spec.sampler
    if begins is None:
        positions = inputs.first_positions(spec.target, spec.init, spec.chains, spec.per_chain)
    else:
        positions = begins.positions
    like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), positions)
    for name, function in (("collect", spec.collect), ("online", spec.online)):
        if function is not None:
            inputs.check_returns_arrays(name, function, like)
    weighting = spec.weighting if spec.thin_time is None else "equal"
    collect, average = spec.collect or identity, spec.online
    replicas = sampler.integrator.replicas
    if replicas > 1:
        gradient = replicated(gradient, replicas)
        positions = copies(positions, replicas)
        collect, average = OfColdest(collect), average and OfColdest(average)
    sampler.of_chain(0).integrator.init(inputs.first_of(positions))  # its checks see values
    stacked = sampler.stacked is not None
    chains = start_chains(positions, sampler, spec.key, stacked=stacked)
    chains = with_memory(chains, gradient)
    if begins is not None:
        chains = _begun(chains, begins)
    plan = Plan(
        gradient, sampler.prepared(), collect, weighting, spec.stats, average, spec.native, stacked
    )
    per_call, batch = _host_batches(gradient)
    averages, timed = _begin_online(chains, plan), None
    if spec.thin_time is not None:
        timed = begin_timed(plan, chains, jnp.float32(spec.thin_time))
    if size is None:
        thin = spec.thin
        if timed is not None and spec.thin_time is not None:
            thin = _steps_per_draw(plan, timed, spec.thin_time)
        size = schedule.sizes(chains, plan, thin, batch, per_call)
        growing = spec.until is not None and per_call is None  # blocks of streamed data are short
        size = size._replace(growing=growing)
    guard = Guard(
        scale=np.broadcast_to(
            rise_scale(size_of(chains.position), np.asarray(sampler.temperature), np),
            (spec.chains,),
        ),
        thin=spec.thin if spec.thin_time is None else None,
        restart=spec.on_divergence == "restart",
        keeps_position=spec.collect is None and replicas == 1,
        layout=layout,
    )
    pieces = schedule.pieces(spec.burn_in, spec.draws, spec.thin, size, sampler.clock.stages)
    begun = chains if timed is None else timed
    state = RunState(begun, averages, Divergences.none(spec.chains))
    return RunSetup(plan, guard, size, pieces, per_call, batch, layout), state


def _steps_per_draw(plan: Plan, timed: Timed, interval: float) -> int:
    """How many steps lead to the next draw, by the first one: to size blocks by.

    A power of two: blocks have to be the same wherever a run is repeated, and dt may differ in its
    last digits.

    Args:
      plan: of the loop.
      timed: the chains before their first step.
      interval: time between draws.
    """
    dt = np.asarray(approach(plan, timed, np.uint32(1)).chain.state.clock.dt, np.float64)
    known = dt[np.isfinite(dt) & (dt > 0)]
    octaves = round(math.log2(interval / known.min())) if len(known) else 0
    return 2 ** hosts.highest(min(max(octaves, 0), _MOST_OCTAVES))[0]


def _begun(chains: Chain, begins: Start) -> Chain:
    """The chains as the warm-up left them."""
    if begins.movers is not None:
        return Chain(*begins.movers)
    motion = chains.state.motion._replace(momentum=begins.momenta)
    return chains._replace(state=chains.state._replace(motion=motion))


def _host_batches(gradient: GradientEstimator) -> tuple[int | None, PyTree]:
    """How many host batches go to the device at a time, and one to count operations with."""
    if not isinstance(gradient, Streamed):
        return None, None
    host = gradient.posterior.host
    assert host is not None
    x, y = host.peek()  # taking a batch would lose it, if the iterable gives each only once
    rows = np.ones(len(jax.tree.leaves(y)[0]), bool)
    return most_batches(host, schedule.BLOCK_BYTES), (x, y, rows)


def engine(
    spec: RunSpec,
    setup: RunSetup,
    state: RunState,
    pieces: list[Piece],
    asked_to_stop: Callable[[], bool],
) -> Engine:
    """What computes the pieces that are left, from a state that is where it runs.

    Args:
      spec: what was asked.
      setup: made of it.
      state: where the run is.
      pieces: those that are left.
      asked_to_stop: whether the run is to stop, also within a piece that may take very long.
    """
    capacity, layout = max((piece.draws for piece in setup.pieces), default=1), setup.layout
    plan = layout.place_plan(setup.plan, state.now.position)
    if spec.thin_time is not None:
        most = min(setup.size.steps, _MOST_STEPS)
        return ByTime(plan, layout, spec.thin_time, capacity, most, asked_to_stop)
    if setup.batches_per_call is not None:
        most, done = setup.batches_per_call, state.progress.steps
        return Streaming(plan, layout, spec.thin, most, pieces, done)
    return InMemory(plan, layout, spec.thin, capacity)


@partial(jax.jit, static_argnames=("stacked",))
def start_chains(positions: PyTree, sampler: Sampler, key: Array, *, stacked: bool) -> Chain:
    """Chains at their first positions; chain i has the key fold(key, i) however many there are."""
    chains = len(jax.tree.leaves(positions)[0])
    words = key_words(key)
    keys = jax.vmap(lambda i: fold(words, i, Purpose.CHAIN))(jnp.arange(chains, dtype=jnp.uint32))

    def begin(sampler: Sampler, position: PyTree, key: Array) -> SamplerState:
        return cast(Callable[..., SamplerState], sampler.init)(position, key)

    axes = (0 if stacked else None, 0, 0)
    return Chain(positions, jax.vmap(begin, axes)(sampler, positions, keys))


@jax.jit
def _memories(gradient: RemembersGradients, positions: PyTree) -> PyTree:
    return jax.vmap(gradient.begin)(positions)


def with_memory(chain: Chain, gradient: GradientEstimator) -> Chain:
    """The chains with what the gradient estimator remembers of their first positions, if any."""
    if not isinstance(gradient, RemembersGradients):
        return chain
    return chain._replace(memory=_memories(gradient, chain.position))


def _begin_online(chain: Chain, plan: Plan) -> RunningAverage | None:
    """Averages of every chain before the first draw, if any are asked for."""
    if plan.online is None:
        return None
    value = jax.eval_shape(jax.vmap(plan.online), chain.position)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), value)
    chains = len(chain.state.key)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], chains, axis=0), online.begin(one))


class Replicated(GradientEstimator):
    """The gradient at every copy, with randomness of its own."""

    gradient: GradientEstimator
    number: int = static()

    def __call__(
        self, stream: Stream, position: PyTree, batch: PyTree = None
    ) -> tuple[Array, PyTree]:
        """(U, G), both with a leading axis of copies."""

        def one(index: Array, at: PyTree) -> tuple[Array, PyTree]:
            return self.gradient(
                Stream(fold(stream.key, index, Purpose.REPLICA), stream.step), at, batch
            )

        return jax.vmap(one)(jnp.arange(self.number, dtype=jnp.uint32), position)


@dataclass(frozen=True)
class OfColdest:
    """A function of the first copy."""

    function: Callable[[PyTree], PyTree]

    def __call__(self, position: PyTree) -> PyTree:
        """``function`` of the first copy."""
        return self.function(coldest(position))


def replicated(gradient: GradientEstimator, number: int) -> Replicated:
    """The gradient of ``number`` copies, if it can be made."""
    if isinstance(gradient, Streamed):
        raise ValueError(
            f"host batches cannot serve {number} replicas: each needs rows of its own; give the "
            "posterior its data in memory"
        )
    if isinstance(gradient, RemembersGradients):
        raise ValueError(
            f"{type(gradient).__name__} remembers gradients of one position and cannot serve "
            f"{number} replicas: use minibatches or a control variate"
        )
    return Replicated(gradient, number)


def copies(positions: PyTree, number: int) -> PyTree:
    """``number`` copies of every chain's position, along the second axis."""
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], number, axis=1), positions)


def begin_warm_up(spec: RunSpec, found: Found) -> tuple[Problem, WarmUp]:
    """The warm-up of a run before its first window.

    Args:
      spec: what was asked, with how its gradient is estimated.
      found: the centre of its control variate, or why there is none.
    """
    assert spec.auto is not None
    temperature = inputs.tuning_temperature(spec.target, spec.auto.temperature)
    if found.centre is not None and len(found.centre.draws):
        return _begin_at_draws(spec, found.centre, temperature)
    if found.centre is not None:
        assert isinstance(spec.target, Posterior)
        positions = inputs.first_positions(spec.target, spec.init, spec.chains, spec.per_chain)
        return begin_at_centre(
            spec.auto,
            spec.target,
            found.centre,
            inputs.first_of(positions),
            spec.chains,
            temperature,
            spec.key,
            spot_rows=_spot_rows(spec),
        )
    of_rows = spec.batch_size is not None  # the noise is measured on independent minibatches
    gradient = inputs.as_gradient(spec.target, spec.batch_size, of_rows)
    if isinstance(gradient, Streamed):
        raise ValueError(
            "a sampler that tunes itself looks at a minibatch twice, and host batches come once: "
            "give the posterior its data in memory, or give a sampler"
        )
    of_run = inputs.as_gradient(spec.target, spec.batch_size, spec.replace)
    positions = inputs.first_positions(spec.target, spec.init, spec.chains, spec.per_chain)
    return begin(
        spec.auto,
        gradient,
        of_run,
        positions,
        temperature,
        spec.key,
        independent=not of_rows or spec.replace or spec.chooses_rows,
        most_burn_in=spec.draws * spec.thin // 2,
        native=spec.native,
        no_centre=found.reason,
        spot_rows=0.0 if spec.batch_size is None else _spot_rows(spec),
    )


def _begin_at_draws(spec: RunSpec, centre: Centre, temperature: float) -> tuple[Problem, WarmUp]:
    """The warm-up of chains that begin at the draws that came with a centre."""
    assert spec.auto is not None
    assert isinstance(spec.target, Posterior)
    positions = inputs.first_positions(spec.target, spec.init, spec.chains, spec.per_chain)
    example = inputs.first_of(positions)
    flat, unravel = ravel_pytree(example)
    rows = centre.batch_size
    gradient = estimator_at(spec.target, example, centre.position, centre.grads, rows)
    return begin(
        spec.auto,
        gradient,
        gradient,
        jax.vmap(unravel)(jnp.asarray(centre.draws, flat.dtype)),
        temperature,
        spec.key,
        most_burn_in=spec.draws * spec.thin // 2,
        native=spec.native,
        centre=centre,
    )


def _spot_rows(spec: RunSpec) -> float:
    """Rows that the warm-up may look at beside those of its steps, a part of what a run may."""
    assert isinstance(spec.target, Posterior)
    of_run = spec.chains * spec.draws * spec.thin * (spec.batch_size or 0)
    most = min(SHARE_OF_ROWS * of_run, float(MOST_PASSES * spec.target.size))
    return most / 4.0


def with_tuned_sampler(spec: RunSpec, problem: Problem, warm: WarmUp) -> tuple[RunSpec, Start]:
    """The run with what the warm-up found, and where it begins."""
    begins, tuning = finish(problem, warm)
    of_rows = spec.batch_size is not None
    replaced = spec.replace or (of_rows and spec.chooses_rows and problem.noise_taken_out)
    return replace(spec, sampler=tuning.sampler, tuning=tuning, replace=replaced), begins


def warmed_up(spec: RunSpec) -> tuple[RunSpec, Start]:
    """The run after its warm-up, and where it begins."""
    spec, found = centred.settled(spec)
    problem, first = begin_warm_up(spec, found)
    warm = as_first_process(problem, first, warm_up(problem, first))
    return with_tuned_sampler(spec, problem, warm)


def as_first_process(problem: Problem, first: WarmUp, warm: WarmUp) -> WarmUp:
    """The warm-up that the first process has done: those of others may be rounded differently.

    Args:
      problem: what is warmed up.
      first: before its first window.
      warm: as this process has done it.
    """
    if not hosts.several():
        return warm
    return unpack(hosts.from_first(pack(warm) if hosts.is_first() else b""), problem, first)
