"""BibTeX of the methods in this library: ``sundman.cite("sa_sgld")``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from sundman import check

_OF_INTEGRATOR = {
    "euler_maruyama": ("welling2011sgld",),
    "leimkuhler_matthews": ("leimkuhler2013rational",),
    "sghmc": ("chen2014sghmc",),
    "baoab": ("leimkuhler2013robust", "leimkuhler2013rational"),
    "obabo": ("bussi2007accurate",),
    "sgnht": ("ding2014sgnht", "leimkuhler2016adaptive"),
    "psgld": ("li2016psgld",),
    "adam_sgld": ("kingma2015adam", "kim2022adaptive"),
    "sgrld": ("patterson2013sgrld", "ma2015recipe"),
    "sgrhmc": ("ma2015recipe",),
    "replica_exchange": ("deng2020replica",),
    "contour": ("deng2020contour",),
}
_OF_CLOCK = {
    "sundman": ("rajpal2025sasgld", "leimkuhler2025samadams"),
    "cyclical": ("zhang2020cyclical",),
    "polynomial": ("welling2011sgld", "teh2016consistency"),
}
_SAMPLERS = {
    "sgld": ("euler_maruyama", "constant"),
    "sa-sgld": ("euler_maruyama", "sundman"),
    "lm": ("leimkuhler_matthews", "constant"),
    "sa-lm": ("leimkuhler_matthews", "sundman"),
    "samadams": ("baoab", "sundman"),
    "sa-sghmc": ("sghmc", "sundman"),
    "sa-sgnht": ("sgnht", "sundman"),
    "cyclical-sgld": ("euler_maruyama", "cyclical"),
    "cyclical-sghmc": ("sghmc", "cyclical"),
    "replica-exchange-sgld": ("replica_exchange", "constant"),
    "contour-sgld": ("contour", "constant"),
}
for _name in ("sghmc", "baoab", "obabo", "sgnht", "psgld", "adam_sgld", "sgrld", "sgrhmc"):
    _SAMPLERS[_name.replace("_", "-")] = (_name, "constant")
_OTHERS = {
    "badodab": "leimkuhler2016adaptive",
    "monge": "hartmann2022monge",
    "control-variate": "baker2019control",
    "svrg": "dubey2016variance",
    "saga": "dubey2016variance",
    "importance": "putcha2023preferential",
    "threefry": "salmon2011parallel",
    "sundman": "sundman",
}
_ALWAYS = ("salmon2011parallel", "sundman")


@cache
def _bibliography() -> dict[str, str]:
    """The entries of references.bib by their keys."""
    text = resources.files("sundman").joinpath("references.bib").read_text(encoding="utf-8")
    found = (entry.strip() for entry in re.split(r"\n\n(?=@)", text))
    return {entry.split("{", 1)[1].split(",", 1)[0]: entry for entry in found}


def names() -> tuple[str, ...]:
    """What :func:`cite` knows by name: the samplers, and the other works."""
    return (*_SAMPLERS, *_OTHERS)


def entries(sampler: Any = None) -> Sequence[str]:
    """The BibTeX entries of :func:`cite`, one by one."""
    bibliography = _bibliography()
    if sampler is None:
        return tuple(bibliography.values())
    return tuple(bibliography[key] for key in dict.fromkeys(_keys(sampler)))


def cite(sampler: Any = None) -> str:
    """The BibTeX of a sampler, of another work by name, or of everything used here.

    A sampler brings the papers of its integrator and its clock, of the generator behind its
    noise, and this library.

    Args:
      sampler: a sampler; its name, hyphens or underscores; one of the names "badodab", "monge",
        "control_variate", "svrg", "saga", "threefry" and "sundman"; all entries if not given.
    """
    return "\n\n".join(entries(sampler))


def _keys(sampler: Any) -> tuple[str, ...]:
    settings = getattr(sampler, "settings", None)
    if settings is None:
        name = str(getattr(sampler, "__name__", sampler)).replace("_", "-").lower()
        check.choice("sampler", name, names())
        if name in _OTHERS:
            return (_OTHERS[name],)
        integrator, clock = _SAMPLERS[name]
    else:
        integrator = settings.get("moves_by", settings.get("integrator"))
        clock = settings.get("clock")
        check.choice("the sampler's integrator", integrator, tuple(_OF_INTEGRATOR))
    return (*_OF_CLOCK.get(clock, ()), *_OF_INTEGRATOR[integrator], *_ALWAYS)
