"""psi, the bounded decreasing function that turns the monitor's average into a step.

All named forms are one family, decreasing from M at zeta = 0 to m at zeta = infinity:

    psi(zeta) = (m k zeta^r + M) / (k zeta^r + 1) = m + (M - m) / (1 + k zeta^r)

    paper:       k = 1                  psi = m (zeta^r + M/m) / (zeta^r + 1)
    code:        k = 1/m                psi = m (zeta^r + M) / (zeta^r + m)
    scale_free:  k = (M-1) / (1-m)      psi(1) = 1; with m = 1/M, k = M and
                                        psi = (M + zeta^r) / (1 + M zeta^r)

The second way of writing it is the one computed: it stays in [m, M] for every zeta, infinite
ones too, and is exactly m where m = M. It follows that psi_code(z) = psi_paper(z / m^(1/r)).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from sundman import check

FORMS = ("paper", "code", "scale_free")


def power(x: Array, exponent: Any) -> Array:
    """x^exponent for x >= 0, by square roots where the exponent is 1, 1/2, 1/4, 1/8 or 2."""
    if exponent == 1:
        return x
    if exponent == 2:
        return x * x
    if exponent in (0.5, 0.25, 0.125):
        return jnp.sqrt(power(x, exponent * 2))
    return jnp.power(x, exponent)


def stretch(form: str, m: Any, M: Any) -> Any:
    """The constant k of a named form."""
    check.choice("psi", form, FORMS)
    if form == "paper":
        return 1.0
    if form == "code":
        return 1.0 / m
    if not m < 1.0 < M:
        raise ValueError(
            "the scale-free psi needs m < 1 < M, so that psi = 1 at the reference gradient; "
            f"got m={m!r}, M={M!r}"
        )
    return (M - 1.0) / (1.0 - m)


def psi(zeta: Array, *, m: Any, M: Any, r: Any, form: str = "code") -> Array:
    """psi(zeta) of the named form, in [m, M]."""
    return scaled_psi(1.0, m=m, M=M, r=r, form=form)(jnp.asarray(zeta))


def scaled_psi(dtau: Any, *, m: Any, M: Any, r: Any, form: str) -> Callable[[Array], Array]:
    """zeta -> dtau psi(zeta), with every constant multiplied out beforehand."""
    check.bounds(m, M)
    check.positive(r=r)
    k = stretch(form, m, M)
    least, range_ = dtau * m, dtau * M - dtau * m

    def step(zeta: Array) -> Array:
        return least + range_ / (1.0 + k * power(zeta, r))

    return step
