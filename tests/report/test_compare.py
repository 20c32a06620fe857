"""Runs side by side: what differs, what each is worth, and their figures in pairs."""

import json
from functools import partial

import jax
import pytest

import sundman
import sundman.report
from sundman import targets
from sundman.cli import run as sundman_command
from sundman.report import Table, figures
from tests.cli.test_cli_bad_input import check

ADAPTIVE = sundman.sa_sgld(5e-3, alpha=50.0, m=0.1, M=10.0, r=0.5)


@pytest.fixture(autouse=True)
def coarse(monkeypatch):
    """Pictures of few pixels are made in less time."""
    monkeypatch.setattr(figures, "png", partial(figures.png, dpi=50))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two runs on the star, of an adaptive sampler and one at a fixed step."""
    root = tmp_path_factory.mktemp("runs")
    for name, sampler in (("adaptive", ADAPTIVE), ("fixed", sundman.sgld(1e-3))):
        run = {"chains": 2, "steps": 300, "store": root / name, "progress": False}
        sundman.sample(targets.star(), sampler, key=jax.random.key(0), **run)
    return {name: root / name for name in ("adaptive", "fixed")}


def tables_of(report):
    return {table.title: table for section in report.sections for table in section.tables}


@pytest.mark.long
def test_two_stored_runs(stored):
    scores = Table("Test scores", ("score", "adaptive", "fixed"), [["NLL", "1", "2"]])
    report = sundman.report.of_runs(stored, tables=[scores], command="again")
    assert report.title == "adaptive and fixed"
    assert report.summary.startswith("2 runs side by side.\n\nadaptive: ")
    tables = tables_of(report)
    assert [row[0] for row in tables["Verdict on each run"].rows] == ["adaptive", "fixed"]
    differing = {row[0]: row[1:] for row in tables["Settings"].rows}
    assert differing["sampler"] == ["SA-SGLD", "SGLD"]
    assert differing["h"] == ["–", "0.001"]
    assert not {"chains", "path", "seconds", "monitor"} & set(differing)
    assert report.settings["chains"] == "2"
    assert report.settings["target"] == "star"
    checks = {row[0]: row[1:] for row in tables["Diagnosis"].rows}
    assert checks["diverged chains"] == ["✓ 0", "✓ 0"]
    assert len(tables["Averages and their exact values"].rows) == len(targets.star().truth)
    assert tables["Test scores"] is scores
    pairs = {section.title: section.figures for section in report.sections if section.figures}
    assert [figure.title for figure in pairs["The potential"]] == ["adaptive.", "fixed."]
    assert [figure.title for figure in pairs["The step"]] == ["adaptive."]
    page = sundman.report.render(report)
    assert "Verdict on each run" in page


@pytest.mark.long
def test_equal_runs_and_draws_in_memory(key):
    draws = sundman.sample(targets.quartic(), sundman.sgld(0.01), key=key, chains=2, steps=20)
    report = sundman.report.of_runs({"a": draws, "b": draws, "c": draws})
    assert report.title == "a, b and c"
    assert "Every setting that is recorded is the same." in report.sections[1].text
    assert "a: too little is known to trust it." in report.summary


def test_one_run_is_not_a_comparison(stored):
    with pytest.raises(ValueError, match=r"two runs or more to compare, got \['adaptive'\]"):
        sundman.report.of_runs({"adaptive": stored["adaptive"]})


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = sundman_command([*map(str, arguments), "--no-cache"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    before = jax.config.jax_enable_compilation_cache
    yield run
    jax.config.update("jax_enable_compilation_cache", before)


def results(path, runs, nll):
    """What ``sundman bnn`` leaves behind, with stored runs of ours in it."""
    (path / "runs").mkdir(parents=True)
    for name, run in runs.items():
        (path / "runs" / name).symlink_to(run)
    (path / "settings.toml").write_text(f'command = "bnn"\nwidth = {round(50 * nll)}\n')
    found = {"mean": {"NLL": nll}, "half_interval_95": {"NLL": None if nll > 1 else 0.25}}
    (path / "results.json").write_text(json.dumps(found))


def test_the_command_compares_results_with_their_scores(command, stored, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "png", lambda *_, **__: figures_png())
    results(tmp_path / "narrow", {"seed-0": stored["fixed"]}, 0.5)
    results(tmp_path / "wide", {"seed-0": stored["adaptive"]}, 2.0)
    code, out, err = command("report", "narrow", "wide")
    assert (code, err) == (0, "")
    assert out == "Report: compared.html\n"
    page = (tmp_path / "compared.html").read_text()
    for text in ("Test scores", "0.5 ± 0.25", "width", "narrow and wide"):
        assert text in page
    assert "sundman report narrow wide --output compared.html" in page
    check(*command("report", "narrow", "wide"), "compared.html exists; use another --output")


def figures_png():
    """The smallest PNG that a page takes."""
    return b"\x89PNG\r\n\x1a\n" + bytes(8) + (1).to_bytes(4, "big") * 2


def test_bad_comparisons_are_told_in_one_line(command, stored, tmp_path):
    path = stored["fixed"]
    check(*command("report", path, "nowhere"), "nothing at nowhere")
    check(*command("report", path, "."), "not a run")
    check(*command("report", path, path), "is given twice")
    results(tmp_path / "empty", {}, 1.0)
    check(*command("report", path, "empty"), "empty has no run yet")
    results(tmp_path / "torn", {"seed-0": path}, 1.0)
    (tmp_path / "torn" / "results.json").write_text('{"mean"')
    check(*command("report", path, "torn"), "results.json cannot be read")
    assert not (tmp_path / "compared.html").exists()
