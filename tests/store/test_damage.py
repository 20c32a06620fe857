"""Damaged stores: found and told, or passed over with a warning and the same draws."""

import json
import shutil

import numpy as np
import pytest

import sundman
from sundman.store import checkpoint
from sundman.store.files import StoreError
from tests.store.runs import DRAWS, ORBAX_FAILS, Do, assert_same, run, whole

pytestmark = ORBAX_FAILS


def truncated(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def emptied(file):
    file.write_bytes(b"")


def flipped(file):
    content = bytearray(file.read_bytes())
    if content:
        content[len(content) // 2] ^= 0x10
    file.write_bytes(bytes(content))


def deleted(file):
    file.unlink()


DAMAGES = (truncated, emptied, flipped, deleted)


def chunk(path, name):
    return next(file for file in (path / "draws.zarr" / name / "c").rglob("*") if file.is_file())


def read_all(path):
    draws = sundman.Draws.open(path)
    return [np.asarray(draws.values), draws.weight, dict(draws.stats)]


@pytest.mark.parametrize("name", ["values/x", "stats/time"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_chunk_is_told(finished, part, name, damage):
    damage(chunk(finished, name))
    with pytest.raises(StoreError, match="damaged"):
        read_all(finished)
    damage(chunk(part, name))
    with pytest.raises(StoreError, match="damaged"):
        sundman.resume(part)


def test_a_chunk_deleted_after_opening_is_not_read_as_nothing(finished):
    draws = sundman.Draws.open(finished)
    chunk(finished, "values/x").unlink()
    for index in [(slice(None), 3), (0, slice(2, 20, 3)), (slice(None), np.array([1, 5]))]:
        with pytest.raises(StoreError, match=r"draws \d+ to \d+ of 'values/x' are damaged"):
            draws.values[index]


def test_a_chunk_deleted_during_the_run_is_told(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(StoreError, match="missing"):
        run(path, watchers=[Do(8, lambda: chunk(path, "weight").unlink())])


@pytest.mark.parametrize("name", ["", "values", "values/x", "stats/time"])
@pytest.mark.parametrize("damage", [truncated, deleted])
def test_damaged_array_metadata(finished, part, name, damage):
    for path in (finished, part):
        damage(path / "draws.zarr" / name / "zarr.json")
    for action, path in [(read_all, finished), (sundman.resume, part)]:
        try:
            found = action(path)
        except StoreError:
            continue
        assert name in ("", "values")  # says nothing that matters
        if path == part:
            assert_same(found, whole())


def files_of(directory):
    return sorted(file.relative_to(directory) for file in directory.rglob("*") if file.is_file())


@pytest.mark.parametrize("damage", [truncated, flipped, deleted])
def test_every_file_of_a_checkpoint(part, tmp_path, damage):
    """Each is checked, or it does not matter."""
    newest = f"{checkpoint.numbers(part / 'checkpoints')[-1]:09d}"
    reference = checkpoint.load(part / "checkpoints", int(newest))
    harmless = []
    for file in files_of(part / "checkpoints" / newest):
        copy = tmp_path / "copy"
        shutil.copytree(part / "checkpoints", copy)
        damage(copy / newest / file)
        try:
            tree = checkpoint.load(copy, int(newest))
        except Exception:
            shutil.rmtree(copy)
            continue
        for group, arrays in reference.items():
            for name, array in arrays.items():
                np.testing.assert_array_equal(tree[group][name], array)
        harmless.append(str(file))
        shutil.rmtree(copy)
    assert len(harmless) < len(files_of(part / "checkpoints" / newest))


@pytest.mark.parametrize("damage", [truncated])
def test_the_checkpoint_before_is_used(part, damage):
    for file in files_of(part / "checkpoints"):
        if int(file.parts[0]) == checkpoint.numbers(part / "checkpoints")[-1]:
            damage(part / "checkpoints" / file)
    with pytest.warns(UserWarning, match="a checkpoint is damaged, going back"):
        draws = sundman.resume(part, checkpoint_every=1)
    assert_same(draws, whole())


def test_a_damaged_checkpoint_does_not_stay(part):
    """Else it would take the place of a good one."""
    *_, last = checkpoint.numbers(part / "checkpoints")
    truncated(part / "checkpoints" / f"{last:09d}" / "_METADATA")
    (part / "checkpoints" / "000000099").mkdir()
    with pytest.warns(UserWarning, match="going back"):
        sundman.resume(part)
    for number in checkpoint.numbers(part / "checkpoints"):
        checkpoint.load(part / "checkpoints", number)


def test_no_usable_checkpoint(part):
    for file in files_of(part / "checkpoints"):
        truncated(part / "checkpoints" / file)
    with pytest.raises(StoreError, match="no usable checkpoint"):
        sundman.resume(part)
    shutil.rmtree(part / "checkpoints")
    with pytest.raises(StoreError, match="no usable checkpoint"):
        sundman.resume(part)
    assert len(sundman.Draws.open(part)) > 0


def test_an_unfinished_checkpoint_is_not_one(part):
    directory = part / "checkpoints"
    newest = checkpoint.numbers(directory)[-1]
    litter = directory / f"{newest + 2:09d}.orbax-checkpoint-tmp-123"
    shutil.copytree(directory / f"{newest:09d}", litter)
    assert checkpoint.numbers(directory)[-1] == newest
    assert_same(sundman.resume(part), whole())
    assert not litter.exists()


@pytest.mark.parametrize("name", ["run.json", "progress.json", "structure.pkl", "call.pkl"])
@pytest.mark.parametrize("damage", [truncated, deleted])
def test_what_the_run_is_cannot_be_read(part, name, damage):
    damage(part / name)
    with pytest.raises(StoreError, match=name):
        sundman.resume(part)
    if name != "call.pkl":
        with pytest.raises(StoreError, match=name):
            sundman.Draws.open(part)


@pytest.mark.parametrize("name", ["run.json", "progress.json"])
@pytest.mark.parametrize("content", ["[]", "{}", "3", "null"])
def test_json_that_says_nothing(part, name, content):
    (part / name).write_text(content)
    with pytest.raises(StoreError, match=f"{name} is damaged"):
        sundman.Draws.open(part)


def test_a_newer_format_is_refused(part):
    about = json.loads((part / "run.json").read_text())
    (part / "run.json").write_text(json.dumps({"format": 99, "sundman": "9.0"}))
    for action in (sundman.Draws.open, sundman.resume, run_again):
        with pytest.raises(StoreError, match=r"sundman 9.0 in format 99, newer than the 2"):
            action(part)
    (part / "run.json").write_text(json.dumps(about))
    assert_same(run_again(part), whole())


def run_again(path):
    return run(path, resume=True)


def test_more_draws_said_than_there_are(part):
    progress = json.loads((part / "progress.json").read_text())
    (part / "progress.json").write_text(json.dumps({**progress, "draws": 10 * DRAWS}))
    with pytest.raises(StoreError, match="damaged"):
        sundman.Draws.open(part)
