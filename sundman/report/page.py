"""The page: one HTML file that needs nothing else, neither network nor scripts.

Its content security policy forbids both, so that a page opened years from now, anywhere, shows
what it showed when it was written. Every character that comes from outside passes through
``escape``.

In tables numbers stand to the right, and heads are there for screen readers. Verdicts, and tables
with sentences in them, become cards on a phone; wide tables of numbers scroll in a box of their
own. Roles are spelled out because browsers forget them when a style sheet lays a table out as
cards.
"""

from __future__ import annotations

import base64
import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from sundman._files import write_bytes
from sundman.report.model import Figure, Outcome, Report, Section, Table, Verdict, flat, shown

_STYLE = Path(__file__).with_name("report.css")
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_WIDE = 1.9  # width over height from which a figure takes a row of its own
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


def write(report: Report, path: str | os.PathLike[str]) -> Path:
    """Write the report as one self-contained HTML file, and return where it is.

    Missing directories are made; a file that is there is replaced as a whole.
    """
    where = Path(path).expanduser()
    where.parent.mkdir(parents=True, exist_ok=True)
    write_bytes(where, render(report).encode("utf-8", errors="replace"))
    return where


def render(report: Report) -> str:
    """The report as HTML."""
    parts = list(_parts(report))
    links = [
        element("li", element("a", escape(title), href=f"#part-{i}"))
        for i, (title, _) in enumerate(parts)
    ]
    header = element(
        "header",
        element("p", "sundman report", class_="kind"),
        element("h1", inline(report.title)),
        element("div", paragraphs(report.summary), class_="summary"),
        element("nav", element("ul", *links), aria_label="Contents"),
    )
    sections = [
        element(
            "section",
            element("h2", inline(title), id=f"part-{i}"),
            content,
            aria_labelledby=f"part-{i}",
        )
        for i, (title, content) in enumerate(parts)
    ]
    main = element("main", header, *(f"\n{section}\n" for section in sections), id="content")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{_head(report)}\n</head>\n'
        f"<body>\n{main}\n</body>\n</html>\n"
    )


def _head(report: Report) -> str:
    title = escape(" ".join(report.title.split()))
    return "\n".join(
        (
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<meta name="generator" content="sundman">',
            f'<meta name="description" content="{escape(" ".join(report.summary.split()))}">',
            '<link rel="icon" href="data:,">',
            f"<title>{title}</title>",
            f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style>",
        )
    )


def _parts(report: Report) -> Iterator[tuple[str, str]]:
    """The parts of the page in order: their titles, and their content as HTML."""
    if report.verdicts:
        yield "Verdicts", tally(report.verdicts) + verdict_table(report.verdicts)
    for section in report.sections:
        yield section.title, _section(section)
    if report.settings:
        listed = pair_table(report.settings, ("Setting", "Value"), "Settings")
        label = element("summary", f"All settings ({len(report.settings)})")
        yield "Settings", element("details", label, listed)
    if report.made:
        yield "How it was made", pair_table(report.made, ("What", "Value"), "How it was made")
    if report.command:
        yield "Run it again", _code(report.command, "Command")
    if report.citations:
        yield "How to cite", "".join(_code(entry, "BibTeX entry") for entry in report.citations)


def _section(section: Section) -> str:
    tables = "".join(table(each) for each in section.tables)
    figures = "".join(_figure(figure) for figure in section.figures)
    return "\n".join(
        (
            paragraphs(section.text),
            tables,
            element("div", figures, class_="figures") if figures else "",
        )
    )


def _figure(figure: Figure) -> str:
    if not figure.alt.strip():
        raise ValueError(f"figure {figure.title!r} needs an alt text: its content in words")
    width, height = _size(figure)
    picture = (
        f'<img src="data:image/png;base64,{base64.b64encode(figure.png).decode()}" '
        f'alt="{escape(figure.alt)}" width="{width}" height="{height}">'
    )
    title = element("b", inline(figure.title))
    text = f" {inline(figure.caption)}" if figure.caption else ""
    wide = "wide" if width > _WIDE * height else None
    return element("figure", picture, element("figcaption", title, text), class_=wide)


def _size(figure: Figure) -> tuple[int, int]:
    """Width and height of a PNG, from its header."""
    if figure.png[:8] != b"\x89PNG\r\n\x1a\n" or len(figure.png) < 24:
        raise ValueError(f"figure {figure.title!r} is not a PNG image")
    return int.from_bytes(figure.png[16:20], "big"), int.from_bytes(figure.png[20:24], "big")


def _code(text: str, label: str) -> str:
    content = element("code", escape(text.strip("\n")))
    return element("pre", content, tabindex="0", role="region", aria_label=label)


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
