"""Damaged stores: found and told, or passed over with a warning and the same draws."""

import json
import shutil
import zipfile
from pathlib import Path

import jax
import numpy as np
import pytest

import sundman
from sundman.store import checkpoint
from sundman.store.directory import open_run
from sundman.store.files import StoreError, StoreWarning, read_json, write_json
from tests.store.runs import DRAWS, Crash, Do, assert_same, broken_off, crash, run, whole

FORMAT_3 = Path(__file__).with_name("format_3.zip")


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


def chunk(path, name, index=0):
    return sorted((path / "draws.zarr" / name).glob("c.*"))[index]


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
        read_all(part)
    with pytest.warns(StoreWarning, match="is damaged, going back to draw 0: .*damaged"):
        draws = sundman.resume(part)
    assert_same(draws, whole())


@pytest.mark.parametrize("damage", [truncated, deleted])
def test_a_finished_run_with_a_damaged_chunk_is_made_whole(finished, damage):
    """What is missing or cut short is found when the run is opened."""
    damage(chunk(finished, "weight"))
    with pytest.warns(StoreWarning, match="is damaged, going back to draw 0: .*damaged"):
        assert_same(sundman.resume(finished), whole())
    assert_same(sundman.Draws.open(finished), whole())
    assert sundman.Draws.open(finished).settings["finished"]


def test_an_altered_chunk_of_a_finished_run_is_made_again_as_the_message_says(finished):
    """It is found when it is read."""
    flipped(chunk(finished, "weight"))
    with pytest.raises(
        StoreError, match=r"or remove it, and sundman\.resume makes its draws again"
    ):
        sundman.resume(finished).weight  # noqa: B018
    chunk(finished, "weight").unlink()
    with pytest.warns(StoreWarning, match="going back to draw 0"):
        assert_same(run_again(finished), whole())


def test_a_verdict_is_that_of_the_run_and_its_draws(finished):
    verdict = read_json(finished / "verdict.json", {})
    assert verdict["run"] == open_run(finished).id
    assert verdict["draws"] == DRAWS
    edited = {**verdict, "status": "good", "draws": DRAWS - 1}
    write_json(finished / "verdict.json", edited)  # by a process that read it before it was longer
    assert sundman.Draws.open(finished).verdict is None
    assert sundman.resume(finished).verdict.status == "unknown"
    assert read_json(finished / "verdict.json", {}) == verdict
    for owner in ({"run": "0" * 32}, {}):
        nobodys = {n: v for n, v in verdict.items() if n != "run"}
        write_json(finished / "verdict.json", {**nobodys, **owner})
        with pytest.raises(StoreError, match=r"verdict.json is damaged: it is that of another run"):
            sundman.Draws.open(finished)


def test_a_verdict_of_an_earlier_format_has_no_id(finished):
    verdict = read_json(finished / "verdict.json", {})
    about = read_json(finished / "run.json", {})
    write_json(finished / "verdict.json", {n: verdict[n] for n in ("status", "reasons", "note")})
    write_json(finished / "run.json", {**about, "format": 4})
    assert sundman.Draws.open(finished).verdict.status == "unknown"


def test_nothing_is_removed_through_a_link(part, tmp_path):
    (part / "checkpoints").rename(tmp_path / "elsewhere")
    (part / "checkpoints").symlink_to(tmp_path / "elsewhere")
    precious = tmp_path / "elsewhere" / "000000099.npz"
    precious.write_text("mine")
    with pytest.raises(StoreError, match="checkpoints is a link, and a run has none"):
        sundman.resume(part)
    assert precious.read_text() == "mine"


@pytest.mark.long
@pytest.mark.parametrize("name", ["values/x", "stats/time"])
def test_chunks_in_another_place_are_told(tmp_path, monkeypatch, name):
    """Each is whole, and what was written: only not there."""
    monkeypatch.setattr("sundman.store.array_writer._CHUNK_BYTES", 64)
    run(tmp_path / "run")
    run(tmp_path / "other", key=jax.random.key(8))
    first, second = chunk(tmp_path / "run", name), chunk(tmp_path / "run", name, 1)
    one, two = first.read_bytes(), second.read_bytes()
    foreign = chunk(tmp_path / "other", name).read_bytes()
    for contents in [(two, one), (one, one), (two, two), (foreign, two)]:
        first.write_bytes(contents[0])
        second.write_bytes(contents[1])
        with pytest.raises(StoreError, match=rf"of '{name}' are damaged.*not what was written"):
            read_all(tmp_path / "run")
    first.write_bytes(one)
    second.write_bytes(two)
    read_all(tmp_path / "run")


@pytest.mark.long
@pytest.mark.parametrize("name", ["progress.json", "call.json", "checkpoints/000000006.npz"])
def test_files_of_another_run_are_told(part, tmp_path, name):
    broken_off(tmp_path / "other", key=jax.random.key(8))
    (part / name).write_bytes((tmp_path / "other" / name).read_bytes())
    if "checkpoints" in name:
        with pytest.warns(StoreWarning, match="it is not state 6 of this run"):
            assert_same(sundman.resume(part), whole())
    else:
        with pytest.raises(StoreError, match=f"{name} is damaged: it is that of another run"):
            sundman.resume(part)


def test_a_state_under_another_number_is_told(part):
    *_, before, last = checkpoint.numbers(part / "checkpoints")
    files = [part / "checkpoints" / f"{number:09d}.npz" for number in (before, last)]
    files[1].write_bytes(files[0].read_bytes())
    with pytest.warns(StoreWarning, match=f"it is not state {last} of this run"):
        assert_same(sundman.resume(part), whole())


def test_all_states_but_the_first(part):
    """The first one is kept, and the run can always go back to it."""
    assert checkpoint.numbers(part / "checkpoints")[0] == 0
    for number in checkpoint.numbers(part / "checkpoints")[1:]:
        truncated(part / "checkpoints" / f"{number:09d}.npz")
    with pytest.warns(StoreWarning, match="going back to draw 0"):
        assert_same(sundman.resume(part), whole())


def test_a_chunk_deleted_after_opening_is_not_read_as_nothing(finished):
    draws = sundman.Draws.open(finished)
    chunk(finished, "values/x").unlink()
    for index in [(slice(None), 3), (0, slice(2, 20, 3)), (slice(None), np.array([1, 5]))]:
        with pytest.raises(StoreError, match=r"draws \d+ to \d+ of 'values/x' are damaged"):
            draws.values[index]


@pytest.mark.usefixtures("writes_at_once")
def test_a_chunk_deleted_during_the_run_is_told(tmp_path):
    path = tmp_path / "run"
    with pytest.raises(StoreError, match="missing"):
        run(path, watchers=[Do(8, lambda: chunk(path, "weight").unlink())])


@pytest.mark.parametrize("name", ["", "values", "values/x", "stats/time"])
@pytest.mark.parametrize("damage", [truncated, deleted])
def test_damaged_array_metadata(finished, part, name, damage):
    for path in (finished, part):
        damage(path / "draws.zarr" / name / "zarr.json")
    if name in ("", "values"):  # says nothing that matters
        read_all(finished)
    else:
        for path in (finished, part):
            with pytest.raises(StoreError, match=r"zarr.json is (damaged|missing)"):
                read_all(path)


def test_metadata_of_another_array(finished):
    ours, other = (finished / "draws.zarr" / name / "zarr.json" for name in ("values/x", "weight"))
    ours.write_bytes(other.read_bytes())
    with pytest.raises(StoreError, match=r"zarr.json is damaged: it is not that of 'values/x'"):
        read_all(finished)


@pytest.mark.parametrize("name", ["run.json", "progress.json", "verdict.json"])
def test_a_number_changed_by_hand(finished, name):
    text = (finished / name).read_text()
    changed = text.replace('"draws": 30', '"draws": 29').replace('"status": "', '"status": "x')
    (finished / name).write_text(changed)
    assert text != changed
    with pytest.raises(StoreError, match=f"{name} is damaged: its checksum does not fit"):
        sundman.Draws.open(finished)


def test_no_json_of_a_run_has_what_json_does_not_know(tmp_path):
    """Infinity and NaN are not JSON; they come back as numbers."""
    run(tmp_path / "run")
    write_json(tmp_path / "run" / "odd.json", {"much": np.inf, "none": [np.nan]})

    def refuse(name):
        raise AssertionError(name)

    for file in (tmp_path / "run").rglob("*.json"):
        json.loads(file.read_text(), parse_constant=refuse)
    odd = read_json(tmp_path / "run" / "odd.json", {"much": float, "none": list})
    assert odd["much"] == np.inf
    assert np.isnan(odd["none"][0])


def files_of(directory):
    return sorted(file.relative_to(directory) for file in directory.rglob("*") if file.is_file())


@pytest.mark.long
@pytest.mark.parametrize("damage", DAMAGES)
def test_the_checkpoint_before_is_used(part, damage):
    last = checkpoint.numbers(part / "checkpoints")[-1]
    damage(part / "checkpoints" / f"{last:09d}.npz")
    if damage is deleted:
        draws = sundman.resume(part, checkpoint_every=1)
    else:
        with pytest.warns(StoreWarning, match=r"is damaged, going back to draw 8"):
            draws = sundman.resume(part, checkpoint_every=1)
    assert_same(draws, whole())


def test_every_byte_of_a_checkpoint_is_checked(part):
    """Each flip is found, or changes nothing that is read."""
    directory, (*_, last) = part / "checkpoints", checkpoint.numbers(part / "checkpoints")
    file, run_id = directory / f"{last:09d}.npz", open_run(part).id
    content, reference = file.read_bytes(), checkpoint.load(directory, open_run(part).id, last)
    found = 0
    for place in range(0, len(content), 97):
        flipped_content = bytearray(content)
        flipped_content[place] ^= 0x10
        file.write_bytes(bytes(flipped_content))
        try:
            tree = checkpoint.load(directory, run_id, last)
        except StoreError:
            found += 1
            continue
        for group, arrays in reference.items():
            for name, array in arrays.items():
                np.testing.assert_array_equal(tree[group][name], array)
    assert found > 10


def test_a_damaged_checkpoint_does_not_stay(part):
    """Else it would take the place of a good one."""
    *_, last = checkpoint.numbers(part / "checkpoints")
    truncated(part / "checkpoints" / f"{last:09d}.npz")
    (part / "checkpoints" / "000000099.npz").write_bytes(b"")
    with pytest.warns(StoreWarning, match="going back"):
        sundman.resume(part)
    for number in checkpoint.numbers(part / "checkpoints"):
        checkpoint.load(part / "checkpoints", open_run(part).id, number)


def test_no_usable_checkpoint(part):
    for file in (part / "checkpoints").iterdir():
        truncated(file)
    with pytest.raises(StoreError, match="no usable checkpoint"):
        sundman.resume(part)
    shutil.rmtree(part / "checkpoints")
    with pytest.raises(StoreError, match="no usable checkpoint"):
        sundman.resume(part)
    assert len(sundman.Draws.open(part)) > 0


def test_chunks_after_the_checkpoint_are_dropped(tmp_path, monkeypatch):
    """Those that count and those that do not; the run then writes them anew."""
    monkeypatch.setattr("sundman.store.array_writer._CHUNK_BYTES", 40)
    path = tmp_path / "run"
    broken_off(path, piece=8, checkpoint_every=4)  # after 24 draws, with a state after 8
    chunks = path / "draws.zarr" / "weight"
    (chunks / "c.0.14").write_bytes(b"beyond all that counts")
    assert {file.name for file in chunks.glob("c.*")} == {f"c.0.{i}" for i in (*range(4), 14)}
    with pytest.raises(Crash):
        sundman.resume(path, watchers=[Do(5, crash)])
    assert len(sundman.Draws.open(path)) == 8
    assert {file.name for file in chunks.glob("c.*")} == {"c.0.0", "c.0.1"}
    assert_same(sundman.resume(path), whole())


def test_half_written_files_are_removed(part):
    litter = [
        part / "checkpoints" / "000000010.npz.123.partial",
        part / "draws.zarr" / "weight" / "c.0.0.123.partial",
        part / "progress.json.123.partial",
    ]
    for file in litter:
        file.write_bytes(b"half")
    assert checkpoint.numbers(part / "checkpoints")[-1] == 6
    assert_same(sundman.resume(part), whole())
    assert not any(file.exists() for file in litter)


@pytest.mark.parametrize("name", ["run.json", "progress.json", "call.json", "data.npz"])
@pytest.mark.parametrize("damage", [truncated, deleted])
def test_what_the_run_is_cannot_be_read(part, name, damage):
    damage(part / name)
    with pytest.raises(StoreError, match=name):
        sundman.resume(part)
    if name not in ("call.json", "data.npz"):
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
        with pytest.raises(StoreError, match=r"sundman 9.0 in format 99, newer than the 5"):
            action(part)
    (part / "run.json").write_text(json.dumps(about))
    assert_same(run_again(part), whole())


def test_the_format_before_is_read(tmp_path):
    """A run that was written in format 3."""
    with zipfile.ZipFile(FORMAT_3) as archive:
        archive.extractall(tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_text())["format"] == 3
    draws = sundman.Draws.open(tmp_path / "run")
    assert draws.settings["finished"]
    assert draws.verdict.status == "unknown"
    np.testing.assert_allclose(np.sum(draws.values), -31.315918, rtol=1e-6)
    np.testing.assert_allclose(np.sum(draws.weight), 2.2922695, rtol=1e-6)
    np.testing.assert_allclose(draws.online.equal[0], [0.77523578, 3.04468068], rtol=1e-6)
    np.testing.assert_allclose(draws.last[0], [-0.62398845, -1.97689164], rtol=1e-6)
    np.testing.assert_array_equal(draws.stats["dt"], draws.weight)
    assert len(sundman.resume(tmp_path / "run")) == DRAWS


def test_the_format_before_goes_on(part):
    about = read_json(part / "run.json", {})
    del about["in_main"]
    write_json(part / "run.json", {**about, "format": 3})
    assert_same(sundman.resume(part), whole())
    assert_same(sundman.extend(part, draws=6), run(draws=36))


def run_again(path):
    return run(path, resume=True)


def test_more_draws_said_than_there_are(part):
    progress = json.loads((part / "progress.json").read_text())
    (part / "progress.json").write_text(json.dumps({**progress, "draws": 10 * DRAWS}))
    with pytest.raises(StoreError, match="damaged"):
        sundman.Draws.open(part)
