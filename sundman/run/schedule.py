"""How a run is cut into pieces, of about a second each, the same ones whenever it is run.

The size follows from counted operations, not from a clock, so that a run repeats exactly. A sampler
with stages is not drawn from while it explores, nor in the burn-in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import jax
from jax.extend.core import Jaxpr, jaxprs_in_params

from sundman._trees import PyTreeDef, Shapes, shapes_of, structure_of
from sundman._types import PyTree
from sundman.clocks import Stages
from sundman.run.state import Chain
from sundman.run.step import Plan, traced_step

BLOCK_BYTES = 64 * 2**20
_FIRST_LOOK = 100  # draws before a rule looks at them
_LOOK_AGAIN = 10  # when there are a tenth more
_SHORTEST = 64  # of the usual block
_LOOK_OPERATIONS = 2e7  # as many take as long as a look does, with the block that ends there
_LOOKS_APART = 16  # times as long, where that does not more than double the run
_OPERATIONS = 1e10
_PRODUCT = 0.2  # of a term of a matrix product, two floating-point operations
_LEAST_PER_STEP = 1e3


class Piece(NamedTuple):
    """A part of a run between two looks of the host: ``draws`` draws, or ``steps`` of burn-in."""

    draws: int
    steps: int


class Sizes(NamedTuple):
    """How large the pieces of a run are.

    Attributes:
      draws: of a block, at most.
      steps: of a piece of burn-in, at most.
      growing: blocks begin short and grow with the run, so that a rule can end it early.
      look: draws whose steps take as long as a look of that rule.
    """

    draws: int
    steps: int
    growing: bool = False
    look: int = 0


def operations_per_step(chains: Chain, plan: Plan, batch: PyTree) -> float:
    """Operations of one step of all chains, about: enough to size a block by."""
    one = _operations(traced_step(plan, chains, batch).jaxpr.jaxpr)
    return max(len(chains.state.key) * one, _LEAST_PER_STEP)


@lru_cache(maxsize=256)
def _operations(step: Jaxpr) -> float:
    """Those of a step, which is traced once for all runs of one structure."""
    return _count(step)


def _shape(value: object) -> tuple[int, ...]:
    """The shape of what a traced operation works on."""
    return getattr(value, "shape", ())


def _count(jaxpr: Jaxpr) -> float:
    """One operation for each number made; a term of a product of matrices is a fifth of one.

    Products keep the vector units busy where the rest waits for memory: a core makes some 1e11
    floating-point operations a second in them, 1e10 elsewhere. The compiler counts better, once the
    program is lowered, which takes longer than many a run.
    """
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [_count(each) for each in jaxprs_in_params(equation.params)]
        if inner:
            total += sum(inner) * equation.params.get("length", 1)
            continue
        size = max(getattr(out.aval, "size", 1) for out in equation.outvars)
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = _shape(equation.invars[0].aval)
            size *= _PRODUCT * math.prod(left[axis] for axis in contracted)
        elif equation.primitive.name == "conv_general_dilated":
            out_channel = equation.params["dimension_numbers"].rhs_spec[0]
            kernel = _shape(equation.invars[1].aval)
            size *= _PRODUCT * math.prod(kernel) / kernel[out_channel]
        total += size
    return total


def bytes_per_draw(chain: Chain, plan: Plan) -> int:
    """What a draw of all chains takes in memory."""
    size = _bytes_of_values(plan.collect, *structure_of(chain.position))
    return size + 4 * (2 + len(plan.stats)) * len(chain.state.key)


@lru_cache(maxsize=256)
def _bytes_of_values(
    collect: Callable[[PyTree], PyTree], structure: PyTreeDef, shapes: Shapes
) -> int:
    values = jax.eval_shape(jax.vmap(collect), shapes_of(structure, shapes))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(values))


def sizes(chain: Chain, plan: Plan, thin: int, batch: PyTree, at_once: int | None) -> Sizes:
    """The draws of a block and the steps of a piece of burn-in.

    ``at_once`` is the number of host batches handed over at a time, if data are streamed.
    """
    operations = operations_per_step(chain, plan, batch)
    steps = max(1, int(_OPERATIONS / operations)) if at_once is None else at_once
    draws = max(1, min(steps // thin, BLOCK_BYTES // bytes_per_draw(chain, plan)))
    return Sizes(draws, steps, look=int(_LOOK_OPERATIONS / (operations * thin)))


def pieces(
    burn_in: int, draws: int, thin: int, size: Sizes, stages: Stages | None = None
) -> list[Piece]:
    """The whole run: burn-in first, then draws; with ``stages`` both in turn."""
    run: list[Piece] = []
    done = 0
    for without, count in (
        [(burn_in, draws)] if stages is None else draw_schedule(stages, burn_in, draws, thin)
    ):
        end = done + count
        run += [
            Piece(0, min(size.steps, without - begin)) for begin in range(0, without, size.steps)
        ]
        while done < end:
            part = min(block_at(done, size), end - done)
            run.append(Piece(part, part * thin))
            done += part
    return run


def block_at(done: int, size: Sizes) -> int:
    """How many draws a block has that begins after ``done`` draws, if nothing cuts it short.

    Where a rule looks at the run at its end: a tenth of them; where steps take little time, so many
    that they take as long as the looks do many times over, but at most as many as there are.
    """
    if not size.growing:
        return size.draws
    growing = _FIRST_LOOK - done if done < _FIRST_LOOK else -(-done // _LOOK_AGAIN)
    apart = max(size.look, min(done, _LOOKS_APART * size.look))
    return min(size.draws, max(growing, apart, size.draws // _SHORTEST))


def looks(pieces: Sequence[Piece]) -> set[int]:
    """The numbers of draws after which a rule looks at the run, all at ends of pieces.

    The first is after 100 draws, each further one when there are a tenth more, so that a run of any
    length is looked at some dozens of times.
    """
    numbers, done, due = set[int](), 0, _FIRST_LOOK
    for piece in pieces:
        done += piece.draws
        if piece.draws and done >= due:
            numbers.add(done)
            due = done + -(-done // _LOOK_AGAIN)
    return numbers


def _sampling(stages: Stages, burn_in: int) -> Iterator[tuple[int, int]]:
    """The first step of each sampling stage after the burn-in, and the step where it ends."""
    begin = burn_in // stages.cycle * stages.cycle
    while True:
        yield max(begin + stages.explore, burn_in), begin + stages.cycle
        begin += stages.cycle


def draws_within(stages: Stages, burn_in: int, steps: int, thin: int) -> int:
    """How many draws there are in ``steps`` steps after the burn-in."""
    total, last = 0, burn_in + steps
    for first, end in _sampling(stages, burn_in):
        if first >= last:
            break
        total += (min(end, last) - first) // thin
    if total == 0:
        raise ValueError(
            f"no draw would be kept: the {steps} steps after burn_in={burn_in} end before a "
            f"sampling stage has {thin} (cycle={stages.cycle}, explore={stages.explore})"
        )
    return total


def draw_schedule(stages: Stages, burn_in: int, draws: int, thin: int) -> list[tuple[int, int]]:
    """(steps without draws, draws), again and again until there are ``draws`` of them."""
    schedule, now = [], 0
    for first, end in _sampling(stages, burn_in):
        count = min((end - first) // thin, draws)
        if count:
            schedule.append((first - now, count))
            now, draws = first + count * thin, draws - count
        if not draws:
            return schedule
    raise AssertionError("stages go on for ever")


def check_stages(
    stages: Stages, burn_in: int, steps: int | None, thin: int, thin_time: float | None
) -> None:
    """Raise if no draw would be taken."""
    if thin_time is not None:
        raise ValueError("thin_time does not go with a cyclical clock: its time is not one run")
    if steps is not None and stages.cycle > burn_in + steps:
        raise ValueError(
            f"the cycle is longer than the run: cycle={stages.cycle} steps, and burn_in + steps = "
            f"{burn_in + steps}"
        )
    sampling = stages.cycle - stages.explore
    if thin > sampling:
        raise ValueError(
            f"no draw would be kept: thin={thin}, and the sampling stage of a cycle has "
            f"{sampling} steps (cycle={stages.cycle}, explore={stages.explore})"
        )
