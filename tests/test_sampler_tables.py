"""The tables of README and docs are those that the facts of the recipes make."""

from pathlib import Path

import pytest

from docs import tables
from sundman import clocks, integrators
from sundman.cli.samplers import names_by_kind
from sundman.recipes import RECIPES, recipe

ROOT = Path(__file__).parents[1]


def test_the_pages_are_up_to_date():
    behind = [path.name for path in tables.outdated()]
    assert behind == [], "run: python docs/tables.py"


def test_every_recipe_is_in_every_table():
    for each in RECIPES.values():
        assert (f"`{each.name}`" in tables.short()) == (each in tables.first_shelf())
        assert f"| `{each.name}` | {each.label} |" in tables.full()
        assert (f" {each.option}" in names_by_kind()) == each.for_networks


def check_paragraphs(page):
    sections = {part.split("\n", 1)[0]: part for part in page.split("\n## ")[1:]}
    for name in RECIPES:
        (section,) = (text for title, text in sections.items() if name in title.split(", "))
        for part in ("$$", "- **Use** ", "- **Avoid** ", "- **One number**: "):
            assert part in section, f"docs/samplers.md, {name}: {part}"


def test_every_recipe_has_its_paragraph():
    check_paragraphs((ROOT / "docs" / "samplers.md").read_text())


def test_a_second_recipe_of_a_name_is_refused():
    facts = ("mine", integrators.euler_maruyama, clocks.constant)

    def sgld(h):
        """Another one."""

    before = dict(RECIPES)
    with pytest.raises(ValueError, match=r"recipe of this name already, .*overdamped\.sgld: call"):
        recipe(*facts)(sgld)
    assert before == RECIPES


def test_a_cell_that_runs_again_replaces_its_recipe(monkeypatch):
    def cell():
        @recipe("mine", integrators.euler_maruyama, clocks.constant)
        def mine(h):
            """One of my own."""

        return mine

    monkeypatch.setitem(RECIPES, "mine", None)
    del RECIPES["mine"]
    assert cell() is not cell()
    assert "mine" in RECIPES


def test_rows_of_a_table_have_its_columns():
    for text in (tables.short(), tables.full()):
        assert len({line.count("|") for line in text.splitlines()}) == 1


def test_the_facts_are_those_of_the_samplers():
    (row,) = (line for line in tables.full().splitlines() if line.startswith("| `sa_lm`"))
    assert row.startswith("| `sa_lm` | SA-LM | Leimkuhler-Matthews | Sundman | 2 | no | Rajpal,")
    (row,) = (line for line in tables.full().splitlines() if line.startswith("| `adam_sgld`"))
    assert "| constant | biased | no | Kingma, Ba (2015); Kim, Song, Liang (2022) |" in row


def test_regions_are_made_anew_and_the_rest_is_kept():
    page = "before\n<!-- samplers:begin -->\nold\n<!-- samplers:end -->\nafter\n"
    filled = tables.filled(page)
    assert filled.startswith("before\n<!-- samplers:begin -->\n\n| fixed step |")
    assert filled.endswith("|\n\n<!-- samplers:end -->\nafter\n")
    assert tables.filled(filled) == filled
    with pytest.raises(ValueError, match="no region 'other'"):
        tables.filled("<!-- other:begin -->\n<!-- other:end -->")


def test_the_command_writes_or_checks(tmp_path, monkeypatch, capsys):
    for name in tables._PAGES:
        page = tmp_path / name
        page.parent.mkdir(exist_ok=True)
        page.write_text((ROOT / name).read_text())
    (tmp_path / "README.md").write_text("<!-- samplers:begin -->\n<!-- samplers:end -->\n")
    monkeypatch.setattr(tables, "_ROOT", tmp_path)
    assert tables.main(["--check"]) == 1
    assert tables.main([]) == 0
    assert capsys.readouterr().out == "README.md\nREADME.md\n"
    assert "`sgld`" in (tmp_path / "README.md").read_text()
    assert tables.main(["--check"]) == 0


def test_the_help_has_no_blanks_left(capsys):
    from sundman.cli import run

    assert run(["bnn", "--help"]) == 0
    out = capsys.readouterr().out
    assert "{" not in out
    assert "sa-sgld" in out
