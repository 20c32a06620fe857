"""Every command at a tiny scale: what it prints and writes; and what only a process can show."""

import json
import signal
import time

import numpy as np
import pytest


def results(path):
    return json.loads((path / "results.json").read_text())


def ok(done):
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow  # its quick sibling has a small table and SGLD: tests/cli/test_cli_predict.py
def test_bnn_is_scored_over_seeds_and_resumed(succeeds, tmp_path):
    small = ["--width", "5", "--depth", "1", "--epochs", "2", "--burn-in-epochs", "0"]
    small += ["--thin", "10", "--seeds", "2", "--batch", "32"]
    out = succeeds("bnn", "digits", *small)
    path = tmp_path / "runs" / "bnn-digits"
    for word in ("NLL", "accuracy %", "ECE", "mean ± 95% interval", "Report:"):
        assert word in out
    written = results(path)
    both = [written["scores"][f"seed-{seed}"]["NLL"] for seed in (0, 1)]
    assert written["mean"]["NLL"] == pytest.approx(np.mean(both))
    half = 12.706 * np.std(both, ddof=1) / np.sqrt(2)
    assert written["half_interval_95"]["NLL"] == pytest.approx(half, rel=1e-3)
    assert "Reliability diagram" in (path / "report.html").read_text()

    succeeds("resume", path)  # what is finished is not done again
    assert results(path)["scores"] == written["scores"]


def interrupted(running, folder, after=1.0):
    """Ctrl-C once the first run of a command is on disk: what it then says."""
    deadline = time.monotonic() + 120
    while not any(folder.rglob("run.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(after)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 130, (out, err)
    assert "Traceback" not in err
    return err


@pytest.mark.long
def test_a_stopped_network_goes_on(shell, tmp_path):
    small = ["--width", "5", "--depth", "1", "--thin", "1000", "--epochs", "1000"]
    running = shell("bnn", "digits", *small, "-o", "net", cwd=tmp_path, start=True)
    err = interrupted(running, tmp_path / "net")
    assert err.endswith(f"sundman: stopped; go on with: sundman resume {tmp_path / 'net'}\n")
    assert "accuracy %" in ok(shell("resume", tmp_path / "net"))


def test_version(succeeds):
    assert succeeds("--version").startswith("sundman ")


@pytest.mark.slow
def test_demo(shell, tmp_path):
    out = ok(shell("demo", "--quick", "--output", "demo", cwd=tmp_path))
    assert str(tmp_path / "demo" / "report.html") in out
    assert (tmp_path / "demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
