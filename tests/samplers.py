"""Every sampler, once: the row a new sampler adds to the shared battery.

A row builds the sampler at a mean step near ``h`` for a target whose squared gradient norm is
near ``g_ref``, at temperature T, so that one table serves targets of any scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import sundman


class Row(NamedTuple):
    """How to build a sampler, and what its theory promises.

    Attributes:
      build: (h, T, g_ref) -> sampler.
      adaptive: whether dt varies.
      kinetic: whether there is a momentum, so that h is the root of an overdamped step.
      biased: whether its law is wrong by design, however small the step.
      unfair: targets it is not made for.
      sharpness: the step in units of what the target's stiffness allows, in the battery.
    """

    build: Callable[[float, float, float], sundman.Sampler]
    adaptive: bool = False
    kinetic: bool = False
    biased: bool = False
    unfair: tuple[str, ...] = ()
    sharpness: float = 0.2


def _clock(h: float, g_ref: float, a: float = 0.01) -> dict:
    return {
        "alpha": a / h,
        "m": 0.25,
        "M": 4.0,
        "r": 0.25,
        "omega": g_ref,
        "psi": "scale_free",
        "lag": "guarded",
    }


SAMPLERS: dict[str, Row] = {
    "sgld": Row(lambda h, T, g: sundman.sgld(h, T)),
    "sgld_three_point": Row(lambda h, T, g: sundman.sgld(h, T, noise="three_point")),
    "sa_sgld": Row(lambda h, T, g: sundman.sa_sgld(h, temperature=T, **_clock(h, g)), True),
    "lm": Row(lambda h, T, g: sundman.lm(h, T)),
    "sa_lm": Row(lambda h, T, g: sundman.sa_lm(h, temperature=T, **_clock(h, g)), True),
    "sghmc": Row(lambda h, T, g: sundman.sghmc(h, T, gamma=2.0), kinetic=True),
    "sa_sghmc": Row(
        lambda h, T, g: sundman.sa_sghmc(h, temperature=T, gamma=2.0, **_clock(h, g)), True, True
    ),
    "baoab": Row(lambda h, T, g: sundman.baoab(h, T, gamma=2.0), kinetic=True),
    "samadams": Row(
        lambda h, T, g: sundman.samadams(h, temperature=T, gamma=2.0, **_clock(h, g)), True, True
    ),
    "sgnht": Row(lambda h, T, g: sundman.sgnht(h, T, gamma=2.0), kinetic=True),
    "sa_sgnht": Row(
        lambda h, T, g: sundman.sa_sgnht(h, temperature=T, gamma=2.0, **_clock(h, g)), True, True
    ),
}
