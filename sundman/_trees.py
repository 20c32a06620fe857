"""Pytrees: names for their leaves, their structure without the numbers, and back again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from sundman._types import PyTree

PyTreeDef: TypeAlias = Any  # of a compiled module, which pyright takes for a variable
Shapes: TypeAlias = tuple[tuple[tuple[int, ...], np.dtype], ...]


def leaf_paths(tree: PyTree) -> list[str]:
    """The path of each leaf, its parts joined by "/"; "x" for a single array."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return [jax.tree_util.keystr(path, simple=True, separator="/") or "x" for path, _ in paths]


def leaf_names(tree: PyTree) -> list[str]:
    """A unique name for each leaf that any file system takes: its path, or else its number."""

    def part(key: object) -> str:
        text = jax.tree_util.keystr((key,), simple=True)
        return "".join(c if c.isalnum() or c in "-_ " else "_" for c in text) or "_"

    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]
    names = ["/".join(part(key) for key in path) or "x" for path in paths]
    parents = {name[:i].lower() for name in names for i, c in enumerate(name) if c == "/"}
    alone = {name.lower() for name in names} - parents  # some file systems ignore case
    return names if len(alone) == len(names) else [f"{i:05d}" for i in range(len(names))]


def skeleton(tree: PyTree) -> PyTree:
    """The pytree with the numbers of its leaves in their places."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, list(range(len(leaves))))


def structure_of(tree: PyTree) -> tuple[PyTreeDef, Shapes]:
    """What a program is made of: everything but the numbers, hashable."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple((np.shape(x), np.dtype(jnp.result_type(x))) for x in leaves)


def shapes_of(structure: PyTreeDef, shapes: Shapes) -> PyTree:
    """The tree of :func:`structure_of` with shapes in the place of its numbers."""
    return jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(*each) for each in shapes])


def named_leaves(tree: PyTree) -> dict[str, np.ndarray]:
    """The leaves as numpy arrays by name, the parts of a path joined by "."."""
    names = [name.replace("/", ".") for name in leaf_names(tree)]
    return dict(zip(names, map(np.asarray, jax.tree.leaves(tree)), strict=True))


def with_named_leaves(like: PyTree, leaves: Mapping[str, np.ndarray]) -> PyTree:
    """A pytree of the structure of ``like`` with the ``leaves`` of these names.

    Raises:
      KeyError: if the names are not those of ``like``.
    """
    names = [name.replace("/", ".") for name in leaf_names(like)]
    differing = sorted({*names} ^ {*leaves})
    if differing:
        raise KeyError(differing[0])
    return jax.tree.unflatten(jax.tree.structure(like), [leaves[name] for name in names])


def first_difference(like: PyTree, read: PyTree) -> str | None:
    """In words, the first leaf whose shape or type is not what it should be; None if all are.

    Args:
      like: a pytree as it should be, "here".
      read: one of the same structure, "there".
    """
    for (name, ours), theirs in zip(named_leaves(like).items(), jax.tree.leaves(read), strict=True):
        told = [f"{leaf.dtype} {np.shape(leaf)}" for leaf in (theirs, ours)]
        if told[0] != told[1]:
            return f"{name} is {told[0]} there and {told[1]} here"
    return None


def some_of_each(sizes: Sequence[int], most: int) -> np.ndarray:
    """At most ``most`` places in leaves of these sizes, one after the other, in increasing order.

    Evenly spaced, but none is left out if there are not more leaves than that: the scales of a
    hierarchy are single numbers beside long arrays, and the slowest of all.
    """
    ends = np.cumsum([0, *sizes])
    total = int(ends[-1])
    first = np.unique(ends[:-1][np.diff(ends) > 0])
    for added in range(most + 1):
        evenly = np.linspace(0, total - 1, min(most - added, total)).astype(int)
        missing = np.setdiff1d(first, first[np.searchsorted(first, evenly, side="right") - 1])
        if len(missing) <= added:
            return np.union1d(evenly, missing).astype(int)
    return np.linspace(0, total - 1, min(most, total)).astype(int)
