"""psi, the bounded decreasing function that turns the monitor's average into a step.

All named forms are one family, decreasing from M at zeta = 0 to m at zeta = infinity:

    psi(zeta) = (m k zeta^r + M) / (k zeta^r + 1) = m + (M - m) / (1 + k zeta^r)

    published:      k = 1               psi = m (zeta^r + M/m) / (zeta^r + 1)
    research_code:  k = 1/m             psi = m (zeta^r + M) / (zeta^r + m)
    scale_free:     k = (M-1) / (1-m)   psi(1) = 1; with m = 1/M, k = M and
                                        psi = (M + zeta^r) / (1 + M zeta^r)

The second way of writing it is the one computed: it stays in [m, M] for every zeta, infinite
ones too, and is exactly m where m = M. It follows that
psi_research_code(z) = psi_published(z / m^(1/r)).

Any other function will do that stays within the bounds it is said to have. That is checked where
the clock is made, for zeta from 0 to infinity, and beyond the zetas tried the step is clipped to
the bounds. It need not decrease for the averages to be right, only to be of use.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.value import Number

FORMS = ("published", "research_code", "scale_free")
_TRIED_ZETAS = np.concatenate([[0.0], np.geomspace(1e-30, 1e30, 601), [3e38, np.inf]])
_RELATIVE_TOLERANCE = 1e-5


def power(x: Array, exponent: float) -> Array:
    """x^exponent for x >= 0, by square roots where the exponent is 1, 1/2, 1/4, 1/8 or 2."""
    if exponent == 1:
        return x
    if exponent == 2:
        return x * x
    if exponent in (0.5, 0.25, 0.125):
        return jnp.sqrt(power(x, exponent * 2))
    return jnp.power(x, exponent)


def stretch_of(form: str, m: Number, M: Number) -> Number:
    """The constant k of a named form."""
    if form == "published":
        return 1.0
    if form == "research_code":
        return 1.0 / m
    return (M - 1.0) / (1.0 - m)


def psi(
    zeta: Array, *, m: Number | None, M: Number, r: float, form: str = "research_code"
) -> Array:
    """psi(zeta) of the named form, in [m, M].

    Args:
      zeta: the average, zero or more.
      m, M: the bounds.
      r: the exponent.
      form: ``"research_code"``, ``"published"`` or ``"scale_free"``.

    Returns:
      psi of every zeta.
    """
    m = check_psi(form, m=m, M=M, r=r)
    return m + (M - m) / (1.0 + stretch_of(form, m, M) * power(jnp.asarray(zeta), r))


def check_psi(
    form: str | Callable[[Array], Array], *, m: Number | None, M: Number, r: float | None
) -> Number:
    """Raise if psi cannot be of this form; returns m, by default 1/M of a scale-free psi."""
    if m is None and form == "scale_free":
        check.positive(M=M)
        m = 1.0 / M
    if m is None:
        raise TypeError(f"m, the lower bound of psi, is needed with psi={form!r}")
    check.bounds(m, M)
    if isinstance(form, str):
        check.choice("psi", form, FORMS)
        if r is None:
            raise TypeError(f"r, the exponent of zeta, is needed with psi={form!r}")
        check.positive(r=r)
        if form == "scale_free" and check.known(m) and check.known(M) and not m < 1.0 < M:
            raise ValueError(
                "the scale-free psi needs m < 1 < M, so that psi = 1 at the reference gradient; "
                f"got m={m!r}, M={M!r}"
            )
        return m
    if not callable(form):
        raise TypeError(f"psi must be a name or a function of zeta, got {form!r}")
    if r is not None:
        raise TypeError(f"r belongs to a psi with a name, not to a function; got r={r!r}")
    _check_range(form, m, M)
    return m


def _check_range(psi: Callable[[Array], Array], m: Number, M: Number) -> None:
    """A psi of the user's must turn every zeta into a number between its bounds."""
    zetas = jnp.asarray(_TRIED_ZETAS, jnp.float32)
    values = jax.vmap(psi)(zetas)
    if getattr(values, "shape", None) != zetas.shape:
        raise ValueError(
            f"psi must turn one number zeta into one number, got {values!r} for {zetas.size} zetas"
        )
    if not (check.known(m) and check.known(M)):
        return
    values = np.asarray(values, np.float64)
    wrong = ~(
        (values >= m * (1 - _RELATIVE_TOLERANCE)) & (values <= M * (1 + _RELATIVE_TOLERANCE))
    )  # nan is wrong
    if wrong.any():
        first = int(np.argmax(wrong))
        raise ValueError(
            f"psi must stay within its bounds m={m!r} and M={M!r}, but psi({zetas[first]:.6g}) = "
            f"{values[first]:.6g}; give the bounds it has, or change it there"
        )
