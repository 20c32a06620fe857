"""BibTeX of the methods in this library: ``sundman.cite("sa_sgld")``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sundman import check

_ENTRIES = {
    "sa-sgld": """@misc{rajpal2025sasgld,
  title         = {Adaptive Stepsizing for Stochastic Gradient {L}angevin Dynamics in {B}ayesian
                   Neural Networks},
  author        = {Rajpal, Rajit and Leimkuhler, Benedict and Jiang, Yuanhao},
  year          = {2025},
  eprint        = {2511.11666},
  archivePrefix = {arXiv},
}""",
    "samadams": """@misc{leimkuhler2025samadams,
  title         = {A {L}angevin sampling algorithm inspired by the {A}dam optimizer},
  author        = {Leimkuhler, Benedict and Lohmann, Ren{\\'e} and Whalley, Peter},
  year          = {2025},
  eprint        = {2504.18911},
  archivePrefix = {arXiv},
}""",
    "sgld": """@inproceedings{welling2011sgld,
  title     = {{B}ayesian Learning via Stochastic Gradient {L}angevin Dynamics},
  author    = {Welling, Max and Teh, Yee Whye},
  booktitle = {Proceedings of the 28th International Conference on Machine Learning},
  pages     = {681--688},
  year      = {2011},
}""",
    "sghmc": """@inproceedings{chen2014sghmc,
  title     = {Stochastic Gradient {H}amiltonian {M}onte {C}arlo},
  author    = {Chen, Tianqi and Fox, Emily and Guestrin, Carlos},
  booktitle = {Proceedings of the 31st International Conference on Machine Learning},
  pages     = {1683--1691},
  year      = {2014},
}""",
    "sgnht": """@inproceedings{ding2014sgnht,
  title     = {{B}ayesian Sampling Using Stochastic Gradient Thermostats},
  author    = {Ding, Nan and Fang, Youhan and Babbush, Ryan and Chen, Changyou and
               Skeel, Robert D. and Neven, Hartmut},
  booktitle = {Advances in Neural Information Processing Systems 27},
  year      = {2014},
}""",
    "badodab": """@article{leimkuhler2016adaptive,
  title   = {Adaptive Thermostats for Noisy Gradient Systems},
  author  = {Leimkuhler, Benedict and Shang, Xiaocheng},
  journal = {SIAM Journal on Scientific Computing},
  volume  = {38},
  number  = {2},
  pages   = {A712--A736},
  year    = {2016},
}""",
    "lm": """@article{leimkuhler2013rational,
  title   = {Rational Construction of Stochastic Numerical Methods for Molecular Sampling},
  author  = {Leimkuhler, Benedict and Matthews, Charles},
  journal = {Applied Mathematics Research eXpress},
  volume  = {2013},
  number  = {1},
  pages   = {34--56},
  year    = {2013},
}""",
    "baoab": """@article{leimkuhler2013robust,
  title   = {Robust and efficient configurational molecular sampling via {L}angevin dynamics},
  author  = {Leimkuhler, Benedict and Matthews, Charles},
  journal = {The Journal of Chemical Physics},
  volume  = {138},
  number  = {17},
  pages   = {174102},
  year    = {2013},
}""",
    "threefry": """@inproceedings{salmon2011parallel,
  title     = {Parallel random numbers: as easy as 1, 2, 3},
  author    = {Salmon, John K. and Moraes, Mark A. and Dror, Ron O. and Shaw, David E.},
  booktitle = {Proceedings of the International Conference for High Performance Computing,
               Networking, Storage and Analysis},
  year      = {2011},
}""",
    "sundman": """@software{sundman,
  title   = {sundman: adaptive-stepsize {L}angevin samplers on {JAX}},
  author  = {{The sundman developers}},
  version = {0.1.0},
  license = {Apache-2.0},
}""",
}
_ALWAYS = ("threefry", "sundman")
_SAMPLERS = {
    "sgld": ("sgld",),
    "sa-sgld": ("sa-sgld", "sgld"),
    "lm": ("lm",),
    "sa-lm": ("lm", "sa-sgld"),
    "sghmc": ("sghmc",),
    "sa-sghmc": ("sghmc", "samadams"),
    "baoab": ("baoab", "lm"),
    "samadams": ("samadams", "baoab"),
    "sgnht": ("sgnht", "badodab"),
    "sa-sgnht": ("sgnht", "badodab", "samadams"),
}
_INTEGRATORS = {
    "euler_maruyama": "sgld",
    "leimkuhler_matthews": "lm",
    "sghmc": "sghmc",
    "baoab": "baoab",
    "sgnht": "sgnht",
}
_ADAPTIVE = {"sgld": "sa-sgld", "lm": "sa-lm", "sghmc": "sa-sghmc"}
_ADAPTIVE |= {"baoab": "samadams", "sgnht": "sa-sgnht"}


def names() -> tuple[str, ...]:
    """What :func:`cite` knows by name: the samplers, and the other works."""
    return tuple(dict.fromkeys([*_SAMPLERS, *_ENTRIES]))


def entries(sampler: Any = None) -> Sequence[str]:
    """The BibTeX entries of :func:`cite`, one by one."""
    if sampler is None:
        return tuple(_ENTRIES.values())
    name = _name(sampler)
    works = (*_SAMPLERS[name], *_ALWAYS) if name in _SAMPLERS else (name,)
    return tuple(_ENTRIES[work] for work in works)


def cite(sampler: Any = None) -> str:
    """The BibTeX of a sampler, of another work by name, or of everything used here.

    A sampler brings the papers of its integrator and its clock, of the generator behind its
    noise, and this library.

    Args:
      sampler: a sampler; its name, hyphens or underscores; one of the names "badodab",
        "threefry" and "sundman"; all entries if it is not given.
    """
    return "\n\n".join(entries(sampler))


def _name(sampler: Any) -> str:
    settings = getattr(sampler, "settings", None)
    if settings is None:
        name = str(getattr(sampler, "__name__", sampler)).replace("_", "-").lower()
        check.choice("sampler", name, names())
        return name
    check.choice("the sampler's integrator", settings.get("integrator"), tuple(_INTEGRATORS))
    fixed = _INTEGRATORS[settings["integrator"]]
    return _ADAPTIVE[fixed] if settings.get("clock") == "sundman" else fixed
