"""The pages have the numbers of results/laws.json, and the benchmark goes on where it
was.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from studies.samplers import laws_page

ROOT = Path(__file__).parents[3]


def page(name: str) -> str:
    return (laws_page.HERE / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", laws_page.PAGES)
def test_the_page_is_what_the_file_gives(name: str) -> None:
    result = laws_page.read()
    assert not result["quick"]
    assert page(name) == laws_page.filled(page(name), result), "run python -m laws_page"


def test_every_part_is_measured() -> None:
    parts = {part for part, _ in laws_page.BLOCKS.values()}
    assert parts == laws_page.read()["parts"].keys(), "python -m studies.samplers.laws"


def test_every_block_is_on_one_page() -> None:
    names = re.findall(r"<!-- laws: (\w+) -->", "".join(map(page, laws_page.PAGES)))
    assert sorted(names) == sorted(laws_page.BLOCKS)
    ends = sum(page(name).count("<!-- end -->") for name in laws_page.PAGES)
    assert ends == len(names)


@pytest.mark.parametrize(
    ("value", "error", "shown"),
    [
        (0.1537, 0.0005, ".1537(5)"),
        (0.1364, 0.0134, ".136(13)"),
        (-0.0261, 0.0002, "-.0261(2)"),
        (2.04, 0.27, "2.0(3)"),
        (1.622, 0.013, "1.622(13)"),
        (207.0, 12.0, "207(12)"),
        (0.5, 0.0, ".5000"),
    ],
)
def test_errors_in_brackets(value: float, error: float, shown: str) -> None:
    assert laws_page.brackets({"value": value, "error": error}) == shown


def test_percent() -> None:
    assert laws_page.percent({"value": -0.0041, "error": 0.0021}) == "-0.4 ± 0.2%"
    assert laws_page.percent({"value": 5.97, "error": 0.05}) == "+597 ± 5%"


def test_what_is_missing_is_said() -> None:
    text = "Before.\n\n<!-- laws: star -->\nold\n<!-- end -->\n\nAfter.\n"
    empty = laws_page.filled(text, {"parts": {}})
    assert "studies.samplers.laws --parts star" in empty
    assert "old" not in empty
    assert empty.startswith("Before.\n\n")
    assert empty.endswith("\n\nAfter.\n")
    assert laws_page.filled(empty, {"parts": {}}) == empty


@pytest.mark.long
def test_a_part_is_stored_and_not_measured_again(tmp_path: Path) -> None:
    output = tmp_path / "laws.json"
    command = [sys.executable, "-m", "studies.samplers.laws", "--quick", "--workers", "1"]
    command += ["--parts", "per_coordinate", "--output", str(output)]
    first = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert first.stdout.startswith("per_coordinate: ")
    part = json.loads(output.read_text())["parts"]["per_coordinate"]
    assert part["settings"]["steps"] == 1000
    assert part["values"]["rows"]["each"][0]["error"] > 0
    assert "scalar thermostat" in laws_page.per_coordinate(part)
    second = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    assert second.stdout == ""
