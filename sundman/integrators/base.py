"""The integrator contract: how a step of physical length dt moves the position.

An integrator gets the (stochastic) gradient of U at the position once a step, at full-data
scale, and returns the change of the position. Momentum, thermostat or carried noise live in
its own state.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check, native
from sundman._types import PyTree
from sundman.clocks.base import Stages
from sundman.native.split_gradient import dense, grad_and_precision
from sundman.noise import Noise, Stream, gaussian, named
from sundman.noise.gaussian import gaussian_leaf
from sundman.value import Number, Settings, Value, public_name, settings_of, static


class Integrator(Value):
    """An integrator: a value with ``init`` and ``move``.

    Args:
      temperature: T of the law exp(-U/T); None is that of the target, or 1.

    Attributes:
      label: its name in tables.
      weak_order: order of the bias of averages in a constant step, with exact gradients.
      kinetic: whether there is a momentum, so that a step is the root of an overdamped one.
      biased: whether its law is wrong by design, however small the step.
      references: keys of ``references.bib``, or BibTeX entries.
      needs_value: whether ``move`` also takes ``value=``, U at the position.
      has_weights: whether :meth:`weigh` multiplies the weight dt.
      takes_split_gradients: whether ``move`` takes gradients in two parts.
      follows_work: whether its state has ``heat``, what the kicks have added to the kinetic energy.
      uses_position: whether the scheme is another at another position, as with a metric.
    """

    label: ClassVar[str] = ""
    weak_order: ClassVar[int | None] = None
    kinetic: ClassVar[bool] = False
    references: ClassVar[tuple[str, ...]] = ()
    needs_value: ClassVar[bool] = False
    has_weights: ClassVar[bool] = False
    takes_split_gradients: ClassVar[bool] = False
    follows_work: ClassVar[bool] = False
    uses_position: ClassVar[bool] = False

    temperature: Number | None = None
    cold: bool = static(default=False, init=False)

    def __post_init__(self) -> None:
        if self.temperature is not None:
            self._settle(temperature=check.not_negative)
        self._set(cold=check.known(self.temperature) and self.temperature == 0)

    @property
    def T(self) -> Number:
        """The temperature, 1 if none is given."""
        return 1.0 if self.temperature is None else self.temperature

    def init(self, params: PyTree) -> PyTree:
        """The state before the first step: by default none.

        Args:
          params: the first position.

        Returns:
          A pytree of arrays, such as a momentum for each parameter.
        """
        del params
        return ()

    def move(
        self, stream: Stream, grads: PyTree, state: PyTree, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, PyTree]:
        """The change of the position over one step, and the state after it.

        Args:
          stream: the noise of this step.
          grads: the gradient of U at ``params``, at full-data scale.
          state: the integrator's own.
          params: the position before the step.
          dt: the time of the step, a scalar or a pytree of one scalar per leaf of ``params``
            (a blockwise clock).

        Returns:
          What to add to ``params``, and the next state.
        """
        raise NotImplementedError

    def weigh(self, state: PyTree) -> Array:
        """The factor of the weight dt of the position that a step left, if ``has_weights``.

        Args:
          state: the integrator's own, after the step.

        Returns:
          The factor, a scalar.
        """
        raise NotImplementedError

    @property
    def biased(self) -> bool:
        """Whether its law is wrong by design."""
        return False

    @property
    def replicas(self) -> int:
        """How many copies of the position move together.

        If more than one, every array has a leading axis of copies, ``value`` has one number for
        each, and the first is the one that samples the target.
        """
        return 1

    @property
    def stages(self) -> Stages | None:
        """The cycles in which it explores, if it does; the clock must have the same."""
        return None

    @property
    def settings(self) -> Settings:
        """Every setting by name."""
        settings = {"integrator": public_name(type(self)), **settings_of(self)}
        return settings if self.temperature is not None else {**settings, "temperature": 1.0}

    def with_temperature(self, temperature: Number | None) -> Self:
        """The same scheme at another temperature."""
        return self.replace(temperature=temperature)


class MomentumState(NamedTuple):
    """The momentum; by its name a run knows the kinetic temperature."""

    momentum: PyTree


def at_rest(params: PyTree) -> MomentumState:
    """Zero momentum: the friction brings it to temperature within a few 1/gamma."""
    return MomentumState(jax.tree.map(jnp.zeros_like, params))


class Moved(NamedTuple):
    """A leaf of the updates that is the new array itself, made by a kernel in one pass."""

    array: Array


def apply(params: PyTree, updates: PyTree) -> PyTree:
    """``params`` after the step: ``updates`` added, or in place where a kernel has moved them."""
    leaves, structure = jax.tree.flatten(params)
    changes = structure.flatten_up_to(updates)
    moved = [
        change.array if isinstance(change, Moved) else leaf + change
        for leaf, change in zip(leaves, changes, strict=True)
    ]
    return jax.tree.unflatten(structure, moved)


def langevin(
    stream: Stream, grads: PyTree, params: PyTree, steps: PyTree, scales: PyTree, noise: Noise
) -> PyTree:
    """-h G + scale eps for every array: the drift and the noise of one Langevin step.

    By the native kernels, where they are used and the noise is Gaussian: those leaves are
    :class:`Moved`, and ``grads`` may come in two parts.

    Args:
      stream: the noise of this step.
      grads: G.
      params: the position.
      steps: h of every array.
      scales: what multiplies eps, of every array.
      noise: what eps is.

    Returns:
      The updates.
    """
    if noise is not gaussian:
        eps = noise(stream, params)
        return jax.tree.map(
            lambda h, grad, scale, e, theta: (-h * grad + scale * e).astype(theta.dtype),
            *(steps, dense(grads), scales, eps, params),
        )
    leaves, structure = jax.tree.flatten(params)
    offset, updates = 0, []
    for theta, grad, h, scale in zip(
        leaves, *map(structure.flatten_up_to, (grads, steps, scales)), strict=True
    ):
        if native.fits(theta):
            slope, precision = grad_and_precision(grad)
            updates.append(Moved(native.update(stream, theta, slope, precision, h, scale, offset)))
        else:
            eps = gaussian_leaf(stream, theta, offset)
            updates.append((-h * dense(grad) + scale * eps).astype(jnp.result_type(theta)))
        offset += theta.size
    return jax.tree.unflatten(structure, updates)


def check_noise(noise: str | Noise) -> None:
    """``noise`` must be the name of one, or a function."""
    check.choices_are_static(noise=noise)
    named(noise)


def per_leaf(dt: Array | PyTree, params: PyTree) -> PyTree:
    """dt as a pytree of one scalar for each leaf of ``params``."""
    if jax.tree.structure(dt) == jax.tree.structure(params):
        return dt
    return jax.tree.map(lambda _: dt, params)


def zeros_per_leaf(params: PyTree) -> PyTree:
    """A zero step for each leaf: the dt before the first step."""
    dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(params))
    return jax.tree.map(lambda _: jnp.zeros((), dtype), params)


def cast_like(tree: PyTree, like: PyTree) -> PyTree:
    """``tree`` in the dtypes of ``like``."""
    return jax.tree.map(lambda leaf, to: leaf.astype(jnp.result_type(to)), tree, like)
