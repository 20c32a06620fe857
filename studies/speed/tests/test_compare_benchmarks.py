"""The comparison that makes ``make bench`` fail."""

import json
import sys

import pytest

from studies.speed import compare


def row(median, better="lower", **more):
    return {"median": median, "better": better, **more}


def stored(ratio, better="lower"):
    return {"ratio": ratio, "better": better}


@pytest.mark.parametrize(
    "better, found, worsened",
    [
        ("lower", 1.14, False),
        ("lower", 1.16, True),
        ("lower", 0.5, False),
        ("higher", 0.88, False),
        ("higher", 0.86, True),
        ("higher", 2.0, False),
    ],
)
def test_more_than_15_percent_in_the_wrong_direction_is_worse(better, found, worsened):
    (line,) = compare.compare({"a / b": stored(1.0, better)}, {"a / b": row(found, better)})
    assert line.worsened() is worsened


def test_the_same_ratio_is_not_worse():
    (line,) = compare.compare({"a / b": stored(2.0)}, {"a / b": row(2.0)})
    assert line.worse == 0.0
    assert line.verdict() == ""


def test_a_ratio_that_was_not_measured_counts_as_worse():
    (line,) = compare.compare({"a / b": stored(1.0)}, {})
    assert line.worsened()
    assert "not measured" in line.verdict()


def test_a_new_ratio_is_shown_and_does_not_count():
    (line,) = compare.compare({}, {"a / b": row(9.0)})
    assert not line.worsened()
    assert line.verdict() == "new"


@pytest.fixture
def run(tmp_path, monkeypatch):
    def run(ratio, *flags, met=True):
        results = tmp_path / "results"
        results.mkdir(exist_ok=True)
        rows = {"a / b": row(ratio, goal="<= 3", met=met)}
        (results / "toys.json").write_text(json.dumps({"ratios": rows}))
        places = ["--results", str(results), "--baseline", str(tmp_path / "baseline.json")]
        monkeypatch.setattr(sys, "argv", ["compare.py", *places, *flags])
        return compare.main()

    return run


def test_without_results_there_is_nothing_to_say(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["compare.py", "--results", str(tmp_path)])
    with pytest.raises(SystemExit, match="make bench"):
        compare.main()


def test_exit_codes(run):
    assert run(1.0) == 0
    assert run(1.0, "--update") == 0
    assert run(1.1) == 0
    assert run(1.2) == 1
    assert run(1.2, "--update") == 0
    assert run(1.2) == 0


def test_a_missed_goal_counts_only_when_asked(run):
    assert run(1.0, "--update", met=False) == 0
    assert run(1.0, met=False) == 0
    assert run(1.0, "--goals", met=False) == 1
