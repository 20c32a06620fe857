"""Every code block of the README and of docs runs as printed, or says above it why it cannot.

The long pages are slow tests; `make docs-test` runs all of them.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import tomllib
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from docs import pages

ROOT = Path(__file__).parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
}
LANGUAGES = {"markdown", "python", "bash", "text", "toml"}
# These are followed by tests of their own, which put what they add into the library.
FOLLOWED = {"docs/adding.md", "docs/extending.md"}
# Pages whose program is done in three seconds, and in five; the others are slow tests.
QUICK = {
    "docs/api/run.md",
    "docs/noise.md",
    "docs/samplers.md",
}
LONG = {"docs/api/results.md", "docs/targets.md"}
MARKS = {name: [] for name in QUICK} | {name: [pytest.mark.long] for name in LONG}


def blocks(name: str) -> list[pages.Block]:
    return list(pages.blocks(PAGES[name].read_text(encoding="utf-8")))


WITH_PYTHON = [
    pytest.param(name, marks=MARKS.get(name, [pytest.mark.slow]))
    for name in sorted(set(PAGES) - FOLLOWED)
    if any(block.language == "python" and not block.not_run for block in blocks(name))
]


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_the_python_of_a_page_runs_as_printed(name: str) -> None:
    plt.switch_backend("Agg")
    shown = pages.outputs(PAGES[name].read_text(encoding="utf-8"))
    for ran in pages.run(PAGES[name], {}):
        if output := shown.get(ran.block.first):
            stored = pages.without_numbers(output.code)
            assert pages.without_numbers(pages.wrapped(ran.printed)) == stored
    plt.close("all")


def commands() -> list[tuple[str, str]]:
    found = []
    for name in PAGES:
        for block in blocks(name):
            if block.language == "bash" and block.not_run is None:
                lines = block.code.replace("\\\n", " ").splitlines()
                found += [(name, line.strip()) for line in lines if line.strip()]
    return found


@pytest.mark.long
@pytest.mark.parametrize("name, command", commands())
def test_a_command_is_one_that_there_is(name: str, command: str) -> None:
    words = shlex.split(command, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):  # a setting of the environment
        words.pop(0)
    if not words:  # a comment
        return
    program, *arguments = words
    {"sundman": sundman, "python": python, "pip": pip, "make": make}[program](arguments)


def sundman(arguments: list[str]) -> None:
    """The parser takes them."""
    import typer.main

    from sundman.cli.app import app

    group = typer.main.get_group(app)
    context = group.make_context("sundman", list(arguments))
    name, command, rest = group.resolve_command(context, arguments)
    assert command is not None
    command.make_context(name, rest, parent=context)


def python(arguments: list[str]) -> None:
    match arguments:
        case ["-m", module, *_]:
            assert importlib.util.find_spec(module) is not None
        case ["-c", code, *rest]:
            compile(code, "-c", "exec")
            sundman_options = [word for word in rest if word.startswith("--")]
            assert set(sundman_options) <= {"--sampler", "--seeds"}
        case [script, *_]:
            assert (ROOT / script).is_file(), script


def pip(arguments: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in re.findall(r"\w+", "".join(re.findall(r"\[(.*?)\]", " ".join(arguments)))):
        assert name in project["optional-dependencies"]


def make(arguments: list[str]) -> None:
    assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_has_a_language(name: str) -> None:
    assert {block.language for block in blocks(name)} <= LANGUAGES


@pytest.mark.parametrize("name", PAGES)
def test_no_block_is_made_by_indenting(name: str) -> None:
    """Such a block has no language, so that nobody would run it."""
    lines = PAGES[name].read_text(encoding="utf-8").splitlines()
    for block in blocks(name):
        lines[block.first : block.last] = ["."] * (block.last - block.first)
    inside = (
        ""  # the last line that is not indented: a list item or a note may have more paragraphs
    )
    for before, line in zip(["", *lines], lines, strict=False):
        indented = line.startswith("    ") and not before.strip()
        assert not indented or re.match(r"[-*] |\d+\. |!!! |\?\?\? ", inside), line
        if line and not line.startswith(" "):
            inside = line


def test_few_blocks_are_not_run() -> None:
    """One that cannot run needs machines, devices or accounts; count it here when you add it."""
    not_run = Counter(name for name in PAGES for block in blocks(name) if block.not_run)
    assert not_run == {"docs/index.md": 1, "docs/runs.md": 1, "docs/devices.md": 5}


@pytest.mark.parametrize("name", PAGES)
def test_links_to_the_repository_lead_to_files(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    for path in re.findall(r"github.com/sundman-project/sundman/(?:blob|raw)/main/([^)#]+)", text):
        assert (ROOT / path).is_file(), path


STUDIES = [str(path.relative_to(ROOT)) for path in ROOT.glob("studies/*/*.md")]


@pytest.mark.parametrize("name", ["studies/README.md", "CONTRIBUTING.md", "SECURITY.md", *STUDIES])
def test_relative_links_beside_the_pages_lead_to_files(name: str) -> None:
    page = ROOT / name
    for path in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / path).exists(), path
