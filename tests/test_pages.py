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
FOLLOWED = {f"docs/adding{each}.md" for each in ("", "-data", "-prior", "-target")}
# Pages whose program is done in three seconds, and in five; the others are slow tests.
QUICK = {
    "docs/api/watch.md",
    "docs/lag.md",
    "docs/noise.md",
    "docs/optimizers.md",
    "docs/samplers.md",
}
LONG = {"docs/api/report.md", "docs/targets.md"}
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
    assert not_run == {"docs/index.md": 1, "docs/runs.md": 1, "docs/devices.md": 8}


@pytest.mark.parametrize("path", re.findall(r"\]\(([^)#:]+)\)", (ROOT / "README.md").read_text()))
def test_links_of_the_readme_lead_to_files(path: str) -> None:
    assert (ROOT / path).is_file()


# What a newcomer asks, where it is answered, and words of the answer in the first paragraph there.
QUESTIONS = {
    "How do I install it?": ("start.md#install", "pip install"),
    "What do I pass as temperature?": ("units.md", "Nothing: 1 is the posterior"),
    "What is N, and who needs it?": ("units.md", "`sundman.Posterior`, which knows its rows"),
    "Why are draws weighted?": ("weights.md", "fewer steps where it takes long ones"),
    "It says it should not be trusted yet. What now?": (
        "faq.md#the-run-says-it-should-not-be-trusted-what-now",
        "mostly that is a longer run",
    ),
    "How many chains?": ("faq.md#how-many-chains", "Four."),
    "How many steps?": ("faq.md#how-many-steps", "Until the verdict is good"),
    "Can I use my Flax model?": ("networks.md", r"Yes: a posterior takes any function"),
    "It does not fit into memory": ("faq.md#it-does-not-fit-into-memory", "`collect=`"),
    "NaN?": ("faq.md#my-chain-is-nan", "The step is too long"),
    "How do I go on with a run that was killed?": ("runs.md", r"`sundman.resume\(path\)`"),
    "What is zeta?": ("glossary.md#the-step", "running average of the squared norm"),
    "How large should a minibatch be?": (
        "faq.md#how-large-should-a-minibatch-be",
        "a quarter of the rows up to 500",
    ),
    "Which sampler do I take?": ("samplers.md", "None: leave it out"),
    "How wrong is the result?": ("bias.md", "There are two errors"),
    "R-hat of my network's weights is bad": (
        "faq.md#r-hat-of-the-weights-of-my-network-is-bad",
        "usual and does not decide",
    ),
    "My data is a table": ("cli.md#your-own-table", "The table needs a header"),
    "Can I keep my training loop?": (
        "faq.md#can-i-keep-my-training-loop",
        "a sampler is an optax gradient transformation",
    ),
}


def links(name: str) -> set[str]:
    """The pages that a page links to, with their sections."""
    text = PAGES[f"docs/{name}"].read_text(encoding="utf-8")
    return set(re.findall(r"\]\(([\w/-]+\.md(?:#[\w-]+)?)\)", text))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_two_clicks_away_in_the_first_paragraph(question: str) -> None:
    where, answer = QUESTIONS[question]
    page, _, section = where.partition("#")
    one_click = links("index.md")
    # The second click is the section's, in the table of contents beside the page.
    assert where in one_click or page in {link.partition("#")[0] for link in one_click}
    text = PAGES[f"docs/{page}"].read_text(encoding="utf-8")
    headings = re.findall(r"^#+ .+$", text, re.MULTILINE)
    named = {
        re.sub(r"[^\w -]", "", each.lstrip("# ").lower()).replace(" ", "-"): each
        for each in headings
    }
    start = text.index(named[section] if section else headings[0])
    lines = text[start:].split("\n", 1)[1].lstrip("\n")
    if section == "the-step":  # a glossary: the paragraph that begins with the word
        lines = lines[lines.index("**zeta**") :]
    if section in ("install", "your-own-table"):  # a command comes first
        first = "\n\n".join(lines.split("\n\n")[:2])
    else:
        first = lines.split("\n\n")[0]
    assert re.search(answer, first.replace("\n", " ")), first
