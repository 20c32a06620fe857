"""Tables of a report as HTML: numbers to the right, heads for screen readers, cards on a phone.

Roles are spelled out because browsers forget them when a style sheet lays a table out as cards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sundman.report.html import element, escape, inline
from sundman.report.model import Outcome, Table, Verdict
from sundman.report.values import flat, shown

SYMBOLS: dict[Outcome, str] = {
    "reproduces": "✓",
    "partly": "◐",
    "does not reproduce": "✗",
    "not tested": "○",
}
_CLASSES = {"✓": "good", "◐": "look", "✗": "bad", "○": "open"}
_NUMBER = re.compile(
    r"""[-+−]?[\d.,]+(e[-+−]?\d+)?       # the number
        (\s*±\s*([\d.,]+(e[-+−]?\d+)?|nan|inf))?  # its error
        \s*(%|s|ms|µs|ns|min|h|kB|MB|GB|×|x)?$    # its unit
        |[-+−]?(nan|inf|infinity)$|[–—-]$""",
    re.VERBOSE | re.IGNORECASE,
)
_VERDICT_COLUMNS = ("Claim", "Paper says", "We found", "Standard error", "Outcome")


def numeric(cells: Iterable[str]) -> bool:
    """Whether a column is one of numbers: every cell is one or empty, and some cell has a digit."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    return all(_NUMBER.match(cell) for cell in filled) and any(
        character.isdigit() for cell in filled for character in cell
    )


def table(given: Table) -> str:
    """A table with its title, in a box of its own that scrolls if it is too wide.

    A cell that begins with ✓, ◐, ✗ or ○ and a blank is set as a mark.
    """
    _check(given)
    right = [numeric(row[i] for row in given.rows) for i in range(len(given.columns))]
    head = [_head(column, right[i]) for i, column in enumerate(given.columns)]
    body = [
        element("tr", *(_cell(cell, right[i], i == 0) for i, cell in enumerate(row)))
        for row in given.rows
    ]
    caption = element("caption", inline(given.title)) if given.title else ""
    drawn = element(
        "table", caption, element("thead", element("tr", *head)), element("tbody", *body)
    )
    label = given.title or "Table"
    box = element("div", drawn, class_="scroll", tabindex="0", role="region", aria_label=label)
    note = element("p", inline(given.caption), class_="note") if given.caption else ""
    return element("div", box, note, class_="table")


def verdicts(given: Sequence[Verdict]) -> str:
    """The table of claims; on a phone each row is a card, its cells labelled by their columns."""
    heads = [
        element("th", column, scope="col", role="columnheader", class_=_side(i in (2, 3)))
        for i, column in enumerate(_VERDICT_COLUMNS)
    ]
    head = element("thead", element("tr", *heads, role="row"), role="rowgroup")
    body = element("tbody", *(_verdict(verdict) for verdict in given), role="rowgroup")
    return element("table", head, body, class_="verdicts", role="table", aria_label="Verdicts")


def tally(given: Sequence[Verdict]) -> str:
    """How many claims had which outcome, as marks in a row."""
    found = [verdict.outcome for verdict in given]
    items = [
        element("li", element("b", str(found.count(outcome))), " ", mark(f"{symbol} {outcome}"))
        for outcome, symbol in SYMBOLS.items()
        if outcome in found
    ]
    return element("ul", *items, class_="tally", aria_label="Outcomes")


def pairs(values: Mapping[str, Any], names: tuple[str, str]) -> str:
    """A table of names and values."""
    rows = [
        element("tr", element("th", escape(name), scope="row"), element("td", escape(shown(value))))
        for name, value in flat(values)
    ]
    heads = (element("th", name, scope="col") for name in names)
    head = element("thead", element("tr", *heads))
    return element("table", head, element("tbody", *rows), class_="pairs")


def mark(text: str) -> str:
    """A symbol and a word; the symbol is left to the eye, the word said aloud."""
    symbol, word = text[0], text[1:].strip()
    sign = element("span", symbol, aria_hidden="true")
    return element("span", sign, " ", inline(word), class_=f"mark {_CLASSES[symbol]}")


def _verdict(given: Verdict) -> str:
    note = element("span", inline(given.note), class_="note") if given.note else ""
    outcome = mark(f"{SYMBOLS[given.outcome]} {given.outcome}")
    claim = element("th", inline(given.claim), note, scope="row", role="rowheader")
    cells = (
        element("td", element("span", content), role="cell", data_label=label, class_=_side(right))
        for label, content, right in zip(
            _VERDICT_COLUMNS[1:],
            (inline(given.paper), inline(given.ours), inline(given.error), outcome),
            (False, True, True, False),
            strict=True,
        )
    )
    return element("tr", claim, *cells, role="row")


def _head(text: str, right: bool) -> str:
    if not text:
        return "<td></td>"
    return element("th", inline(text), scope="col", class_=_side(right))


def _cell(text: str, right: bool, first: bool) -> str:
    content = mark(text) if text[:1] in _CLASSES and text[1:2] == " " else inline(text)
    if first and text:
        return element("th", content, scope="row", class_=_side(right))
    return element("td", content, class_=_side(right))


def _side(right: bool) -> str | None:
    return "number" if right else None


def _check(given: Table) -> None:
    for i, row in enumerate(given.rows):
        if len(row) != len(given.columns):
            raise ValueError(
                f"table {given.title!r}: row {i} has {len(row)} cells for "
                f"{len(given.columns)} columns"
            )
