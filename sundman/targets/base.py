"""The target contract: a density exp(-U/T) / Z whose expectations are known.

A sampler sees only ``potential``, ``dim``, ``temperature`` and ``start``; the rest is there to
judge it: observables with their exact expectations, exact independent draws, exact masses of
histogram cells.

Targets are found by their names, too: by :func:`named`. :func:`suggest`
finds steps that suit a target, from its stiffness at its own draws:

    stiffness  lambda(x) = the largest |eigenvalue| of the Hessian of U at x
    overdamped min(0.1 / E[lambda], 0.5 / lambda_99)
    kinetic    min(0.15 / E[lambda]^{1/2}, 0.4 / lambda_99^{1/2})

with the mean and the 99% quantile over draws from the target. An explicit step h is stable up to
2 / lambda, and its bias is about h lambda / 4: the first rule keeps the bias small where the mass
is, the second keeps the step stable in all but the rarest places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from numpy.typing import ArrayLike, NDArray

from sundman._registry import Registry
from sundman.value import Value, as_value

Floats = NDArray[np.float64]
Points: TypeAlias = Any
"""Coordinates (dim, ...) in JAX or in NumPy, or what is computed of them, which is of their kind.

Python's types cannot say that of numbers that may be either, so ``Any`` stands for it here alone.
"""
Field: TypeAlias = Callable[[Points], Points]
Gradient: TypeAlias = Callable[[Points], Sequence[Points]]
Observable = Callable[[Array], Array]
Window = tuple[tuple[float, float], tuple[float, float]]


class Suggested(NamedTuple):
    """Settings that suit a target, for a first run.

    Attributes:
      overdamped: a step for schemes without momentum.
      kinetic: a step for schemes with momentum.
      squared_gradient: a typical |grad U|^2, the scale of adaptive clocks; unless it is given,
        the truth of the observable ``grad2``.
    """

    overdamped: float
    kinetic: float
    squared_gradient: float | None = None


@dataclass(frozen=True, eq=False)
class Target:
    """A density exp(-U/T) with exact moments.

    Targets are equal if they have the same name, potential, temperature and start: all else
    follows from these. They are hashable, so that they may be static arguments of ``jax.jit``.

    Attributes:
      name: how :func:`sundman.targets.named` finds it.
      potential: U, from a position of shape (dim,) to a scalar. A :class:`sundman.value.Value`
        has its numbers as leaves, so that another number does not compile again; a plain function
        is part of the program.
      dim: the number of coordinates.
      temperature: T.
      start: a sensible first position.
      observables: functions of one position, by name.
      truth: the exact expectation of each observable.
      window: the part of the first two coordinates worth plotting; for one coordinate its
        range and the density's.
      exact: ``exact(key, n)`` gives n independent draws of shape (n, dim).
      log_normalizer: log Z, the log of the integral of exp(-U/T).
      cells: the masses of histogram cells, called by :meth:`grid_mass`.
      suggested: steps for a first run; :func:`sundman.targets.suggest` finds some for a target
        that has none.
      published: the settings of the clock that the authors of SA-SGLD gave for this target, as
        arguments of :func:`sundman.sa_sgld`.
    """

    name: str
    potential: Observable
    dim: int
    temperature: float
    start: Array
    observables: Mapping[str, Observable]
    truth: Mapping[str, float]
    window: Window | None = None
    exact: Callable[[Array, int], Array] | None = None
    log_normalizer: float | None = None
    cells: Callable[..., Floats] | None = None
    suggested: Suggested | None = None
    published: Mapping[str, float] = field(default_factory=dict)

    def _identity(self) -> tuple[str, int, Observable, float, tuple[float, ...]]:
        start = tuple(np.asarray(self.start).tolist())
        return self.name, self.dim, self.potential, float(self.temperature), start

    def __eq__(self, other: object) -> bool:
        """Whether both are one density with one name, begun at one place."""
        if not isinstance(other, Target):
            return NotImplemented
        return self is other or self._identity() == other._identity()

    def __hash__(self) -> int:
        """Equal targets have equal hashes."""
        return hash(self._identity())

    def __call__(self, x: ArrayLike) -> Array:
        """U(x)."""
        return self.potential(jnp.asarray(x))

    def gradient(self, x: ArrayLike) -> Array:
        """The gradient of U at x, by automatic differentiation."""
        return gradient_of(self.potential)(jnp.asarray(x))

    def density(self, x: ArrayLike) -> Array:
        """exp(-U(x)/T) / Z."""
        if self.log_normalizer is None:
            raise ValueError(f"the normalizer of target {self.name!r} is not known")
        return jnp.exp(-self(x) / self.temperature - self.log_normalizer)

    def grid_mass(self, edges_x: ArrayLike, edges_y: ArrayLike | None = None) -> Floats:
        """The exact probability of each cell of a histogram of the first coordinates.

        Cells are laid out as by ``numpy.histogram2d(x, y, (edges_x, edges_y))``; one-dimensional
        targets take ``edges_x`` alone. Edges may be infinite.
        """
        if self.cells is None:
            raise ValueError(f"the cell masses of target {self.name!r} are not known")
        edges = {"edges_x": edges_x}
        if self.dim == 1 and edges_y is not None:
            raise TypeError(f"target {self.name!r} has one coordinate: give edges_x alone")
        if self.dim > 1:
            if edges_y is None:
                raise TypeError(f"target {self.name!r} has {self.dim} coordinates: give edges_y")
            edges["edges_y"] = edges_y
        return self.cells(*(_increasing(name, values) for name, values in edges.items()))


def _increasing(name: str, edges: ArrayLike) -> Floats:
    values = np.asarray(edges, np.float64)
    if values.ndim != 1 or values.size < 2 or not (values[1:] > values[:-1]).all():
        raise ValueError(f"{name} must be two or more increasing numbers, got {name}={edges!r}")
    return values


def namespace(x: Array | Floats) -> ModuleType:
    """NumPy for numpy arrays (quadrature, in double precision), jax.numpy for all others."""
    return np if isinstance(x, np.ndarray) else jnp


def indicator(x: Points, event: Points) -> Points:
    """One where the event holds and zero elsewhere, in the precision of x."""
    return namespace(x).asarray(event, dtype=x.dtype)


def gradient_of(potential: Observable) -> Observable:
    """grad U by automatic differentiation."""
    return cast(Observable, jax.grad(potential))


class Virial(Value):
    """x . grad U(x), of expectation dim T for any U that confines (by parts)."""

    potential: Observable

    def __post_init__(self) -> None:
        self._set(potential=as_value(potential=self.potential))

    def __call__(self, x: Array) -> Array:
        """x . grad U(x)."""
        return jnp.vdot(x, gradient_of(self.potential)(x))


class SquaredGradient(Value):
    """|grad U(x)|^2, of expectation T E[Laplacian of U] (by parts)."""

    potential: Observable

    def __post_init__(self) -> None:
        self._set(potential=as_value(potential=self.potential))

    def __call__(self, x: Array) -> Array:
        """|grad U(x)|^2."""
        return jnp.sum(jnp.square(gradient_of(self.potential)(x)))


virial = Virial
squared_gradient = SquaredGradient


REGISTRY = Registry[Callable[..., Target]]("target")


def register(name: str, build: Callable[..., Target]) -> None:
    """Let a target be found by its name, with hyphens, by :func:`named`.

    Args:
      name: its name, which the target must have, too.
      build: its constructor; it takes ``temperature`` and any settings, all with defaults.
    """
    if isinstance(build, Target) or not callable(build):
        raise TypeError(f"build must be a constructor of targets, got build={build!r}")
    REGISTRY.add(name, build, maker=build)


def names() -> tuple[str, ...]:
    """The names :func:`named` knows."""
    return REGISTRY.names()


def named(name: str, **settings: object) -> Target:
    """The target of that name, hyphens or underscores; settings go to its constructor."""
    return REGISTRY[name](**settings)


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
