"""A call of ``sample``: its arguments, checked, and the parts of a run made from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.clocks import Stages
from sundman.gradients import GradientEstimator, Streamed
from sundman.recipes.registry import label_of
from sundman.runner import blocks, loop, start, timed
from sundman.runner.engine import ByTime, Engine, InMemory, Piece, Streaming, most_batches
from sundman.runner.guard import POLICIES, Guard, Losses, Work
from sundman.runner.health import rise_scale, size_of
from sundman.runner.replicas import OfColdest, copies, replicated
from sundman.runner.stages import check_stages, draws_within, turns
from sundman.samplers import Sampler, check_stacked

_MOST_STEPS = 2**32 - 1


def identity(position: PyTree) -> PyTree:
    """The position itself."""
    return position


@dataclass(frozen=True)
class Call:
    """The arguments of :func:`sundman.sample` that make a run what it is."""

    target: Any
    sampler: Sampler
    key: Array
    init: PyTree
    chains: int
    burn_in: int
    draws: int
    thin: int
    thin_time: float | None
    batch_size: int | None
    replace: bool
    collect: Callable[[PyTree], PyTree] | None
    online: Callable[[PyTree], PyTree] | None
    weighting: str
    stats: tuple[str, ...]
    per_chain: bool | None
    on_divergence: str
    native: bool = False

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting of the sampler and of the run, by name."""
        names = ("draws", "burn_in", "thin", "thin_time", "batch_size", "replace", "chains")
        run = {name: getattr(self, name) for name in names}
        run["weighting"] = "equal" if self.thin_time is not None else self.weighting
        facts = {"sampler": label_of(self.sampler), "references": list(self.sampler.references)}
        run["on_divergence"] = self.on_divergence
        if self.sampler.stacked is None:
            return {**facts, **self.sampler.settings, **run}
        shared, per_chain = {}, []
        for name, value in self.sampler.settings.items():
            stacked = isinstance(value, list) and len(value) == self.chains
            alike = stacked and all(each == value[0] for each in value)
            shared[name] = value[0] if alike else value
            if stacked and not alike:
                per_chain.append(name)
        return {**facts, **shared, "per_chain": per_chain, **run}


def count_draws(
    steps: int | None,
    thin: int,
    thin_time: float | None,
    draws: int | None,
    burn_in: int,
    stages: Stages | None,
) -> int:
    """How many draws to keep, from the arguments that may say so."""
    check.count("thin", thin, least=1)
    check.count("burn_in", burn_in, least=0)
    if stages is not None:
        check_stages(stages, burn_in, steps, thin, thin_time)
    if thin_time is not None:
        check.positive(thin_time=thin_time)
        if draws is None or steps is not None or thin != 1:
            raise ValueError(
                "thin_time keeps draws= positions a physical time apart, however many steps that "
                f"takes: give draws and not steps or thin; got draws={draws}, steps={steps}"
            )
        check.count("draws", draws, least=1)
        return draws
    if (steps is None) == (draws is None):
        raise ValueError(f"give one of steps= and draws=; got steps={steps}, draws={draws}")
    if draws is not None:
        check.count("draws", draws, least=1)
        return draws
    assert steps is not None
    check.count("steps", steps, least=1)
    if steps < thin:
        raise ValueError(f"no draw would be kept: steps={steps} is less than thin={thin}")
    return steps // thin if stages is None else draws_within(stages, burn_in, steps, thin)


def check_call(call: Call) -> None:
    """Raise if an argument makes no sense, before anything is traced."""
    check.count("chains", call.chains, least=1)
    check.choice("weighting", call.weighting, ("leaving", "arriving", "equal"))
    check.choice("on_divergence", call.on_divergence, POLICIES)
    for name in call.stats:
        check.choice("stats", name, loop.STATS)
    for name, function in (("collect", call.collect), ("online", call.online)):
        if function is not None:
            check.function(**{name: function})
    if not isinstance(call.sampler, Sampler):
        called = getattr(call.sampler, "__name__", None) if callable(call.sampler) else None
        raise TypeError(
            "sampler must be a sundman sampler, such as sundman.sgld(1e-3); got "
            + (f"the function {called}: call it with a step" if called else repr(call.sampler))
        )
    stacked = call.sampler.stacked
    if stacked is not None:
        if stacked != call.chains:
            raise ValueError(
                f"the sampler has settings for {stacked} chains, and chains={call.chains}: a "
                "stacked sampler needs one row of settings for each chain"
            )
        check_stacked(call.sampler)
    if call.thin_time is not None and call.sampler.integrator.has_weights:
        raise ValueError(
            f"thin_time gives draws of equal weight, and {call.settings['integrator']} has weights "
            "besides dt: use thin"
        )
    stages, total = call.sampler.clock.stages, call.burn_in + call.draws * call.thin
    if stages is not None:
        parts = turns(stages, call.burn_in, call.draws, call.thin)
        total = sum(without + count * call.thin for without, count in parts)
    if total > _MOST_STEPS:
        raise ValueError(
            f"burn_in + steps must be below 2**32, the range of the noise counter; got {total}"
        )


@dataclass
class Parts:
    """What a run is made of: the work at its beginning, and what turns it into draws.

    ``at_once`` is the number of host batches handed over at a time, if data are streamed;
    ``example`` is such a batch, of streamed data.
    """

    plan: loop.Plan
    work: Work
    guard: Guard
    size: Piece
    pieces: list[Piece]
    at_once: int | None
    example: PyTree

    @property
    def replicas(self) -> int:
        """How many copies of a position the sampler moves."""
        return self.plan.sampler.integrator.replicas


def prepare(call: Call, size: Piece | None = None) -> Parts:
    """The parts of the run; ``size`` that of its pieces, if it is known already."""
    gradient = start.as_gradient(call.target, call.batch_size, call.replace)
    if call.thin_time is not None and isinstance(gradient, Streamed):
        raise ValueError("thin_time needs in-memory data: host batches come step by step")
    sampler = call.sampler
    positions = start.first_positions(call.target, call.init, call.chains, call.per_chain)
    weighting = call.weighting if call.thin_time is None else "equal"
    collect, online, replicas = call.collect or identity, call.online, sampler.integrator.replicas
    if replicas > 1:
        gradient = replicated(gradient, replicas)
        positions = copies(positions, replicas)
        collect, online = OfColdest(collect), online and OfColdest(online)
    first = jax.tree.map(lambda leaf: leaf[0], positions)
    sampler.of_chain(0).integrator.init(first)  # its checks see values
    stacked = sampler.stacked is not None
    chain = start.start_chains(positions, sampler, call.key, stacked=stacked)
    chain = start.with_memory(chain, gradient)
    plan = loop.Plan(
        gradient, sampler.prepared(), collect, weighting, call.stats, online, call.native, stacked
    )
    at_once, batch = _host(gradient)
    if size is None:
        size = blocks.sizes(chain, plan, call.thin, batch, at_once)
    guard = Guard(
        scale=np.broadcast_to(
            np.asarray(rise_scale(size_of(chain.position), sampler.temperature)), (call.chains,)
        ),
        thin=call.thin if call.thin_time is None else None,
        restart=call.on_divergence == "restart",
        keeps_position=call.collect is None and replicas == 1,
        losses=Losses.none(call.chains),
    )
    averages = blocks.begin_online(chain, plan)
    if call.thin_time is not None:
        chain = timed.begin(plan, chain, jnp.float32(call.thin_time))
    work = Work(chain, averages)
    pieces = blocks.pieces(call.burn_in, call.draws, call.thin, size, sampler.clock.stages)
    return Parts(plan, work, guard, size, pieces, at_once, batch)


def _host(gradient: GradientEstimator) -> tuple[int | None, PyTree]:
    """How many host batches go to the device at a time, and one to count operations with."""
    if not isinstance(gradient, Streamed):
        return None, None
    host = gradient.posterior.host
    assert host is not None
    x, y = host.peek()  # taking a batch would lose it, if the iterable gives each only once
    rows = np.ones(len(jax.tree.leaves(y)[0]), bool)
    return most_batches(host, blocks.MEMORY), (x, y, rows)


def engine(call: Call, parts: Parts, pieces: list[Piece], steps_done: int) -> Engine:
    """What computes the pieces that are left."""
    capacity = max((piece.draws for piece in parts.pieces), default=1)
    if call.thin_time is not None:
        return ByTime(parts.plan, call.thin_time, capacity)
    if parts.at_once is not None:
        return Streaming(parts.plan, call.thin, parts.at_once, pieces, steps_done)
    return InMemory(parts.plan, call.thin, capacity)
