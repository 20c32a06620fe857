"""Every sampler, once: the row a new sampler adds to the shared battery.

A row builds the sampler at a mean step near ``h`` for a target whose squared gradient norm is
near ``g_ref``, at temperature T, so that one table serves targets of any scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax

import sundman


class Row(NamedTuple):
    """How to build a sampler, and what its theory promises.

    Attributes:
      build: (h, T, g_ref) -> sampler.
      adaptive: whether dt varies.
      kinetic: whether there is a momentum, so that h is the root of an overdamped step.
      biased: whether its law is wrong by design, however small the step, with exact gradients.
      unfair: targets it is not made for.
      sharpness: the step in units of what the target's stiffness allows, in the battery.
      learns: steps in which it adapts; its draws count from then on.
    """

    build: Callable[[float, float, float], sundman.Sampler]
    adaptive: bool = False
    kinetic: bool = False
    biased: bool = False
    unfair: tuple[str, ...] = ()
    sharpness: float = 0.2
    learns: int = 0


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


def _adaptive(integrator: sundman.integrators.Integrator, h: float, g: float) -> sundman.Sampler:
    return sundman.compose(integrator, sundman.clocks.sundman(h, **_clock(h, g)))


def _in_cycles(h: float) -> dict:
    """Cycles of length 100 whose sampling stage, their second half, has a mean step near h.

    Exploration ends in the mode, and a basin must be mixed within a stage.
    """
    return {"h": 6.0 * h, "cycle": int(100 / h), "explore": 0.5}


ONLY_GAUSSIAN = ("twenty", "star", "funnel", "mixture")
EVERY = ("line", "plane", *ONLY_GAUSSIAN)


METRIC = sundman.metric_tensors.diagonal(
    lambda params: jax.tree.map(lambda x: (2.0 + x**2) / (1.0 + x**2), params),
    slope="elementwise",
)

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
    "sgnht_per_coordinate": Row(
        lambda h, T, g: sundman.compose(
            sundman.integrators.sgnht(T, gamma=2.0, per_coordinate=True), sundman.clocks.constant(h)
        ),
        kinetic=True,
    ),
    "obabo": Row(lambda h, T, g: sundman.obabo(h, T, gamma=2.0), kinetic=True),
    "sa_obabo": Row(
        lambda h, T, g: _adaptive(sundman.integrators.obabo(T, gamma=2.0), h, g), True, True
    ),
    "sgld_decreasing": Row(
        lambda h, T, g: sundman.compose(
            sundman.integrators.euler_maruyama(T), sundman.clocks.polynomial(h, offset=1e4)
        ),
        True,
    ),
    "sa_sgld_blockwise": Row(
        lambda h, T, g: sundman.sa_sgld(h, temperature=T, blockwise=True, **_clock(h, g)),
        True,
        unfair=EVERY,  # one array: the same as sa_sgld there; tests/law/test_blockwise.py has two
    ),
    "psgld": Row(
        lambda h, T, g: sundman.psgld(h * g**0.5, T, decay=0.5, eps=0.2 * g**0.5), biased=True
    ),
    "adam_sgld": Row(
        lambda h, T, g: sundman.adam_sgld(h * g**0.5, T, beta1=0.5, beta2=0.5, eps=0.2 * g**0.5),
        biased=True,
    ),
    "sgrld": Row(lambda h, T, g: sundman.sgrld(h, T, metric=METRIC)),
    "sa_sgrld": Row(
        lambda h, T, g: _adaptive(sundman.integrators.sgrld(T, metric=METRIC), h, g), True
    ),
    "sgrhmc": Row(lambda h, T, g: sundman.sgrhmc(h, T, metric=METRIC, gamma=2.0), kinetic=True),
    "cyclical_sgld": Row(
        lambda h, T, g: sundman.cyclical_sgld(temperature=T, **_in_cycles(h)), unfair=ONLY_GAUSSIAN
    ),
    "cyclical_sghmc": Row(
        lambda h, T, g: sundman.cyclical_sghmc(temperature=T, gamma=2.0, **_in_cycles(h)),
        kinetic=True,
        unfair=ONLY_GAUSSIAN,
    ),
    "replica_exchange_sgld": Row(
        lambda h, T, g: sundman.replica_exchange_sgld(h, T, ratios=(1.0, 2.0))
    ),
    "contour_sgld": Row(
        lambda h, T, g: sundman.contour_sgld(h, T, low=0.0, high=25.0 * (T or 1.0), learn=10_000),
        learns=10_000,
    ),
}
