"""Temperatures: is the law that was sampled exp(-U/T) with the T asked for?

Integration by parts gives, for any fixed centre c and any U that confines,

    E[(theta - c) . grad U(theta)] = d T        (configurational)

and momenta of unit mass have E|p|^2 = d T (kinetic).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman._types import DrawsArray, PyTree
from sundman.estimate.moments import Estimate, evaluate, moments, weights
from sundman.gradients import Potential

if TYPE_CHECKING:
    from sundman.draws import Draws


def virial_of(draws: Draws, potential: Potential | None) -> np.ndarray:
    """(theta - c) . grad U / d at every draw, c the weighted mean; as recorded, c is 0."""
    if potential is None:
        return _recorded(draws, "virial", "or give the potential")
    weight = weights(draws)
    leaves, structure = jax.tree.flatten(draws.position)

    def dtype(leaf: DrawsArray) -> np.dtype:
        return jax.dtypes.canonicalize_dtype(leaf.dtype)

    centre = structure.unflatten(
        [jnp.asarray(moments(leaf, weight, error=False).mean, dtype(leaf)) for leaf in leaves]
    )
    dimension = sum(int(np.prod(leaf.shape[2:])) for leaf in leaves)

    def virial(position: PyTree) -> Array:
        gradient = jax.grad(potential)(position)
        parts = jax.tree.map(lambda x, c, g: jnp.sum((x - c) * g), position, centre, gradient)
        return jnp.asarray(sum(jax.tree.leaves(parts)) / dimension)

    return evaluate(draws, virial)


def _recorded(draws: Draws, name: str, otherwise: str) -> np.ndarray:
    if name not in draws.stats:
        raise ValueError(
            f"the draws have no statistic {name!r}, only {sorted(draws.stats)}: "
            f"ask sample for it with stats=(..., {name!r}), {otherwise}"
        )
    return np.asarray(draws.stats[name])


def _average(values: np.ndarray, weight: np.ndarray) -> Estimate:
    value, error, _ = moments(values, weight)
    return Estimate(float(value), float(error))


def configurational_temperature(draws: Draws, potential: Potential | None = None) -> Estimate:
    """(theta - c) . grad U / d averaged over the draws.

    With a potential c is the weighted mean of the draws. Without one the recorded statistic
    ``"virial"`` is averaged, which has c = 0 and the gradients that the sampler used.
    """
    return _average(virial_of(draws, potential), weights(draws))


def kinetic_temperature(draws: Draws) -> Estimate:
    """|p|^2 / d averaged over the draws, from the statistic ``"kinetic_temperature"``."""
    recorded = _recorded(draws, "kinetic_temperature", "of a sampler that has momenta")
    return _average(recorded, weights(draws))


def temperature_by_block(
    draws: Draws, blocks: int = 10, potential: Potential | None = None
) -> Estimate:
    """The configurational temperature of consecutive blocks of draws: one entry per block.

    A block in which every chain has diverged is not a number.

    Args:
      draws: the weighted draws.
      blocks: how many of them.
      potential: U; None takes the recorded statistic ``"virial"``.

    Returns:
      The temperatures and their standard errors, one for each block.
    """
    check.count("blocks", blocks, least=1)
    if len(draws) < blocks:
        raise ValueError(f"blocks={blocks} is more than the {len(draws)} draws per chain")
    virial, weight = virial_of(draws, potential), weights(draws)
    edges = np.linspace(0, len(draws), blocks + 1).astype(int)
    averages = [
        _average(virial[:, a:b], weight[:, a:b])
        if weight[:, a:b].any()
        else Estimate(np.nan, np.nan)
        for a, b in itertools.pairwise(edges)
    ]
    return Estimate(
        np.array([each.value for each in averages]), np.array([e.error for e in averages])
    )
