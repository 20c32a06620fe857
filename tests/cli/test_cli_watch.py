"""``sundman watch``: a run that goes on, ended, stopped or was killed, in words."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import jax
import pytest

import sundman
from sundman.watch import read_log
from tests.cli.test_cli_bad_input import check

ADAPTIVE = sundman.sa_sgld(5e-3, alpha=50.0, m=0.1, M=10.0, r=0.5)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "star"
    run = {"chains": 4, "burn_in": 100, "steps": 2000, "thin": 5, "progress": False}
    sundman.sample(sundman.targets.star(), ADAPTIVE, key=jax.random.key(0), store=path, **run)
    return path


@pytest.fixture
def run(finished, tmp_path):
    """A copy that can be spoiled."""
    return shutil.copytree(finished, tmp_path / "star")


def rewrite(run, lines, *, ago=0.0):
    """The log with these lines, the last of them written some seconds ago."""
    when = (datetime.now(UTC) - timedelta(seconds=ago)).isoformat(timespec="milliseconds")
    texts = [json.dumps({**line, "time": when}) for line in lines]
    (run / "log.jsonl").write_text("".join(f"{text}\n" for text in texts))


def blocks(run):
    return [line for line in read_log(run / "log.jsonl") if line["event"] in ("start", "block")]


def hold(run, process):
    (run / "lock").write_text(f"process {process} on {socket.gethostname()}\n")


@pytest.fixture(scope="module")
def dead_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_finished_run_has_its_numbers_and_its_own_verdict(here, run):
    before = {file: file.stat().st_mtime_ns for file in run.rglob("*")}
    code, out, err = here("watch", run, "--once")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "star, SA-SGLD: finished"
    for part in ("100%", "400 of 400 draws", "0 of 4 chains diverged", "zeta", "U per chain"):
        assert part in out
    for part in ("split R-hat of U", "of 1600 draws looked at", "within", "should be 1"):
        assert part in out
    assert lines[-1] == f"Verdict: {sundman.Draws.open(run).verdict}"
    assert {file: file.stat().st_mtime_ns for file in run.rglob("*")} == before


def test_where_there_is_no_terminal_it_prints_once(here, run):
    assert here("watch", run)[1] == here("watch", run, "--once")[1]


def test_a_run_that_goes_on(here, run):
    rewrite(run, blocks(run))
    hold(run, os.getpid())
    code, out, _ = here("watch", run, "--once")
    assert code == 0
    assert out.startswith("star, SA-SGLD: running")
    assert "ETA" in out
    rewrite(run, blocks(run)[:2])
    assert here("watch", run, "--once")[1].endswith("Nothing to judge yet: it is in its burn-in.\n")
    (run / "log.jsonl").unlink()
    out = here("watch", run, "--once")[1]
    assert out.splitlines()[0] == "star: waiting"


def test_a_killed_and_a_stopped_run_say_how_to_go_on(here, run, dead_process):
    lines = blocks(run)
    rewrite(run, lines)
    hold(run, dead_process)
    out = here("watch", run, "--once")[1]
    assert out.startswith("star, SA-SGLD: killed\nkilled  [")
    assert out.endswith(f" is gone: go on with sundman resume {run}.\n")
    rewrite(run, [*lines, {"event": "end", "ok": False}])
    out = here("watch", run, "--once")[1]
    assert out.startswith("star, SA-SGLD: stopped")
    assert f"It was stopped before its end: go on with sundman resume {run}." in out


def test_a_log_of_another_machine_that_is_silent(here, run):
    rewrite(run, blocks(run), ago=300)
    (run / "lock").write_text("process 1 on another-machine\n")
    out = here("watch", run / "log.jsonl", "--once")[1]
    assert out.startswith("log.jsonl, SA-SGLD: silent")
    assert "Nothing was written for 5:0" in out


def test_lost_chains_and_heat_are_in_the_verdict(here, run):
    start, *rest, last = blocks(run)
    last["diverged"] = 1
    last["by_chain"]["temperature"] = [[3.0 + 0.01 * i for i in range(len(row))]
                                       for row in last["by_chain"]["temperature"]]  # fmt: skip
    rewrite(run, [start, *rest, last, {"event": "divergence", "message": "chain 2 ran away"}])
    hold(run, os.getpid())
    out = here("watch", run, "--once")[1]
    verdict = out.splitlines()[-1]
    assert "divergence: chain 2 ran away" in out
    assert verdict.startswith("Verdict: Not to be trusted as it is. 1 of 4 chains were lost")
    assert "The temperature is 3.0" in verdict


def test_a_command_with_several_runs_shows_each(here, finished, tmp_path):
    for name in ("a", "b"):
        shutil.copytree(finished, tmp_path / "out" / "runs" / name)
    out = here("watch", "out", "--once")[1]
    assert out.splitlines()[:2] == ["a, SA-SGLD: finished", "b, SA-SGLD: finished"]
    shutil.rmtree(tmp_path / "out" / "runs" / "a")
    shutil.rmtree(tmp_path / "out" / "runs" / "b")
    assert here("watch", "out", "--once")[1] == "out has no run yet\n"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nowhere"], "nothing at nowhere"),
        (["."], "not a run"),
        (["torn.jsonl"], "torn.jsonl is not the log of a run: line 1 is no event"),
        (["half.jsonl"], "block 1 of the log lacks"),
    ],
)
def test_bad_input_is_told_in_one_line(here, tmp_path, arguments, part):
    (tmp_path / "torn.jsonl").write_text("not a log\n")
    (tmp_path / "half.jsonl").write_text('{"event": "block", "block": 1}\n')
    check(*here("watch", *arguments), part)


LONG_RUN = ["bnn", "digits", "--sampler", "sgld", "--step", "0.05", "--epochs", "40000"]


@pytest.mark.slow
def test_a_process_that_runs_and_then_is_killed(here, shell, tmp_path):
    def look(state, beyond=-1):
        """The share that is done when it is in this state and beyond so much, and what is seen."""
        out = ""
        for _ in range(900):
            if (tmp_path / "out").exists():
                code, out, _ = here("watch", "out", "--once")
                assert code == 0
            seen = re.search(r": (\w+)\n.*\] +(\d+)%", out)
            if seen and seen[1] == state and int(seen[2]) > beyond:
                return int(seen[2]), out
            time.sleep(0.2)
        raise AssertionError(f"never {state} beyond {beyond}%: {out}")

    command = [*LONG_RUN, "--output", "out"]
    with shell(*command, start=True, cwd=tmp_path) as process:
        try:
            first, _ = look("running")
            later, out = look("running", first)
        finally:
            process.kill()
    assert "ETA" in out
    assert out.splitlines()[-1].startswith("Verdict: ")
    last, out = look("killed")
    assert later <= last < 100
    assert "go on with sundman resume" in out
