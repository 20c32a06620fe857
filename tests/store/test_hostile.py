"""A directory made to do harm: no code runs, nothing waits or fills the memory, one StoreError."""

import io
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import filelock
import numpy as np
import pytest

import sundman
from sundman._files import open_regular
from sundman.cli import run as sundman_command
from sundman.cli.watch.view import process_of
from sundman.store.files import Lock, StoreError, read_json, write_json
from tests.compiled import SHARED_PROGRAMS

ROOT = Path(__file__).parents[2]


class Bomb:
    """Leaves a mark if it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("was_run",)


def edit(file, **changes):
    """The file with other fields, and a checksum that fits."""
    content = read_json(file, {})
    for name, value in changes.items():
        content[name] = value
    write_json(file, content)


def array(path, name, **changes):
    about = read_json(path / "run.json", {})
    about["arrays"][name] = {**about["arrays"][name], **changes}
    write_json(path / "run.json", about)


def renamed(path, name):
    about = read_json(path / "run.json", {})
    about["arrays"] = {(name if k == "stats/time" else k): v for k, v in about["arrays"].items()}
    write_json(path / "run.json", about)


def deep(file, levels):
    """A structure nested deeply, in JSON that can be parsed."""
    content = {**read_json(file, {}), "structure": {"values": "HERE"}}
    nested = '{"list": [' * levels + "0" + "]}" * levels
    file.write_text(json.dumps(content).replace('"HERE"', nested))


def replaced(file, make):
    file.unlink()
    make(file)


def replaced_by_link(file, elsewhere):
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


def state(path):
    return path / "checkpoints" / "000000010.npz"


def chunk(path):
    return path / "draws.zarr" / "weight" / "c.0.0"


def archive(file, name="position/x.npy", content=b"", compress=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(file, "w", compress) as made:
        made.writestr(name, content)


def huge_array(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {"descr": "<f4", "fortran_order": False, "shape": shape}
    )
    return file.getvalue()


def pickled_array():
    file = io.BytesIO()
    np.save(file, np.array([Bomb()], dtype=object), allow_pickle=True)
    return file.getvalue()


def sparse(file, size=2**38):
    with open(file, "wb") as made:
        made.truncate(size)


KINDS = {
    "run.json is a pickle": lambda p: (p / "run.json").write_bytes(pickle.dumps(Bomb())),
    "progress.json is a pickle": lambda p: (p / "progress.json").write_bytes(pickle.dumps(Bomb())),
    "a state is a pickle": lambda p: state(p).write_bytes(pickle.dumps(Bomb())),
    "a state has a pickled array": lambda p: archive(
        state(p), content=pickled_array(), compress=zipfile.ZIP_STORED
    ),
    "zarr.json asks for a pickle codec": lambda p: (p / "draws.zarr/values/x/zarr.json").write_text(
        json.dumps({"codecs": [{"name": "numcodecs.pickle"}], "shape": [2, 30, 2]})
    ),
    "an array outside": lambda p: renamed(p, "stats/../../../../etc/passwd"),
    "an absolute array": lambda p: renamed(p, "/etc/passwd"),
    "a chunk is a link": lambda p: replaced(chunk(p), lambda f: f.symlink_to("/etc/passwd")),
    "a chunk is a link to what it was": lambda p: replaced_by_link(
        chunk(p), p.with_suffix(".outside")
    ),
    "progress.json is a link": lambda p: replaced(
        p / "progress.json", lambda f: f.symlink_to("/dev/zero")
    ),
    "run.json is a device": lambda p: replaced(p / "run.json", lambda f: f.symlink_to("/dev/zero")),
    "progress.json is a pipe": lambda p: replaced(p / "progress.json", os.mkfifo),
    "a chunk is a pipe": lambda p: replaced(chunk(p), os.mkfifo),
    "a state is a pipe": lambda p: replaced(state(p), os.mkfifo),
    "zarr.json is a pipe": lambda p: replaced(p / "draws.zarr/weight/zarr.json", os.mkfifo),
    "nested JSON": lambda p: (p / "run.json").write_text("[" * 10**6),
    "a deep structure": lambda p: deep(p / "run.json", 120),
    "a deeper structure": lambda p: deep(p / "run.json", 400),
    "much JSON": lambda p: (p / "run.json").write_text("[" + "[]," * 10**7 + "[]]"),
    "a sparse chunk": lambda p: sparse(chunk(p)),
    "a sparse state": lambda p: sparse(state(p)),
    "a zip bomb": lambda p: archive(state(p), content=bytes(3 * 10**8)),
    "an array without its numbers": lambda p: archive(
        state(p), content=huge_array((10**6, 10**6)), compress=zipfile.ZIP_STORED
    ),
    "huge shapes": lambda p: array(p, "weight", shape=[2, 2**60]),
    "shapes of no numbers": lambda p: array(p, "weight", shape="ab"),
    "a type of objects": lambda p: array(p, "weight", dtype="object"),
    "no chunks": lambda p: array(p, "weight", chunk=0),
    "draws that are no number": lambda p: edit(p / "progress.json", draws="30"),
    "more draws than there are": lambda p: edit(p / "progress.json", draws=10**12),
    "checksums of no numbers": lambda p: edit(p / "progress.json", sums={"weight": 3}),
    "settings that are none": lambda p: edit(p / "run.json", settings=[1, 2]),
    "a structure that is none": lambda p: edit(p / "run.json", structure={"values": "x" * 100}),
    "a verdict that is none": lambda p: edit(p / "verdict.json", reasons=[1]),
    "an end that is none": lambda p: edit(p / "progress.json", ended={"by": [], "look": 3}),
    "a foreign chunk": lambda p: chunk(p).write_bytes(bytes(len(chunk(p).read_bytes()))),
}


def look(path):
    """All that can be read of a run."""
    draws = sundman.Draws.open(path)
    np.asarray(draws.values), draws.weight, dict(draws.stats), draws.verdict
    return draws.last


@pytest.mark.parametrize("name", KINDS)
def test_a_hostile_directory(finished, name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for older in ("000000000.npz", "000000009.npz"):  # no older state to go back to
        (finished / "checkpoints" / older).unlink(missing_ok=True)
    (finished / "checkpoints" / "000000008.npz").unlink(missing_ok=True)
    KINDS[name](finished)
    with pytest.raises(StoreError) as caught:
        look(finished)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600
    assert not (tmp_path / "was_run").exists()


def lines_of(*lines):
    return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)


def block(**changes):
    part = {"chain": [0], "draws": [[4]], "weight": [[1.0]], "potential": [[1.0]]}
    line = {
        "event": "block", "stage": "sampling", "block": 1, "draws": 4, "total_draws": 30,
        "steps": 4, "total_steps": 30, "chains": 2, "diverged": 0, "seconds": 1.0, "stats": {},
        "by_chain": {**part, "variance": [[1.0]], "temperature": [[1.0]]},
    }  # fmt: skip
    return {**line, **changes}


def chains_of(**changes):
    return {**block()["by_chain"], **changes}


def put_pipe(file):
    file.unlink(missing_ok=True)
    os.mkfifo(file)


# What is beside the draws: the log and the lock, which `watch` and `runs` read.
BESIDE = {
    "the log is a pipe": lambda p: put_pipe(p / "log.jsonl"),
    "the log is a link": lambda p: replaced_by_link(p / "log.jsonl", p.with_suffix(".log")),
    "the log is a device": lambda p: replaced(p / "log.jsonl", lambda f: f.symlink_to("/dev/zero")),
    "the log is nested": lambda p: (p / "log.jsonl").write_text("[" * 10**6 + "\n"),
    "the log is one line": lambda p: sparse(p / "log.jsonl"),
    "an event that is none": lambda p: (p / "log.jsonl").write_text(lines_of({"event": [[]]}, "7")),
    "a block of texts": lambda p: (p / "log.jsonl").write_text(lines_of(block(block="1"))),
    "a block of no time": lambda p: (p / "log.jsonl").write_text(lines_of(block(seconds=1e999))),
    "a block of long numbers": lambda p: (p / "log.jsonl").write_text(
        lines_of(block(steps=10**400))
    ),
    "a block of ragged chains": lambda p: (p / "log.jsonl").write_text(
        lines_of(block(by_chain=chains_of(weight=[[1.0, 2.0]])))
    ),
    "a block of no chains": lambda p: (p / "log.jsonl").write_text(
        lines_of(block(by_chain=chains_of(chain=[0, []])))
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_a_hostile_log(finished, name, capsys):
    BESIDE[name](finished)
    assert sundman_command(["watch", str(finished), "--once"]) == 2
    said = capsys.readouterr().err
    assert "log" in said
    assert "Traceback" not in said
    assert len(said) < 600


def test_odd_numbers_of_a_log_are_shown(finished, capsys):
    """They are numbers, and harmless."""
    odd = chains_of(weight=[[1e308]], potential=[[-1e308]], variance=[[1e308]])
    start = {"event": "start", "temperature": 10**400, "time": "2020-01-01"}
    (finished / "log.jsonl").write_text(lines_of(start, block(by_chain=odd)))
    assert sundman_command(["watch", str(finished), "--once"]) == 0
    assert "4 of 30 draws" in capsys.readouterr().out


@pytest.mark.parametrize("number", [0, 10**9, 10**30])
def test_an_odd_process_in_the_lock(finished, number, capsys):
    (finished / "lock").write_text(f"process {number} on {socket.gethostname()}\n")
    assert sundman_command(["watch", str(finished), "--once"]) == 0
    assert process_of(finished) in (None, False)
    assert "finished" in capsys.readouterr().out


def linked(lock, victim):
    lock.symlink_to(victim)


def hard_linked(lock, victim):
    lock.hardlink_to(victim)


@pytest.mark.parametrize("link", [linked, hard_linked])
def test_a_lock_that_leads_elsewhere(part, tmp_path, link, capsys):
    """Neither listing nor watching nor resuming touches the file it leads to."""
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    (part / "lock").unlink()
    link(part / "lock", victim)
    assert sundman_command(["runs", str(tmp_path)]) == 0
    assert sundman_command(["watch", str(part), "--once"]) == 0
    with pytest.raises(StoreError):
        sundman.resume(part)
    assert sundman_command(["rm", str(part)]) == 2
    assert "add --force" in capsys.readouterr().err
    assert victim.read_text() == "precious\n"


def test_a_lock_that_is_a_pipe(part, capsys):
    put_pipe(part / "lock")
    assert sundman_command(["runs", str(part)]) == 0
    assert "stopped" in capsys.readouterr().out
    assert sundman_command(["watch", str(part), "--once"]) == 0
    with pytest.raises(StoreError, match="is not the lock of a run"):
        sundman.resume(part)


def test_listing_writes_nothing(part, tmp_path):
    (part / ".litter.1.building").mkdir()
    (part / "lock").unlink()

    def state():
        return {file: file.lstat().st_mtime_ns for file in (part, *part.rglob("*"))}

    before = state()
    assert sundman_command(["runs", str(tmp_path)]) == 0
    assert sundman_command(["watch", str(part), "--once"]) == 0
    assert state() == before


def test_asking_for_the_lock_does_not_keep_others_from_it(part):
    """Whoever lists runs has it for an instant, in which one may begin to write."""
    Lock(part).release()
    with open_regular(part / "lock") as asking:
        assert filelock.lock_descriptor(asking.fileno(), blocking=False)
        threading.Timer(0.01, asking.close).start()
        Lock(part).release()


ALL = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import sundman
from tests.store.test_hostile import look
from sundman.store.files import StoreError
for path in sys.argv[2:]:
    try:
        look(path)
    except StoreError:
        continue
    raise SystemExit(f"{path} was opened")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_the_memory_of_a_reader_is_bounded(made, tmp_path):
    """Of all kinds one after the other, in one process: at most 200 MB more than for a good run."""
    paths = []
    for number, name in enumerate(KINDS):
        paths.append(Path(shutil.copytree(made / "finished", tmp_path / f"run{number}")))
        for older in ("000000000.npz", "000000008.npz", "000000009.npz"):
            (paths[-1] / "checkpoints" / older).unlink(missing_ok=True)
        KINDS[name](paths[-1])

    def peak(*which):
        program = (
            ALL
            if which
            else ALL.replace("for path", "look(sys.argv[2])\nfor path").replace(
                "sys.argv[2:]", "[]"
            )
        )
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, ROOT, *(which or [made / "finished"])],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **SHARED_PROGRAMS},
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout) / 1000

    assert peak(*paths) - peak() < 200
