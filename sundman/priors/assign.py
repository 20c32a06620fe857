"""Which prior for which parameter: one for all, or rules by path.

A path is the keys that lead to an array, joined by "/", such as ``Dense_0/kernel``. A rule's
pattern may be one key (``kernel``), consecutive keys (``Dense_0/kernel``), or have wildcards
(``Dense_*``, ``*/0``); or be a function of (path, array). The first rule that fits is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sundman.priors.base import Prior

PyTree = Any
Pattern = str | Callable[[str, Array], bool]
Rules = Prior | Mapping[Pattern, Prior]


def is_weight(path: str, array: Array) -> bool:
    """Arrays of two axes or more."""
    del path
    return jnp.ndim(array) >= 2


def is_bias(path: str, array: Array) -> bool:
    """Vectors and scalars."""
    return not is_weight(path, array)


def _key(entry: Any) -> str:
    for name in ("key", "name", "idx"):
        if hasattr(entry, name):
            return str(getattr(entry, name))
    return str(entry)


def paths(params: PyTree) -> list[tuple[str, Array]]:
    """(path, array) for every array of a pytree."""
    return [
        ("/".join(_key(entry) for entry in path), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    ]


def _fits(pattern: Pattern, path: str, array: Array) -> bool:
    if callable(pattern):
        return bool(pattern(path, array))
    keys, wanted = path.split("/"), pattern.strip("/").split("/")
    windows = (keys[i : i + len(wanted)] for i in range(len(keys) - len(wanted) + 1))
    return any(all(map(fnmatchcase, window, wanted)) for window in windows)


def check_rules(rules: Any) -> None:
    """``rules`` must be a prior, or a mapping from patterns to priors."""
    if isinstance(rules, Prior):
        return
    if not isinstance(rules, Mapping) or not rules:
        raise TypeError(
            "prior must be a prior such as sundman.priors.gaussian(1.0), or a mapping from "
            f"parameter paths to priors; got {rules!r}"
        )
    for pattern, prior in rules.items():
        if not isinstance(prior, Prior):
            raise TypeError(f"the prior for {pattern!r} must be a sundman prior, got {prior!r}")


def assign(rules: Rules, params: PyTree) -> list[tuple[str, Prior]]:
    """(path, prior) for every array, in the order of the flattened pytree."""
    named = paths(params)
    if isinstance(rules, Prior):
        return [(path, rules) for path, _ in named]
    assigned, missing, used = [], [], set()
    for path, array in named:
        pattern = next((p for p in rules if _fits(p, path, array)), None)
        if pattern is None:
            missing.append(path)
        else:
            used.add(pattern)
            assigned.append((path, rules[pattern]))
    if missing:
        raise ValueError(
            f"no prior rule fits the parameters {', '.join(missing)}; the rules are "
            f"{', '.join(map(repr, rules))}: add one, or '*' for the rest"
        )
    idle = [pattern for pattern in rules if pattern not in used]
    if idle:
        raise ValueError(
            f"the prior rules {', '.join(map(repr, idle))} fit no parameter; the parameters are "
            f"{', '.join(path for path, _ in named)}"
        )
    return assigned
