"""Which prior for which parameter: one for all, or rules by path.

A path is the keys that lead to an array, joined by "/", such as ``Dense_0/kernel``. A rule's
pattern may be one key (``kernel``), consecutive keys (``Dense_0/kernel``), or have wildcards
(``Dense_*``, ``*/0``); or be a function of (path, array). The first rule that fits is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

import jax
import jax.numpy as jnp
from jax import Array

from sundman._types import PyTree
from sundman.priors.base import Prior
from sundman.value import Value, describe_value, public_name, static

Pattern = str | Callable[[str, Array], bool]


class Rules(Value):
    """Priors by the patterns of the parameters they are for, tried in this order.

    Args:
      patterns: keys, paths with wildcards, or functions of (path, array).
      priors: a prior for each pattern.
    """

    patterns: tuple[Pattern, ...] = static()
    priors: tuple[Prior, ...]

    def __post_init__(self) -> None:
        self._set(patterns=tuple(self.patterns), priors=tuple(self.priors))
        if not self.patterns or len(self.patterns) != len(self.priors):
            raise ValueError(
                f"rules need one prior for each pattern: got {len(self.patterns)} patterns and "
                f"{len(self.priors)} priors"
            )
        for pattern, prior in zip(self.patterns, self.priors, strict=True):
            if not isinstance(pattern, str) and not callable(pattern):
                raise TypeError(f"a pattern must be a text or a function, got {pattern!r}")
            if not isinstance(prior, Prior):
                raise TypeError(
                    f"the prior for {pattern!r} must be a sundman prior, {_instead(prior)}"
                )

    def __repr__(self) -> str:
        """As the mapping that makes them."""
        rules = zip(map(describe_value, self.patterns), self.priors, strict=True)
        return f"{{{', '.join(f'{pattern}: {prior!r}' for pattern, prior in rules)}}}"


PriorLike = Prior | Rules | Mapping[str, Prior] | Mapping[Pattern, Prior]


def is_weight(path: str, array: Array) -> bool:
    """Arrays of two axes or more."""
    del path
    return jnp.ndim(array) >= 2


def is_bias(path: str, array: Array) -> bool:
    """Vectors and scalars."""
    return not is_weight(path, array)


def paths(params: PyTree) -> list[tuple[str, Array]]:
    """(path, array) for every array of a pytree."""
    return [
        (jax.tree_util.keystr(path, simple=True, separator="/"), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    ]


def _fits(pattern: Pattern, path: str, array: Array) -> bool:
    if callable(pattern):
        return bool(pattern(path, array))
    keys, wanted = path.split("/"), pattern.strip("/").split("/")
    windows = (keys[i : i + len(wanted)] for i in range(len(keys) - len(wanted) + 1))
    return any(all(map(fnmatchcase, window, wanted)) for window in windows)


def _instead(prior: object) -> str:
    """What was given in place of a prior, and what to write if it only lacks its call."""
    if isinstance(prior, type) and issubclass(prior, Prior):
        ours = prior.__module__.startswith("sundman.")
        name = f"priors.{public_name(prior)}" if ours else prior.__qualname__
        return f"but {name} is not called: write {name}()"
    return f"got {prior!r}"


def as_rules(prior: PriorLike) -> Prior | Rules:
    """A prior for all parameters, or rules made of a mapping from patterns to priors."""
    if isinstance(prior, (Prior, Rules)):
        return prior
    if not isinstance(prior, Mapping) or not prior:
        raise TypeError(
            "prior must be a prior such as sundman.priors.gaussian(1.0), or a mapping from "
            f"parameter paths to priors; {_instead(prior)}"
        )
    return Rules(tuple(prior), tuple(prior.values()))


def assign(prior: PriorLike, params: PyTree) -> list[tuple[str, Prior]]:
    """(path, prior) for every array, in the order of the flattened pytree."""
    named, rules = paths(params), as_rules(prior)
    if isinstance(rules, Prior):
        return [(path, rules) for path, _ in named]
    assigned, missing, used = [], [], set()
    for path, array in named:
        fitting = (i for i, p in enumerate(rules.patterns) if _fits(p, path, array))
        number = next(fitting, None)
        if number is None:
            missing.append(path)
        else:
            used.add(number)
            assigned.append((path, rules.priors[number]))
    if missing:
        raise ValueError(
            f"no prior rule fits the parameters {', '.join(missing)}; the rules are "
            f"{', '.join(map(repr, rules.patterns))}: add one, or '*' for the rest"
        )
    idle = [repr(pattern) for i, pattern in enumerate(rules.patterns) if i not in used]
    if idle:
        raise ValueError(
            f"the prior rules {', '.join(idle)} fit no parameter; the parameters are "
            f"{', '.join(path for path, _ in named)}"
        )
    return assigned
