"""What ``import sundman`` brings in, and what it says where a package is missing."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sundman
from sundman._optional import MissingExtra, needs_extra

ROOT = Path(__file__).parents[1]
OPTIONAL = {
    *("arviz", "cloudpickle", "filelock", "matplotlib", "orbax", "rich", "sklearn"),
    *("tensorboardX", "typer", "zarr"),
}
HEAVY = {"blackjax", "equinox", "flax", "jax", "scipy", "torch"}

# These cannot be imported, as if they were not installed or not there on this system.
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({names!r}))\n"
SAMPLE = """
import jax, jax.numpy as jnp, sundman
def potential(x):
    return 0.5 * jnp.sum(x**2)
def run(**options):
    return sundman.sample(
        potential, sundman.sgld(1e-2), key=jax.random.key(0), init=jnp.zeros(2), steps=20,
        **options,
    )
"""


def output_of(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_sundman_is_light():
    code = "import sys, sundman; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = set(output_of(code).split())
    assert "sundman" in loaded
    assert not loaded & (OPTIONAL | HEAVY)


@pytest.mark.long
def test_sampling_in_memory_needs_no_optional_package():
    """Nor the locks of Unix: the optional packages and ``fcntl`` cannot be imported here."""
    names = OPTIONAL | {"fcntl"}
    code = WITHOUT.format(names=names) + SAMPLE + "print(run(online=lambda x: x**2).values.shape)"
    assert output_of(code) == "(1, 20, 2)\n"


@pytest.mark.long
def test_a_store_without_its_packages_names_the_extra(tmp_path):
    code = (
        WITHOUT.format(names=OPTIONAL)
        + SAMPLE
        + (
            f"""
try:
    run(store={str(tmp_path / "run")!r})
except ModuleNotFoundError as error:
    print(error)
"""
        )
    )
    assert "pip install 'sundman[store]'" in output_of(code)
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_the_command_without_its_packages_names_the_extra():
    code = "import sys; sys.stderr = sys.stdout\n" + WITHOUT.format(names=OPTIONAL)
    told = output_of(code + "from sundman.cli import run; print(run([]))")
    message = "sundman: the command line needs typer, which is not installed"
    assert told == f"{message}: pip install 'sundman[cli]'\n1\n"


def test_every_public_name_can_be_imported():
    """At once in a new process, so that no import hides behind the order of another."""
    code = "import sundman; print(*(name for name in dir(sundman) if hasattr(sundman, name)))"
    assert output_of(code, EAGER_IMPORT="1").split() == list(sundman.__all__)


# A name that a guide has the reader add.
ADDED = {"sundman.tamed_sgld"}
RESOLVE = """
import operator, sundman
for name in {names!r}:
    path = name.removeprefix("sundman.")
    assert path.split(".")[0] in sundman.__all__, name  # or it is there only by another's import
    operator.attrgetter(path)(sundman)
"""


def names_in_pages() -> set[str]:
    """``sundman.x.y`` as the pages write it, but not what they import or run by its path."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *ROOT.glob("docs/tutorials/*.md")]
    named = re.compile(r"(?<!from )(?<!import )(?<!-m )\bsundman(?:\.[A-Za-z_]\w*)+")
    return {name for page in pages for name in named.findall(page.read_text())}


def test_what_the_pages_name_is_there_after_a_bare_import():
    names = names_in_pages()
    assert {"sundman.sgld", "sundman.watch.Watcher", "sundman.value"} <= names
    output_of(RESOLVE.format(names=sorted(names - ADDED)))


def test_no_public_name_is_that_of_another_module():
    """An import of the module would put it in the name's place."""
    for statement in ast.parse((ROOT / "sundman/__init__.pyi").read_text()).body:
        if isinstance(statement, ast.ImportFrom) and statement.module is not None:
            for alias in statement.names:
                assert not (ROOT / "sundman" / alias.name).exists()
                assert not (ROOT / "sundman" / f"{alias.name}.py").exists()


@pytest.mark.parametrize(
    "what, told",
    [
        ({}, "this needs nowhere_to_be_found, which is not installed"),
        ({"what": "a dream"}, "a dream needs nowhere_to_be_found, which is not installed"),
    ],
)
def test_a_missing_package_is_told_with_its_extra(what, told):
    with (
        pytest.raises(MissingExtra, match=rf"^{told}: pip install 'sundman\[dreams\]'$"),
        needs_extra("dreams", **what),
    ):
        import nowhere_to_be_found.by_anyone  # noqa: F401


def test_a_missing_module_of_our_own_is_no_missing_package():
    with (
        pytest.raises(ModuleNotFoundError, match=r"No module named 'sundman\.nowhere'$"),
        needs_extra("store"),
    ):
        import sundman.nowhere  # noqa: F401


def test_the_version_is_said_once():
    assert importlib.metadata.version("sundman") == sundman.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, flags=re.M).group(1) == sundman.__version__
