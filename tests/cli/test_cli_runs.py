"""``sundman runs``, ``extend``, ``export`` and ``rm``."""

import json

import numpy as np
import pytest

import sundman
from sundman.cli import run as sundman_command
from tests.store.runs import assert_same, broken_off, run, set_small


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    directory = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        set_small(patch)
        run(directory / "finished")
        broken_off(directory / "deep" / "part")
        (directory / "odd").mkdir()
        (directory / "odd" / "run.json").write_text("{}")
    return directory


def test_runs_are_listed_with_their_state(made, capsys):
    assert sundman_command(["runs", str(made)]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line.strip()}
    for part in ("finished", "30 of 30", "SA-SGLD", "kB", "unknown"):
        assert part in lines["finished"]
    assert all(part in lines["deep/part"] for part in ("stopped", "16 of 30"))
    assert "damaged" in lines["odd"]


def test_no_runs(tmp_path, capsys):
    assert sundman_command(["runs", str(tmp_path)]) == 2
    assert "there are no runs in" in capsys.readouterr().err
    assert sundman_command(["runs", str(tmp_path / "nowhere")]) == 2


def test_extend_export_and_rm(tmp_path, capsys, monkeypatch):
    set_small(monkeypatch)
    path, file = str(tmp_path / "run"), tmp_path / "run.npz"
    run(path)
    assert sundman_command(["extend", path, "--steps", "10", "--no-cache"]) == 0
    assert "2 chains of 40 draws" in capsys.readouterr().out
    draws = sundman.Draws.open(path)
    assert_same(draws, run(draws=40))
    export = ["export", path, "--output", str(file), "--thin", "4", "--dtype", "float16"]
    assert sundman_command(export) == 0
    with np.load(file, allow_pickle=False) as exported:
        assert exported["values/x"].dtype == np.float16
        np.testing.assert_array_equal(exported["values/x"], draws.values[:, ::4].astype(np.float16))
        np.testing.assert_array_equal(exported["weight"], draws.weight[:, ::4])
        np.testing.assert_array_equal(exported["stats/time"], draws.stats["time"][:, ::4])
        assert b'"sampler": "SA-SGLD"' in exported["settings"].tobytes()
    assert sundman_command(export) == 2
    assert sundman_command(["rm", path]) == 2
    assert "add --force to remove it" in capsys.readouterr().err
    assert sundman_command(["rm", path, "--force"]) == 0
    assert not (tmp_path / "run").exists()
    assert sundman_command(["rm", str(tmp_path)]) == 2
    assert "is not a run" in capsys.readouterr().err


def test_an_export_has_no_number_that_its_reader_does_not_know(tmp_path):
    """Neither in its JSON nor, beyond the range of the type, in its values."""
    weight, values = np.ones((1, 3), np.float32), np.full((1, 3, 1), 1e6, np.float32)
    settings = {"M": float("inf")}
    draws = sundman.Draws(values, weight, {}, np.array([-1]), None, settings=settings)
    with pytest.raises(ValueError, match=r"up to 1e\+06 are beyond the range of float16, 65504"):
        sundman.export(draws, tmp_path / "run.npz", dtype="float16")
    assert not list(tmp_path.iterdir())
    file = sundman.export(draws, tmp_path / "run.npz")
    with np.load(file, allow_pickle=False) as exported:
        text = exported["settings"].tobytes()
    assert json.loads(text, parse_constant=pytest.fail)["M"] == {"number": "inf"}


def test_a_run_that_is_written_is_not_removed(made, capsys):
    from sundman.store.files import Lock

    lock = Lock(made / "finished")
    try:
        assert sundman_command(["rm", str(made / "finished"), "--force"]) == 2
    finally:
        lock.release()
    assert "is being written" in capsys.readouterr().err


@pytest.mark.long
def test_the_rule_that_ended_a_run_is_listed_and_told(tmp_path, capsys):
    """By the command, its report, runs and watch."""
    out = tmp_path / "out"
    quick = ["--width", "4", "--depth", "1", "--batch", "360", "--thin", "1", "--chains", "2"]
    command = ["bnn", "digits", "--sampler", "sgld", "--step", "0.05", "--until", "ess=4,rhat=9"]
    assert sundman_command([*command, *quick, "--no-cache", "--output", str(out)]) == 0
    sentence = "Its rule, ess=4, rhat=9, was met after"
    assert sentence in " ".join(capsys.readouterr().out.split())
    assert sentence in (out / "report.html").read_text()
    assert 'until = "ess=4,rhat=9"' in (out / "settings.toml").read_text()
    assert sundman_command(["runs", str(out)]) == 0
    listed = capsys.readouterr().out
    assert "ended by" in listed
    assert "ess=4, rhat=9" in listed
    assert sundman_command(["watch", str(out), "--once"]) == 0
    watched = " ".join(capsys.readouterr().out.split())
    assert "until ess=4, rhat=9: " in watched
    assert sentence in watched
