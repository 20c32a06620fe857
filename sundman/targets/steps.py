"""Steps that suit a target, from its stiffness at its own draws.

    stiffness  lambda(x) = the largest |eigenvalue| of the Hessian of U at x
    overdamped min(0.1 / E[lambda], 0.5 / lambda_99)
    kinetic    min(0.15 / E[lambda]^{1/2}, 0.4 / lambda_99^{1/2})

with the mean and the 99% quantile over draws from the target. An explicit step h is stable up to
2 / lambda, and its bias is about h lambda / 4: the first rule keeps the bias small where the mass
is, the second keeps the step stable in all but the rarest places.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from sundman.targets.base import Floats, Suggested, Target, gradient_of

_DRAWS = 512
_POWER_ITERATIONS = 40


def suggest(target: Target) -> Suggested:
    """Steps for a first run: the target's own, and what is missing from its draws or its start.

    Args:
      target: any target; without exact draws its first position serves.

    Returns:
      Steps with and without momentum, and a typical squared gradient; none of them is None.
    """
    suggested = target.suggested
    if suggested is None:
        mean, most = _stiffness(target)
        suggested = Suggested(
            overdamped=min(0.1 / mean, 0.5 / most),
            kinetic=min(0.15 / mean**0.5, 0.4 / most**0.5),
        )
    if suggested.squared_gradient is None:
        suggested = suggested._replace(squared_gradient=_squared_gradient(target))
    return suggested


def _points(target: Target) -> Array:
    """Draws from the target, or its start alone."""
    if target.exact is None:
        return jnp.asarray(target.start)[None]
    return target.exact(jax.random.key(0), _DRAWS)


def _stiffness(target: Target) -> tuple[float, float]:
    """E[lambda] and its 99% quantile, by power iteration with Hessian-vector products."""

    def at(x: Array) -> Array:
        _, product = jax.linearize(gradient_of(target.potential), x)

        def iterate(_: int, v: Array) -> Array:
            Hv = product(v)
            return Hv / jnp.maximum(jnp.linalg.norm(Hv), jnp.finfo(Hv.dtype).tiny)

        v = jax.random.normal(jax.random.key(1), x.shape, x.dtype)
        v = lax.fori_loop(0, _POWER_ITERATIONS, iterate, v / jnp.linalg.norm(v))
        return jnp.linalg.norm(product(v))

    stiffness = _finite(lax.map(at, _points(target)))
    if not stiffness.size or not stiffness.max() > 0:
        raise ValueError(
            f"target {target.name!r} gives no scale for a step: its Hessian is zero or not finite "
            "at its draws; give it suggested=Suggested(overdamped=..., kinetic=...)"
        )
    return float(stiffness.mean()), float(np.quantile(stiffness, 0.99))


def _squared_gradient(target: Target) -> float:
    """E|grad U|^2: its truth, or its mean over draws; at a minimum, T tr H is its like."""
    if "grad2" in target.truth:
        return float(target.truth["grad2"])
    slopes = jax.vmap(gradient_of(target.potential))(_points(target))
    square = _finite(jnp.sum(jnp.square(slopes), axis=-1))
    if square.size and square.mean() > 0:
        return float(square.mean())
    return target.temperature * target.dim * _stiffness(target)[0]


def _finite(values: Array) -> Floats:
    array = np.asarray(values, np.float64)
    return array[np.isfinite(array)]
