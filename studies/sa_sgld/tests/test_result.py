"""Results: JSON and back, files, report, page."""

from dataclasses import replace

import pytest

from studies.sa_sgld import page
from studies.sa_sgld.reproduce import Result
from sundman.report.model import Figure, Table, Verdict

RESULT = Result(
    name="theory",
    scale="quick",
    seed=0,
    settings={"dtau": 0.1},
    numbers={"bias": [0.1, None]},
    verdicts=(Verdict("O(h)", "a|b", "1.02", "0.03", "reproduces", "|difference| rule"),),
    figures=(Figure("Bias", "a falling line", b"\x89PNG", "bars"),),
    tables=(Table("Numbers", ["h", "bias"], [["0.1", "a|b"]], "in percent"),),
    wall_seconds=1.5,
    version="0.1.0",
    date="2026-01-01",
    command="python -m studies.sa_sgld theory",
)


def test_json_round_trip():
    assert Result.from_json(RESULT.to_json()) == RESULT


def test_files_round_trip(tmp_path):
    path = RESULT.write(tmp_path)
    assert path.name == "theory-quick.json"
    assert (tmp_path / "theory-quick-1.png").read_bytes() == b"\x89PNG"
    assert "png" not in path.read_text().replace("theory-quick-1.png", "")
    assert Result.read(path) == RESULT


def test_another_seed_has_files_of_its_own(tmp_path):
    RESULT.write(tmp_path)
    again = replace(RESULT, seed=7, verdicts=(replace(RESULT.verdicts[0], ours="0.99"),))
    path = again.write(tmp_path)
    assert path.name == "theory-quick-seed-7.json"
    assert Result.read(path) == again
    assert page.load(tmp_path)["theory"] == {"quick": RESULT}
    repeats = page.load_repeats(tmp_path)
    assert repeats["theory"] == [again]
    text = page.page(page.load(tmp_path), repeats)
    assert "came out otherwise" not in text
    other = replace(again, verdicts=(replace(again.verdicts[0], outcome="partly"),))
    text = page.page(page.load(tmp_path), {"theory": [other]})
    assert "With seed 7 *O(h)* came out otherwise: partly, 0.99 (± 0.03)." in text
    assert "Of 1 claims 1 reproduce," in text


def test_report_has_everything():
    report = RESULT.report()
    assert report.verdicts == RESULT.verdicts
    assert report.command == RESULT.command
    assert "1 reproduces" in report.summary
    assert [s.title for s in report.sections] == ["Numbers", "Bias"]


def test_page_takes_the_largest_scale_that_tested(tmp_path):
    RESULT.write(tmp_path)
    large = Result(
        **{
            **{name: getattr(RESULT, name) for name in RESULT.__dataclass_fields__},
            "scale": "standard",
            "verdicts": (Verdict("O(h)", "slope 1", "?", "?", "not tested", "too short"),),
        }
    )
    large.write(tmp_path)
    results = page.load(tmp_path)
    assert page.best(results["theory"])[0][0] == "quick"
    text = page.page(results, {})
    assert "Of 1 claims 1 reproduce," in text
    assert "a\\|b" in text
    with pytest.raises(KeyError):
        page.section("unknown", results["theory"])


def test_the_page_is_that_of_the_results():
    stored = page.HERE / "results"
    made = page.page(page.load(stored), page.load_repeats(stored))
    assert (page.HERE / "README.md").read_text() == made, "run python -m studies.sa_sgld.page"
