"""The examples run, and the digits network does what it is there to show."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sundman

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("steps", [4_000, 12_000])
def test_digits_ensemble_beats_the_map_network(steps):
    found = load("digits").main(steps=steps)
    ensemble, single = found["SA-SGLD ensemble"], found["MAP network"]
    assert ensemble["accuracy"] >= 0.97
    assert ensemble["NLL"] < single["NLL"]


@pytest.mark.long
def test_adaptive_steps_are_more_accurate_on_the_star():
    target, runs = sundman.targets.star(), load("star").main(steps=20_000)
    exact = target.truth["x2y2"]

    def off(name):
        found = sundman.estimate.mean(runs[name], target.observables["x2y2"])
        return abs(found.value / exact - 1), 5 * found.error / exact

    for name in ("SA-LM", "self-tuned"):
        bias, error = off(name)
        assert bias < 0.02 + error
    bias, error = off("SGLD")
    assert bias > 0.05
    assert error < 0.15


@pytest.mark.long
def test_a_sampler_in_a_hand_written_loop():
    found = load("training_loop").main(steps=3_000)
    assert found["accuracy"] > 0.95
    assert found["NLL"] < 0.2


@pytest.mark.long
def test_a_sweep_finds_the_good_steps_and_names_the_bad_one(capsys):
    with pytest.warns(sundman.DivergenceWarning, match=r"chain 3 \(h=0.0027\) ran away"):
        by_step, by_friction = load("step_sweep").main(steps=100_000)
    assert by_step.settings["per_chain"] == ["h"]
    assert by_step.settings_of(2)["h"] == pytest.approx(9e-4)
    assert by_step.diverged.tolist() == [False, False, False, True]
    assert len(by_step.chain(1)) == len(by_step)
    assert by_friction.settings["per_chain"] == ["gamma"]
    out = capsys.readouterr().out
    assert "chain 2: h=0.0009" in out
    assert "chain 3: gamma=10" in out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mnist_jax", "mnist_nnx", "mnist_equinox"])
def test_network_examples_run(name):
    script = EXAMPLES / f"{name}.py"
    done = subprocess.run(
        [sys.executable, script, "--quick"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    accuracy = float(done.stdout.split("accuracy")[1].split()[0])
    assert accuracy > 0.95


@pytest.mark.slow
def test_the_verdict_sees_the_one_hot_direction():
    too_large, small = load("verdict").main().values()
    assert [reason.check for reason in too_large.reasons] == ["stiff temperature"]
    assert small.ok


@pytest.mark.slow
def test_a_regression_in_raw_units_without_settings(capsys):
    draws = load("no_knobs").main(steps=4_000)
    value, error = draws.mean()
    spread = np.sqrt(draws.variance())
    design = np.asarray(load("no_knobs").posterior().data.x, np.float64)
    targets = np.asarray(load("no_knobs").posterior().data.y, np.float64)
    precision = design.T @ design / 64 + 1e-6 * np.eye(4)
    exact = np.linalg.solve(precision, design.T @ targets / 64)
    assert np.abs(value - exact) / error == pytest.approx(0, abs=4.5)
    assert spread == pytest.approx(np.sqrt(np.diag(np.linalg.inv(precision))), rel=0.1)
    assert draws.verdict.ok
    out = capsys.readouterr().out
    assert "sampler = sundman.compose(integrators.whitened(" in out


@pytest.mark.slow
def test_the_page_on_tuning_runs_as_printed():
    text = (EXAMPLES.parent / "docs" / "self-tuning.md").read_text().replace("20_000", "2000")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(block, names)
    assert names["draws"].tuning.sampler == names["sampler"]
    assert names["again"].tuning is None


@pytest.mark.long
def test_a_run_ends_when_it_is_done_and_is_made_longer(tmp_path, capsys):
    more = load("until").main(tmp_path / "run", ess=100)
    assert more.ended.by == "rule"
    assert more.ended.look.ess >= 400
    out = capsys.readouterr().out
    assert "Its rule, ess=100, rhat=1.02, seconds=60, was met after" in out
    assert "Its rule, ess=400, was met after" in out


@pytest.mark.long
def test_many_rows(capsys):
    draws = load("many_rows").main(rows=20_000, steps=2_000)
    assert draws.tuning.control_variate.noise < 0.5
    assert draws.verdict.ok, draws.verdict
    off = float(capsys.readouterr().out.split("coefficients lie ")[1].split()[0])
    assert 0.3 < off < 1.4  # the mean of 20 half-normal numbers, 0.80 with an error of 0.14
