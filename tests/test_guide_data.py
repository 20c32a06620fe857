"""The guide to adding a data set, followed to the letter: one function, one registration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from sundman import data
from sundman.data import base

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
GUIDE = PAGE.split("\n## A data set\n")[1].split("\n## ")[0]
FUNCTION, REGISTRATION = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.S)


@pytest.fixture(scope="module", autouse=True)
def followed() -> Iterator[None]:
    """``spirals``, registered; then undone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "REGISTRY", base.REGISTRY.copy())
        names = {"register": data.register}
        exec(FUNCTION + REGISTRATION, names)
        yield
    assert "spirals" not in data.names()


def test_it_is_found_by_its_name() -> None:
    spirals = data.named("spirals", split=3, directory=None, download=False)
    assert (len(spirals.train.y), len(spirals.test.y), spirals.classes) == (400, 200, 2)
    assert spirals.train.x.dtype == np.float32
    assert not np.array_equal(spirals.test.x, data.named("spirals").test.x)
    with pytest.raises(ValueError, match="option"):
        data.named("spirals", spilt=3)
    with pytest.raises(ValueError, match="spirals"):
        data.named("circles")


@pytest.mark.slow
def test_the_command_line_knows_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from sundman.cli import options, run

    monkeypatch.setattr(options, "use_compilation_cache", lambda wanted: None)
    assert run(["bnn", "--help"]) == 0
    assert "spirals" in capsys.readouterr().out
    assert run(["bnn", "sprials"]) == 2
    assert "did you mean spirals?" in capsys.readouterr().err
    assert run(["bnn"]) == 2
    assert "spirals" in capsys.readouterr().err
    where = tmp_path / "out"
    few = ["--epochs", "300", "--sampler", "samadams", "--prior", "gaussian"]
    assert run(["bnn", "spirals", "--split", "1", *few, "--output", str(where)]) == 0
    out = capsys.readouterr().out
    assert "400 rows to train on, 200 held out" in out
    assert "Two spirals in the plane, split 1." in out
    scores = json.loads((where / "results.json").read_text())["scores"]["seed-0"]
    assert scores["accuracy %"] > 90


@pytest.mark.parametrize(
    ("name", "load", "message"),
    [("Two_moons", data.digits, "lower-case"), ("mnist", data.digits, "already"), ("x", 3, "load")],
)
def test_what_cannot_be_registered(name: str, load: object, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        data.register(name, load)


def test_what_is_no_data_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "REGISTRY", base.REGISTRY.copy())
    data.register("pair", lambda: (np.zeros((3, 1)), np.zeros(3)))
    with pytest.raises(TypeError, match=r"must be a sundman\.data\.Dataset"):
        data.named("pair")
