"""A sampler is an integrator times a clock, and an optax gradient transformation.

``compose`` is the product; :mod:`sundman.recipes` has the samplers people know by name.

    sampler = sundman.sgld(1e-3)
    state = sampler.init(params, key)
    updates, state = sampler.update(grads, state, params)     # grads of U, full-data scale
    params = optax.apply_updates(params, updates)

The position before the update carries the weight ``sampler.weight(state)`` after it, which for
all but a few samplers is ``state.clock.dt``.

A sampler is a value: its numbers are the leaves of a pytree, so another step does not compile
again and ``jax.vmap(sundman.sgld)(steps)`` is a sampler with a step for each chain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array
from jax.typing import ArrayLike

from sundman import check, native
from sundman._types import PyTree
from sundman.clocks import Clock, ClockState
from sundman.integrators import Integrator
from sundman.integrators.base import apply
from sundman.native.split_gradient import dense
from sundman.noise import Purpose, Stream, fold, key_words
from sundman.value import Number, Settings, Value, public_name, same


class SamplerState(NamedTuple):
    """The noise key, the clock (step, time, dt, zeta) and the integrator's own state."""

    key: Array
    clock: ClockState
    motion: PyTree


_Parts: TypeAlias = "tuple[Integrator, Clock, Array | None, Number | None]"


class Sampler(optax.GradientTransformationExtraArgs):
    """An integrator times a clock; made by :func:`compose` and the recipes.

    Attributes:
      integrator: how a step moves the position.
      clock: how long a step is.
      key: the noise key that ``init`` takes if it is given none, see :meth:`with_key`.
      rows: N, if gradients are those of the mean loss, see :meth:`on_mean_loss`.
    """

    integrator: Integrator
    clock: Clock
    key: Array | None
    rows: Number | None

    def __new__(
        cls,
        integrator: Integrator,
        clock: Clock,
        key: Array | None = None,
        rows: Number | None = None,
    ) -> Sampler:
        """Pair ``init`` and ``update`` as optax does, and keep what they are made of."""
        parts = (integrator, clock, key, rows)
        init = cast(optax.TransformInitFn, partial(_init, *parts))
        update = cast(optax.TransformUpdateExtraArgsFn, partial(_update, *parts))
        self = super().__new__(cls, init, update)
        names = ("integrator", "clock", "key", "rows")
        self.__dict__.update(zip(names, parts, strict=True))
        return self

    def __setattr__(self, name: str, value: object) -> None:
        """A sampler is a value: another setting makes another one."""
        raise AttributeError(f"a sampler cannot be changed: make another, replace({name}=...)")

    def replace(self, **settings: object) -> Sampler:
        """The same sampler with other settings of its integrator or clock, or another of these.

            sundman.sghmc(0.01, gamma=5.0).replace(h=0.02, gamma=2.0)

        Args:
          settings: by name, as in :attr:`settings`; or ``integrator=``, ``clock=``.

        Returns:
          Another sampler.
        """
        integrator = cast(Integrator, settings.pop("integrator", self.integrator))
        clock = cast(Clock, settings.pop("clock", self.clock))
        moving = {k: settings.pop(k) for k in list(settings) if k in integrator.field_names()}
        ticking = {k: settings.pop(k) for k in list(settings) if k in clock.field_names()}
        if settings:
            known = ", ".join((*integrator.field_names(), *clock.field_names()))
            raise TypeError(f"{self!r} has no setting {next(iter(settings))!r}; it has {known}")
        product = compose(integrator.replace(**moving), clock.replace(**ticking))
        return Sampler(product.integrator, product.clock, self.key, self.rows)

    def __reduce__(self) -> tuple[type[Sampler], _Parts]:
        """Pickled as the product it is."""
        return Sampler, (self.integrator, self.clock, self.key, self.rows)

    def __eq__(self, other: object) -> bool:
        """Whether both are the same product, with equal numbers."""
        if not isinstance(other, Sampler):
            return NotImplemented
        ours, theirs = (
            jax.tree.flatten((s.integrator, s.clock, s.key, s.rows)) for s in (self, other)
        )
        return ours[1] == theirs[1] and all(map(same, ours[0], theirs[0]))

    def __hash__(self) -> int:
        """Equal samplers have equal hashes."""
        return hash((self.integrator, self.clock))

    def __repr__(self) -> str:
        """How to make it."""
        text = f"sundman.compose({self.integrator!r}, {self.clock!r})"
        text += "" if self.rows is None else f".on_mean_loss({self.rows})"
        return text if self.key is None else f"{text}.with_key(...)"

    @property
    def settings(self) -> Settings:
        """Every setting of the integrator and of the clock, by name."""
        return {**self.integrator.settings, **self.clock.settings}

    @property
    def temperature(self) -> Number:
        """The temperature T of the law this sampler draws from, exp(-U/T)."""
        return self.integrator.T

    @property
    def kinetic(self) -> bool:
        """Whether there is a momentum."""
        return self.integrator.kinetic

    @property
    def adaptive(self) -> bool:
        """Whether the step follows the gradient."""
        return self.clock.adaptive

    @property
    def biased(self) -> bool:
        """Whether its law is wrong by design, however small the step."""
        return self.integrator.biased or self.clock.biased

    @property
    def weak_order(self) -> int | None:
        """Order of the bias in a constant step; None if it is biased by design."""
        return None if self.biased else self.integrator.weak_order

    @property
    def references(self) -> tuple[str, ...]:
        """What to cite: keys of ``references.bib``, or BibTeX entries."""
        return (*self.clock.references, *self.integrator.references)

    @property
    def stacked(self) -> int | None:
        """How many chains have settings of their own here; None if all share one."""
        sizes = {np.shape(leaf)[0] for leaf in _numbers((self.integrator, self.clock))}
        if len(sizes) > 1:
            lengths = " and ".join(f"for {size} chains" for size in sorted(sizes))
            raise ValueError(
                f"the settings of the sampler are {lengths}: a stacked sampler needs one row of "
                "settings for each chain"
            )
        return next(iter(sizes), None)

    def of_chain(self, chain: int) -> Sampler:
        """The sampler of one chain, of a stacked one."""
        if not self.stacked:
            return self
        integrator, clock = jax.tree.map(lambda leaf: leaf[chain], (self.integrator, self.clock))
        return Sampler(integrator, clock, self.key, self.rows)

    def _mapped(self, change: Callable[[Integrator, Clock], tuple[Integrator, Clock]]) -> Sampler:
        """The sampler with both factors changed, of a stacked one those of every chain."""
        do = jax.vmap(change) if self.stacked else change
        return Sampler(*do(self.integrator, self.clock), self.key, self.rows)

    def with_temperature(self, temperature: Number | None) -> Sampler:
        """The same sampler at another temperature."""
        return self._mapped(lambda i, c: (i.with_temperature(temperature), c))

    def with_key(self, key: Array) -> Sampler:
        """The sampler whose ``init(params)`` needs no key, as in ``optax.chain``: for one chain.

        Members of an ensemble that share such a sampler share their noise: give each its own
        key, ``jax.vmap(sampler.init)(params, keys)``.
        """
        return Sampler(self.integrator, self.clock, _noise_key(key), self.rows)

    def in_time(self, size: int) -> Sampler:
        """The sampler with a learning rate turned into physical time, for U of ``size`` rows."""
        return self._mapped(lambda i, c: (i, c.in_time(size, kinetic=i.kinetic)))

    def prepared(self) -> Sampler:
        """The sampler for a long loop, with what can be worked out before it."""
        return self._mapped(lambda i, c: (i, c.prepared()))

    def on_mean_loss(self, size: int) -> Sampler:
        """The sampler for the gradient of the mean loss U/N, as training loops have it.

        The loss is the mean over the batch minus log p(theta) / N. A step that is a
        :class:`sundman.LearningRate` becomes a time, one in physical time stays as it is.

        Args:
          size: N, how many rows there are in all.
        """
        check.count("size", size, least=1)
        if self.rows is not None:
            raise ValueError(f"this sampler is on the mean loss of {self.rows} rows already")
        timed = self.in_time(size)
        return Sampler(timed.integrator, timed.clock, self.key, int(size))

    def step(
        self, grads: PyTree, state: SamplerState, params: PyTree, value: Array | None = None
    ) -> tuple[PyTree, SamplerState]:
        """The parameters and the state after one step: ``update`` applied.

        Inside :func:`sundman.native.using` by the native kernels, in one pass; ``grads`` may then
        come in two parts (:mod:`sundman.native.split_gradient`).

        Args:
          grads: the gradient of U at ``params``, or of U/N after :meth:`on_mean_loss`.
          state: that of ``init`` or of the step before.
          params: the position.
          value: U at ``params``, for the few samplers that need it.

        Returns:
          The position and the state after the step.
        """
        grads, value = _at_full_scale(grads, value, self.rows)
        updates, state = _move(self.integrator, self.clock, grads, state, params, value)
        return apply(params, updates), state

    def weight(self, state: SamplerState) -> Array:
        """The weight of the position that was left by the step to ``state``."""
        if not self.integrator.has_weights:
            return state.clock.dt
        return state.clock.dt * self.integrator.weigh(state.motion)


def _flatten(sampler: Sampler) -> tuple[_Parts, None]:
    return (sampler.integrator, sampler.clock, sampler.key, sampler.rows), None


def _flatten_with_keys(sampler: Sampler) -> tuple[tuple[tuple[object, object], ...], None]:
    names = ("integrator", "clock", "key", "rows")
    return tuple(zip(map(jax.tree_util.GetAttrKey, names), _flatten(sampler)[0], strict=True)), None


jax.tree_util.register_pytree_with_keys(
    Sampler, _flatten_with_keys, lambda _, parts: Sampler(*parts), _flatten
)


def _numbers(value: object) -> Iterator[ArrayLike]:
    """The arrays among the numbers of a value: there are none unless it is stacked."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, Value):
        for name in value.single_numbers():
            yield from _numbers(getattr(value, name))
    elif np.ndim(number := cast(ArrayLike, value)) > 0:
        yield number


def _is_mapped(tree: PyTree) -> bool:
    """Whether there is an axis of ``jax.vmap`` on it; JAX has no public name for such a tracer."""
    return any(type(leaf).__name__ == "BatchTracer" for leaf in jax.tree.leaves(tree))


def _noise_key(key: Array) -> Array:
    """The key of the noise: folded, so that related user keys give unrelated streams."""
    return fold(key_words(key), 0, Purpose.SAMPLER)


def _init(
    integrator: Integrator,
    clock: Clock,
    own_key: Array | None,
    rows: Number | None,
    params: PyTree,
    key: Array | None = None,
) -> SamplerState:
    """The state before the first step."""
    del rows
    check.params(params)
    if key is None and own_key is None:
        raise TypeError(
            "init needs a key for the noise, one for each chain: sampler.init(params, key); inside "
            "optax.chain, which gives none, use sampler.with_key(key)"
        )
    if key is None and not integrator.cold and _is_mapped(params) and not _is_mapped(own_key):
        raise TypeError(
            "all members of this ensemble would have the noise of one key, that of with_key: give "
            "each its own, jax.vmap(sampler.init)(params, keys)"
        )
    if any(True for _ in _numbers((integrator, clock))):
        raise TypeError(
            "this sampler has settings for several chains: sundman.sample takes it as it is; in a "
            "loop of your own map over it, jax.vmap(lambda sampler, params, key: ...)"
        )
    if clock.in_learning_rates:
        raise TypeError(
            f"the step of {clock!r} is a learning rate on the mean loss, and the number of rows is "
            "not known here: use sampler.on_mean_loss(N), or a step in physical time"
        )
    params = jax.tree.map(jnp.asarray, params)
    words = own_key if key is None else _noise_key(key)
    assert words is not None
    return SamplerState(words, clock.init(params), integrator.init(params))


def _update(
    integrator: Integrator,
    clock: Clock,
    own_key: Array | None,
    rows: Number | None,
    grads: PyTree,
    state: SamplerState,
    params: PyTree | None = None,
    *,
    key: Array | None = None,
    value: Array | None = None,
    **extra: object,
) -> tuple[PyTree, SamplerState]:
    """What to add to the parameters, and the state after the step."""
    del extra, own_key
    if params is None:
        raise TypeError("update needs the position: update(grads, state, params)")
    check.same_structure(grads, params)
    grads, value = _at_full_scale(grads, value, rows)
    now = state if key is None else state._replace(key=_noise_key(key))
    with native.using(False):
        updates, after = _move(integrator, clock, grads, now, params, value)
    return updates, after._replace(key=state.key)


def _at_full_scale(
    grads: PyTree, value: Array | None, rows: Number | None
) -> tuple[PyTree, Array | None]:
    """Gradient and value of U from those of U/N; half precision would overflow."""
    if rows is None:
        return grads, value

    def scaled(leaf: Array) -> Array:
        return leaf.astype(jnp.result_type(jnp.float32, leaf)) * rows

    return jax.tree.map(scaled, dense(grads)), None if value is None else value * rows


def _move(
    integrator: Integrator,
    clock: Clock,
    grads: PyTree,
    state: SamplerState,
    params: PyTree,
    value: Array | None,
) -> tuple[PyTree, SamplerState]:
    """One step: the clock says how long it is, the integrator moves over that time."""
    dt, after = clock.tick(
        state.clock, grads if clock.takes_split_gradients else dense(grads), params
    )
    stream = Stream(state.key, state.clock.step)
    needed: dict[str, Array] = {}
    if integrator.needs_value:
        if value is None:
            raise TypeError(
                f"{integrator.settings['integrator']} needs the potential, too: "
                "update(grads, state, params, value=U(params))"
            )
        needed["value"] = value
    if not integrator.takes_split_gradients:
        grads = dense(grads)
    updates, motion = integrator.move(stream, grads, state.motion, params, dt, **needed)
    return updates, SamplerState(state.key, after, motion)


def compose(integrator: Integrator, clock: Clock) -> Sampler:
    """The sampler that moves by ``integrator`` over the times that ``clock`` tells."""
    _check_factors(integrator, clock)
    if integrator.stages is not None and integrator.stages != clock.stages:
        raise ValueError(
            f"the integrator explores in {integrator.stages}, the clock has "
            f"{clock.stages or 'no stages'}: draws would be taken while it explores; give both the "
            "same cycle and explore, as sundman.cyclical_sgld does"
        )
    return Sampler(integrator, clock)


def _check_factors(integrator: object, clock: object) -> None:
    """Raise unless they are an integrator and a clock, in this order."""
    factors: tuple[tuple[str, object, type[Value], str], ...] = (
        ("integrator", integrator, Integrator, "integrators.baoab()"),
        ("clock", clock, Clock, "clocks.constant(1e-3)"),
    )
    for name, factor, wanted, example in factors:
        if isinstance(factor, wanted):
            continue
        if callable(factor) and not isinstance(factor, Value):
            called = public_name(factor) if isinstance(factor, type) else _name_of(factor)
            raise TypeError(f"{name} is not called: write {name}s.{called}(...), with ()")
        swapped = isinstance(integrator, Clock) and isinstance(clock, Integrator)
        raise TypeError(
            "compose takes the integrator first, then the clock: they are swapped"
            if swapped
            else f"{name} must be one of sundman.{name}s, such as {example}; got {factor!r}"
        )


def _name_of(function: Callable[..., object]) -> str:
    return function.__name__


def check_stacked(sampler: Sampler) -> None:
    """Raise if the settings of a chain are not what they may be: they were traced when made."""
    for chain in range(sampler.stacked or 0):
        try:
            _check_row((sampler.integrator, sampler.clock), chain)
        except (TypeError, ValueError) as error:
            raise type(error)(f"chain {chain} of the stacked sampler: {error}") from None


def _check_row(parts: object, chain: int) -> object:
    """Make the values of one chain again, from the innermost on, with their checks."""
    if isinstance(parts, tuple):
        return tuple(_check_row(part, chain) for part in parts)
    if isinstance(parts, Value):
        names = [name for name in parts.single_numbers() if name in parts.field_names()]
        return parts.replace(**{name: _check_row(getattr(parts, name), chain) for name in names})
    numbers = np.asarray(parts)
    return numbers[chain].tolist() if numbers.ndim > 0 else parts
