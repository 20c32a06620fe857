"""What to cite for a run, as BibTeX: the software, the integrator's paper and the clock's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sundman

_ENTRIES = {
    "sa_sgld": """@misc{rajpal2025adaptive,
  title = {Adaptive Stepsizing for Stochastic Gradient {Langevin} Dynamics
           in {Bayesian} Neural Networks},
  author = {Rajpal, Rajit and Leimkuhler, Benedict and Jiang, Yuanhao},
  year = {2025},
  eprint = {2511.11666},
  archivePrefix = {arXiv}
}""",
    "samadams": """@misc{leimkuhler2025langevin,
  title = {A {Langevin} Sampling Algorithm Inspired by the {Adam} Optimizer},
  author = {Leimkuhler, Benedict and Lohmann, Ren{\\'e} and Whalley, Peter},
  year = {2025},
  eprint = {2504.18911},
  archivePrefix = {arXiv}
}""",
    "euler_maruyama": """@inproceedings{welling2011bayesian,
  title = {{Bayesian} Learning via Stochastic Gradient {Langevin} Dynamics},
  author = {Welling, Max and Teh, Yee Whye},
  booktitle = {Proceedings of the 28th International Conference on Machine Learning},
  year = {2011}
}""",
    "leimkuhler_matthews": """@article{leimkuhler2013rational,
  title = {Rational Construction of Stochastic Numerical Methods for Molecular Sampling},
  author = {Leimkuhler, Benedict and Matthews, Charles},
  journal = {Applied Mathematics Research eXpress},
  year = {2013}
}""",
    "sghmc": """@inproceedings{chen2014stochastic,
  title = {Stochastic Gradient {Hamiltonian} {Monte} {Carlo}},
  author = {Chen, Tianqi and Fox, Emily B. and Guestrin, Carlos},
  booktitle = {Proceedings of the 31st International Conference on Machine Learning},
  year = {2014}
}""",
    "sgnht": """@inproceedings{ding2014bayesian,
  title = {{Bayesian} Sampling Using Stochastic Gradient Thermostats},
  author = {Ding, Nan and Fang, Youhan and Babbush, Ryan and Chen, Changyou
            and Skeel, Robert D. and Neven, Hartmut},
  booktitle = {Advances in Neural Information Processing Systems 27},
  year = {2014}
}""",
}
_ENTRIES["baoab"] = _ENTRIES["leimkuhler_matthews"]


def software() -> str:
    """The entry of this library."""
    return f"""@software{{sundman,
  title = {{sundman: adaptive-stepsize {{Langevin}} samplers on {{JAX}}}},
  author = {{{{The sundman developers}}}},
  version = {{{sundman.__version__}}}
}}"""


def of_settings(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """The entries for a sampler with these settings, the library's first."""
    entries = [software()]
    if settings.get("clock") == "sundman":
        entries.append(_ENTRIES["sa_sgld"])
        entries.append(_ENTRIES["samadams"])
    integrator = settings.get("integrator")
    if integrator in _ENTRIES:
        entries.append(_ENTRIES[integrator])
    return tuple(entries)
