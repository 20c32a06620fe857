"""Where the real files are: SUNDMAN_DATA_DIR, or shared/data next to the repository."""

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def data_directory(request) -> Path:
    """A directory with the folder that the test names by an indirect parameter."""
    folder = request.param
    variable = os.environ.get("SUNDMAN_DATA_DIR")
    for place in (Path(variable) if variable else None, _BESIDE):
        if place is not None and (place / folder).is_dir():
            return place
    pytest.skip(f"no folder {folder} in SUNDMAN_DATA_DIR={variable!r} nor in {_BESIDE}")


@pytest.fixture
def nowhere(tmp_path, monkeypatch) -> Path:
    """An empty cache and no SUNDMAN_DATA_DIR: nothing is found unless the test puts it there."""
    monkeypatch.delenv("SUNDMAN_DATA_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "sundman"
