"""One writer at a time: runs on one path exclude each other, and a dead one leaves nothing."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import pytest

import sundman
from sundman.store import directory as runs
from sundman.store.files import Lock, StoreError
from tests.compiled import SHARED_PROGRAMS
from tests.store.runs import Crash, Do, assert_same, crash, run

ROOT = Path(__file__).parents[2]

PREAMBLE = """
import sys, time
from pathlib import Path
from sundman.run import disk_sink as stored
from sundman.run import schedule as blocks
from tests.store import runs
blocks.sizes = lambda *args: runs.PIECE
stored._FLUSH_SECONDS = 0.0
path = Path(sys.argv[1])

def wait():
    (path.parent / "ready").touch()
    time.sleep(60)
"""
HOLD = PREAMBLE + "runs.run(path, watchers=[runs.Do(6, wait)])"
DIE = (
    PREAMBLE
    + """
import os, signal
from sundman.store import directory as store
if sys.argv[2] == "checkpoint":
    store.checkpoint.save = lambda *args, **options: os.kill(os.getpid(), signal.SIGKILL)
else:
    Path.rename = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
runs.run(path)
"""
)
RACE = (
    PREAMBLE
    + """
from sundman.store.files import StoreError
rename = Path.rename
def together(self, target):
    (path.parent / f"ready-{sys.argv[2]}").touch()
    while len(list(path.parent.glob("ready-*"))) < 2:
        time.sleep(0.001)
    return rename(self, target)
Path.rename = together
try:
    runs.run(path)
except StoreError as error:
    print("lost", error)
else:
    print("won")
"""
)


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **SHARED_PROGRAMS, "PYTHONPATH": str(ROOT)},
    )


@cache
def whole():
    return run()


@pytest.mark.long
def test_a_second_process_is_refused_and_a_dead_one_forgotten(tmp_path):
    path = tmp_path / "run"
    process = start(HOLD, path)
    try:
        while not (tmp_path / "ready").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        holder = f"being written by process {process.pid} on "
        with pytest.raises(StoreError, match=holder):
            sundman.resume(path)
        with pytest.raises(StoreError, match=holder):
            run(path, resume=True)
        with pytest.raises(StoreError, match="exists and holds a run"):
            run(path)
        going_on = sundman.Draws.open(path)
        assert 0 < len(going_on) < len(whole())
        assert (going_on.values[:] == whole().values[:, : len(going_on)]).all()
    finally:
        process.kill()
        process.communicate()
    assert_same(sundman.resume(path), whole())


def test_a_second_thread_is_refused(tmp_path):
    path, errors = tmp_path / "run", []

    def intrude():
        with pytest.raises(StoreError) as caught:
            sundman.resume(path)
        errors.append(str(caught.value))

    def from_a_thread():
        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()

    draws = run(path, watchers=[Do(6, from_a_thread)])
    assert f"being written by process {os.getpid()}" in errors[0]
    assert_same(draws, whole())


def test_the_lock_is_free_after_an_error_and_at_the_end(part):
    with pytest.raises(Crash):
        sundman.resume(part, watchers=[Do(8, crash)])
    Lock(part).release()
    with pytest.raises(StoreError, match="another run"):
        run(part, resume=True, draws=50)
    Lock(part).release()
    assert_same(run(part, resume=True), whole())
    Lock(part).release()
    run(part, resume=True)
    Lock(part).release()


def test_a_lock_that_cannot_be_had_is_told(tmp_path):
    with pytest.raises(StoreError, match="cannot be written"):
        Lock(tmp_path / "nowhere")
    (tmp_path / "lock").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        Lock(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("moment", ["rename", pytest.param("checkpoint", marks=pytest.mark.slow)])
def test_killed_while_being_created(tmp_path, moment):
    path = tmp_path / "run"
    process = start(DIE, path, moment)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not path.exists()
    assert len(list(tmp_path.iterdir())) == 1
    assert_same(run(path), whole())
    assert [left.name for left in tmp_path.iterdir()] == ["run"]


@pytest.mark.slow
def test_two_processes_create_one_path(tmp_path):
    path = tmp_path / "run"
    processes = [start(RACE, path, name) for name in "ab"]
    told = [process.communicate() for process in processes]
    assert sorted(out.split()[0] for out, _ in told) == ["lost", "won"], told
    assert_same(sundman.Draws.open(path), whole())


def test_two_threads_create_one_path(tmp_path):
    """Each builds in a directory of its own."""
    path, told, barrier = tmp_path / "run", [], threading.Barrier(2)
    rename = Path.rename

    def together(self, target):
        if self.name.endswith(".building"):
            barrier.wait(60)
        return rename(self, target)

    def create():
        try:
            run(path)
            told.append("won")
        except StoreError as error:
            told.append(str(error))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", together)
        threads = [threading.Thread(target=create) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert told.count("won") == 1
    assert_same(sundman.Draws.open(path), whole())


def test_the_lock_is_free_after_a_run_that_could_not_be_opened(tmp_path, monkeypatch):
    def fail(path):
        raise StoreError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(runs, "open_run", fail)
        with pytest.raises(StoreError, match="not now"):
            run(tmp_path / "run")
    Lock(tmp_path / "run").release()
    assert_same(sundman.resume(tmp_path / "run"), whole())


def test_what_another_process_has_just_made_is_not_litter(tmp_path):
    """It may not have come to lock it; what is left from before is removed."""
    new, old = (tmp_path / f".run.{name}.building" for name in ("new", "old"))
    for left in (new, old):
        left.mkdir()
    os.utime(old, (0, 0))
    run(tmp_path / "run")
    assert new.exists()
    assert not old.exists()


def test_a_directory_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match=r"holds something else: use another store$"):
        run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert not runs.exists(tmp_path)
