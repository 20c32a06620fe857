"""The code blocks of the README and of the pages here: found, run as printed, their output stored.

    python docs/pages.py docs/tutorials/*.md

runs pages and rewrites what they show. The Python blocks of a page are one program. After a block

- a block ```` ```text title="output" ```` holds what it has printed, warnings included,
- a picture, ``![what it shows](NAME.png)``, is the matplotlib figure that it has left open.

A block that cannot run has the line ``<!-- not run: why -->`` above it. ``tests/test_pages.py``
runs all others, and compares what they print, numbers aside, with what the page shows.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
WIDTH = 100  # characters of a stored line
_FENCE = re.compile(r"^```(\w*) *(.*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
_PICTURE = re.compile(r"^!\[[^\]]*\]\(([^)]+\.png)\)")
_NUMBER = re.compile(r"[-+]?\d[\d,_]*(?:\.\d*)?(?:e[-+]?\d+)?|\bnan\b|\binf\b")


class Block(NamedTuple):
    """A fenced block of a page.

    Attributes:
      language: the first word after the fence.
      output: whether it holds what the block before it has printed.
      code: its text.
      first, last: the numbers of its first and last line in the page, from 0, without the fences.
      not_run: why it is not run, or None.
    """

    language: str
    output: bool
    code: str
    first: int
    last: int
    not_run: str | None


def blocks(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = text.splitlines()
    above, number = "", 0
    while number < len(lines):
        if fence := _FENCE.match(lines[number]):
            last = number + 1
            while lines[last] != "```":
                last += 1
            code = "\n".join([*lines[number + 1 : last], ""])
            reason = _NOT_RUN.match(above)
            output = fence[2] == 'title="output"'
            yield Block(fence[1], output, code, number + 1, last, reason and reason[1])
            number = last
        if lines[number]:
            above = lines[number]
        number += 1


class Ran(NamedTuple):
    """A block that was run, and what it has printed."""

    block: Block
    printed: str


def run(path: Path, names: dict[str, object]) -> Iterator[Ran]:
    """Run the Python blocks of a page in order, in a directory of their own.

    Args:
      path: the page.
      names: the namespace of its program, which is filled.
    """
    text = path.read_text(encoding="utf-8")
    names.setdefault("__name__", "__main__")
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        for block in blocks(text):
            if block.language == "python" and block.not_run is None:
                code = compile("\n" * block.first + block.code, str(path), "exec")
                with _printed() as stream:
                    exec(code, names)
                yield Ran(block, stream.getvalue())


@contextlib.contextmanager
def _printed() -> Iterator[io.StringIO]:
    """Standard output, with warnings in it as a user sees them."""
    stream = io.StringIO()

    def show(message: Warning | str, category: type[Warning], *_: object) -> None:
        print(f"{category.__name__}: {message}", file=stream)

    width = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(WIDTH)
    try:
        with contextlib.redirect_stdout(stream), warnings.catch_warnings():
            warnings.simplefilter("always", category=UserWarning)
            warnings.showwarning = show
            yield stream
    finally:
        os.environ.pop("COLUMNS")
        if width is not None:
            os.environ["COLUMNS"] = width


def wrapped(printed: str) -> str:
    """Printed text with its long lines broken, and without blanks at their ends."""
    lines = (line.rstrip() for line in printed.splitlines())
    broken = (textwrap.fill(line, WIDTH) if len(line) > WIDTH else line for line in lines)
    return "\n".join(broken).strip("\n") + "\n"


def without_numbers(printed: str) -> str:
    """What remains the same on another machine: the words; numbers in brackets may be padded."""
    words = _NUMBER.sub("#", re.sub("[\u2581-\u2588]+", "", printed))
    unpadded = re.sub(r"(?<=[\[(])\s+|\s+(?=[\])])", "", words)
    return re.sub(r"\s+", " ", unpadded).strip()


def outputs(text: str) -> dict[int, Block]:
    """The blocks that hold output, by the first line of the Python block before them."""
    found: dict[int, Block] = {}
    before: Block | None = None
    for block in blocks(text):
        if block.output and before is not None:
            found[before.first] = block
        if block.language == "python":
            before = block
    return found


def _pictures(text: str) -> dict[int, list[str]]:
    """The paths of the pictures after each Python block, by its first line."""
    lines = text.splitlines()
    starts = [block for block in blocks(text) if block.language == "python"]
    ends = [*(block.first for block in starts[1:]), len(lines)]
    return {
        block.first: [
            match[1] for line in lines[block.last : end] if (match := _PICTURE.match(line))
        ]
        for block, end in zip(starts, ends, strict=True)
    }


def _save_figures(page: Path, pictures: list[str]) -> None:
    """The open figures as the pictures that follow, in order; then they are closed."""
    import matplotlib.pyplot as plt

    figures = [plt.figure(number) for number in plt.get_fignums()]
    if len(figures) != len(pictures):
        raise ValueError(f"{page}: {len(figures)} figures for the pictures {pictures}")
    for figure, picture in zip(figures, pictures, strict=True):
        target = (page.parent / picture).resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, dpi=160, metadata={"Software": None})
    plt.close("all")


def refresh(path: Path) -> None:
    """Run a page and rewrite its outputs and pictures."""
    import matplotlib as mpl

    mpl.use("Agg")
    path = path.resolve()
    text = path.read_text(encoding="utf-8")
    shown, pictures = outputs(text), _pictures(text)
    new: list[tuple[Block, str]] = []
    for ran in run(path, {}):
        if output := shown.get(ran.block.first):
            new.append((output, wrapped(ran.printed)))
        if pictures[ran.block.first]:
            _save_figures(path, pictures[ran.block.first])
    lines = text.splitlines()
    for output, printed in reversed(new):
        lines[output.first : output.last] = printed.splitlines()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, flush=True)
        refresh(Path(name))
