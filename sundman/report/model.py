"""What a report is made of, before it is a page; and its settings and facts as text.

A value is written exactly where it is short, and summed up where it is long.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import PurePath
from typing import Literal, Protocol, runtime_checkable

import numpy as np

Outcome = Literal["reproduces", "partly", "does not reproduce", "not tested"]


@dataclass(frozen=True)
class Verdict:
    """A claim, what the paper says, what we found with its standard error, and the outcome."""

    claim: str
    paper: str
    ours: str
    error: str
    outcome: Outcome
    note: str = ""


@dataclass(frozen=True)
class Figure:
    """A picture (PNG), and its content in words for those who cannot see it."""

    title: str
    alt: str
    png: bytes
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of text under column heads."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A heading with paragraphs, tables and figures."""

    title: str
    text: str = ""
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()


@dataclass(frozen=True)
class Report:
    """A whole report.

    Attributes:
      title: what was done.
      summary: what came out, in a few sentences.
      command: the exact command that makes it again.
      settings: every setting, by name.
      made: version, date, seed, wall time and the like.
      verdicts: claims examined, if any.
      sections: the rest, in order.
      citations: BibTeX entries of what was used.
    """

    title: str
    summary: str
    command: str
    settings: Mapping[str, object]
    made: Mapping[str, object]
    verdicts: Sequence[Verdict] = ()
    sections: Sequence[Section] = ()
    citations: Sequence[str] = field(default=())


_MOST_ITEMS = 8
_MOST_CHARACTERS = 400
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@runtime_checkable
class _ArrayLike(Protocol):
    """An array of any library, or a random key."""

    shape: tuple[int, ...]
    dtype: object


def flat(values: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Names and values; those of a mapping inside are named ``outer.inner``."""
    for name, value in values.items():
        full = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{full}.")
        else:
            yield full, value


def shown(value: object) -> str:
    """One value as text that a person can read, and copy if it is a number."""
    if value is None:
        return "not set"
    if isinstance(value, str):
        return _cut(value) if value else "empty"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, np.generic):
        return shown(value.item())
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, int | PurePath | date):
        return str(value)
    if isinstance(value, _ArrayLike):
        return _array(value)
    if isinstance(value, Collection) and not isinstance(value, bytes):
        return _items(list(value))
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return _cut(_ADDRESS.sub("", repr(value)))


def duration(seconds: float) -> str:
    """A time span in the units a person would use: 1.8 s, 3 min 20 s, 2 h 5 min."""
    if not math.isfinite(seconds):
        return "unknown"
    if seconds < 100:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    return f"{int(seconds) // 3600} h {int(seconds) % 3600 // 60} min"


def _number(value: float) -> str:
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return repr(value)


def _items(items: list[object]) -> str:
    if not items:
        return "empty"
    texts = [shown(item) for item in items[:_MOST_ITEMS]]
    if len(items) <= _MOST_ITEMS:
        return _cut(", ".join(texts))
    if all(_same(item, items[0]) for item in items):
        return f"{texts[0]}, {len(items)} times"
    return _cut(", ".join(texts)) + f", … ({len(items)} in all)"


def _same(one: object, other: object) -> bool:
    """Whether two items are the same number or text; anything else is taken for different."""
    simple = int | float | str | None
    return isinstance(one, simple) and isinstance(other, simple) and one == other


def _array(value: _ArrayLike) -> str:
    if math.prod(value.shape) <= _MOST_ITEMS:
        try:
            return _items(np.asarray(value).ravel().tolist())
        except TypeError:  # a random key has no numbers to show
            return _cut(str(value))
    size = " by ".join(str(length) for length in value.shape)
    return f"array of {size}, {value.dtype}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
