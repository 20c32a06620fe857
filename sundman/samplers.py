"""A sampler is an integrator times a clock, and an optax gradient transformation.

``compose`` is the product; :mod:`sundman.recipes` has the samplers people know by name.

    sampler = sundman.sgld(1e-3)
    state = sampler.init(params, key)
    updates, state = sampler.update(grads, state, params)     # grads of U, full-data scale
    params = optax.apply_updates(params, updates)

The position before the update carries the weight ``sampler.weight(state)`` after it, which for
all but a few samplers is ``state.clock.dt``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import optax
from jax import Array

from sundman import check, native
from sundman.clocks import Clock, ClockState
from sundman.integrators import FusedMove, Integrator
from sundman.noise import Stream, fold, key_words, purposes
from sundman.split import joined

PyTree = Any


class SamplerState(NamedTuple):
    """The noise key, the clock (step, time, dt, zeta) and the integrator's own state."""

    key: Array
    clock: ClockState
    motion: Any


class Sampler(optax.GradientTransformationExtraArgs):
    """An optax transformation that also remembers the integrator and clock it was made of."""

    integrator: Integrator
    clock: Clock

    def __new__(cls, init: Callable, update: Callable, integrator: Integrator, clock: Clock):
        """Pair ``init`` and ``update`` as optax does, and keep the two factors beside them."""
        self = super().__new__(cls, init, update)
        self.integrator = integrator
        self.clock = clock
        return self

    def __reduce__(self) -> tuple[Callable, tuple[Integrator, Clock]]:
        """Pickled as the product it is."""
        return compose, (self.integrator, self.clock)

    @property
    def settings(self) -> dict[str, Any]:
        """Every setting of the integrator and of the clock, by name."""
        return {**self.integrator.settings, **self.clock.settings}

    @property
    def temperature(self) -> Any:
        """The temperature T of the law this sampler draws from, exp(-U/T)."""
        return self.integrator.settings["temperature"]

    def step(
        self, grads: PyTree, state: SamplerState, params: PyTree, value: Array | None = None
    ) -> tuple[PyTree, SamplerState]:
        """The parameters and the state after one step: ``update`` applied.

        Inside :func:`sundman.native.using` by the native kernels, in one pass; ``grads`` may then
        come in two parts (:mod:`sundman.split`).
        """
        move = self.integrator.move
        if native.active() and isinstance(move, FusedMove):
            seen = grads if self.clock.splits else joined(grads)
            dt, clock = self.clock.tick(state.clock, seen, params)
            stream = Stream(state.key, state.clock.step)
            moved, motion = move.advance(stream, grads, state.motion, params, dt)
            return moved, SamplerState(state.key, clock, motion)
        update = cast(Callable[..., Any], self.update)
        updates, after = update(joined(grads), state, params, value=value)
        return optax.apply_updates(params, updates), after

    def weight(self, state: SamplerState) -> Array:
        """The weight of the position that was left by the step to ``state``."""
        weigh = self.integrator.weigh
        return state.clock.dt if weigh is None else state.clock.dt * weigh(state.motion)

    def at(self, temperature: Any) -> Sampler:
        """The same sampler at another temperature."""
        return compose(self.integrator.at(temperature), self.clock)


def _noise_key(key: Array) -> Array:
    """The key of the noise: folded, so that related user keys give unrelated streams."""
    return fold(key_words(key), 0, purposes.SAMPLER)


def compose(integrator: Integrator, clock: Clock) -> Sampler:
    """The sampler that moves by ``integrator`` over the times told by ``clock``."""
    if integrator.stages is not None and integrator.stages != clock.stages:
        raise ValueError(
            f"the integrator explores in {integrator.stages}, the clock has "
            f"{clock.stages or 'no stages'}: draws would be taken while it explores; give both the "
            "same cycle and explore, as sundman.cyclical_sgld does"
        )

    def init(params: PyTree, key: Array | None = None) -> SamplerState:
        check.params(params)
        params = jax.tree.map(jnp.asarray, params)
        words = _noise_key(jax.random.key(0) if key is None else key)
        return SamplerState(words, clock.init(params), integrator.init(params))

    def update(
        grads: PyTree,
        state: SamplerState,
        params: PyTree | None = None,
        *,
        key: Array | None = None,
        value: Array | None = None,
        **extra: Any,
    ) -> tuple[PyTree, SamplerState]:
        del extra
        if params is None:
            raise TypeError("update needs the position: update(grads, state, params)")
        check.same_structure(grads, params)
        words = state.key if key is None else _noise_key(key)
        dt, after = clock.tick(state.clock, grads, params)
        stream = Stream(words, state.clock.step)
        needed = {}
        if integrator.needs_value:
            if value is None:
                raise TypeError(
                    f"{integrator.settings['integrator']} needs the potential, too: "
                    "update(grads, state, params, value=U(params))"
                )
            needed["value"] = value
        updates, motion = integrator.move(stream, grads, state.motion, params, dt, **needed)
        return updates, SamplerState(state.key, after, motion)

    return Sampler(init, update, integrator, clock)
