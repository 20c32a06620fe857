"""The data sets by name: what ``sundman bnn`` and :func:`named` know."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from sundman import check
from sundman.data.base import Dataset

OPTIONS = ("split", "directory", "download")
_REGISTRY: dict[str, Registered] = {}


class Registered(NamedTuple):
    """A data set that is known by its name.

    Attributes:
      load: the function that loads it.
      note: what to know of it, a sentence for the report; ``{split}`` becomes the split.
      folder: the folder of its files, if it has files.
    """

    load: Callable[..., Dataset]
    note: str = ""
    folder: str | None = None


def register(
    name: str, load: Callable[..., Dataset], *, note: str = "", folder: str | None = None
) -> None:
    """Let a data set be found by its name: by :func:`named` and by ``sundman bnn``.

    Args:
      name: its name, in lower case with hyphens; slashes make families, ``uci/yacht``.
      load: gives the :class:`Dataset`. Of ``split`` (a number), ``directory`` (where to look for
        files first, or None) and ``download`` (whether to), it is given those it has arguments for.
      note: a sentence for the report; ``{split}`` becomes the split.
      folder: the folder of its files below ``directory``, which is named if they are not found.
    """
    if not callable(load):
        raise TypeError(f"load must be a function that gives a Dataset, got load={load!r}")
    if name != name.lower().replace("_", "-") or not name.strip():
        raise ValueError(f"name must be lower-case words with hyphens, got name={name!r}")
    if name in _REGISTRY and _REGISTRY[name].load is not load:
        raise ValueError(f"there is a data set of this name already, got name={name!r}")
    _REGISTRY[name] = Registered(load, note, folder)


def registered(name: str) -> Registered:
    """How the data set of that name is loaded, and what to know of it."""
    known = str(name).replace("_", "-").lower()
    if known not in _REGISTRY:
        check.choice("name", name, names())
    return _REGISTRY[known]


def names() -> tuple[str, ...]:
    """The names :func:`named` knows."""
    return tuple(_REGISTRY)


def named(name: str, **options: Any) -> Dataset:
    """The data set of that name, hyphens or underscores.

    Args:
      name: its name.
      options: ``split``, ``directory`` and ``download``; those its function has no argument for
        are left out.

    Returns:
      The data set.
    """
    for option in options:
        check.choice("option", option, OPTIONS)
    load = registered(name).load
    takes = inspect.signature(load).parameters
    data = load(**{key: value for key, value in options.items() if key in takes})
    if not isinstance(data, Dataset):
        raise TypeError(f"the data set {name} must be a sundman.data.Dataset, got {data!r}")
    return data
