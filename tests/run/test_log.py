"""Logs of a run: complete lines, valid JSON, and no trace of what a resumed run does again."""

import json
import math
import os
import sys

import numpy as np
import pytest

from sundman.watch.events import BlockReport, Summary
from sundman.watch.log import JsonLines, TensorBoard, read_log, truncate_log


def report(block: int, *, stage: str = "sampling", mean: float = 0.5) -> BlockReport:
    draws = 0 if stage == "burn-in" else 10 * (block - 2)
    stats = {} if stage == "burn-in" else {"dt": Summary(mean, 0.1, math.inf)}
    return BlockReport(stage, block, draws, 100, 10 * block, None, 4, 1, 0.5 * block, stats)


def write_run(path, last: int = 6, **keep) -> None:
    log = JsonLines(path, **keep)
    log.start({"sampler": "samsgld", "temperature": np.float32(0.5), "alpha": 1.0})
    for block in range(1, last + 1):
        log.block(report(block, stage="burn-in" if block < 3 else "sampling"))
    log.event("divergence", "chain 2 diverged", chain=np.int64(2))
    log.close(True)


def strictly(text: str) -> dict:
    def refuse(constant: str):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_lines_are_valid_json_and_complete(tmp_path):
    path = tmp_path / "deep" / "log.jsonl"
    write_run(path)
    lines = [strictly(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["start", *["block"] * 6, "divergence", "end"]
    assert lines[0]["temperature"] == 0.5
    assert lines[0]["time"].endswith("+00:00")
    block = lines[3]
    assert block.pop("time") >= lines[0]["time"]
    assert block == {
        "event": "block",
        "stage": "sampling",
        "block": 3,
        "draws": 10,
        "total_draws": 100,
        "steps": 30,
        "total_steps": None,
        "chains": 4,
        "diverged": 1,
        "seconds": 1.5,
        "stats": {"dt": {"mean": 0.5, "low": 0.1, "high": None}},
    }
    assert lines[1]["stats"] == {}
    assert (lines[7]["message"], lines[7]["chain"]) == ("chain 2 diverged", 2)
    assert lines[8]["ok"] is True
    assert read_log(path)[8] == lines[8]


def test_settings_that_are_no_json_are_written_all_the_same(tmp_path):
    log = JsonLines(tmp_path / "log.jsonl")
    odd = {"x": np.array([1.0, np.nan]), "f": math.sqrt, "n": -math.inf, "event": "mine", 3: {4: 5}}
    log.start(odd)
    log.close(False)
    first, last = read_log(tmp_path / "log.jsonl")
    assert (first["event"], first["x"], first["n"]) == ("start", [1.0, None], None)
    assert "sqrt" in first["f"]
    assert first["3"] == {"4": 5}
    assert last["ok"] is False


def test_each_line_is_on_disk_at_once(tmp_path):
    log = JsonLines(tmp_path / "log.jsonl")
    log.start({})
    log.block(report(3))
    assert [line["event"] for line in read_log(tmp_path / "log.jsonl")] == ["start", "block"]
    log.close(True)


def test_runs_are_appended(tmp_path):
    write_run(tmp_path / "log.jsonl")
    write_run(tmp_path / "log.jsonl")
    assert len(read_log(tmp_path / "log.jsonl")) == 18


def test_a_torn_last_line_is_not_read_and_not_written_after(tmp_path):
    path = tmp_path / "log.jsonl"
    write_run(path)
    whole = path.read_bytes()
    for cut in range(1, len(whole.splitlines()[-1]) + 1):
        path.write_bytes(whole[:-cut])
        assert len(read_log(path)) == (9 if cut == 1 else 8)
    write_run(path)
    assert len(read_log(path)) == 8 + 9


def test_a_line_broken_in_the_middle_is_reported(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"event": "start"}\n{"eve\n{"event": "end"}\n')
    with pytest.raises(ValueError, match=r"log\.jsonl.*line 2"):
        read_log(path)


@pytest.mark.parametrize(
    ("draws", "steps", "blocks"), [(20, 40, 4), (29, 49, 4), (20, math.inf, 4), (0, 10, 1)]
)
def test_blocks_beyond_the_checkpoint_are_dropped(tmp_path, draws, steps, blocks):
    path = tmp_path / "log.jsonl"
    write_run(path)
    before = read_log(path)
    path.write_bytes(path.read_bytes() + b'{"event": "blo')
    truncate_log(path, draws, steps)
    kept = [line for line in before if line["event"] != "block" or line["block"] <= blocks]
    assert read_log(path) == kept
    assert path.read_bytes().endswith(b"}\n")
    assert os.listdir(tmp_path) == ["log.jsonl"]


def test_a_resumed_log_has_each_block_once(tmp_path):
    path = tmp_path / "log.jsonl"
    write_run(path)
    log = JsonLines(path, keep_draws=20, keep_steps=40)
    log.start({})
    for block in (5, 6, 7):
        log.block(report(block))
    log.close(True)
    blocks = [line["block"] for line in read_log(path) if line["event"] == "block"]
    assert blocks == [1, 2, 3, 4, 5, 6, 7]


def test_the_old_log_stays_if_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    path = tmp_path / "log.jsonl"
    write_run(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        truncate_log(path, 20, 40)
    assert path.read_bytes() == before


def test_a_log_that_is_fit_is_not_rewritten_and_none_is_made(tmp_path):
    path = tmp_path / "log.jsonl"
    write_run(path)
    inode = path.stat().st_ino
    truncate_log(path)
    assert path.stat().st_ino == inode
    truncate_log(tmp_path / "none.jsonl", 1, 1)
    assert not (tmp_path / "none.jsonl").exists()


def test_a_log_that_is_not_open_says_so(tmp_path):
    log = JsonLines(tmp_path / "log.jsonl")
    log.close(True)
    with pytest.raises(RuntimeError, match=r"log\.jsonl.*start"):
        log.block(report(3))


def events(directory) -> list:
    from tensorboardX.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]

    found = []
    for file in sorted(directory.iterdir()):
        data = file.read_bytes()
        while data:  # a record: length (8), its checksum (4), the event, its checksum (4)
            length = int.from_bytes(data[:8], "little")
            found.append(Event.FromString(data[12 : 12 + length]))
            data = data[16 + length :]
    return found


def scalars(directory) -> dict[tuple[str, int], float]:
    return {
        (value.tag, event.step): value.simple_value
        for event in events(directory)
        for value in event.summary.value
        if value.HasField("simple_value")
    }


def test_tensorboard_scalars(tmp_path):
    board = TensorBoard(tmp_path)
    board.start({"sampler": "samsgld"})
    board.block(report(1, stage="burn-in"))
    board.block(report(3, mean=0.25))
    board.block(report(4, mean=math.nan))
    board.event("divergence", "chain 2 diverged", chain=2)
    board.close(True)
    board.close(True)
    found = scalars(tmp_path)
    assert found["dt/mean", 30] == 0.25
    assert found["run/diverged", 10] == 1
    assert found["run/draws", 40] == 20
    assert ("dt/mean", 40) not in found
    assert ("dt/high", 30) not in found


def test_a_resumed_tensorboard_hides_what_is_done_again(tmp_path):
    board = TensorBoard(tmp_path, keep_steps=40)
    board.start({})
    board.close(True)
    begun = [event.step for event in events(tmp_path) if event.HasField("session_log")]
    assert begun == [41]


def test_tensorboard_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"pip install 'sundman\[tensorboard\]'"):
        TensorBoard(tmp_path)
