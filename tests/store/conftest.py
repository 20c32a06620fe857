import shutil
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.store.runs import broken_off, run, set_small, small_pieces  # noqa: F401


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A finished run and one that was broken off, to be copied and damaged."""
    directory = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        set_small(patch)
        run(directory / "finished")
        broken_off(directory / "part")
    return directory


@pytest.fixture
def finished(made, tmp_path):
    return Path(shutil.copytree(made / "finished", tmp_path / "finished"))


@pytest.fixture
def part(made, tmp_path):
    return Path(shutil.copytree(made / "part", tmp_path / "part"))


class AtOnce:
    """Does at once what a thread would do."""

    def __init__(self, *arguments):
        pass

    def submit(self, job):
        future = Future()
        future.set_result(job())
        return future

    def shutdown(self):
        pass


@pytest.fixture
def writes_at_once(monkeypatch):
    """Draws are on disk before the next piece begins."""
    monkeypatch.setattr("sundman.run.disk_sink.ThreadPoolExecutor", AtOnce)
