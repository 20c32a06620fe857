"""The page: one HTML file that needs nothing else, neither network nor scripts.

Its content security policy forbids both, so that a page opened years from now, anywhere, shows
what it showed when it was written.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path

from sundman._files import write_bytes
from sundman.report.html import (
    element,
    escape,
    inline,
    pair_table,
    paragraphs,
    table,
    tally,
    verdict_table,
)
from sundman.report.model import Figure, Report, Section

_STYLE = Path(__file__).with_name("report.css")
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
_WIDE = 1.9  # width over height from which a figure takes a row of its own


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
