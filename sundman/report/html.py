"""HTML from text, and the tables of a report as HTML.

Every character that comes from outside passes through ``escape``.

Numbers stand to the right, and heads are there for screen readers. Verdicts, and tables with
sentences in them, become cards on a phone; wide tables of numbers scroll in a box of their own.
Roles are spelled out because browsers forget them when a style sheet lays a table out as cards.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence

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
_SENTENCE = 32  # characters from which a cell is read, not compared
_MANY = 8  # columns from which a table is set smaller on paper
_CODE = re.compile(r"`([^`\n]+)`")
_BARS = re.compile(r"[▁-█]{3,}")


def escape(text: object) -> str:
    """Text as it may stand in HTML, in an element or in an attribute."""
    return html.escape(str(text), quote=True)


def element(name: str, *content: str, **attributes: object) -> str:
    """An element around content that is HTML already; attributes are escaped here.

    A trailing underscore is dropped from an attribute's name and others become hyphens
    (``class_``, ``aria_label``); an attribute that is None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(content)}</{name}>"


def inline(text: str) -> str:
    """A line of text; what stands between backticks is code, and bars are left to the eye."""
    coded = _CODE.sub(r"<code>\1</code>", escape(text))
    return _BARS.sub(r'<span class="bars" aria-hidden="true">\g<0></span>', coded)


def paragraphs(text: str) -> str:
    """Paragraphs of a text, which blank lines separate."""
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return "\n".join(element("p", inline(part)) for part in parts if part)


def numeric(cells: Iterable[str]) -> bool:
    """Whether a column is one of numbers: every line of a cell is one, and some have a digit."""
    filled = [line.strip() for cell in cells for line in cell.splitlines() if line.strip()]
    return all(_NUMBER.match(line) for line in filled) and any(
        character.isdigit() for line in filled for character in line
    )


def table(content: Table) -> str:
    """A table with its title, in a box of its own that scrolls if it is too wide.

    A cell that begins with ✓, ◐, ✗ or ○ and a blank is set as a mark; a cell may have lines.
    """
    _check(content)
    sides = _sides(content.rows, len(content.columns))
    cells = [[_content(cell) for cell in row] for row in content.rows]
    long = any(len(cell) > _SENTENCE for row in content.rows for cell in row)
    shape = "many" if len(content.columns) > _MANY else "cards" if long else None
    drawn = _grid(content.columns, cells, sides, content.title, shape)
    label = content.title or "Table"
    box = element("div", drawn, class_="scroll", tabindex="0", role="region", aria_label=label)
    note = element("p", inline(content.caption), class_="note") if content.caption else ""
    return element("div", box, note, class_="table")


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """The table of claims, with their notes below them."""
    texts = [
        [v.claim, v.paper, v.ours, v.error, f"{SYMBOLS[v.outcome]} {v.outcome}"] for v in verdicts
    ]
    cells = [[_content(cell) for cell in row] for row in texts]
    for row, verdict in zip(cells, verdicts, strict=True):
        if verdict.note:
            row[0] += element("span", inline(verdict.note), class_="note")
    sides = _sides(texts, len(_VERDICT_COLUMNS))
    return _grid(_VERDICT_COLUMNS, cells, sides, "", "cards verdicts", aria_label="Verdicts")


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many claims had which outcome, as marks in a row."""
    outcomes = [verdict.outcome for verdict in verdicts]
    items = [
        element("li", element("b", str(outcomes.count(outcome))), " ", mark(f"{symbol} {outcome}"))
        for outcome, symbol in SYMBOLS.items()
        if outcome in outcomes
    ]
    return element("ul", *items, class_="tally", aria_label="Outcomes")


def pair_table(values: Mapping[str, object], names: tuple[str, str], label: str) -> str:
    """A table of names and values."""
    rows = [[escape(name), escape(shown(value))] for name, value in flat(values)]
    return _grid(names, rows, (None, None), "", "pairs", aria_label=label)


def mark(text: str) -> str:
    """A symbol and a word; the symbol is left to the eye, the word said aloud."""
    symbol, word = text[0], text[1:].strip()
    sign = element("span", symbol, aria_hidden="true")
    return element("span", sign, " ", inline(word), class_=f"mark {_CLASSES[symbol]}")


def _grid(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    sides: Sequence[str | None],
    title: str,
    class_: str | None,
    **attributes: str,
) -> str:
    """A table of cells that are HTML already; the first of each row is its head."""
    heads = [
        element("th", inline(column), scope="col", role="columnheader", class_=side)
        if column
        else element("td", role="cell")
        for column, side in zip(columns, sides, strict=True)
    ]
    body = [
        element(
            "tr",
            element("th", row[0], scope="row", role="rowheader", class_=sides[0]),
            *(
                element("td", cell, role="cell", data_label=column or None, class_=side)
                for cell, column, side in zip(row[1:], columns[1:], sides[1:], strict=True)
            ),
            role="row",
        )
        for row in rows
    ]
    return element(
        "table",
        element("caption", element("span", inline(title))) if title else "",
        element("thead", element("tr", *heads, role="row"), role="rowgroup"),
        element("tbody", *(f"\n{row}" for row in body), role="rowgroup"),
        class_=class_,
        role="table",
        **attributes,
    )


def _content(text: str) -> str:
    if text[:1] in _CLASSES and text[1:2] == " ":
        return mark(text)
    lines = "<br>".join(inline(line) for line in text.splitlines())
    return element("span", lines) if text else ""


def _sides(rows: Sequence[Sequence[str]], columns: int) -> list[str | None]:
    """The class of each column: "number" where it holds numbers."""
    return ["number" if numeric(row[i] for row in rows) else None for i in range(columns)]


def _check(table: Table) -> None:
    for i, row in enumerate(table.rows):
        if len(row) != len(table.columns):
            raise ValueError(
                f"table {table.title!r}: row {i} has {len(row)} cells for "
                f"{len(table.columns)} columns"
            )
