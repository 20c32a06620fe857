"""What a report is made of, before it is a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

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
