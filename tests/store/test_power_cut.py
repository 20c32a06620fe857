"""A power cut at any moment: the run goes on from what was durable, and misses nothing.

What survives is simulated from the calls of fsync: the content a file had when it was last synced,
under the names its directory had when that was. In one variant nothing else survives; in the other
every name does, and what was not synced is empty, as file systems with delayed writing leave it.
The same on a real file system is below, for root where a loop device can be had.
"""

import os
import random
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path

import pytest

import sundman
from tests.run.test_kill import assert_identical, draws_done, finish, start
from tests.store.runs import Do, assert_same, run, whole

CUTS = 24
PACED_SECONDS = 150.0  # of a run that sleeps after each of its blocks


class Disk:
    """Remembers what is durable below a directory, and keeps images of it."""

    def __init__(self, root):
        self.root, self.synced = root, os.fsync
        self.contents, self.names, self.images, self.open = {}, {}, [], {}
        self.watching = True

    def fsync(self, descriptor):
        self.synced(descriptor)
        if not self.watching:
            return
        about = os.fstat(descriptor)
        if about.st_ino not in self.open:  # kept open, so that no other file gets its number
            self.open[about.st_ino] = os.dup(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self.image()
        if stat.S_ISDIR(about.st_mode):
            self.names[about.st_ino] = {p.name: p.stat().st_ino for p in path.iterdir()}
        else:
            self.contents[about.st_ino] = path.read_bytes()

    def image(self):
        """What would be there after a cut now, in both variants."""
        self.images.append((self._durable(self.root.stat().st_ino), self._named(self.root)))

    def _durable(self, inode):
        """Files and directories by name, as deep as they are durable."""
        return {
            name: self._durable(inner) if inner in self.names else self.contents.get(inner, b"")
            for name, inner in self.names.get(inode, {}).items()
        }

    def _named(self, path, tries=20):
        try:
            return {
                p.name: self._named(p) if p.is_dir() else self.contents.get(p.stat().st_ino, b"")
                for p in path.iterdir()
            }
        except FileNotFoundError:  # a thread of zarr gave a file its name meanwhile: look again
            if not tries:
                raise
            return self._named(path, tries - 1)


def put(image, where):
    where.mkdir()
    for name, content in image.items():
        if isinstance(content, dict):
            put(content, where / name)
        else:
            (where / name).write_bytes(content)


@pytest.fixture
def watched_disk(tmp_path, monkeypatch):
    (tmp_path / "disk").mkdir()
    disk = Disk(tmp_path / "disk")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", disk.fsync)
        patch.setattr("sundman.store.array_writer._WRITERS", 1)  # so that nothing moves meanwhile
        patch.setattr("sundman._files._SYNCERS", 1)
        yield disk
    for descriptor in disk.open.values():
        os.close(descriptor)


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    """A disk of the test before that still watches slows all later ones and keeps files open."""
    assert not isinstance(getattr(os.fsync, "__self__", None), Disk)


@pytest.fixture
def disk(watched_disk):
    """A disk on which a run was made."""
    run(watched_disk.root / "run")
    watched_disk.image()
    watched_disk.watching = False
    return watched_disk


def survives(image, where):
    """Whether the run is there; if it is, it goes on and misses nothing."""
    put(image, where)
    if not (where / "run").exists():
        return False
    assert_same(run(where / "run", resume=True), whole())
    return True


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("variant", [0, 1], ids=["nothing unsynced", "empty files"])
def test_power_cut(disk, tmp_path, variant):
    """Some of the moments; a finished run is whole."""
    images = [both[variant] for both in disk.images]
    assert len(images) > 100
    put(images[-1], tmp_path / "end")
    draws = sundman.Draws.open(tmp_path / "end" / "run")
    assert draws.settings["finished"]
    assert_same(draws, whole())
    moments = random.Random(variant).sample(range(len(images) // 2, len(images)), 4)
    assert all(survives(images[m], tmp_path / f"cut{m}") for m in moments)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_directories_made_on_the_way_are_durable_too(watched_disk, tmp_path):
    run(watched_disk.root / "runs" / "mnist" / "a")
    watched_disk.image()
    watched_disk.watching = False
    put(watched_disk.images[-1][0], tmp_path / "cut")
    assert_same(sundman.Draws.open(tmp_path / "cut" / "runs" / "mnist" / "a"), whole())


@pytest.mark.slow
@pytest.mark.parametrize("variant", [0, 1], ids=["nothing unsynced", "empty files"])
def test_power_cut_at_many_moments(disk, tmp_path, variant):
    images = [both[variant] for both in disk.images]
    moments = range(0, len(images), len(images) // (2 * CUTS))
    alive = [survives(images[m], tmp_path / f"cut{m}") for m in moments]
    assert sum(alive) >= CUTS
    assert alive == sorted(alive)  # once the run is there, it stays


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
@pytest.mark.parametrize("variant", [0, 1], ids=["nothing unsynced", "empty files"])
def test_power_cut_while_a_run_is_made_longer(watched_disk, tmp_path, variant):
    """It is there as it was, or longer, from the first moment to the last."""
    run(watched_disk.root / "run")
    before = len(watched_disk.images)
    sundman.extend(watched_disk.root / "run", draws=7)
    watched_disk.image()
    watched_disk.watching = False
    images = [both[variant] for both in watched_disk.images[before:]]
    wanted, lengths = {30: whole(), 37: run(draws=37)}, []
    for number, image in enumerate(images[:: len(images) // 12]):
        put(image, tmp_path / f"cut{number}")
        draws = sundman.resume(tmp_path / f"cut{number}" / "run")
        assert_same(draws, wanted[len(draws)])
        lengths.append(len(draws))
    assert {*lengths} == {30, 37}
    assert lengths == sorted(lengths)


@pytest.fixture
def ext4(tmp_path):
    """An ext4 file system on a loop device, and a function that copies it as a cut would."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("needs root and mkfs.ext4")
    image, mounted = tmp_path / "image", tmp_path / "mounted"

    def mount(file, where):
        where.mkdir()
        done = subprocess.run(["mount", "-o", "loop", file, where], capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no loop device: {done.stderr.strip()}")
        return where

    with image.open("wb") as file:
        file.truncate(128 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    mount(image, mounted)
    copies = []

    def cut():
        copy = tmp_path / f"copy{len(copies)}"
        subprocess.run(["cp", "--sparse=always", image, copy], check=True)
        copies.append(mount(copy, tmp_path / f"cut{len(copies)}"))
        return copies[-1]

    yield mounted, cut
    for where in (mounted, *copies):
        subprocess.run(["umount", where], check=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["toy", "bnn"])
def test_power_cut_on_ext4(ext4, tmp_path, kind):
    """The writer is stopped, and what has reached the device is copied."""
    mounted, cut = ext4
    reference = tmp_path / "whole"
    finish(kind, reference)
    total = len(sundman.Draws.open(reference))
    process, images = start(kind, mounted / "run"), []
    generator = random.Random(7)
    for moment in sorted(generator.sample(range(total * 3 // 4), 9)):
        while draws_done(mounted / "run") < moment and process.poll() is None:
            time.sleep(0.001)
        time.sleep(generator.uniform(0.0, 0.02))
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            images.append(cut())
            process.send_signal(signal.SIGCONT)
    process.communicate()
    images.append(cut())  # at once after the end
    assert len(images) == 10
    for image in images:
        finish(kind, image / "run")
        assert_identical(image / "run", reference)


@pytest.mark.slow
def test_power_cut_on_ext4_at_the_default_cadence(ext4, tmp_path):
    """Draws go to disk every ten seconds, states every thirty; twenty cuts at any moment."""
    mounted, cut = ext4
    process, images = start("paced", mounted / "run"), []
    while draws_done(mounted / "run") < 0:
        assert process.poll() is None
        time.sleep(0.01)
    generator, began = random.Random(8), time.monotonic()
    for moment in sorted(generator.uniform(0.0, PACED_SECONDS) for _ in range(19)):
        time.sleep(max(0.0, began + moment - time.monotonic()))
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            images.append(cut())
            process.send_signal(signal.SIGCONT)
    process.communicate()
    images.append(cut())
    assert len(images) == 20
    assert len({draws_done(image / "run") for image in images}) > 5
    for image in images:
        finish("paced", image / "run")
        assert_identical(image / "run", mounted / "run")


def test_the_first_state_is_durable_before_the_run_has_a_name(tmp_path, monkeypatch):
    """Every file of a new run, and every directory, is synced before it is renamed."""
    synced, seen = set(), []
    sync, rename = os.fsync, Path.rename

    def fsync(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def check(self, target):
        if self.name.endswith(".building"):
            inside = [self, *(p for p in self.rglob("*") if p.name != "lock")]
            seen.append([p for p in inside if p.stat().st_ino not in synced])
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", check)
    run(tmp_path / "run", watchers=[Do(99, lambda: None)])
    assert seen == [[]]
