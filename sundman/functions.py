"""Functions as values, so that a value may hold any function among its leaves.

A value that can be called stays as it is: its numbers are leaves. A method of a value becomes a
:class:`Method`: the numbers of its owner are leaves. Any other function becomes a
:class:`Function`: a choice, part of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sundman.value import Value, in_words, static


class Function(Value):
    """A plain function, a static choice: equal to itself alone."""

    function: Callable[..., Any] = static()

    def __call__(self, *arguments: Any) -> Any:
        """What the function gives."""
        return self.function(*arguments)

    def __repr__(self) -> str:
        """The name of the function."""
        return in_words(self.function)


class Method(Value):
    """A method of a value, whose numbers stay leaves."""

    owner: Value
    method: str = static()

    def __call__(self, *arguments: Any) -> Any:
        """What the method gives."""
        return getattr(self.owner, self.method)(*arguments)

    def __repr__(self) -> str:
        """The owner and the name of the method."""
        return f"{self.owner!r}.{self.method}"


def as_value(**argument: Any) -> Any:
    """A function as a value that is called as the function is: ``as_value(potential=U)``.

    The argument is given by its name, for the TypeError if it cannot be called.
    """
    ((name, function),) = argument.items()
    if not callable(function):
        raise TypeError(f"{name} must be a function, got {name}={function!r}")
    if isinstance(function, Value):
        return function
    owner = getattr(function, "__self__", None)
    if isinstance(owner, Value) and getattr(type(owner), function.__name__, None) is not None:
        return Method(owner, function.__name__)
    if not _has_hash(function):
        return Function(function.__call__)  # a bound method: equal if it is the same object's
    return Function(function)


def _has_hash(function: Any) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True
