"""The page as text: order, escaping, and what is refused."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import sundman.report
from sundman.report import Figure, Report, Section, Table
from tests.report.example import HOSTILE, MARKUP, example, picture

VOID = {"meta", "link", "img", "br"}


class Reader(HTMLParser):
    """Tags in order, their text, and whether every element that opens is closed."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.headings = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append([int(tag[1]), ""])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and re.fullmatch("h[1-6]", self.open[-1]):
            self.headings[-1][1] += data


@pytest.fixture(scope="module")
def page():
    return sundman.report.render(example())


def test_parts_come_in_order_under_one_first_heading(page):
    read = Reader(page)
    assert read.open == []
    assert [level for level, _ in read.headings] == [1] + [2] * 8
    assert [text for _, text in read.headings[1:]] == [
        "Verdicts",
        "Tables",
        f"Figures {MARKUP}",
        "Only words",
        "Settings",
        "How it was made",
        "Run it again",
        "How to cite",
    ]


def test_nothing_hostile_becomes_markup(page):
    tags = Reader(page).tags
    assert {"script", "iframe", "object"}.isdisjoint(tag for tag, _ in tags)
    assert not any(name.startswith("on") for _, attributes in tags for name in attributes)
    assert HOSTILE not in page
    assert MARKUP not in page


def test_page_refers_to_nothing_outside(page):
    links = [
        value
        for _, attributes in Reader(page).tags
        for name, value in attributes.items()
        if name in ("src", "href")
    ]
    assert links
    assert all(link.startswith(("data:", "#")) for link in links)
    assert "url(" not in page
    assert "@import" not in page


def test_every_link_and_label_points_to_an_id(page):
    tags = Reader(page).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in tags:
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in ids
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in ids


def test_report_of_nothing_but_words_has_no_empty_parts():
    page = sundman.report.render(Report("Title", "Summary.", "", {}, {}))
    assert [text for _, text in Reader(page).headings] == ["Title"]


def test_write_makes_directories_and_replaces(tmp_path):
    path = tmp_path / "a" / "b" / "page.html"
    assert sundman.report.write(example(), path) == path
    sundman.report.write(replace(example(), title="Other \udcff"), str(path))
    assert "<title>Other ?</title>" in path.read_text(encoding="utf-8")
    assert [file.name for file in path.parent.iterdir()] == ["page.html"]


def test_faults_of_the_author_are_named():
    def page_of(**parts):
        return sundman.report.render(Report("T", "S", "", {}, {}, sections=[Section("A", **parts)]))

    with pytest.raises(ValueError, match="table 'T': row 1 has 1 cells for 2 columns"):
        page_of(tables=[Table("T", ["a", "b"], [["1", "2"], ["3"]])])
    with pytest.raises(ValueError, match="figure 'F' needs an alt text"):
        page_of(figures=[Figure("F", " ", picture())])
    with pytest.raises(ValueError, match="figure 'F' is not a PNG"):
        page_of(figures=[Figure("F", "grey", b"GIF89a")])


def test_code_and_bars_in_text():
    page = sundman.report.render(Report("T", "Use `a < b` and ▁▃█.", "", {}, {}))
    assert "<code>a &lt; b</code>" in page
    assert '<span class="bars" aria-hidden="true">▁▃█</span>' in page
