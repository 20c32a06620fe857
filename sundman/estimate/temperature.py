"""Configurational temperature: is the law that was sampled exp(-U/T) with the T asked for?

Integration by parts gives, for any fixed centre c and any U that confines,

    E[(theta - c) . grad U(theta)] = d T.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from sundman.draws import Draws
from sundman.estimate.moments import Estimate, mean
from sundman.gradients import Potential

PyTree = Any


def configurational_temperature(draws: Draws, potential: Potential) -> Estimate:
    """(theta - c) . grad U / d averaged over the draws, c their weighted mean."""
    flat, unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0, 0], draws.position))
    centre = unravel(jnp.asarray(mean(draws, lambda x: ravel_pytree(x)[0]).value, flat.dtype))

    def virial(position: PyTree) -> Any:
        gradient = jax.grad(potential)(position)
        parts = jax.tree.map(lambda x, c, g: jnp.sum((x - c) * g), position, centre, gradient)
        return sum(jax.tree.leaves(parts)) / flat.size

    return mean(draws, virial)
