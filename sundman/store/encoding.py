"""What a run was asked to do, and the pytrees its arrays belong to, as JSON and plain arrays.

A pytree is written as its shape: dicts, lists, tuples, named tuples and registered classes by
name, with the numbers of the leaves in their places. Reading it imports nothing: a class that this
process has not imported, or whose other fields are not plain data, is replaced by a
:class:`Node` with the same names and the same order of leaves.

A call is written by :class:`Encoder` with its values by class and fields, its arrays in an
archive, and its functions by module and name. Only :class:`Decoder` imports them again, for
``resume``; to look at a run it takes those of this library alone.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import PyTreeDef

from sundman import targets
from sundman._types import Json, PyTree
from sundman.samplers import Sampler
from sundman.store.files import StoreError
from sundman.targets import Target
from sundman.value import Value

_REGISTRY = jax.tree_util.default_registry
_DEEPEST = 100
_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@jax.tree_util.register_pytree_with_keys_class
class Node:
    """Stands for a class that could not be had when a run was opened: its leaves by name.

    ``jax.tree.unflatten(jax.tree.structure(yours), jax.tree.leaves(node))`` is the real one.
    """

    def __init__(self, kind: str, names: Sequence[str], children: Sequence[PyTree]) -> None:
        self._kind, self._names = kind, tuple(names)
        self._children = tuple(children)

    def __getattr__(self, name: str) -> PyTree:
        """The child of that name."""
        if not name.startswith("__") and name in self.__dict__.get("_names", ()):
            return self._children[self._names.index(name)]
        raise AttributeError(f"this {self.__dict__.get('_kind', 'node')} has no {name!r}")

    def tree_flatten_with_keys(
        self,
    ) -> tuple[list[tuple[object, PyTree]], tuple[str, tuple[str, ...]]]:
        """Children with their names, and the kind."""
        keys = map(jax.tree_util.GetAttrKey, self._names)
        return list(zip(keys, self._children, strict=True)), (self._kind, self._names)

    @classmethod
    def tree_unflatten(cls, about: tuple[str, tuple[str, ...]], children: Iterable[PyTree]) -> Node:
        """A node of that kind."""
        return cls(*about, tuple(children))

    def __repr__(self) -> str:
        """The kind and the children."""
        parts = [f"{n}={c!r}" for n, c in zip(self._names, self._children, strict=True)]
        return f"{self._kind}({', '.join(parts)})"


def name_of(thing: object) -> str | None:
    """``module:name`` of a function or class, if that is where it can be found; None else."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    full = f"{module}:{name}"
    return full if _NAME.fullmatch(full) and _imported(full) is thing else None


def _imported(name: str) -> object | None:
    """What is called ``module:name`` here, if the module is imported already; None else."""
    module, _, path = name.partition(":")
    thing: object | None = sys.modules.get(module)
    for part in path.split("."):
        thing = getattr(thing, part, None)
    if getattr(thing, "__module__", None) != module:
        return None
    return thing if getattr(thing, "__qualname__", None) == path else None


def structure_to_json(tree: PyTree) -> Json:
    """The shape of a pytree, the numbers of its leaves in their places."""
    return _structure(tree, itertools.count())


def _structure(tree: PyTree, numbers: Iterator[int]) -> Json:
    if tree is None:
        return None
    node = _REGISTRY.flatten_one_level_with_keys(tree)
    if node is None:
        return next(numbers)
    kind, (below, about) = type(tree), node
    children = [_structure(child, numbers) for _, child in below]
    if kind in (list, tuple):
        return {kind.__name__: children}
    if kind is dict:
        keys = [key.key for key, _ in below]
        return {"dict": [[_key(key), child] for key, child in zip(keys, children, strict=True)]}
    names = [jax.tree_util.keystr((key,), simple=True) for key, _ in below]
    full = f"{kind.__module__}:{kind.__qualname__}"
    if about is kind:  # a named tuple, of which JAX knows without being told
        return {"namedtuple": full, "names": list(_fields_of(kind)), "children": children}
    return {"class": full, "names": names, "children": children, "other": _aux(about)}


def _key(key: object) -> Json:
    if isinstance(key, str):
        return key
    return {"int": key} if type(key) is int else {"text": repr(key)}


def _aux(value: object) -> Json:
    """Plain data beside the children of a registered class; None if it is not plain."""
    if value is None or isinstance(value, bool | int | float | str):
        return {"is": value}
    if type(value) in (tuple, list):
        items = [_aux(item) for item in cast("Sequence[object]", value)]
        return None if None in items else {type(value).__name__: items}
    return None


def _aux_back(value: Json) -> object:
    if "is" in value and not isinstance(value["is"], dict | list):
        return value["is"]
    ((kind, items),) = value.items()
    return {"tuple": tuple, "list": list}[kind](_aux_back(item) for item in items)


def structure_from_json(content: Json, leaves: Sequence[PyTree]) -> PyTree:
    """The pytree that :func:`structure_to_json` wrote, with ``leaves`` in their places.

    Args:
      content: the JSON.
      leaves: one for each leaf.

    Returns:
      The pytree; of classes that are not imported here, a :class:`Node` for each.

    Raises:
      StoreError: if it is not such a structure.
    """
    try:
        return _rebuilt(content, leaves, 0)
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise StoreError(f"the structure of a pytree is damaged: {error}") from None


def leaf_count(content: Json) -> int:
    """How many leaves the pytree has."""
    if isinstance(content, dict):
        parts: Iterable[Json] = content.get("dict", content.get("children", ()))
        if "dict" in content:
            parts = (child for _, child in content["dict"])
        elif len(content) == 1:
            (parts,) = content.values()
        return sum(map(leaf_count, parts))
    return 1 if type(content) is int else 0


def _rebuilt(content: Json, leaves: Sequence[PyTree], depth: int) -> PyTree:
    if content is None:
        return None
    if type(content) is int:
        if not 0 <= content < len(leaves):
            raise ValueError(f"there is no leaf {content}")
        return leaves[content]
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")

    def all_of(parts: Iterable[Json]) -> list[PyTree]:
        return [_rebuilt(part, leaves, depth + 1) for part in parts]

    if "list" in content:
        return all_of(content["list"])
    if "tuple" in content:
        return tuple(all_of(content["tuple"]))
    if "dict" in content:
        keys = [
            key if isinstance(key, str) else next(iter(key.values())) for key, _ in content["dict"]
        ]
        return dict(zip(keys, all_of(part for _, part in content["dict"]), strict=True))
    children, names = all_of(content["children"]), [str(name) for name in content["names"]]
    if len(names) != len(children):
        raise ValueError("names and children differ in number")
    name = content.get("namedtuple", content.get("class"))
    kind = _imported(name) if _NAME.fullmatch(name) else None
    if "namedtuple" in content:
        if isinstance(kind, type) and issubclass(kind, tuple) and list(_fields_of(kind)) == names:
            return cast(Callable[..., PyTree], kind)(*children)
        if len(set(names)) == len(names) and all(map(_is_plain_name, names)):
            return namedtuple(name.rpartition(".")[2].rpartition(":")[2], names)(*children)
    elif isinstance(kind, type) and content["other"] is not None:
        try:
            return _of_class(kind, _aux_back(content["other"]), children)
        except Exception:  # another version of the class: its leaves are what matters
            pass
    return Node(name, names, children)


def _fields_of(kind: type) -> Sequence[str]:
    return getattr(kind, "_fields", ())


def _is_plain_name(name: str) -> bool:
    return name.isidentifier() and not name.startswith("_")


def _of_class(kind: type, about: object, children: Sequence[PyTree]) -> PyTree:
    """A node of a registered class; raises if it is none."""
    leaf = jax.tree.structure(0)
    shape = PyTreeDef.from_node_data_and_children(_REGISTRY, (kind, about), [leaf] * len(children))
    return jax.tree.unflatten(shape, children)


class NotByName(Exception):
    """Something in a call cannot be found again by a name; the message says what."""


class Encoder:
    """A call as JSON; its arrays are collected in ``arrays``."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}

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
                "dict": [[_key(key), self.encode(item, f"{where}[{key!r}]")] for key, item in items]
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

    @staticmethod
    def _named(thing: object, where: str) -> str:
        name = name_of(thing)
        if name is not None:
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
    known = inspect.signature(targets.registered(target.name).build).parameters
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
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise StoreError(f"the call of the run is damaged: {error!r:.200}") from None

    def _decoded(self, content: Json, depth: int) -> Any:
        if content is None or isinstance(content, bool | int | float | str):
            return content
        if depth > _DEEPEST:
            raise ValueError("it is nested too deeply")

        def all_of(parts: Iterable[Json]) -> list[Any]:
            return [self._decoded(part, depth + 1) for part in parts]

        kind = next(iter(content))
        if kind in ("array", "key"):
            return self._array(content, kind)
        if kind == "sampler":
            return Sampler(*all_of(content["sampler"]))
        if kind == "target":
            settings = self._decoded(content["settings"], depth + 1)
            return targets.named(content["target"], **settings)
        if kind == "density":
            names = ("dim", "temperature", "potential", "start")
            rest = {name: self._decoded(content[name], depth + 1) for name in names}
            return Target(content["density"], observables={}, truth={}, **rest)
        if kind == "value":
            cls = self._found(content["value"])
            if not (isinstance(cls, type) and issubclass(cls, Value)):
                raise ValueError(f"{content['value']} is not a value")
            value = object.__new__(cls)
            for each in fields(cast(Any, cls)):
                own = self._decoded(content["fields"][each.name], depth + 1)
                object.__setattr__(value, each.name, own)
            return value
        if kind == "namedtuple":
            cls = self._found(content["namedtuple"])
            if not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
                raise ValueError(f"{content['namedtuple']} is not a named tuple")
            return cls(*all_of(content["items"]))
        if kind == "dict":
            keys = [
                key if isinstance(key, str) else next(iter(key.values()))
                for key, _ in content["dict"]
            ]
            return dict(zip(keys, all_of(part for _, part in content["dict"]), strict=True))
        if kind == "function":
            found = self._found(content["function"])
            if not callable(found) or isinstance(found, type):
                raise ValueError(f"{content['function']} is not a function")
            return found
        return {"tuple": tuple, "list": list}[kind](all_of(content[kind]))

    def _array(self, content: Json, kind: str) -> Any:
        array = self._arrays[content[kind]]
        if kind == "key":
            return jax.random.wrap_key_data(jnp.asarray(array), impl=content["kind"])
        if content["kind"] == "jax":
            return jnp.asarray(array)
        return array if array.ndim else array[()]

    def _found(self, name: str) -> object:
        """What is called ``module:name``."""
        if not _NAME.fullmatch(name):
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
                importlib.import_module(module)
            except Exception as error:
                raise StoreError(
                    f"{module}, which the run needs, cannot be imported here ({error}): make it "
                    "importable, or give the arguments again, "
                    "sundman.sample(..., store=..., resume=True)"
                ) from error
        found = _imported(name)
        if found is None:
            raise StoreError(
                f"there is no {name.partition(':')[2]} in {module} any more: put it back, or give "
                "the arguments again, sundman.sample(..., store=..., resume=True)"
            )
        return found
