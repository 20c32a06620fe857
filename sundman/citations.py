"""BibTeX of the methods in this library: ``sundman.cite("sa_sgld")``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from sundman import check
from sundman.recipes import RECIPES

_OTHER_WORKS = {
    "badodab": "leimkuhler2016adaptive",
    "monge": "hartmann2022monge",
    "control-variate": "baker2019control",
    "svrg": "dubey2016variance",
    "threefry": "salmon2011parallel",
    "sundman": "sundman",
}
_ALWAYS_CITED = ("salmon2011parallel", "sundman")


@cache
def _bibliography() -> dict[str, str]:
    """The entries of references.bib by their keys."""
    text = resources.files("sundman").joinpath("references.bib").read_text(encoding="utf-8")
    entries = (entry.strip() for entry in re.split(r"\n\n(?=@)", text))
    return {entry.split("{", 1)[1].split(",", 1)[0]: entry for entry in entries}


def names() -> tuple[str, ...]:
    """What :func:`cite` knows by name: the samplers, and the other works."""
    return (*(each.option for each in RECIPES.values()), *_OTHER_WORKS)


def entries(sampler: object = None) -> Sequence[str]:
    """The BibTeX entries of :func:`cite`, one by one."""
    bibliography = _bibliography()
    if sampler is None:
        references = (key for each in RECIPES.values() for key in each.references)
        return (*bibliography.values(), *dict.fromkeys(filter(_is_entry, references)))
    return tuple(
        key if _is_entry(key) else bibliography[key] for key in dict.fromkeys(_keys(sampler))
    )


def _is_entry(reference: str) -> bool:
    """Whether a reference is BibTeX itself, and not a key of references.bib."""
    return reference.lstrip().startswith("@")


def cite(sampler: object = None) -> str:
    """The BibTeX of a sampler, of another work by name, or of everything used here.

    A sampler brings the papers of its integrator and its clock, of the generator behind its
    noise, and this library. An integrator of your own brings its ``references``, keys of this
    library's bibliography or BibTeX entries.

    Args:
      sampler: a sampler, or draws made by one; its name, hyphens or underscores; one of the names
        "badodab", "monge", "control_variate", "svrg", "threefry" and "sundman"; all
        entries if not given.
    """
    return "\n\n".join(entries(sampler))


def _keys(sampler: object) -> tuple[str, ...]:
    settings = getattr(sampler, "settings", {})
    references = getattr(sampler, "references", settings.get("references"))
    if references is None:
        name = str(getattr(sampler, "__name__", sampler)).replace("-", "_").lower()
        check.choice("sampler", name.replace("_", "-"), names())
        if name.replace("_", "-") in _OTHER_WORKS:
            return (_OTHER_WORKS[name.replace("_", "-")],)
        references = RECIPES[name].references
    return (*references, *_ALWAYS_CITED)
