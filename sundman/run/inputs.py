"""What the user gave, made into what a run needs: gradient, units, temperature, positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.extend.core import Jaxpr, Var

from sundman import check
from sundman._types import PyTree
from sundman.gradients import (
    Exact,
    GradientEstimator,
    Noisy,
    Potential,
    minibatch,
)
from sundman.noise import Stream
from sundman.posterior import Posterior
from sundman.samplers import Sampler
from sundman.targets import Target
from sundman.value import Number, Value, as_value, describe_value

TargetLike: TypeAlias = Potential | Target | Posterior | GradientEstimator
"""What :func:`sundman.sample` takes as its target."""


class NegativeLogDensity(Value):
    """U = -log p, of a log density; equal functions are one program."""

    log_density: Potential

    def __post_init__(self) -> None:
        self._set(log_density=as_value(log_density=self.log_density))

    def __call__(self, position: PyTree) -> Array:
        """-log p(position)."""
        return -self.log_density(position)

    def __repr__(self) -> str:
        """The name of the function, with its sign."""
        return f"-{self.log_density!r}"


def one_target(target: TargetLike | None, log_density: Potential | None) -> TargetLike:
    """The target, given as such or by its log density."""
    if target is not None and log_density is None:
        return target
    if target is None and log_density is not None:
        return NegativeLogDensity(log_density)
    raise TypeError(
        "give one of target, which is U = -log p or has it, and log_density=, which is log p; got "
        f"{'neither' if target is None else 'both'}"
    )


def posterior_of(target: TargetLike) -> Posterior | None:
    """The posterior that a target is, or that its gradient estimator is made of."""
    return target if isinstance(target, Posterior) else getattr(target, "posterior", None)


def as_gradient(target: TargetLike, batch_size: int | None, replace: bool) -> GradientEstimator:
    """The gradient estimator of a potential, a target, a posterior, or an estimator itself."""
    if replace and batch_size is None:
        raise ValueError("replace=True is about minibatches: it needs batch_size")
    if isinstance(target, Posterior):
        order = "with_replacement" if replace else "shuffled"
        return minibatch(target, batch_size, order=order)
    if batch_size is not None:
        raise ValueError(f"batch_size={batch_size} needs a sundman.Posterior, which has data")
    if isinstance(target, Target):
        return Exact(target.potential)
    if isinstance(target, GradientEstimator):
        return target
    if isinstance(target, type):
        raise TypeError(
            f"the target is the class {target.__name__}: make one of it first, {target.__name__}()"
        )
    if callable(target):
        return Exact(target)
    raise TypeError(
        "the first argument of sample must be a potential U(position) -> scalar, one of "
        f"sundman.targets, a sundman.Posterior or a gradient estimator; got {target!r}"
    )


def settle_units(target: TargetLike, sampler: Sampler) -> Sampler:
    """The sampler in physical time: a learning rate is one on the mean loss of the posterior."""
    if sampler.rows is not None:
        raise ValueError(
            "sample works with the gradient of U at full-data scale: give it the sampler without "
            ".on_mean_loss(N), which is for loops of your own"
        )
    if sampler.key is not None:
        raise ValueError("sample gives each chain a key of its own: leave .with_key(key) away")
    if not sampler.clock.in_learning_rates:
        return sampler
    posterior = posterior_of(target)
    if posterior is None:
        raise ValueError(
            f"the step of {sampler!r} is a learning rate on the mean loss of N rows, and this "
            "target has no rows: give a step in physical time, or sampler.in_time(N)"
        )
    return sampler.in_time(posterior.size)


def settle_temperature(target: TargetLike, sampler: Sampler) -> Sampler:
    """The sampler at the temperature that it or the target was given, if they agree."""
    given = sampler.integrator.temperature
    settled = temperature_of(target, given)
    return sampler.with_temperature(settled) if given is None else sampler


def tuning_temperature(target: TargetLike, given: Number | None) -> float:
    """The temperature of a run that tunes itself, for which it must not be 0."""
    settled = float(temperature_of(target, given))
    if settled == 0.0:
        raise ValueError(
            "a sampler that tunes itself needs a temperature greater than 0, and the target has "
            "temperature=0.0: give a sampler, such as sundman.sgld(h)"
        )
    return settled


def temperature_of(target: TargetLike, given: Number | None) -> Number:
    """The temperature that was given or that the target has, if they agree; or 1."""
    stated = target if isinstance(target, Target) else posterior_of(target)
    wanted = None if stated is None else stated.temperature
    if given is None:
        return 1.0 if wanted is None else wanted
    if wanted is None or (isinstance(stated, Target) and wanted == 1.0):
        return given  # a target is at temperature 1 unless it says otherwise
    if isinstance(given, Tracer) or np.all(np.asarray(given) == wanted):
        return given
    raise ValueError(
        f"the target has temperature={wanted!r} and the sampler "
        f"temperature={describe_value(given)}; give it to one of them, or the same to both"
    )


def _value(target: TargetLike) -> tuple[Callable[[PyTree], Array], Callable[[PyTree], PyTree]]:
    """A function position -> U, for its shape; and one from what the user gives to a position."""
    posterior = posterior_of(target)
    if posterior is not None:
        few = jax.tree.map(lambda leaf: leaf[:2], posterior.example())
        return (
            lambda params: posterior.potential(posterior.position(params), few),
            posterior.position,
        )
    potential = target.potential if isinstance(target, Target | Exact | Noisy) else target
    if isinstance(potential, GradientEstimator):
        stream = Stream(jnp.zeros(2, jnp.uint32), jnp.uint32(0))
        return (lambda position: potential(stream, position)[0], lambda position: position)
    return cast(Potential, potential), lambda position: position


def _is_scalar(value: Callable[[PyTree], Array], position: PyTree) -> bool:
    try:
        return jax.eval_shape(value, position).shape == ()
    except Exception:
        return False


def check_returns_arrays(name: str, function: Callable[[PyTree], PyTree], like: PyTree) -> None:
    """Raise unless ``collect`` or ``online`` makes arrays of a position like this one."""

    def checked(position: PyTree) -> PyTree:
        value = function(position)
        check.returns_arrays(name, value)
        return value

    jax.eval_shape(checked, like)


def _check_scalar(value: Callable[[PyTree], Array], position: PyTree) -> None:
    def checked(position: PyTree) -> Array:
        potential = value(position)
        if not isinstance(potential, (int, float)):
            check.returns_arrays("the potential", potential)
        return potential

    try:
        closed, out = jax.make_jaxpr(checked, return_shape=True)(position)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
        raise TypeError(
            "the potential must be written with jax.numpy, so that it can be differentiated: it "
            "turns its position into a Python number or a NumPy array (float(...), numpy, math)"
        ) from error
    if not set(closed.jaxpr.invars) & _used(closed.jaxpr):
        raise TypeError(
            "the potential does not depend on its position: it must return U(position), computed "
            "by jax.numpy, not a Python number"
        )
    if not hasattr(out, "shape"):
        raise TypeError(f"the potential must return one number, got the pytree {out!r}")
    if out.shape != ():
        raise ValueError(
            f"the potential must return a scalar for one position, got shape {out.shape}; "
            "sum over the components of the position"
        )
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise TypeError(f"the potential must return a real float, got dtype {out.dtype.name}")


def _used(jaxpr: Jaxpr) -> set[Var]:
    """The variables that something is computed from, or that are returned."""
    inputs = [*jaxpr.outvars, *(var for equation in jaxpr.eqns for var in equation.invars)]
    return {var for var in inputs if isinstance(var, Var)}  # and not a literal


def _one_per_chain(init: PyTree, chains: int, target: TargetLike, per_chain: bool | None) -> bool:
    leaves = jax.tree.leaves(init)
    stacked = all(leaf.ndim > 0 and leaf.shape[0] == chains for leaf in leaves)
    if per_chain is not None:
        if per_chain and not stacked:
            raise ValueError(
                f"per_chain=True: every array of init needs a leading axis of length "
                f"chains={chains}; got shapes {[leaf.shape for leaf in leaves]}"
            )
        return per_chain
    if isinstance(target, Target):
        return init.ndim == 2
    if not stacked:
        _check_rows(init, chains, target)
        return False
    value, _ = _value(target)
    whole = _is_scalar(value, init)
    sliced = _is_scalar(value, first_of(init))
    if whole and sliced:
        return any(leaf.ndim > 1 for leaf in leaves)
    return sliced


def _check_rows(init: PyTree, chains: int, target: TargetLike) -> None:
    """Raise if ``init`` may be meant as one position per chain, but for another number of them."""
    leaves = jax.tree.leaves(init)
    rows = {leaf.shape[0] if leaf.ndim else None for leaf in leaves}
    if chains == 1 or len(rows) > 1 or not any(leaf.ndim > 1 for leaf in leaves):
        return
    value, _ = _value(target)
    if _is_scalar(value, first_of(init)):
        raise ValueError(
            f"init has {rows.pop()} rows, each of which could be a position, and chains={chains}: "
            "give one row for each chain, or say per_chain=False if it is one position"
        )


def first_positions(
    target: TargetLike, init: PyTree, chains: int, per_chain: bool | None
) -> PyTree:
    """The position of every chain, stacked: ``init`` repeated, or ``init`` itself."""
    if init is None and isinstance(target, Target):
        init = target.start
    if init is None:
        raise ValueError("init is needed: the first position, or one for each chain")
    check.params(init, "init")
    init = jax.device_put(init)  # which compiles nothing, as jnp.asarray does for each shape
    check.finite(init, "init")
    value, prepare = _value(target)
    if _one_per_chain(init, chains, target, per_chain):
        if len(jax.tree.leaves(init)[0]) != chains:
            raise ValueError(
                f"init has {len(jax.tree.leaves(init)[0])} positions for chains={chains}"
            )
        first = first_of(init)
        prepare(first)
        _check_scalar(value, first)
        return jax.tree.map(jnp.array, jax.vmap(prepare)(init))
    position = prepare(init)
    _check_scalar(value, init)
    return jax.device_put(
        jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], chains, axis=0), position)
    )


def first_of(positions: PyTree) -> PyTree:
    """The position of the first chain."""
    return jax.device_put(jax.tree.map(lambda leaf: np.asarray(leaf)[0], positions))
