"""Faults while a run goes on: each ends in a clear error, and a resumed run misses nothing."""

import errno
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

import sundman
from sundman.store import checkpoint
from sundman.store.array_writer import ArrayWriter
from sundman.store.files import StoreError
from sundman.watch import JsonLines
from tests.compiled import SHARED_PROGRAMS
from tests.store.runs import Crash, Do, assert_same, run, whole

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
_NOBODY = 65534
COMPILED = os.environ["SUNDMAN_TEST_COMPILED"]  # the programs all tests share: see conftest.py
READ_ONLY = OSError(errno.EROFS, os.strerror(errno.EROFS))


class FailingFiles:
    """Files whose name has ``part`` in it cannot be opened for writing, from the k-th time on."""

    def __init__(self, part, k, error):
        self.part, self.left, self.error = part, k, error
        self._open = Path.open

    def open(self, path, mode="r", *args, **kwargs):
        if self.part in str(path) and not mode.startswith("r"):
            self.left -= 1
            if self.left < 0:
                raise self.error
        return self._open(path, mode, *args, **kwargs)


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "k", "error"),
    [
        ("values/x/c.", 3, FULL),
        pytest.param("values/x/c.", 3, READ_ONLY, marks=pytest.mark.slow),
        pytest.param("stats/time/c.", 0, FULL, marks=pytest.mark.slow),
        ("weight/c.", 5, READ_ONLY),
        ("progress.json", 2, FULL),
        pytest.param("progress.json", 9, FULL, marks=pytest.mark.slow),
        ("progress.json", 11, FULL),  # that the run is finished
    ],
)
def test_a_file_cannot_be_written(tmp_path, monkeypatch, part, k, error):
    with monkeypatch.context() as patch:
        failing = FailingFiles(part, k, error)
        patch.setattr(Path, "open", lambda *args, **kwargs: failing.open(*args, **kwargs))
        with pytest.raises(StoreError, match=rf"cannot write.*{error.strerror}.*sundman.resume"):
            run(tmp_path / "run")
    said = sundman.Draws.open(tmp_path / "run")
    assert_prefix(said)
    assert_same(sundman.resume(tmp_path / "run"), whole())


def assert_prefix(draws):
    assert (draws.values[:] == whole().values[:, : len(draws)]).all()
    assert (draws.weight == whole().weight[:, : len(draws)]).all()


@pytest.mark.long
@pytest.mark.parametrize("k", [0, 4, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))])
def test_disk_full_in_a_checkpoint(tmp_path, monkeypatch, k):
    """The last one is that of the end: a finished run must have its last state."""
    save, left = checkpoint.save, iter(range(100))

    def failing(directory, run_id, number, tree, part=None, sync="all"):
        if next(left) > k:
            (directory / f"{number:09d}.npz.{os.getpid()}.partial").write_bytes(b"half")
            raise FULL
        save(directory, run_id, number, tree, part, sync)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", failing)
        with pytest.raises(StoreError, match=r"cannot write a checkpoint.*No space left"):
            run(tmp_path / "run")
    assert not sundman.Draws.open(tmp_path / "run").settings["finished"]
    assert_same(sundman.resume(tmp_path / "run"), whole())
    assert all(path.suffix == ".npz" for path in (tmp_path / "run" / "checkpoints").iterdir())


LIMITED = """
import resource, signal, sys
from pathlib import Path
import pytest
from sundman.run import disk_sink as stored
from sundman.run import schedule as blocks
from sundman.store.files import StoreError
from tests.store import runs
blocks.sizes = lambda *args: runs.PIECE
stored._FLUSH_SECONDS = 0.0
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

with pytest.raises(StoreError, match="cannot write draws.*File too large"):
    runs.run(Path(sys.argv[1]), watchers=[runs.Do(6, limit)])
"""


@pytest.mark.long
@pytest.mark.skipif(
    not hasattr(resource, "RLIMIT_FSIZE"), reason="this system cannot limit the size of files"
)
@pytest.mark.filterwarnings("ignore")
def test_the_system_refuses_to_write(tmp_path):
    """No file may grow beyond 100 bytes from the middle of the run on."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env={**os.environ, **SHARED_PROGRAMS, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_same(sundman.resume(tmp_path / "run"), whole())


def gone(path):
    shutil.rmtree(path)


def replaced_by_a_file(path):
    shutil.rmtree(path)
    path.write_text("mine")


def replaced_by_an_empty_directory(path):
    shutil.rmtree(path)
    path.mkdir()


def replaced_by_another_run(path):
    shutil.rmtree(path)
    run(path, draws=8)


@pytest.mark.long
@pytest.mark.parametrize(
    ("action", "piece"),
    [
        (gone, 1),
        (gone, 10),
        (replaced_by_a_file, 6),
        (replaced_by_an_empty_directory, 6),
        (replaced_by_another_run, 6),
    ],
)
@pytest.mark.usefixtures("writes_at_once")
def test_store_deleted_during_the_run(tmp_path, action, piece):
    path = tmp_path / "run"
    with pytest.raises(StoreError, match="moved, deleted or replaced while the run was writing"):
        run(path, watchers=[Do(piece, lambda: action(path))])
    if action is replaced_by_another_run:
        assert len(sundman.Draws.open(path)) == 8
    else:
        with pytest.raises(StoreError, match="no run at"):
            sundman.resume(path)


def test_a_store_renamed_or_without_its_lock_goes_on_as_the_message_says(tmp_path):
    path = tmp_path / "run"
    advice = "if it is still there under some name, go on with sundman.resume"
    with pytest.raises(StoreError, match=advice):
        run(path, watchers=[Do(6, lambda: path.rename(tmp_path / "renamed"))])
    with pytest.raises(StoreError, match=advice):
        sundman.resume(tmp_path / "renamed", watchers=[Do(8, (tmp_path / "renamed/lock").unlink)])
    assert_same(sundman.resume(tmp_path / "renamed"), whole())


def test_store_deleted_while_it_is_written(tmp_path, monkeypatch):
    path, write = tmp_path / "run", ArrayWriter.write

    def deleting(self, columns, groups=None):
        if self.draws >= 8 and path.exists():
            shutil.rmtree(path)
        write(self, columns, groups)

    monkeypatch.setattr(ArrayWriter, "write", deleting)
    with pytest.raises(StoreError, match="moved, deleted or replaced while the run was writing"):
        run(path)


class SlowDisk:
    """A disk that takes draws only when it is told to, or fails then."""

    def __init__(self, monkeypatch, error=None):
        self.ready, self.late, self.written = threading.Event(), False, 0
        write = ArrayWriter.write

        def slow(arrays, columns, groups=None):
            self.late |= not self.ready.wait(20.0)
            if error is not None:
                raise error
            write(arrays, columns, groups)
            self.written += 1

        monkeypatch.setattr(ArrayWriter, "write", slow)
        monkeypatch.setattr("sundman.run.disk_sink._FLUSH_SECONDS", np.inf)

    def crash(self):
        """Take them a little after the run breaks off."""
        threading.Timer(0.1, self.ready.set).start()
        raise Crash


def test_the_run_goes_on_while_draws_are_written(tmp_path, monkeypatch):
    """They are handed over after piece 4, and written in piece 6."""
    disk, seen = SlowDisk(monkeypatch), []

    def go_on():
        seen.append(len(sundman.Draws.open(tmp_path / "run")))
        disk.ready.set()

    draws = run(tmp_path / "run", checkpoint_every=4, watchers=[Do(6, go_on)])
    assert not disk.late
    assert seen == [0]
    assert_same(draws, whole())


def test_a_run_that_breaks_off_waits_for_what_is_being_written(tmp_path, monkeypatch):
    disk, path = SlowDisk(monkeypatch), tmp_path / "run"
    with pytest.raises(Crash):
        run(path, checkpoint_every=4, watchers=[Do(6, disk.crash)])
    assert disk.written == 1
    assert len(sundman.Draws.open(path)) == 8
    assert_same(sundman.resume(path), whole())


def test_an_error_of_the_run_says_that_draws_could_not_be_written(tmp_path, monkeypatch):
    disk = SlowDisk(monkeypatch, error=FULL)
    with pytest.raises(Crash) as error:
        run(tmp_path / "run", checkpoint_every=4, watchers=[Do(6, disk.crash)])
    assert "cannot write draws" in error.value.__notes__[0]


@pytest.fixture
def without_privileges(tmp_path):
    """A place to write as a user who may not write everywhere: root becomes one for a while."""
    if os.geteuid() != 0:
        yield tmp_path
        return
    run(tmp_path / "first")  # what is imported on the way may be for root's eyes only
    place = Path(tempfile.mkdtemp())
    for directory in (place, COMPILED):
        os.chown(directory, _NOBODY, _NOBODY)
    os.seteuid(_NOBODY)
    try:
        yield place
    finally:
        os.seteuid(0)
        os.chown(COMPILED, 0, 0)
        shutil.rmtree(place)


def test_store_made_read_only(without_privileges):
    path = without_privileges / "run"

    def protect():
        for directory in (path, path / "draws.zarr" / "values" / "x"):
            directory.chmod(0o500)

    with pytest.raises(StoreError, match="cannot write"):
        run(path, watchers=[Do(6, protect)])
    with pytest.raises(StoreError, match="cannot write"):
        sundman.resume(path)
    for directory in (path, path / "draws.zarr" / "values" / "x"):
        directory.chmod(0o700)
    assert_same(sundman.resume(path), whole())


@pytest.mark.long
@pytest.mark.parametrize("k", [0, 4])
def test_a_log_that_cannot_be_written_does_not_stop_the_run(tmp_path, monkeypatch, k):
    left, write = iter(range(1000)), JsonLines._write

    def failing(self, name, fields):
        if next(left) >= k:
            raise FULL
        write(self, name, fields)

    monkeypatch.setattr(JsonLines, "_write", failing)
    with pytest.warns(UserWarning, match=r"log.jsonl cannot be written.*the run goes on"):
        draws = run(tmp_path / "run")
    assert_same(draws, whole())
