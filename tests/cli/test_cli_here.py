"""Commands in this process: what they decide, what they write, how they end."""

import json

import jax
import numpy as np
import pytest

import sundman
from sundman.cli import demo, samplers
from sundman.cli.app import app
from sundman.cli.bnn.plan import make_plan as bnn_plan
from sundman.cli.settings import Request, read_settings, write_settings


def test_flags_win_over_the_file_and_the_file_over_defaults():
    read = {"name": "digits", "epochs": 7, "batch": 32, "settings": {"sa-sgld": {"r": 0.3}}}
    plan = bnn_plan(Request({**read, "sampler": "sa-sgld"}, {"epochs": 9}, {"M": 8.0}))
    assert (plan.settings.epochs, plan.settings.batch) == (9, 32)
    assert plan.sampler.settings["r"] == 0.3
    assert plan.sampler.settings["M"] == 8.0


def test_settings_survive_the_file(tmp_path):
    settings = {"csv": 'a "b" é', "epochs": 5, "x": 1e-5, "on": True, "none": None}
    settings |= {"compare": ["sgld", "lm"], "settings": {"sa-sgld": {"dtau": 0.1}, "r": 0.5}}
    write_settings(tmp_path / "s.toml", "bnn", settings)
    del settings["none"]
    assert read_settings(tmp_path / "s.toml", "bnn", tuple(settings)) == settings


@pytest.mark.slow  # with the sampler's settings given: tests/cli/test_cli_predict.py
def test_own_table_of_numbers_is_a_regression(here, tmp_path):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 60))
    lines = [f"{x},{y},{2 * x + 0.1 * y}" for x, y in zip(a, b, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,price", *lines]))
    code, out, err = here(
        "bnn", "--csv", "t.csv", "--target", "price", "--epochs", "60", "--width", "4", "-o", "r"
    )
    assert code == 0, err
    assert "Regression, because the targets are not whole numbers" in out
    assert "48 rows to train on, 12 held out" in out
    scores = json.loads((tmp_path / "r/results.json").read_text())["scores"]["seed-0"]
    assert set(scores) == {"RMSE", "NLL", "coverage of 90% intervals, %"}
    assert "Coverage of intervals" in (tmp_path / "r/report.html").read_text()


def test_own_names_are_classes(tmp_path):
    x = np.random.default_rng(0).normal(3.0, 2.0, size=(60, 3))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", np.where(x[:, 0] > 3, "up", "down"))
    files = {"x": tmp_path / "x.npy", "y": tmp_path / "y.npy"}
    plan = bnn_plan(Request(in_options={**files, "sampler": "sa-sgld"}))
    assert plan.data.classes == 2
    assert "2 classes: down, up" in plan.decisions[0]
    assert plan.data.train.x.mean(axis=0) == pytest.approx(0.0, abs=1e-5)
    assert plan.data.train.x.std(axis=0) == pytest.approx(1.0, abs=1e-5)
    assert plan.sizes == [3, 50, 50, 2]
    in_time = plan.sampler.in_time(plan.posterior.size)
    assert in_time.settings["dtau"] == pytest.approx(0.025 / 48)
    assert in_time.settings["omega"] == pytest.approx(48.0**2)


@pytest.mark.parametrize("name", samplers.names())
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_every_sampler_has_settings_for_networks(tmp_path, name, task):
    np.save(tmp_path / "x.npy", np.arange(60.0).reshape(30, 2))
    np.save(tmp_path / "y.npy", np.arange(30) % 2)
    files = {"x": tmp_path / "x.npy", "y": tmp_path / "y.npy"}
    plan = bnn_plan(Request(in_options={**files, "task": task, "sampler": name}))
    assert plan.name == name
    step = plan.sampler.in_time(plan.posterior.size).settings[
        "dtau" if samplers.recipe(name).adaptive else "h"
    ]
    assert 0 < step < 0.1


@pytest.mark.long
def test_a_run_made_in_python_is_resumed_diagnosed_and_reported(here, tmp_path):
    star = sundman.targets.star()
    run = {"key": jax.random.key(0), "chains": 2, "steps": 100, "store": tmp_path / "run"}
    sundman.sample(star, sundman.sgld(1e-4), **run)
    for command in ("resume", "diagnose"):
        code, out, err = here(command, "run")
        assert code == 0, err
        assert "diverged chains" in out
    code, out, _ = here("report", "run", "-o", "page.html")
    assert code == 0
    assert (tmp_path / "page.html").stat().st_size > 1000
    code, _, err = here("report", "run", "-o", "page.html")
    assert code == 2
    assert "--force" in err


@pytest.mark.long
@pytest.mark.usefixtures("blank_figures")
def test_the_demo_begins_with_verdicts_and_ends_with_what_to_try(here, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "SMALL", demo.Size(2_000, 200, 4, 60, 40))
    code, out, err = here("demo", "--quick", "--output", "demo")
    assert code == 0, err
    for part in ("1 of 3", "2 of 3", "3 of 3", "in their 90% intervals", "coverage of 90%"):
        assert part in out
    *_, report, lead, fit, predict = out.rstrip().splitlines()
    assert report.endswith(str(tmp_path / "demo/report.html"))
    assert lead.startswith("Try next")
    houses = tmp_path / "demo/houses.csv"
    assert fit == f"  sundman bnn --csv {houses} --target price --task regression"
    page = (tmp_path / "demo/report.html").read_text()
    first = [page.index(words) for words in ("Three runs without", "What came out", "Digits")]
    assert first == sorted(first)
    for words in ("Reliability diagram", "Coverage of intervals", "RMSE", "NLL"):
        assert words in page
    numbers = json.loads((tmp_path / "demo/results.json").read_text())
    assert len(numbers["rows"]["mean"]) == len(numbers["rows"]["sd"]) == 20
    code, out, err = here(*predict.split()[1:])
    assert code == 0, err
    assert out.startswith("row,mean,sd,lower_90,upper_90")
    assert here("demo", "--quick", "--output", "demo")[0] == 2  # what is there is kept


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--distributed", "--coordinator", "a:1"), "--distributed finds out what --coordinator"),
        (("--distributed",), "this process cannot be made one of several"),
        (("--host-timeout", "0"), "--host-timeout must be 1 or more seconds, got 0"),
    ],
)
def test_a_place_among_processes_that_cannot_be(here, options, words):
    code, _, err = here(*options, "runs", ".")
    assert (code, words in err) == (2, True), err


def test_no_cache(here):
    assert here("diagnose", "nowhere", "--no-cache")[0] == 2
    assert not jax.config.jax_enable_compilation_cache


def test_cite(capsys):
    from sundman.cli import run

    assert run(["cite", "sa_sgld"]) == 0
    out = capsys.readouterr().out
    assert "2511.11666" in out
    assert "Salmon" in out


@pytest.mark.parametrize("command", [c.callback.__name__ for c in app.registered_commands])
def test_help_of_every_command(capsys, command):
    from sundman.cli import run

    assert run([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: sundman {command}" in out
    assert "For example:" in out
    assert "bool" not in out


def test_help_without_a_command(capsys):
    from sundman.cli import run

    assert run([]) == 0
    assert "demo" in capsys.readouterr().out
