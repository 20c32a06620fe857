"""Every sampler, once: the row a new sampler adds to the shared battery.

A row builds the sampler at a mean step near ``h`` for a target whose squared gradient norm is
near ``g_ref``, at temperature T, so that one table serves targets of any scale.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax

import sundman
from sundman import clocks


class Row(NamedTuple):
    """How to build a sampler for the battery; what it is, it says by itself.

    Attributes:
      build: (h, T, g_ref) -> sampler.
      unfair: targets it is not made for.
      sharpness: the step in units of what the target's stiffness allows, in the battery.
      learns: steps in which it adapts; its draws count from then on.
    """

    build: Callable[[float, float, float], sundman.Sampler]
    unfair: tuple[str, ...] = ()
    sharpness: float = 0.2
    learns: int = 0

    @property
    def example(self) -> sundman.Sampler:
        """The sampler at some step."""
        return self.build(0.01, 1.0, 10.0)

    @property
    def adaptive(self) -> bool:
        """Whether dt varies while it samples."""
        return isinstance(self.example.clock, (clocks.sundman, clocks.polynomial))

    @property
    def kinetic(self) -> bool:
        """Whether there is a momentum, so that h is the root of an overdamped step."""
        return self.example.kinetic

    @property
    def biased(self) -> bool:
        """Whether its integrator's law is wrong by design, however small the step."""
        return self.example.integrator.biased


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


METRIC = sundman.contrib.metric_tensors.diagonal(
    lambda params: jax.tree.map(lambda x: (2.0 + x**2) / (1.0 + x**2), params),
    slope="elementwise",
)

SAMPLERS: dict[str, Row] = {
    "sgld": Row(lambda h, T, g: sundman.sgld(h, T)),
    "sgld_three_point": Row(lambda h, T, g: sundman.sgld(h, T, noise="three_point")),
    "sa_sgld": Row(lambda h, T, g: sundman.sa_sgld(h, temperature=T, **_clock(h, g))),
    "lm": Row(lambda h, T, g: sundman.lm(h, T)),
    "sa_lm": Row(lambda h, T, g: sundman.sa_lm(h, temperature=T, **_clock(h, g))),
    "sghmc": Row(lambda h, T, g: sundman.sghmc(h, T, gamma=2.0)),
    "sa_sghmc": Row(lambda h, T, g: sundman.sa_sghmc(h, temperature=T, gamma=2.0, **_clock(h, g))),
    "baoab": Row(lambda h, T, g: sundman.baoab(h, T, gamma=2.0)),
    "samadams": Row(lambda h, T, g: sundman.samadams(h, temperature=T, gamma=2.0, **_clock(h, g))),
    "sgnht": Row(lambda h, T, g: sundman.sgnht(h, T, gamma=2.0)),
    "sa_sgnht": Row(lambda h, T, g: sundman.sa_sgnht(h, temperature=T, gamma=2.0, **_clock(h, g))),
    "sgnht_per_coordinate": Row(
        lambda h, T, g: sundman.compose(
            sundman.integrators.sgnht(T, gamma=2.0, per_coordinate=True), sundman.clocks.constant(h)
        ),
    ),
    "obabo": Row(lambda h, T, g: sundman.obabo(h, T, gamma=2.0)),
    "ubu": Row(lambda h, T, g: sundman.ubu(h, T, gamma=2.0)),
    "sa_obabo": Row(lambda h, T, g: _adaptive(sundman.integrators.obabo(T, gamma=2.0), h, g)),
    "sgld_decreasing": Row(
        lambda h, T, g: sundman.compose(
            sundman.integrators.euler_maruyama(T), sundman.clocks.polynomial(h, offset=1e4)
        ),
    ),
    "sa_sgld_blockwise": Row(
        lambda h, T, g: sundman.sa_sgld(h, temperature=T, blockwise=True, **_clock(h, g)),
        unfair=EVERY,  # one array: the same as sa_sgld there; tests/law/test_blockwise.py has two
    ),
    "psgld": Row(lambda h, T, g: sundman.contrib.psgld(h * g**0.5, T, decay=0.5, eps=0.2 * g**0.5)),
    "adam_sgld": Row(
        lambda h, T, g: sundman.contrib.adam_sgld(
            h * g**0.5, T, beta1=0.5, beta2=0.5, eps=0.2 * g**0.5
        ),
    ),
    "sgrld": Row(lambda h, T, g: sundman.contrib.sgrld(h, T, metric=METRIC)),
    "sa_sgrld": Row(
        lambda h, T, g: _adaptive(sundman.contrib.integrators.sgrld(T, metric=METRIC), h, g)
    ),
    "sgrhmc": Row(lambda h, T, g: sundman.contrib.sgrhmc(h, T, metric=METRIC, gamma=2.0)),
    "cyclical_sgld": Row(
        lambda h, T, g: sundman.cyclical_sgld(temperature=T, **_in_cycles(h)), unfair=ONLY_GAUSSIAN
    ),
    "cyclical_sghmc": Row(
        lambda h, T, g: sundman.cyclical_sghmc(temperature=T, gamma=2.0, **_in_cycles(h)),
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
