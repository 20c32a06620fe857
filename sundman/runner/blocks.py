"""How a run is cut into pieces: about a second each, the same ones whenever it is run.

The size follows from counted operations, not from a clock, so that a run repeats exactly.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, jaxprs_in_params

from sundman._types import PyTree
from sundman.clocks import Stages
from sundman.runner import loop, online
from sundman.runner.chain_mapping import each_chain
from sundman.runner.engine import Piece
from sundman.runner.stages import turns

MEMORY = 64 * 2**20
_OPERATIONS = 1e10
_LEAST_PER_STEP = 1e3


Shapes = tuple[tuple[tuple[int, ...], np.dtype], ...]


def structure_of(tree: PyTree) -> tuple[Any, Shapes]:
    """What a program is made of: everything but the numbers, hashable."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((np.shape(x), np.dtype(jnp.result_type(x))) for x in leaves)


def skeleton_of(structure: Any, shapes: Shapes) -> PyTree:
    """The tree with shapes in the place of its numbers."""
    return jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*each) for each in shapes])


def operations_per_step(chain: loop.Chain, plan: loop.Plan, batch: PyTree) -> float:
    """Operations of one step of all chains, about: enough to size a block by."""
    return _operations(*structure_of((plan, chain, batch)))


@lru_cache(maxsize=256)
def _operations(structure: Any, shapes: Shapes) -> float:
    plan, chain, batch = skeleton_of(structure, shapes)

    def step(plan: loop.Plan, chain: loop.Chain, batch: PyTree) -> loop.Chain:
        return each_chain(lambda one, c: loop.step(one, c, batch)[0], plan, chain)

    return max(_count(jax.make_jaxpr(step)(plan, chain, batch).jaxpr), _LEAST_PER_STEP)


def _count(jaxpr: Jaxpr) -> float:
    """Two operations for each term of a product of matrices, one for any other number made.

    The compiler counts better, once the program is lowered, which takes longer than many a run.
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
            size *= 2 * math.prod(equation.invars[0].aval.shape[axis] for axis in contracted)
        elif equation.primitive.name == "conv_general_dilated":
            out_channel = equation.params["dimension_numbers"].rhs_spec[0]
            kernel = equation.invars[1].aval
            size *= 2 * kernel.size // kernel.shape[out_channel]
        total += size
    return total


def bytes_per_draw(chain: loop.Chain, plan: loop.Plan) -> int:
    """What a draw of all chains takes in memory."""
    kept = jax.eval_shape(jax.vmap(plan.collect), chain.position)
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(kept))
    return size + 4 * (2 + len(plan.stats)) * len(chain.state.key)


def sizes(
    chain: loop.Chain, plan: loop.Plan, thin: int, batch: PyTree, at_once: int | None
) -> Piece:
    """The draws of a block and the steps of a piece of burn-in.

    ``at_once`` is the number of host batches handed over at a time, if data are streamed.
    """
    steps = max(1, int(_OPERATIONS / operations_per_step(chain, plan, batch)))
    if at_once is not None:
        steps = at_once
    draws = max(1, min(steps // thin, MEMORY // bytes_per_draw(chain, plan)))
    return Piece(draws, steps)


def pieces(
    burn_in: int, draws: int, thin: int, size: Piece, stages: Stages | None = None
) -> list[Piece]:
    """The whole run: burn-in first, then draws; with ``stages`` both in turn."""
    found = []
    for without, count in (
        [(burn_in, draws)] if stages is None else turns(stages, burn_in, draws, thin)
    ):
        found += [Piece(0, steps) for steps in _parts(without, size.steps)]
        found += [Piece(part, part * thin) for part in _parts(count, size.draws)]
    return found


def _parts(total: int, most: int) -> list[int]:
    """``total`` in parts of ``most``, the last one what is left."""
    return [min(most, total - begin) for begin in range(0, total, most)]


def begin_online(chain: loop.Chain, plan: loop.Plan) -> online.Average | None:
    """Averages of every chain before the first draw, if any are asked for."""
    if plan.online is None:
        return None
    value = jax.eval_shape(jax.vmap(plan.online), chain.position)
    one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), value)
    chains = len(chain.state.key)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], chains, axis=0), online.begin(one))
