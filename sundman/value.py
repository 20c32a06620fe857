"""Values: frozen dataclasses that are JAX pytrees.

Numbers are leaves: they may be traced, mapped over by ``jax.vmap`` and changed without compiling
again. Choices are static: names, functions, flags, anything a program is made of.

    class Spring(Value):
        stiffness: Number = 1.0
        form: str = static(default="linear")

        def __post_init__(self):
            self._settle(stiffness=check.positive)

A subclass of :class:`Value` is a dataclass by itself. ``__post_init__``, its checks at the door, is
run where a person makes a value (and by ``replace``), not where JAX takes one apart and puts it
together again. Two values are equal if they are of one class, with equal choices and numbers;
``repr`` shows how to make one.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import MISSING, field
from typing import Any, ClassVar, Literal, Self, dataclass_transform

import jax
import numpy as np
from jax import Array
from jax.core import Tracer

Number = float | Array


def static(*, default: Any = MISSING, init: bool = True, kw_only: Any = MISSING) -> Any:
    """A field that is a choice: part of the program, hashable, never traced."""
    return field(default=default, init=init, kw_only=kw_only, metadata={"static": True})


def array(*, default: Any = MISSING, kw_only: Any = MISSING) -> Any:
    """A field that holds arrays of any shape, where other numbers are single ones."""
    return field(default=default, kw_only=kw_only, metadata={"array": True})


def derived(*, init: Literal[False] = False) -> Any:
    """A number that ``__post_init__`` works out of the others, in double precision where it can.

    Change a value by ``replace``, which works it out again.
    """
    return field(default=None, init=init)


def _is_traced(value: Any) -> bool:
    return isinstance(value, Tracer)


@dataclass_transform(
    frozen_default=True, eq_default=False, field_specifiers=(static, array, derived, field)
)
class Value:
    """The base of everything that is a value."""

    _leaves: ClassVar[tuple[str, ...]] = ()
    _choices: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Make the class a frozen dataclass and a pytree."""
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        fields = dataclasses.fields(cls)  # type: ignore[arg-type]
        cls._choices = tuple(f.name for f in fields if f.metadata.get("static"))
        cls._leaves = tuple(f.name for f in fields if not f.metadata.get("static"))
        _refuse_unknown_fields(cls, [f.name for f in fields if f.init])

        def flatten(value: Value) -> tuple[tuple[Any, ...], tuple[Hashable, ...]]:
            return (
                tuple(getattr(value, name) for name in cls._leaves),
                tuple(getattr(value, name) for name in cls._choices),
            )

        def flatten_with_keys(value: Value) -> tuple[Any, tuple[Hashable, ...]]:
            children, choices = flatten(value)
            keys = map(jax.tree_util.GetAttrKey, cls._leaves)
            return tuple(zip(keys, children, strict=True)), choices

        def unflatten(choices: tuple[Hashable, ...], children: Iterable[Any]) -> Value:
            value = object.__new__(cls)
            value.__dict__.update(zip(cls._leaves, children, strict=True))
            value.__dict__.update(zip(cls._choices, choices, strict=True))
            return value

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The names of the fields that one gives."""
        return tuple(f.name for f in dataclasses.fields(cls) if f.init)  # type: ignore[arg-type]

    def replace(self, **changes: Any) -> Self:
        """The same value with other fields, checked as a new one is."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    @classmethod
    def single_numbers(cls) -> tuple[str, ...]:
        """The fields that are numbers, or values made of them: not arrays by nature."""
        return tuple(
            each.name
            for each in dataclasses.fields(cls)  # type: ignore[arg-type]
            if not (each.metadata.get("static") or each.metadata.get("array"))
        )

    def _settle(self, **checks: Callable[..., None]) -> None:
        """Check the named fields, each by ``check(name=value)``; concrete numbers become floats.

        A float is the same program whatever wrote the number: 0.1, a NumPy scalar or a JAX one.
        """
        for name, check in checks.items():
            value = getattr(self, name)
            check(**{name: value})
            if not _is_traced(value) and type(value) is not float:
                self._set(**{name: float(value)})

    def _set(self, **fields: Any) -> None:
        """Set fields of a value that is being made: for ``__post_init__`` alone."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        """Whether both are of one class with equal choices and numbers."""
        if type(other) is not type(self):
            return NotImplemented
        ours, theirs = jax.tree.flatten(self), jax.tree.flatten(other)
        return ours[1] == theirs[1] and all(map(same, ours[0], theirs[0]))

    def __hash__(self) -> int:
        """Equal values have equal hashes."""
        leaves, structure = jax.tree.flatten(self)
        return hash((structure, tuple(x if isinstance(x, float) else None for x in leaves)))

    def __repr__(self) -> str:
        """How to make it: fields at their defaults are left out."""
        return f"{_constructor(type(self))}({', '.join(_arguments(self))})"


def _refuse_unknown_fields(cls: type, names: list[str]) -> None:
    """Let the constructor say which field was meant, where one is given that does not exist."""
    make = cls.__dict__.get("__init__")
    if make is None or hasattr(make, "__wrapped__"):
        return

    @functools.wraps(make)
    def construct(self: Any, *positional: Any, **given: Any) -> None:
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name.lower(), names, 1)
                meant = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
                raise TypeError(f"{_constructor(cls)} has no setting {name!r}; {meant}")
        make(self, *positional, **given)

    cls.__init__ = construct  # type: ignore[misc]


def same(one: Any, other: Any) -> bool:
    """Whether two leaves are equal, as far as they can be looked at."""
    if _is_traced(one) or _is_traced(other):
        return one is other
    if one is other:
        return True
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and bool(np.array_equal(one, other))


def public_name(cls: type) -> str:
    """The name a class goes by in the library: ``EulerMaruyama`` is ``euler_maruyama``."""
    name = cls.__name__
    parts = ["_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name)]
    return cls.__dict__.get("name", "".join(parts))


def _constructor(cls: type) -> str:
    """Where a person finds it: ``clocks.constant``, or the class of somebody else."""
    module = cls.__module__.split(".")
    if module[0] != "sundman" or len(module) < 2:
        return cls.__qualname__
    return f"{module[1]}.{public_name(cls)}"


def _arguments(value: Value) -> Iterator[str]:
    fields = dataclasses.fields(value)  # type: ignore[arg-type]
    by_name = False
    for each in sorted(fields, key=lambda field: bool(field.kw_only)):
        given = getattr(value, each.name)
        if not each.init or (each.default is not MISSING and _is_default(given, each.default)):
            by_name = True  # those after one that is left out
            continue
        text = in_words(given)
        yield f"{each.name}={text}" if each.kw_only or by_name else text


def _is_default(given: Any, default: Any) -> bool:
    if given is default:
        return True
    if type(given) is not type(default):
        return False
    ours, theirs = jax.tree.flatten(given), jax.tree.flatten(default)
    return ours[1] == theirs[1] and all(map(_equal, ours[0], theirs[0]))


def _equal(one: Any, other: Any) -> bool:
    numbers = isinstance(one, (float, int, np.ndarray, jax.Array))
    return same(one, other) if numbers else one is other or one == other


def in_words(value: Any) -> str:
    """A field as a text that is the same in every process: functions go by their names."""
    if isinstance(value, tuple):
        items = ", ".join(map(in_words, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    if callable(value) and not isinstance(value, Value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    if isinstance(value, (jax.Array, np.ndarray)) and not _is_traced(value):
        whole = np.asarray(value)
        return repr(whole.tolist()) if whole.size <= 16 else f"array{list(whole.shape)}"
    return repr(value)


def settings_of(value: Value) -> dict[str, Any]:
    """The fields by name: numbers as they are, arrays as lists, the rest in words."""
    found: dict[str, Any] = {}
    for each in dataclasses.fields(value):  # type: ignore[arg-type]
        if not each.init:
            continue
        given = getattr(value, each.name)
        if isinstance(given, (jax.Array, np.ndarray)) and not _is_traced(given):
            found[each.name] = np.asarray(given).tolist()
        elif isinstance(given, tuple) and all(
            isinstance(item, (jax.Array, np.ndarray, np.generic, float, int)) for item in given
        ):
            found[each.name] = tuple(
                item if _is_traced(item) else np.asarray(item).tolist() for item in given
            )
        elif given is None or isinstance(given, (bool, int, float, str, tuple)):
            found[each.name] = given
        else:
            found[each.name] = given if _is_traced(given) else in_words(given)
    return found
