"""Checks at the door: bad arguments raise before anything is traced or compiled.

Every check names the argument, shows its value and says what would be right. Traced
values (a hyper-parameter under ``vmap`` or ``grad``) cannot be inspected and pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from sundman._types import PyTree

_LEVELS, _DUST = 1000, 8  # numbers that tell values of a column apart, at least; and chance ones
_ROOM = 1e4  # for sums of squares of numbers as large as the largest, or as small
Argument: TypeAlias = Any
"""What a user gave, before it is known to be right."""


def known(value: Argument) -> bool:
    """Whether a value can be looked at, not being traced."""
    return not isinstance(value, Tracer)


def _is_several(value: Argument) -> bool:
    return isinstance(value, (np.ndarray, jax.Array, list, tuple)) and np.ndim(value) > 0


def _number(name: str, value: Argument) -> None:
    if _is_several(value):
        raise TypeError(
            f"{name} must be one number, got an array of shape {np.shape(value)}; for a setting of "
            "its own in each chain map the sampler: jax.vmap(sundman.sgld)(steps)"
        )
    if value is None or isinstance(value, (bool, np.bool_, str, bytes)):
        raise TypeError(f"{name} must be a number, got {name}={value!r}")
    try:
        finite = math.isfinite(float(value))
    except (TypeError, ValueError):
        shown = f"the function {_name(value)}" if callable(value) else repr(value)
        raise TypeError(f"{name} must be a number, got {shown}") from None
    if not finite:
        raise ValueError(f"{name} must be finite, got {name}={value!r}")


def _name(function: Argument) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def number(**arguments: Argument) -> None:
    """Each argument must be a finite number."""
    for name, value in arguments.items():
        if known(value):
            _number(name, value)


def optional(check: Callable[..., None]) -> Callable[..., None]:
    """``check``, but None passes."""

    def check_given(**arguments: Argument) -> None:
        check(**{name: value for name, value in arguments.items() if value is not None})

    return check_given


def choices_are_static(**arguments: Argument) -> None:
    """A choice cannot be traced: raise a TypeError for one under ``vmap``, ``grad`` or ``jit``."""
    for name, value in arguments.items():
        if not known(value):
            raise TypeError(
                f"{name} is a choice, part of the compiled program, and cannot be traced: under "
                f"jax.vmap or jax.jit give {name} as a plain Python value"
            )


def positive(**arguments: Argument) -> None:
    """Each argument must be a finite number greater than zero."""
    for name, value in arguments.items():
        if known(value):
            _number(name, value)
            if not float(value) > 0:
                raise ValueError(f"{name} must be greater than 0, got {name}={value!r}")


def not_negative(**arguments: Argument) -> None:
    """Each argument must be a finite number, zero or more."""
    for name, value in arguments.items():
        if known(value):
            _number(name, value)
            if float(value) < 0:
                raise ValueError(f"{name} must be 0 or more, got {name}={value!r}")


def decay(**arguments: Argument) -> None:
    """What is left of an average after a step: each argument in [0, 1)."""
    not_negative(**arguments)
    for name, value in arguments.items():
        if known(value) and float(value) >= 1:
            raise ValueError(f"{name} must be less than 1, got {name}={value!r}")


def function(**arguments: Argument) -> None:
    """Each argument must be something that can be called."""
    for name, value in arguments.items():
        if not callable(value):
            raise TypeError(f"{name} must be a function, got {name}={value!r}")


def flag(**arguments: Argument) -> None:
    """Each argument must be True or False."""
    for name, value in arguments.items():
        choices_are_static(**{name: value})
        if not isinstance(value, (bool, np.bool_)):
            raise TypeError(f"{name} must be True or False, got {name}={value!r}")


def bounds(m: Argument, M: Argument) -> None:
    """The bounds of psi: 0 < m <= M."""
    positive(m=m, M=M)
    if known(m) and known(M) and float(m) > float(M):
        raise ValueError(
            f"psi is bounded by m <= psi <= M, got m={m!r} > M={M!r}; "
            "m is the smallest and M the largest value of dt / dtau"
        )


def choice(name: str, value: Argument, options: Collection[str]) -> None:
    """``value`` must be one of the named options."""
    choices_are_static(**{name: value})
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {listed}; got {name}={value!r}")


def count(name: str, value: Argument, *, least: int) -> None:
    """``value`` must be a whole number, ``least`` or more."""
    choices_are_static(**{name: value})
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} must be a whole number, got {name}={value!r}")
    if int(value) < least:
        raise ValueError(f"{name} must be {least} or more, got {name}={value!r}")


def _is_array(leaf: Argument) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic, jax.Array, Tracer, jax.ShapeDtypeStruct))


def params(tree: PyTree, what: str = "params") -> None:
    """Positions must be a non-empty pytree of real floating-point arrays."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    if not leaves:
        raise ValueError(f"{what} has no array in it: got the empty pytree {tree!r}")
    if all(0 in np.shape(leaf) for _, leaf in leaves):
        shapes = [np.shape(leaf) for _, leaf in leaves]
        raise ValueError(f"{what} is empty, shape {shapes[0]}: a position needs one number or more")
    for path, leaf in leaves:
        where = f"{what}{jax.tree_util.keystr(path)}"
        if not (_is_array(leaf) or isinstance(leaf, (bool, int, float, complex))):
            raise TypeError(
                f"{what} must be arrays to be sampled, but {where} is {_described(leaf)}: leave it "
                "out of the position; of a model with functions in it keep the arrays, such as "
                "equinox.filter(model, equinox.is_inexact_array)"
            )
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(
                f"{what} must be real floating-point arrays to be sampled, but {where} has "
                f"dtype {dtype.name}; convert it to float32 or leave it out of the position"
            )


def _described(value: Argument) -> str:
    if isinstance(value, (str, bytes)):
        return f"the text {value!r}"
    return f"the function {_name(value)}" if callable(value) else f"{value!r}"


def returns_arrays(what: str, value: Argument) -> None:
    """What a function of the position returned must be arrays."""
    for leaf in jax.tree.leaves(value):
        if not _is_array(leaf):
            raise TypeError(
                f"{what} must return arrays, computed by jax.numpy from the position; got "
                f"{_described(leaf)}"
            )


def draws(value: Argument) -> None:
    """``value`` must be draws; they are known by what they have, as rooms below them ask this."""
    if not (hasattr(value, "diverged_at") and hasattr(value, "values")):  # weights are large
        raise TypeError(
            "draws must be what sundman.sample or sundman.Draws.open(path) gives, got "
            f"draws={value!r}"
        )


def finite(tree: PyTree, what: str) -> None:
    """Every number of a tree of known arrays must be finite."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        if known(leaf) and not np.isfinite(np.asarray(leaf)).all():
            index = np.argwhere(~np.isfinite(np.asarray(leaf)))[0].tolist()
            value = np.asarray(leaf)[tuple(index)]
            raise ValueError(
                f"{what}{jax.tree_util.keystr(path)} is not finite: {value} at {index}"
            )


def random_key(key: Argument) -> None:
    """A JAX random key, new style or raw words."""
    fine = isinstance(key, (jax.Array, np.ndarray)) and (
        jnp.issubdtype(key.dtype, jax.dtypes.prng_key) or key.dtype == np.uint32
    )
    if not fine:
        raise TypeError(f"key must be a JAX random key, such as jax.random.key(0); got {key!r}")


def examples(x: PyTree, y: PyTree) -> int:
    """Arrays x and y must have one row per example, all finite; returns how many."""
    shapes = [[np.shape(leaf) for leaf in jax.tree.leaves(part)] for part in (x, y)]
    lengths = {shape[:1] for part in shapes for shape in part}
    if len(lengths) != 1 or () in lengths or [] in shapes:
        raise ValueError(
            f"x and y must have one row per example: got the shapes {shapes[0]} for x and "
            f"{shapes[1]} for y"
        )
    if lengths == {(0,)}:
        raise ValueError("data is empty: x and y have no rows")
    for name, part in (("x", x), ("y", y)):
        for leaf in jax.tree.leaves(part):
            finite_rows(name, leaf)
    return lengths.pop()[0]


def finite_rows(name: str, rows: np.ndarray | jax.Array) -> None:
    """Every number of an array with one row per example must be finite."""
    if not jnp.issubdtype(rows.dtype, jnp.inexact) or np.isfinite(rows).all():
        return
    bad = np.argwhere(~np.isfinite(np.atleast_1d(rows)))
    value, number = np.atleast_1d(rows)[tuple(bad[0])], len(np.unique(bad[:, 0]))
    has = "it is the only row with one" if number == 1 else f"{number:,} rows have one"
    raise ValueError(
        f"{name} has a value that is not finite, first in row {bad[0, 0]}{_column(bad[0, 1:])}: "
        f"{value}; {has}: leave such rows out, or fill in what is missing"
    )


def _column(place: np.ndarray) -> str:
    return f", column {', '.join(map(str, place))}" if len(place) else ""


def resolved(name: str, rows: np.ndarray | jax.Array) -> None:
    """What varies in each column must be more than the rounding of the numbers it is kept in.

    A column that is constant, but for rounding, is fine. Costs one pass over the rows.
    """
    if not (jnp.issubdtype(rows.dtype, jnp.floating) and np.size(rows) and np.ndim(rows)):
        return
    columns = np.asarray(rows).reshape(len(rows), -1)
    low, high = (np.asarray(f(columns, axis=0), np.float64) for f in (np.min, np.max))
    size, kept = np.maximum(abs(low), abs(high)), jax.dtypes.canonicalize_dtype(rows.dtype)
    kept = kept if kept == np.float64 else np.dtype(np.float32)  # what is coarser is exact in it
    edge = np.sqrt(float(np.finfo(kept).max)) / _ROOM
    odd = np.flatnonzero((size > edge) | ((size > 0.0) & (size < 1.0 / edge)))
    if len(odd):
        raise ValueError(
            f"{_named(name, rows, odd)} has numbers as {'large' if size[odd[0]] > 1 else 'small'} "
            f"as {size[odd[0]]:.3g}, whose squares {kept} cannot hold: divide it by its standard "
            "deviation"
        )
    spacing = np.spacing(size.astype(kept)).astype(np.float64)
    exact = np.finfo(rows.dtype).eps < np.finfo(kept).eps
    dust = _DUST * (size * np.finfo(np.float64).eps if exact else spacing)
    blurred = np.flatnonzero((high - low > dust) & (high - low < _LEVELS * spacing))
    if len(blurred):
        first = blurred[0]
        raise ValueError(
            f"{_named(name, rows, blurred)} lies between {low[first]:.10g} and {high[first]:.10g}, "
            f"where neighbouring numbers of {kept} are {spacing[first]:.2g} apart, so that most of "
            "what varies in it would be lost: centre it, that is, subtract its mean in float64"
        )


def _named(name: str, rows: np.ndarray | jax.Array, columns: np.ndarray) -> str:
    """The first of some columns of an array, and how many there are."""
    place = np.unravel_index(columns[0], np.shape(rows)[1:]) if np.ndim(rows) > 1 else ()
    more = f" (as {len(columns) - 1:,} others)" if len(columns) > 1 else ""
    return f"{name}{_column(np.asarray(place))}{more}"


def same_structure(grads: PyTree, tree: PyTree) -> None:
    """Gradients must have the structure and the shapes of the parameters."""
    expected, got = jax.tree.structure(tree), jax.tree.structure(grads)
    if expected != got:
        raise ValueError(f"grads must have the structure of params: expected {expected}, got {got}")
    for (path, leaf), grad in zip(
        jax.tree_util.tree_leaves_with_path(tree), jax.tree.leaves(grads), strict=True
    ):
        if jnp.shape(leaf) != jnp.shape(grad):
            where = jax.tree_util.keystr(path) or "the array"
            raise ValueError(
                f"grads must have the shapes of params: {where} has shape {jnp.shape(leaf)}, "
                f"its gradient {jnp.shape(grad)}"
            )
