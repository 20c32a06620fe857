"""The structure of pytrees as JSON, and names for functions and classes.

A pytree is written as its shape: dicts, lists, tuples, named tuples and registered classes by
name, with the numbers of the leaves in their places. Reading it imports nothing: a class that this
process has not imported, or whose other fields are not plain data, is replaced by a
:class:`Node` with the same names and the same order of leaves.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

import jax
from jax.tree_util import PyTreeDef

from sundman._types import Json, PyTree
from sundman.store.files import StoreError

_REGISTRY = jax.tree_util.default_registry
DEEPEST = 100
NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


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
    return full if NAME.fullmatch(full) and imported(full) is thing else None


def imported(name: str) -> object | None:
    """What is called ``module:name`` here, if the module is imported already; None else.

    What is of this library is looked for in all its room: the modules of a room may be others
    than when a run was written.
    """
    module, _, path = name.partition(":")
    modules = [module]
    if (room := room_of(module)) is not None:
        modules += [each for each in sys.modules if each.startswith(f"{room}.")]
    return next((thing for each in modules if (thing := _in_module(each, path)) is not None), None)


def _in_module(module: str, path: str) -> object | None:
    """The function or class that a module which is imported has under a path and calls its own."""
    thing: object | None = sys.modules.get(module)
    for part in path.split("."):
        thing = getattr(thing, part, None)
    if getattr(thing, "__module__", None) != module:
        return None
    return thing if getattr(thing, "__qualname__", None) == path else None


def room_of(module: str) -> str | None:
    """The package of this library, such as ``sundman.clocks``, that a module of it is in."""
    parts = module.split(".")
    return ".".join(parts[:2]) if parts[0] == "sundman" and len(parts) > 2 else None


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
        return {
            "dict": [[key_to_json(key), child] for key, child in zip(keys, children, strict=True)]
        }
    names = [jax.tree_util.keystr((key,), simple=True) for key, _ in below]
    full = f"{kind.__module__}:{kind.__qualname__}"
    if about is kind:  # a named tuple, of which JAX knows without being told
        return {"namedtuple": full, "names": list(_fields_of(kind)), "children": children}
    return {"class": full, "names": names, "children": children, "other": _aux(about)}


def key_to_json(key: object) -> Json:
    """A key of a dict."""
    if isinstance(key, str):
        return key
    return {"int": key} if type(key) is int else {"text": repr(key)}


def key_from_json(key: Json) -> str | int:
    """Back again; raises ValueError."""
    if isinstance(key, dict) and len(key) == 1:
        (key,) = key.values()
    if not isinstance(key, str | int):
        raise ValueError(f"{key!r:.50} is not a key")
    return key


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
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StoreError(f"the structure of a pytree is damaged: {error!s:.200}") from None


def leaf_count(content: Json) -> int:
    """How many leaves the pytree has; raises ValueError or TypeError if it is none."""
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
    if depth > DEEPEST:
        raise ValueError("it is nested too deeply")

    def all_of(parts: Iterable[Json]) -> list[PyTree]:
        return [_rebuilt(part, leaves, depth + 1) for part in parts]

    if "list" in content:
        return all_of(content["list"])
    if "tuple" in content:
        return tuple(all_of(content["tuple"]))
    if "dict" in content:
        keys = [key_from_json(key) for key, _ in content["dict"]]
        return dict(zip(keys, all_of(part for _, part in content["dict"]), strict=True))
    children, names = all_of(content["children"]), [str(name) for name in content["names"]]
    if len(names) != len(children):
        raise ValueError("names and children differ in number")
    name = content.get("namedtuple", content.get("class"))
    kind = imported(name) if NAME.fullmatch(name) else None
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
