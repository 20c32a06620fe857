"""The Sundman clock: dt follows an exponential average of the gradient's norm.

    g_n        = ||G_n||^s / Omega + delta                   the monitor
    zeta_{n+1} = rho zeta_n + (1 - rho)/alpha g_n            its average, rho = exp(-alpha dtau)
    dt_{n+1}   = psi(zeta_{n+1}) dtau                        the step that leaves theta_n

A scalar zeta is a change of time: averages weighted by dt keep the target as dtau -> 0. One
zeta per tensor (``blockwise``) is not, and its averages stay biased.

``lag`` says which zeta sets the step. dt computed from the same noisy G_n as the drift is
correlated with it, a bias that does not vanish with dtau unless alpha dtau does:

    none:     psi(zeta_{n+1})                       the published order
    full:     psi(zeta_n)                           no correlation, but reacts a step late
    guarded:  psi(max(zeta_n, g_n / (alpha kappa))) late, except when the gradient jumps
"""

from __future__ import annotations

import math
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.clocks.base import Clock, ClockState, PyTree, advance, start, time_dtype
from sundman.clocks.psi import power, scaled_psi
from sundman.split import squared_norm

LAGS = ("none", "full", "guarded")


class SundmanSettings(TypedDict, total=False):
    """The settings every adaptive recipe hands to :func:`sundman`."""

    alpha: float
    m: float | None
    M: float
    r: float
    s: float
    omega: float
    delta: float
    psi: str
    lag: str
    kappa: float
    zeta_0: float | None
    blockwise: bool


def _squared_norms(grads: PyTree, dtype: Any, blockwise: bool) -> Array:
    squares = [squared_norm(leaf, dtype) for leaf in jax.tree.leaves(grads)]
    return jnp.stack(squares) if blockwise else sum(squares[1:], squares[0])


def sundman(
    dtau: float,
    *,
    alpha: float,
    M: float,
    r: float,
    m: float | None = None,
    s: float = 2.0,
    omega: float = 1.0,
    delta: float = 1e-8,
    psi: str = "code",
    lag: str = "none",
    kappa: float = 10.0,
    zeta_0: float | None = None,
    blockwise: bool = False,
) -> Clock:
    """The adaptive clock of SA-SGLD and SamAdams.

    With ``psi="scale_free"`` zeta is the average itself, z = rho z + (1 - rho) g, so omega is
    the reference gradient g_ref at which dt = dtau; m defaults to 1/M. See
    :func:`scale_free` for that clock in its own terms.

    Args:
      dtau: step of the transformed time; m dtau <= dt <= M dtau.
      alpha: rate of forgetting; a = alpha dtau is the memory's inverse in steps.
      m, M: bounds of psi.
      r: exponent of zeta in psi.
      s: exponent of the gradient norm in the monitor.
      omega: scale that divides the monitor.
      delta: added to the monitor, so that zeta stays positive.
      psi: ``"code"``, ``"paper"`` or ``"scale_free"``.
      lag: ``"none"``, ``"full"`` or ``"guarded"``.
      kappa: how much larger than its average the monitor must be for the guard to act.
      zeta_0: first zeta; by default the stationary value for the first gradient, g_0/alpha.
      blockwise: one zeta and one dt per leaf. Approximate: it samples another law.
    """
    check.positive(dtau=dtau, alpha=alpha, s=s, omega=omega, kappa=kappa)
    check.not_negative(delta=delta)
    check.choice("lag", lag, LAGS)
    form = psi.replace("-", "_")
    if m is None and form == "scale_free":
        check.positive(M=M)
        m = 1.0 / M
    if m is None:
        raise TypeError(f"m, the lower bound of psi, is needed with psi={psi!r}")
    step_of = scaled_psi(dtau, m=m, M=M, r=r, form=form)
    forget = -math.expm1(-alpha * dtau)
    stationary = 1.0 if form == "scale_free" else 1.0 / alpha
    if zeta_0 is not None:
        check.not_negative(zeta_0=zeta_0)

    def init(params: PyTree) -> ClockState:
        shape = (len(jax.tree.leaves(params)),) if blockwise else ()
        first = jnp.full(shape, 0.0 if zeta_0 is None else zeta_0, time_dtype(params))
        return start(params, first)

    def tick(state: ClockState, grads: PyTree, params: PyTree) -> tuple[PyTree, ClockState]:
        monitor = power(_squared_norms(grads, state.time.dtype, blockwise), s / 2.0)
        largest = jnp.finfo(state.time.dtype).max  # an infinite zeta would never be forgotten
        target = jnp.minimum((monitor / omega + delta) * stationary, largest)
        zeta = state.zeta
        assert zeta is not None  # init gave it
        if zeta_0 is None:
            zeta = jnp.where(state.step == 0, target, zeta)
        zeta_next = zeta + forget * (target - zeta)
        if lag == "none":
            effective = zeta_next
        elif lag == "full":
            effective = zeta
        else:
            effective = jnp.maximum(zeta, target / kappa)
        dt = step_of(effective)
        after = advance(state, jnp.mean(dt) if blockwise else dt, zeta_next)
        if blockwise:
            return jax.tree.unflatten(jax.tree.structure(params), list(dt)), after
        return after.dt, after

    settings = {
        "clock": "sundman",
        "dtau": dtau,
        "alpha": alpha,
        "m": m,
        "M": M,
        "r": r,
        "s": s,
        "omega": omega,
        "delta": delta,
        "psi": form,
        "lag": lag,
        "kappa": kappa,
        "zeta_0": zeta_0,
        "blockwise": blockwise,
    }
    return Clock(init, tick, settings, splits=True)


def scale_free(
    dtau: float,
    *,
    g_ref: float,
    a: float = 0.01,
    M: float = 10.0,
    m: float | None = None,
    r: float = 0.5,
    lag: str = "guarded",
    **settings: Any,
) -> Clock:
    """The Sundman clock in units of a reference squared gradient norm, with our defaults.

        z <- exp(-a) z + (1 - exp(-a)) ||G||^2 / g_ref,    dt = dtau (M + z^r) / (1 + M z^r)

    so dt = dtau where the squared norm is g_ref, and never leaves [dtau/M, M dtau].
    """
    check.positive(dtau=dtau, a=a, g_ref=g_ref)
    return sundman(
        dtau, alpha=a / dtau, m=m, M=M, r=r, omega=g_ref, psi="scale_free", lag=lag, **settings
    )
