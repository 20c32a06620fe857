"""Every public function has its place in docs/api."""

import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import sundman
from sundman import clocks, gradients, integrators, metric_tensors, priors, targets

TEXT = "\n".join(
    path.read_text() for path in Path(__file__).parents[1].joinpath("docs", "api").glob("*.md")
)
LISTED = set(re.findall(r"\w+", " ".join(re.findall(r"members: \[(.*)\]", TEXT))))
LISTED |= {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)", TEXT, re.MULTILINE)}


SHOWN = re.findall(r"^::: (\S+)(?:\n    options:\n      members: \[(.*)\])?", TEXT, re.MULTILINE)


@pytest.mark.parametrize("path, members", SHOWN, ids=[path for path, _ in SHOWN])
def test_what_a_page_shows_is_there(path: str, members: str) -> None:
    shown = pkgutil.resolve_name(path)
    if not isinstance(shown, ModuleType) and members:
        shown = importlib.import_module(path)  # a function that goes by the name of its module
    for name in re.findall(r"\w+", members):
        assert hasattr(shown, name), f"{path} has no {name}"


@pytest.mark.parametrize(
    "package",
    [
        sundman,
        clocks,
        clocks.monitors,
        gradients,
        integrators,
        metric_tensors,
        priors,
        targets,
    ],
    ids=lambda package: package.__name__,
)
def test_every_function_is_on_a_page(package: ModuleType) -> None:
    whole = set(sundman.recipes.__all__)  # their modules are shown as a whole
    public = {
        name: getattr(package, name).__name__  # a class that goes by a name in lower case
        for name in package.__all__
        if callable(getattr(package, name)) and name.islower()
    }
    assert public
    missing = {name for name, made_by in public.items() if not {name, made_by} & LISTED}
    assert missing <= whole
