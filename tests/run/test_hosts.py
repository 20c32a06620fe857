"""Several processes do one run, and one of them may be killed: the draws are those of one."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import sundman
from sundman.run import hosts
from sundman.store.files import StoreError, read_json
from tests.compiled import SHARED_PROGRAMS
from tests.run import survivor

SURVIVOR = Path(survivor.__file__)
LONGEST, TIMEOUT = 300, 20

pytestmark = pytest.mark.xdist_group("hosts")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def launch(words: list[object], **environment: str) -> subprocess.Popen:
    """A process of the command with these words."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "sundman.cli", *map(str, words)],
        env={**os.environ, **SHARED_PROGRAMS, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def places(number: int) -> list[list[object]]:
    """The options that make each of so many processes one of them."""
    if number == 1:
        return [[]]
    common = ["--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", number]
    return [[*common, "--process-id", i, "--host-timeout", TIMEOUT] for i in range(number)]


def start(
    number: int, path: Path | str, kinds: list[str] | str = "spread"
) -> list[subprocess.Popen]:
    """The processes of a run, each of the same kind if there is one."""
    each = [kinds] * number if isinstance(kinds, str) else kinds
    return [
        launch([*place, "run", SURVIVOR, kind, path])
        for place, kind in zip(places(number), each, strict=True)
    ]


def finish(processes: list[subprocess.Popen]) -> list[tuple[int, str]]:
    """Exit code and output of each."""
    ended = []
    for process in processes:
        try:
            said, _ = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            said += "\nHANGS"
        ended.append((process.returncode, said))
    return ended


def progress(path: Path) -> int:
    try:
        return read_json(path / "progress.json", {"draws": int})["draws"]
    except StoreError:
        return 0


@pytest.fixture(scope="module")
def alone():
    """The run by one process, in memory."""
    arguments = survivor.KINDS["spread"]()
    key = jax.random.key(5)
    return sundman.sample(**arguments, key=key, burn_in=400, progress=False)


def check_same(path: Path, alone: sundman.Draws) -> None:
    draws = sundman.Draws.open(path)
    assert draws.settings["finished"]
    np.testing.assert_array_equal(draws.weight, alone.weight)
    np.testing.assert_array_equal(np.asarray(draws.values), alone.values)
    for name, stat in alone.stats.items():
        np.testing.assert_array_equal(draws.stats[name], stat)
    np.testing.assert_array_equal(draws.last, alone.last)
    np.testing.assert_array_equal(draws.online.weighted, alone.online.weighted)


def kill_one(number: int, path: Path, victim: int, after: int, kind: str = "spread") -> None:
    """A run of which one process is killed after some draws; the others stop and say why."""
    processes = start(number, path, kind)
    end = time.monotonic() + LONGEST
    while progress(path) < after and all(p.poll() is None for p in processes):
        assert time.monotonic() < end
        time.sleep(0.01)
    assert processes[victim].poll() is None, "it came to its end before"
    processes[victim].kill()
    killed = time.monotonic()
    ended = finish(processes)
    assert time.monotonic() - killed < TIMEOUT + 10
    assert ended.pop(victim)[0] == -signal.SIGKILL
    check_told(ended)


def check_told(ended: list[tuple[int, str]]) -> None:
    """Each of them failed, and its last line says what to do."""
    for code, said in ended:
        assert code != 0, said
        assert "What was stored is safe" in said.splitlines()[-1], said


@pytest.mark.long
def test_one_of_two_processes_is_killed(tmp_path, alone):
    kill_one(2, tmp_path / "run", victim=1, after=20)
    assert 0 < progress(tmp_path / "run") < 120
    for code, said in finish(start(2, tmp_path / "run")):
        assert code == 0, said
    check_same(tmp_path / "run", alone)


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_hangs_is_not_waited_for(tmp_path, alone, victim):
    """As by a network that is cut: its connections stay and say nothing."""
    path = tmp_path / "run"
    processes = start(2, path)
    while progress(path) < 20:
        time.sleep(0.01)
    processes[victim].send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    (ended,) = finish([processes[1 - victim]])
    assert time.monotonic() - stopped < 2 * TIMEOUT + 10
    check_told([ended])
    processes[victim].kill()
    processes[victim].communicate()
    for code, said in finish(start(2, path)):
        assert code == 0, said
    check_same(path, alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("other", "words"),
    [
        ("spread otherwise", "process 1 is about to do another run than process 0: weighting"),
        ("spread edited", "process 1 is about to do another run than process 0: online"),
    ],
)
def test_processes_that_would_do_different_runs(tmp_path, other, words):
    ended = finish(start(2, tmp_path / "run", ["spread", other]))
    for code, said in ended:
        assert code == 1
        assert words in said
    assert not (tmp_path / "run").exists()


def run_command(number: int, *words: object) -> None:
    """A command by so many processes, which must succeed."""
    for code, said in finish([launch([*place, *words]) for place in places(number)]):
        assert code == 0, said


@pytest.mark.slow
def test_a_network_by_two_processes(tmp_path):
    words = [
        *("bnn", "digits", "--sampler", "sgld", "--step", "0.01", "--width", "4", "--depth", "1"),
        *("--epochs", "2", "--batch", "360", "--thin", "1", "--chains", "2", "--output"),
    ]
    for number in (1, 2):
        run_command(number, *words, tmp_path / str(number))
    results = [read_json(tmp_path / n / "results.json", {"scores": dict}) for n in ("1", "2")]
    assert results[0]["scores"] == results[1]["scores"]


@pytest.mark.slow
def test_the_place_in_a_slurm_job_is_found(tmp_path, alone):
    path = tmp_path / "run"
    job = {"SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_NODES": "1"}
    job["SLURM_JOB_ID"] = str(os.getpid())  # which makes the port
    processes = [
        launch(
            ["--distributed", "--host-timeout", TIMEOUT, "run", SURVIVOR, "spread", path],
            **{**job, "SLURM_PROCID": str(number), "SLURM_LOCALID": str(number)},
        )
        for number in range(2)
    ]
    for code, said in finish(processes):
        assert code == 0, said
    check_same(path, alone)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("127.0.0.1:9", 2, 1), "the coordinator 127.0.0.1:9 does not answer after 1 seconds"),
        (("127.0.0.1:9", 2, None), "coordinator, num-processes and process-id go together"),
        (("127.0.0.1:9", 2, 2), "process-id must be from 0 to num-processes - 1 = 1, got 2"),
        (("somewhere", 2, 0), "coordinator must be HOST:PORT, such as node1:7000; got somewhere"),
    ],
)
def test_a_coordinator_that_cannot_be(arguments, words):
    with pytest.raises((ValueError, hosts.HostLostError), match=words):
        hosts.connect(*arguments, timeout=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_a_random_moment_and_resumed_elsewhere(tmp_path, alone, seed):
    chance = random.Random(seed)
    number, then = chance.choice([2, 4]), chance.choice([1, 2, 4])
    path = tmp_path / "run"
    kill_one(number, path, victim=chance.randrange(number), after=chance.randrange(1, 90))
    for code, said in finish(start(then, path)):
        assert code == 0, said
    check_same(path, alone)


@pytest.mark.slow
def test_a_signal_to_one_process_stops_all(tmp_path, alone):
    path = tmp_path / "run"
    processes = start(2, path)
    while progress(path) < 10:
        time.sleep(0.01)
    processes[1].terminate()
    for code, said in finish(processes):
        assert code == 128 + signal.SIGTERM, said
    assert 10 <= progress(path) < 120
    for code, said in finish(start(4, path)):
        assert code == 0, said
    check_same(path, alone)


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4])
def test_to_the_end(tmp_path, alone, number):
    for code, said in finish(start(number, tmp_path / "run")):
        assert code == 0, said
    check_same(tmp_path / "run", alone)
    assert sundman.Draws.open(tmp_path / "run").chains == 4


@pytest.mark.slow
def test_in_memory_every_process_has_all_draws():
    """Those of one process, also where a rule ends the run and where the sampler is tuned."""
    kinds = "spread+until+tuned+centred"
    ((code, said),) = finish(start(1, "-", kinds))
    assert code == 0, said
    expected = [line for line in said.splitlines() if "draws of 4 chains" in line]
    assert len(expected) == 4
    assert int(expected[1].split()[1]) < 9_000  # the rule was met
    for code, said in finish(start(2, "-", kinds)):
        assert code == 0, said
        assert [line for line in said.splitlines() if "draws of 4 chains" in line] == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["until", "tuned", "centred"])
def test_killed_and_resumed_by_a_rule_and_with_a_tuned_sampler(tmp_path, kind):
    """A run ends where it would have, with the sampler it would have had."""
    ((code, said),) = finish(start(1, tmp_path / "alone", kind))
    assert code == 0, said
    alone = sundman.Draws.open(tmp_path / "alone")
    kill_one(2, tmp_path / "run", victim=1, after=len(alone) // 2, kind=kind)
    assert 0 < progress(tmp_path / "run") < len(alone)
    for code, said in finish(start(4, tmp_path / "run", kind)):
        assert code == 0, said
    again = sundman.Draws.open(tmp_path / "run")
    assert again.settings["sampler"] == alone.settings["sampler"]
    np.testing.assert_array_equal(np.asarray(again.values), np.asarray(alone.values))
    np.testing.assert_array_equal(again.weight, alone.weight)
    if kind == "until":
        assert (again.ended.by, again.ended.draws) == ("rule", alone.ended.draws)


@pytest.mark.slow
def test_a_process_reads_its_own_rows(tmp_path):
    """Batches of 20 rows in a file: 400 + 60 * 20 steps, of which each of two reads one half."""
    read, draws = {}, {}
    for number in (1, 2):
        path = tmp_path / str(number)
        for code, said in finish(start(number, path, "rows")):
            assert code == 0, said
            read.setdefault(number, []).append(int(said.split(" rows were read")[0].split()[-1]))
        draws[number] = sundman.Draws.open(path)
    every = 20 * (400 + 60 * 20)
    ahead = 20  # the whole first batch, to look at it
    assert read == {1: [every + ahead], 2: [every // 2 + ahead] * 2}
    np.testing.assert_allclose(draws[2].values, draws[1].values, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("process", [0, 1])
def test_others_that_do_not_come(tmp_path, process):
    """One sentence and an exit code, whoever waits; nothing is written."""
    place = ["--coordinator", f"127.0.0.1:{free_port()}", "--num-processes", 2]
    options = [*place, "--process-id", process, "--host-timeout", 3]
    command = ["-m", "sundman.cli", *options, "run", SURVIVOR, "spread", tmp_path / "run"]
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", *map(str, command)],
        capture_output=True,
        text=True,
        timeout=LONGEST,
        env={**os.environ, **SHARED_PROGRAMS},
    )
    assert ended.returncode != 0
    last = ended.stderr.splitlines()[-1]
    assert ("does not answer after 3 seconds" if process else "did not come in 3 seconds") in last
    assert not (tmp_path / "run").exists()
