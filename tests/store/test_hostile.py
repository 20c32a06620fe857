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
from sundman.cli.runs import stored_target
from sundman.cli.watch.view import process_of
from sundman.store.arrays import ArrayInfo, metadata_sum, sum_of
from sundman.store.encoding import Decoder
from sundman.store.files import Lock, StoreError, read_archive, read_file, read_json, write_json
from tests.compiled import SHARED_PROGRAMS
from tests.store.runs import assert_same, whole

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


def with_chains(path, chains, group=None):
    """A run of so many chains, none of which has a draw."""
    about, progress = (read_json(path / name, {}) for name in ("run.json", "progress.json"))
    about["chains"] = chains
    for one in about["arrays"].values():
        one["shape"][0] = chains
        if group is not None:
            one["group"] = group
    write_json(path / "run.json", about)
    for name in ("diverged", "diverged_step", "diverged_times"):
        progress.pop(name)
    sums = dict.fromkeys(progress["sums"], "")
    write_json(path / "progress.json", {**progress, "draws": 0, "sums": sums})


def of_sparse_chunks(path, number=16, length=2**22):
    """Half a gigabyte of weights in a directory of a hundred kilobytes, checksums and all."""
    about, progress = (read_json(path / name, {}) for name in ("run.json", "progress.json"))
    table, draws = about["arrays"]["weight"], number * length
    metadata = path / "draws.zarr/weight/zarr.json"
    content = json.loads(metadata.read_text())
    content["shape"][1] = about["draws"] = draws
    metadata.write_text(json.dumps(content))
    table |= {"shape": [2, draws], "chunk": length, "metadata": metadata_sum(metadata)[0]}
    about["arrays"], about["structure"]["values"] = {"weight": table}, None
    write_json(path / "run.json", about)
    info = ArrayInfo.from_json("weight", table)
    zeros = np.zeros((2, length), np.float32)
    sums = "".join(f"{sum_of(info, 0, i, zeros):08x}" for i in range(number))
    for i in range(number):
        sparse(info.file(path / "draws.zarr", 0, i), info.chunk_bytes)
    write_json(path / "progress.json", {**progress, "draws": draws, "sums": {"weight": sums}})


def structured(path, name, tree):
    about = read_json(path / "run.json", {})
    about["structure"][name] = tree
    write_json(path / "run.json", about)


def with_setting(path, **settings):
    edit(path / "run.json", settings={**read_json(path / "run.json", {})["settings"], **settings})


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
    "very many chains": lambda p: with_chains(p, 2**40),
    "many chains": lambda p: with_chains(p, 2**26),
    "many groups of chains": lambda p: with_chains(p, 2**20, group=1),
    "chunks that were never written": of_sparse_chunks,
    "a position of no structure": lambda p: structured(p, "position", {"dict": 5}),
    "a position of no key": lambda p: structured(p, "position", {"dict": [[{}, 0]]}),
    "values of no key": lambda p: structured(p, "values", {"dict": [[{}, 0]]}),
    "averages that are none": lambda p: structured(p, "averages", {"list": [0, 1]}),
    "weights of several axes": lambda p: array(p, "weight", shape=[2, 30, 1]),
    "reasons of no words": lambda p: edit(p / "verdict.json", reasons=[[[1], {}]]),
    "settings of no chain": lambda p: with_setting(p, per_chain=5),
    "settings of other chains": lambda p: with_setting(p, per_chain=["h"], h=[1.0]),
    "a number that is a text": lambda p: with_setting(p, thin="x"),
    "a text that is a list": lambda p: with_setting(p, on_divergence=[1]),
    "a day that is none": lambda p: edit(p / "run.json", created=5),
    "versions of no words": lambda p: edit(p / "run.json", versions={"jax": [3]}),
    "steps without end": lambda p: edit(p / "progress.json", steps=10**400),
    "a chain lost too late": lambda p: edit(p / "progress.json", diverged=[10**30, -1]),
    "a foreign verdict": lambda p: edit(p / "verdict.json", run="0" * 32),
    "a foreign chunk": lambda p: chunk(p).write_bytes(bytes(len(chunk(p).read_bytes()))),
}


def look(path):
    """All that can be read of a run."""
    draws = sundman.Draws.open(path)
    repr(draws), np.asarray(draws.values), draws.weight, dict(draws.stats), draws.chain(0)
    return draws.last, draws.online


@pytest.mark.parametrize("name", KINDS)
def test_a_hostile_directory(finished, name, monkeypatch, tmp_path, capsys):
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
    assert sundman_command(["runs", str(finished)]) == 0
    assert sundman_command(["watch", str(finished), "--once"]) in (0, 2)
    try:
        sundman.Draws.open(finished)
    except StoreError:  # else it is found later, and these would take seconds
        assert sundman_command(["diagnose", str(finished), "--no-cache"]) == 2
        assert sundman_command(["report", str(finished), "--no-cache"]) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "failed with" not in said


def test_a_target_too_large_to_look_at(finished):
    """It is not made: a matrix of its coordinates would fill the memory."""
    content = read_json(finished / "call.json", {})
    content["target"] = {"target": "gaussian", "settings": {"dict": [["dim", 2 * 10**8]]}}
    write_json(finished / "call.json", content)
    assert stored_target(finished) is None


@pytest.mark.parametrize("content", [{}, [], {"dict": [[{}, 0]]}, {"sampler": 3}, {"value": "a"}])
def test_a_call_that_is_none(content):
    with pytest.raises(StoreError, match="the call of the run is damaged"):
        Decoder({}, ours=True).decode(content)


def test_an_archive_that_overlaps_itself(tmp_path):
    """Members that share their bytes unpack to more than the file is long."""
    file = tmp_path / "state.npz"
    archive(file, content=huge_array((1000,)) + bytes(4000), compress=zipfile.ZIP_STORED)
    content = file.read_bytes()
    begin, end = content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")
    entry, tail = content[begin:end], bytearray(content[end:])
    for place, number in ((8, 100), (10, 100)):
        tail[place : place + 2] = number.to_bytes(2, "little")
    tail[12:16] = (100 * len(entry)).to_bytes(4, "little")
    file.write_bytes(content[:begin] + 100 * entry + tail)
    with pytest.raises(StoreError, match="it unpacks to more than it is"):
        read_archive(file)


def test_a_file_that_compresses_well_is_read(tmp_path, monkeypatch):
    """What it takes on the disk is asked of the system, which may say too little or nothing."""
    monkeypatch.setattr("sundman.store.files.MOST_EMPTY", 1000)
    monkeypatch.setattr("sundman.store.files.bytes_on_disk", lambda about: 0)
    (tmp_path / "written").write_bytes(bytes(10**6))
    assert len(read_file(tmp_path / "written")) == 10**6
    sparse(tmp_path / "empty", 10**6)
    with pytest.raises(StoreError, match="most of it was never written"):
        read_file(tmp_path / "empty")


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


@pytest.mark.parametrize("put", ["link", "pipe"])
def test_a_run_that_goes_on_does_not_write_its_log_elsewhere(part, tmp_path, put):
    victim, log = tmp_path / "victim", part / "log.jsonl"
    victim.write_text("precious\n")
    log.unlink()
    log.symlink_to(victim) if put == "link" else os.mkfifo(log)
    with pytest.warns(UserWarning, match=r"log.jsonl cannot be written: it is not a regular file"):
        assert_same(sundman.resume(part), whole())
    assert victim.read_text() == "precious\n"


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
