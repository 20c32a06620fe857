"""Tables and lists of the samplers, made from their facts.

    python docs/tables.py [--check]

rewrites what is between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->`` in README.md and in the
pages of docs; with ``--check`` it writes nothing and fails if something is out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sundman import citations, contrib, integrators
from sundman.cli.samplers import names_by_kind
from sundman.recipes import Recipe
from sundman.recipes.registry import ordered

_ROOT = Path(__file__).parents[1]
_PAGES = (
    *("README.md", "docs/samplers.md", "docs/cli.md"),
    "docs/api/samplers.md",
)


def _order(recipe: Recipe) -> str:
    """The weak order, or that the law is wrong by design."""
    order = recipe.integrator.weak_order
    return "biased" if order is None else str(order)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    text = [" | ".join(["", *line, ""]).strip() for line in lines]
    return "\n".join(line.replace("| --- ", "|---").replace("--- |", "---|") for line in text)


def first_shelf() -> list[Recipe]:
    """The recipes that are not in contrib."""
    return [each for each in ordered() if not each.make.__module__.startswith(contrib.__name__)]


def short() -> str:
    """A row for each integrator, with the recipes that use it by their clocks."""
    by_integrator: dict[type, list[Recipe]] = {}
    for each in first_shelf():
        by_integrator.setdefault(each.integrator, []).append(each)

    def cell(recipes: Iterable[Recipe]) -> str:
        return ", ".join(f"`{each.name}`" for each in recipes)

    def row(recipes: Sequence[Recipe]) -> list[str]:
        fixed = (each for each in recipes if not (each.adaptive or each.in_cycles))
        adaptive = (each for each in recipes if each.adaptive)
        in_cycles = (each for each in recipes if each.in_cycles)
        label, order = recipes[0].integrator.label, _order(recipes[0])
        return [cell(fixed), cell(adaptive), cell(in_cycles), label, order]

    head = ["fixed step", "on the Sundman clock", "in cycles", "integrator", "order"]
    return _table(head, map(row, by_integrator.values()))


def _papers(recipe: Recipe) -> str:
    """Authors and years of what its clock and its integrator are cited by."""
    own = citations.entries(recipe.option)[: len(set(recipe.references))]  # then this library's
    return "; ".join(dict.fromkeys(map(_authors_and_year, own)))


def _authors_and_year(entry: str) -> str:
    """``Welling, Teh (2011)`` of a BibTeX entry."""
    matches = [
        re.search(rf"\b{name}\s*=\s*[{{\"]?(.+?)[}}\"]?,?\s*\n", entry, re.DOTALL)
        for name in ("author", "year")
    ]
    authors, year = (match.group(1) if match else "" for match in matches)
    names = [each.split(",")[0] for each in re.split(r"\s+and\s+", authors)]
    who = f"{names[0]} et al." if len(names) > 3 else ", ".join(names)
    return re.sub(r"[{}\\'\"]", "", f"{who} ({year})")


def full() -> str:
    """A row of facts for each recipe."""

    def row(each: Recipe) -> list[str]:
        momentum = "yes" if each.kinetic else "no"
        name = f"`{each.name}`"
        return [name, each.label, each.integrator.label, each.clock.label, _order(each), momentum]

    head = ["recipe", "in papers", "integrator", "clock", "order", "momentum", "what to cite"]
    return _table(head, ([*row(each), _papers(each)] for each in ordered()))


def _api(path: str, names: Iterable[str], **options: str) -> str:
    """What makes the API page of these names of a package."""
    lines = [f"members: [{', '.join(names)}]", *(f"{key}: {options[key]}" for key in options)]
    return "\n".join([f"::: {path}", "    options:", *(f"      {line}" for line in lines)])


def recipes_api() -> str:
    """The API page of the recipes."""
    headless = {"show_root_heading": "false", "show_root_toc_entry": "false"}
    return _api("sundman", (each.name for each in first_shelf()), **headless)


def integrators_api() -> str:
    """The API page of the integrators."""
    return _api("sundman.integrators", integrators.__all__)


REGIONS: dict[str, Callable[[], str]] = {
    "samplers": short,
    "sampler-facts": full,
    "network-sampler-names": lambda: f"Samplers of `sundman bnn`, {names_by_kind()}.",
    "recipes-api": recipes_api,
    "integrators-api": integrators_api,
}


def filled(text: str) -> str:
    """A page with its marked regions made anew."""

    def region(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        if name not in REGIONS:
            raise ValueError(f"there is no region {name!r}; there are {', '.join(REGIONS)}")
        return f"{begin}\n\n{REGIONS[name]()}\n\n{end}"

    marked = r"(<!-- ([\w-]+):begin -->)\n.*?(<!-- \2:end -->)"
    return re.sub(marked, region, text, flags=re.DOTALL)


def outdated(root: Path | None = None) -> dict[Path, str]:
    """The pages that are not up to date, as they should be."""
    paths = [(root or _ROOT) / name for name in _PAGES]
    pages = {path: path.read_text(encoding="utf-8") for path in paths}
    return {path: filled(text) for path, text in pages.items() if filled(text) != text}


def main(arguments: Sequence[str]) -> int:
    """Rewrite the pages, or with ``--check`` only name those that should be."""
    pages = outdated()
    for path, text in pages.items():
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        print(path.relative_to(_ROOT))
    return 1 if pages and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
