"""What a run was asked to do, as JSON and plain arrays.

A call is written by :class:`Encoder` with its values by class and fields, its arrays in an
archive, and its functions by module and name. Only :class:`Decoder` imports them again, for
``resume``; to look at a run it takes those of this library alone.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from sundman import targets
from sundman._types import Json
from sundman.samplers import Sampler
from sundman.store.files import StoreError
from sundman.store.structure import (
    DEEPEST,
    NAME,
    imported,
    key_from_json,
    key_to_json,
    name_of,
    room_of,
)
from sundman.targets.base import REGISTRY, Target
from sundman.value import Value

_LARGEST = 1024  # coordinates of a target that is made for whoever looks at a run


class NotByName(Exception):
    """Something in a call cannot be found again by a name; the message says what."""


class Encoder:
    """A call as JSON; its arrays are collected in ``arrays``.

    ``in_main`` has what is found by its name only where the same script or notebook runs.
    """

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.in_main: list[str] = []

    def encode(self, value: object, where: str) -> Json:
        """``value`` as JSON.

        Args:
          value: what the run was given.
          where: what it is, for the error: ``"target"``.

        Raises:
          NotByName: if it has a function that cannot be imported, or an object of another kind.
        """
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value
        if isinstance(value, jax.Array | np.ndarray | np.generic):
            return self._array(value)
        if isinstance(value, Sampler):
            parts = (value.integrator, value.clock, value.key, value.rows)
            return {"sampler": [self.encode(part, where) for part in parts]}
        if isinstance(value, Target):
            return self._target(value, where)
        if isinstance(value, Value):
            return self._value(value, where)
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            kind = self._named(type(value), where)
            return {"namedtuple": kind, "items": [self.encode(item, where) for item in value]}
        if isinstance(value, tuple | list):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {kind: [self.encode(item, where) for item in value]}
        if type(value) is dict:
            items = cast("dict[object, object]", value).items()
            return {
                "dict": [
                    [key_to_json(key), self.encode(item, f"{where}[{key!r}]")]
                    for key, item in items
                ]
            }
        if callable(value):
            return {"function": self._named(value, where)}
        raise NotByName(f"{where} is a {type(value).__qualname__}, which is not plain data")

    def _array(self, value: jax.Array | np.ndarray | np.generic) -> Json:
        number = f"{len(self.arrays)}"
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            self.arrays[number] = np.asarray(jax.random.key_data(value))
            return {"key": number, "kind": str(jax.random.key_impl(value))}
        self.arrays[number] = np.asarray(value)
        return {"array": number, "kind": "jax" if isinstance(value, jax.Array) else "numpy"}

    def _value(self, value: Value, where: str) -> Json:
        kind = self._named(type(value), where)
        own = {
            each.name: self.encode(getattr(value, each.name), f"{where}.{each.name}")
            for each in fields(cast(Any, value))
        }
        return {"value": kind, "fields": own}

    def _target(self, target: Target, where: str) -> Json:
        settings = _settings_of(target)
        if settings is not None:
            return {"target": target.name, "settings": self.encode(settings, where)}
        return {
            "density": target.name,
            "dim": target.dim,
            "temperature": target.temperature,
            "potential": self.encode(target.potential, f"{where}.potential"),
            "start": self.encode(target.start, where),
        }

    def _named(self, thing: object, where: str) -> str:
        name = name_of(thing)
        if name is not None:
            module, _, called = name.partition(":")
            if module == "__main__" and called not in self.in_main:
                self.in_main.append(called)
            return name
        called = getattr(thing, "__qualname__", type(thing).__qualname__)
        if "<lambda>" in called:
            why = "a lambda, which has no name to import it by"
        elif "<locals>" in called:
            why = f"{called.split('.')[-1]}, which is defined inside a function"
        elif not hasattr(thing, "__qualname__"):
            why = f"an object of the class {called}, which has no name to import it by"
        else:
            why = f"{called}, which is not what its module has under that name"
        raise NotByName(f"{where} is {why}")


def _settings_of(target: Target) -> dict[str, object] | None:
    """The settings with which ``targets.named`` makes this very target; None if it does not."""
    if target.name not in targets.names():
        return None
    potential = target.potential
    has = {"temperature": target.temperature, "dim": target.dim}
    if isinstance(potential, Value):
        has |= {name: getattr(potential, name) for name in potential.field_names()}
    known = inspect.signature(REGISTRY[target.name]).parameters
    settings = {name: value for name, value in has.items() if name in known}
    try:
        return settings if targets.named(target.name, **settings) == target else None
    except (TypeError, ValueError):
        return None


class Decoder:
    """Makes a call from its JSON.

    Args:
      arrays: those of the encoder.
      ours: take functions and classes of this library alone, and import nothing of others.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], *, ours: bool) -> None:
        self._arrays, self._ours = arrays, ours

    def decode(self, content: Json) -> Any:
        """What was encoded.

        Raises:
          StoreError: if it is damaged, or a function is not where it was.
        """
        try:
            return self._decoded(content, 0)
        except StoreError:
            raise
        except Exception as error:  # whatever our classes say of fields that are not theirs
            raise StoreError(f"the call of the run is damaged: {error!r:.200}") from error

    def _decoded(self, content: Json, depth: int) -> Any:
        if content is None or isinstance(content, bool | int | float | str):
            return content
        if depth > DEEPEST:
            raise ValueError("it is nested too deeply")

        def all_of(parts: Iterable[Json]) -> list[Any]:
            return [self._decoded(part, depth + 1) for part in parts]

        if not isinstance(content, dict) or not content:
            raise ValueError(f"{content!r:.50} is nothing")
        kind = next(iter(content))
        if kind in ("array", "key"):
            return self._array(content, kind)
        if kind == "sampler":
            return Sampler(*all_of(content["sampler"]))
        if kind == "target":
            settings = self._decoded(content["settings"], depth + 1)
            if self._ours and settings.get("dim", 0) > _LARGEST:
                raise ValueError(f"{settings['dim']} coordinates are too many to look at a run")
            return targets.named(content["target"], **settings)
        if kind == "density":
            names = ("dim", "temperature", "potential", "start")
            rest = {name: self._decoded(content[name], depth + 1) for name in names}
            return Target(content["density"], observables={}, truth={}, **rest)
        if kind == "value":
            cls = self._look_up(content["value"])
            if not (isinstance(cls, type) and issubclass(cls, Value)):
                raise ValueError(f"{content['value']} is not a value")
            value = object.__new__(cls)
            lacking = [f.name for f in fields(cast(Any, cls)) if f.name not in content["fields"]]
            if lacking:
                raise StoreError(
                    f"the run was made with another version of sundman, whose {cls.__name__} has "
                    f"no {', '.join(lacking)}: go on with that one; its draws can be opened here"
                )
            for each in fields(cast(Any, cls)):
                own = self._decoded(content["fields"][each.name], depth + 1)
                object.__setattr__(value, each.name, own)
            return value
        if kind == "namedtuple":
            cls = self._look_up(content["namedtuple"])
            if not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
                raise ValueError(f"{content['namedtuple']} is not a named tuple")
            return cls(*all_of(content["items"]))
        if kind == "dict":
            keys = [key_from_json(key) for key, _ in content["dict"]]
            return dict(zip(keys, all_of(part for _, part in content["dict"]), strict=True))
        if kind == "function":
            function = self._look_up(content["function"])
            if not callable(function) or isinstance(function, type):
                raise ValueError(f"{content['function']} is not a function")
            return function
        return {"tuple": tuple, "list": list}[kind](all_of(content[kind]))

    def _array(self, content: Json, kind: str) -> Any:
        array = self._arrays[content[kind]]
        if kind == "key":
            return jax.random.wrap_key_data(jnp.asarray(array), impl=content["kind"])
        if content["kind"] == "jax":
            return jnp.asarray(array)
        return array if array.ndim else array[()]

    def _look_up(self, name: str) -> object:
        """What is called ``module:name``."""
        if not NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name")
        module = name.partition(":")[0]
        ours = module.split(".")[0] == "sundman" and not any(
            part.startswith("__") for part in module.split(".")
        )
        if not ours and self._ours:
            raise StoreError(
                f"{name} is not a part of sundman: it is not imported to look at a run"
            )
        if module not in sys.modules:
            try:
                _import(module)
            except Exception as error:
                raise StoreError(
                    f"{module}, which the run needs, cannot be imported here ({error}): make it "
                    "importable, or give the arguments again, "
                    "sundman.sample(..., store=..., resume=True)"
                ) from error
        thing = imported(name)
        if thing is None and module == "__main__":
            raise StoreError(
                f"{name.partition(':')[2]} is of the script or notebook that began the run: go on "
                "there, or give the arguments again, sundman.sample(..., store=..., resume=True)"
            )
        if thing is None:
            raise StoreError(
                f"there is no {name.partition(':')[2]} in {module} any more: put it back, or give "
                "the arguments again, sundman.sample(..., store=..., resume=True)"
            )
        return thing


def _import(module: str) -> None:
    """Import a module, or its room if this library has no such module any more."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        if (room := room_of(module)) is None:
            raise
        importlib.import_module(room)
