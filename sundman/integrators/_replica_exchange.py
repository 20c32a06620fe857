"""Replica exchange: Langevin copies at rising temperatures that trade places.

    theta_r <- theta_r - s_r dt G_r + sqrt(2 T_r s_r dt) eps_r,        T_1 = T < T_2 < ...

The hot copies cross barriers, and what they find comes down by swaps. With probability
min(1, rate dt) a step first draws a pair of neighbours k, k+1 and swaps them with probability

    min(1, exp(D (U_k - U_{k+1}) - D^2 v)),        D = 1/T_k - 1/T_{k+1}

Deng, Feng, Gao, Liang, Lin (2020), "Non-convex learning via replica exchange stochastic gradient
MCMC". v is the variance of one estimate of U (0: it is exact). Normal noise of that variance
makes exp(D (U_k - U_{k+1})) too large by exp(D^2 v) on average, and subtracting D^2 v restores
detailed balance exactly (Ceperley, Dewing 1999). The paper divides the correction by a factor
F > 1 to swap more often, at the price of a bias: give v / F for that.

The law of all copies, the product of exp(-U/T_r), is kept by the swaps. A swap changes only the
position, so attempts must come at a rate of physical time: with an adaptive clock, whose one dt
follows the gradients of all copies, the steps are a change of time of the whole process and the
weights dt undo it. Attempts every so many steps would not be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.integrators.base import Integrator, cast_like, per_leaf
from sundman.noise import Purpose, Stream, gaussian, substream, words
from sundman.value import Number


class SwapCounts(NamedTuple):
    """How often each pair of neighbours was tried, and how often it swapped."""

    tried: Array
    swapped: Array


def _uniforms(stream: Stream, number: int) -> Array:
    """Numbers in (0, 1), in single precision."""
    first, _ = words(substream(stream, Purpose.SWAP), (number,))
    return ((first >> jnp.uint32(8)).astype(jnp.float32) + 0.5) * 2.0**-24


def _down(leaf: Array, like: Array) -> Array:
    """One number for each copy, shaped to multiply the arrays of the copies."""
    return leaf.reshape(-1, *[1] * (like.ndim - 1))


def _check_sequence(ratios: object) -> None:
    if not isinstance(ratios, Sequence):
        raise TypeError(f"ratios must be a sequence such as (1.0, 4.0), got {ratios!r}")


def _check_numbers(ratios: Sequence[Number], factors: Sequence[Number]) -> None:
    check.positive(**{f"ratios[{i}]": ratio for i, ratio in enumerate(ratios)})
    check.positive(**{f"step_factors[{i}]": factor for i, factor in enumerate(factors)})
    rising = not all(map(check.known, ratios)) or (
        ratios[0] == 1 and all(low < high for low, high in pairwise(ratios))
    )
    if len(ratios) < 2 or not rising:
        raise ValueError(
            "ratios are the temperatures of the copies over that of the target: two or more, "
            f"rising, the first 1; got ratios={tuple(ratios)}"
        )
    if len(factors) != len(ratios):
        raise ValueError(
            f"step_factors has one for each of the {len(ratios)} copies; got {tuple(factors)}"
        )


class ReplicaExchange(Integrator):
    """SGLD copies of the position at temperatures T ratios; the first samples the target.

    Every array has a leading axis of copies.

    Args:
      temperature: T, that of the first copy; None is that of the target, or 1.
      ratios: T_r / T, rising from 1.
      step_factors: s_r, what dt is multiplied with for each copy; 1 if not given.
      swap_rate: attempts per unit of physical time, at most one a step.
      energy_variance: v, the variance of one estimate of U.
    """

    label = "Euler-Maruyama copies that swap"
    weak_order = 1
    references = ("deng2020replica",)
    needs_value = True

    _: KW_ONLY
    ratios: Sequence[Number] = (1.0, 4.0)
    step_factors: Sequence[Number] | None = None
    swap_rate: Number = 1.0
    energy_variance: Number = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(swap_rate=check.positive, energy_variance=check.not_negative)
        _check_sequence(self.ratios)
        ratios = tuple(self.ratios)
        factors = (1.0,) * len(ratios) if self.step_factors is None else tuple(self.step_factors)
        _check_numbers(ratios, factors)
        self._set(ratios=ratios, step_factors=factors)

    @property
    def replicas(self) -> int:
        """How many copies there are."""
        return len(self.ratios)

    def init(self, params: PyTree) -> SwapCounts:
        """No swaps tried."""
        for leaf in jax.tree.leaves(params):
            if jnp.shape(leaf)[:1] != (self.replicas,):
                raise ValueError(
                    f"replica exchange moves {self.replicas} copies along a leading axis: an array "
                    f"has the shape {jnp.shape(leaf)}. sundman.sample makes the copies by itself"
                )
        none = jnp.zeros(self.replicas - 1, jnp.uint32)
        return SwapCounts(none, none)

    def _exchange(
        self, stream: Stream, state: SwapCounts, value: Array, dt: Array
    ) -> tuple[Array, SwapCounts]:
        """Which copies swap with the next one, at most one of them; and the counts."""
        pairs = self.replicas - 1
        value = value.astype(jnp.result_type(jnp.float32, value))
        attempt, which, accept = _uniforms(stream, 3)
        gaps = jnp.stack([1.0 / low - 1.0 / high for low, high in pairwise(self._ratios(value))])
        inverse = gaps.astype(value.dtype) / self.T
        gain = inverse * (value[:-1] - value[1:]) - jnp.square(inverse) * self.energy_variance
        chosen = jnp.minimum((which * pairs).astype(jnp.int32), pairs - 1)
        tried = (attempt < self.swap_rate * dt) & (jnp.arange(pairs) == chosen)
        swapped = tried & (jnp.log(accept) < gain)
        return swapped, SwapCounts(state.tried + tried, state.swapped + swapped)

    def _ratios(self, like: Array) -> Array:
        return jnp.stack([jnp.asarray(ratio, like.dtype) for ratio in self.ratios])

    def move(  # type: ignore[override]  # needs_value asks for U as well
        self,
        stream: Stream,
        grads: PyTree,
        state: SwapCounts,
        params: PyTree,
        dt: PyTree,
        *,
        value: Array,
    ) -> tuple[PyTree, SwapCounts]:
        """A swap, perhaps, and a Langevin step of every copy."""
        lengths = per_leaf(dt, params)
        mean_length = jnp.mean(jnp.stack(jax.tree.leaves(lengths)))
        swapped, counts = self._exchange(stream, state, value, mean_length)
        comes_down, goes_up = jnp.append(swapped, False), jnp.append(False, swapped)

        def traded(leaf: Array) -> Array:
            below = jnp.where(_down(goes_up, leaf), jnp.roll(leaf, 1, 0), leaf)
            return jnp.where(_down(comes_down, leaf), jnp.roll(leaf, -1, 0), below)

        def step(h: Array, grad: Array, theta: Array, eps: Array) -> Array:
            assert self.step_factors is not None  # __post_init__ gave them
            own = h * jnp.stack([jnp.asarray(factor, h.dtype) for factor in self.step_factors])
            size = jnp.sqrt(2.0 * self.T * own * self._ratios(h))
            moved = -_down(own, theta) * traded(grad) + _down(size, theta) * eps
            return traded(theta) - theta + moved

        updates = jax.tree.map(step, lengths, grads, params, gaussian(stream, params))
        return cast_like(updates, params), counts
