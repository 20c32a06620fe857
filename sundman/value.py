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

:func:`as_value` lets a value hold any function among its leaves. A value that can be called stays
as it is: its numbers are leaves. A method of a value becomes a :class:`Method`: the numbers of its
owner are leaves. Any other function becomes a :class:`Function`: a choice, part of the program.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextvars import ContextVar
from dataclasses import MISSING, field
from typing import (
    Any,
    ClassVar,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
    overload,
)

import jax
import numpy as np
from jax import Array
from jax.core import Tracer

Number: TypeAlias = float | Array

Settings: TypeAlias = dict[str, Any]
"""Settings by name, each of the type its owner says: for records, tables and JSON."""

_IN_FULL: ContextVar[bool] = ContextVar("in_full", default=False)
_T = TypeVar("_T")
_Function = TypeVar("_Function", bound=Callable[..., object])


@overload
def static(*, default: _T, init: bool = True, kw_only: bool | None = None) -> _T: ...
@overload
def static(*, init: bool = True, kw_only: bool | None = None) -> Any: ...
def static(*, default: object = MISSING, init: bool = True, kw_only: bool | None = None) -> object:
    """A field that is a choice: part of the program, hashable, never traced.

    Args:
      default: what it is if nothing is given; without one it must be given.
      init: whether it can be given at all, or is worked out.
      kw_only: whether it must be given by name.

    Returns:
      What stands for the field in the body of the class.
    """
    return _field(default, kw_only, init=init, metadata={"static": True})


@overload
def array(*, default: _T, kw_only: bool | None = None) -> _T: ...
@overload
def array(*, kw_only: bool | None = None) -> Any: ...
def array(*, default: object = MISSING, kw_only: bool | None = None) -> object:
    """A field that holds arrays of any shape, where other numbers are single ones."""
    return _field(default, kw_only, metadata={"array": True})


def derived(*, init: Literal[False] = False) -> Any:
    """A number that ``__post_init__`` works out of the others, in double precision where it can.

    Change a value by ``replace``, which works it out again.
    """
    return field(default=None, init=init)


def _field(
    default: object, kw_only: bool | None, *, metadata: dict[str, bool], init: bool = True
) -> object:
    """A field of a dataclass; ``kw_only=None`` leaves it to where the field stands."""
    return field(
        default=default,
        init=init,
        kw_only=MISSING if kw_only is None else kw_only,
        metadata=metadata,
    )


def _is_traced(value: object) -> bool:
    return isinstance(value, Tracer)


@dataclass_transform(
    frozen_default=True, eq_default=False, field_specifiers=(static, array, derived, field)
)
class Value:
    """The base of everything that is a value; ``room``: where it is, if not in its package."""

    room: ClassVar[str] = ""

    _leaves: ClassVar[tuple[str, ...]] = ()
    _choices: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Make the class a frozen dataclass and a pytree."""
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, eq=False, repr=False)(cls)
        fields = _fields(cls)
        cls._choices = tuple(f.name for f in fields if f.metadata.get("static"))
        cls._leaves = tuple(f.name for f in fields if not f.metadata.get("static"))
        _refuse_unknown_fields(cls, [f.name for f in fields if f.init])

        def flatten(value: Value) -> tuple[tuple[object, ...], tuple[Hashable, ...]]:
            return (
                tuple(getattr(value, name) for name in cls._leaves),
                tuple(getattr(value, name) for name in cls._choices),
            )

        def flatten_with_keys(
            value: Value,
        ) -> tuple[tuple[tuple[object, object], ...], tuple[Hashable, ...]]:
            children, choices = flatten(value)
            keys = map(jax.tree_util.GetAttrKey, cls._leaves)
            return tuple(zip(keys, children, strict=True)), choices

        def unflatten(choices: tuple[Hashable, ...], children: Iterable[object]) -> Value:
            value = object.__new__(cls)
            value.__dict__.update(zip(cls._leaves, children, strict=True))
            value.__dict__.update(zip(cls._choices, choices, strict=True))
            return value

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The names of the fields that one gives."""
        return tuple(f.name for f in _fields(cls) if f.init)

    def replace(self, **changes: object) -> Self:
        """The same value with other fields, checked as a new one is."""
        copy = cast(Callable[..., Self], dataclasses.replace)
        return copy(self, **changes)

    @classmethod
    def single_numbers(cls) -> tuple[str, ...]:
        """The fields that are numbers, or values made of them: not arrays by nature."""
        return tuple(
            each.name
            for each in _fields(cls)
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

    def _set(self, **fields: object) -> None:
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


def _fields(value: Value | type[Value]) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a value; type checkers do not see that the base makes dataclasses."""
    return dataclasses.fields(cast(Any, value))


def _refuse_unknown_fields(cls: type[Value], names: list[str]) -> None:
    """Let the constructor say which field was meant, where one is given that does not exist."""
    make = cls.__dict__.get("__init__")
    if make is None or hasattr(make, "__wrapped__"):
        return

    @functools.wraps(make)
    def construct(self: Value, *positional: object, **settings: object) -> None:
        for name in settings:
            if name not in names:
                near = difflib.get_close_matches(name.lower(), names, 1)
                meant = f"did you mean {near[0]}?" if near else f"it has {', '.join(names)}"
                raise TypeError(f"{_constructor(cls)} has no setting {name!r}; {meant}")
        make(self, *positional, **settings)

    type.__setattr__(cls, "__init__", construct)


def same(one: object, other: object) -> bool:
    """Whether two leaves are equal, as far as they can be looked at."""
    if _is_traced(one) or _is_traced(other):
        return one is other
    if one is other:
        return True
    ours, theirs = np.asarray(one), np.asarray(other)
    return ours.dtype == theirs.dtype and bool(np.array_equal(ours, theirs))


def public_name(cls: type) -> str:
    """The name a class goes by in the library: ``EulerMaruyama`` is ``euler_maruyama``."""
    name = cls.__name__
    parts = ["_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name)]
    return cls.__dict__.get("name", "".join(parts))


def _constructor(cls: type[Value]) -> str:
    """Where a person finds it: ``clocks.constant``, or the class of somebody else."""
    module = cls.__module__.split(".")
    if module[0] != "sundman" or len(module) < 2:
        return cls.__qualname__
    room = cls.room or ".".join(module[1:3] if module[1] == "contrib" else module[1:2])
    return f"{room}.{public_name(cls)}"


def _arguments(value: Value) -> Iterator[str]:
    by_name = False
    for each in sorted(_fields(value), key=lambda field: bool(field.kw_only)):
        setting = getattr(value, each.name)
        if not each.init or (each.default is not MISSING and _is_default(setting, each.default)):
            by_name = True  # those after one that is left out
            continue
        text = describe_value(setting)
        yield f"{each.name}={text}" if each.kw_only or by_name else text


def _is_default(setting: object, default: object) -> bool:
    if setting is default:
        return True
    if type(setting) is not type(default):
        return False
    ours, theirs = jax.tree.flatten(setting), jax.tree.flatten(default)
    return ours[1] == theirs[1] and all(map(_equal, ours[0], theirs[0]))


def _equal(one: object, other: object) -> bool:
    numbers = isinstance(one, (float, int, np.ndarray, jax.Array))
    return same(one, other) if numbers else one is other or one == other


def describe_value(value: object) -> str:
    """A field as a text that is the same in every process: functions go by their names."""
    if isinstance(value, tuple):
        items = ", ".join(map(describe_value, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    if callable(value) and not isinstance(value, Value):
        return getattr(value, "__qualname__", type(value).__qualname__)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {describe_value(item)}' for key, item in value.items())}}}"
    if isinstance(value, (jax.Array, np.ndarray)) and not _is_traced(value):
        whole = np.asarray(value)
        if _IN_FULL.get():
            return f"jnp.array({whole.tolist()!r})"
        return repr(whole.tolist()) if whole.size <= 16 else f"array{list(whole.shape)}"
    return repr(value)


def code(value: object) -> str:
    """How to make a value, with all the numbers of its arrays: code to paste."""
    token = _IN_FULL.set(True)
    try:
        return repr(value)
    finally:
        _IN_FULL.reset(token)


def settings_of(value: Value) -> Settings:
    """The fields by name: numbers as they are, arrays as lists, the rest in words."""
    return {each.name: _plain(getattr(value, each.name)) for each in _fields(value) if each.init}


def _plain(setting: object) -> object:
    """A field as a number, a list, a tuple of these, or in words."""
    if isinstance(setting, (jax.Array, np.ndarray)) and not _is_traced(setting):
        return np.asarray(setting).tolist()
    if isinstance(setting, tuple) and all(
        isinstance(item, (jax.Array, np.ndarray, np.generic, float, int)) for item in setting
    ):
        return tuple(item if _is_traced(item) else np.asarray(item).tolist() for item in setting)
    if setting is None or isinstance(setting, (bool, int, float, str)):
        return setting
    if isinstance(setting, tuple) and not any(
        isinstance(leaf, (jax.Array, np.ndarray)) for leaf in jax.tree.leaves(setting)
    ):
        return setting
    return setting if _is_traced(setting) else describe_value(setting)


class Function(Value):
    """A plain function, a static choice: equal to itself alone."""

    function: Callable[..., object] = static()

    def __call__(self, *arguments: object) -> object:
        """What the function gives."""
        return self.function(*arguments)

    def __repr__(self) -> str:
        """The name of the function."""
        return describe_value(self.function)


class Method(Value):
    """A method of a value, whose numbers stay leaves."""

    owner: Value
    method: str = static()

    def __call__(self, *arguments: object) -> object:
        """What the method gives."""
        return getattr(self.owner, self.method)(*arguments)

    def __repr__(self) -> str:
        """The owner and the name of the method."""
        return f"{self.owner!r}.{self.method}"


def as_value(**argument: _Function) -> _Function:
    """A function as a value that is called as the function is: ``as_value(potential=U)``.

    The argument is given by its name, for the TypeError if it cannot be called.
    """
    ((name, function),) = argument.items()
    if not callable(function):
        raise TypeError(f"{name} must be a function, got {name}={function!r}")
    if isinstance(function, Value):
        return cast(_Function, function)
    owner = getattr(function, "__self__", None)
    method = getattr(function, "__name__", "")
    if isinstance(owner, Value) and getattr(type(owner), method, None) is not None:
        return cast(_Function, Method(owner, method))
    if not _has_hash(function):
        bound = cast(Any, function).__call__  # equal if it is the same object's
        return cast(_Function, Function(bound))
    return cast(_Function, Function(function))


def _has_hash(function: object) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True
