"""Do U and its gradient belong together? The warm-up asks where it begins and after its descent."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from sundman.gradients.slopes import comparable, measure, most_lines
from sundman.tune import scales
from sundman.tune.state import Problem, TuningError, WarmUp

_CHANGES = (0.01, 1.0, 100.0, 1e4)  # of U along a line, by its slope where it begins, in units of T
_FEWEST, _SHARE, _EXCESS = 3, 0.9, 0.2  # directions that are off, of those told, and by how much
_FEWEST_ROWS = 32


def check_gradient(problem: Problem, warm: WarmUp) -> None:
    """Raise if along nearly all lines from where the chains are U changes as no gradient says.

    The lines go along the gradient and in random directions, each in several lengths.
    """
    rows = getattr(problem.gradient, "batch_size", None)
    few = [] if rows is None else [max(rows, _FEWEST_ROWS)]
    gradient = comparable(problem.gradient, *few)
    if gradient is None:
        return
    number = max(1, most_lines(warm.coordinates) // len(_CHANGES))
    chain = np.arange(number) % warm.chains
    grads = np.asarray(warm.walk.grads, np.float64)[chain]
    inside = scales.inward(warm.scale, grads)
    noise = np.random.default_rng(0).normal(size=inside.shape)
    inside[warm.chains :] = noise[warm.chains :]
    ways = warm.scale * inside if warm.scale.ndim == 1 else inside @ warm.scale.T
    slope = np.abs(np.sum(ways * grads, axis=1, keepdims=True))
    ways = np.where(slope > 0, ways / np.where(slope > 0, slope, 1.0), 0.0)
    changes = np.repeat(_CHANGES, number)[:, None] * problem.temperature
    dtype = warm.walk.position.dtype
    unravel = jax.vmap(ravel_pytree(problem.example)[1])
    found = measure(
        gradient,
        unravel(warm.walk.position[np.tile(chain, len(_CHANGES))]),
        unravel(jnp.asarray(changes * np.tile(ways, (len(_CHANGES), 1)), dtype)),
        np.tile(np.arange(number), len(_CHANGES)),
    )
    told, off, ratio = found.disagreement(_EXCESS)
    if off >= max(_FEWEST, _SHARE * told):
        raise TuningError(
            f"U and its gradient do not belong together: along {off} of {told} lines U does not "
            f"change as its gradient says, which is {ratio:.2g} of the slope that U has: is there "
            "a stop_gradient, a custom derivative, clipping?"
        )
