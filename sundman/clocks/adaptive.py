"""The Sundman clock: dt follows an exponential average of the gradient's norm.

    g_n        = ||G_n||^s / Omega + delta                   the monitor
    zeta_{n+1} = rho zeta_n + (1 - rho)/alpha g_n            its average, rho = exp(-alpha dtau)
    dt_{n+1}   = psi(zeta_{n+1}) dtau                        the step that leaves theta_n

A scalar zeta is a change of time: averages weighted by dt keep the target as dtau -> 0. One
zeta per tensor (``blockwise``) is not, and its averages stay biased.
Other numbers to watch than the norm are in :mod:`sundman.clocks.monitors`.

``lag`` says which zeta sets the step. dt computed from the same noisy G_n as the drift is
correlated with it, a bias that does not vanish with dtau unless alpha dtau does:

    none:     psi(zeta_{n+1})                       the published order
    full:     psi(zeta_n)                           no correlation, but reacts a step late
    guarded:  psi(max(zeta_n, g_n / (alpha kappa))) late, except when the gradient jumps
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypedDict

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.clocks.base import Clock, ClockState, PyTree, advance, start, time_dtype
from sundman.clocks.monitors.base import Monitor, as_monitor, in_words
from sundman.clocks.psi import power, step_function
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
    psi: str | Callable[[Array], Array]
    lag: str
    kappa: float
    zeta_0: float | None
    blockwise: bool
    monitor: Monitor | Callable[[PyTree, PyTree], Any] | None


def _squared_norms(grads: PyTree, dtype: Any, blockwise: bool) -> Array:
    squares = [squared_norm(leaf, dtype) for leaf in jax.tree.leaves(grads)]
    return jnp.stack(squares) if blockwise else sum(squares[1:], squares[0])


def sundman(
    dtau: float,
    *,
    alpha: float | None = None,
    M: float | None = None,
    r: float | None = None,
    m: float | None = None,
    s: float = 2.0,
    omega: float = 1.0,
    delta: float = 1e-8,
    psi: str | Callable[[Array], Array] = "code",
    lag: str = "none",
    kappa: float = 10.0,
    zeta_0: float | None = None,
    blockwise: bool = False,
    monitor: Monitor | Callable[[PyTree, PyTree], Any] | None = None,
) -> Clock:
    """The adaptive clock of SA-SGLD and SamAdams.

    With ``psi="scale_free"`` zeta is the average itself, z = rho z + (1 - rho) g, so omega is
    the reference gradient g_ref at which dt = dtau; m defaults to 1/M. See
    :func:`scale_free` for that clock in its own terms.

    Args:
      dtau: step of the transformed time; m dtau <= dt <= M dtau.
      alpha: rate of forgetting; a = alpha dtau is the memory's inverse in steps.
      m, M: bounds of psi.
      r: exponent of zeta in psi; not for a psi of your own.
      s: exponent of the gradient norm in the monitor; with ``monitor``, g = q^(s/2).
      omega: scale that divides the monitor.
      delta: added to the monitor, so that zeta stays positive.
      psi: ``"code"``, ``"paper"``, ``"scale_free"``, or a function of zeta with values in [m, M].
      lag: ``"none"``, ``"full"`` or ``"guarded"``.
      kappa: how much larger than its average the monitor must be for the guard to act.
      zeta_0: first zeta; by default the stationary value for the first gradient, g_0/alpha.
      blockwise: one zeta and one dt per leaf. Approximate: it samples another law.
      monitor: what to watch instead of ||G||^2, one of :mod:`sundman.clocks.monitors` or a
        function (grads, params) -> q.
    """
    if alpha is None or M is None:
        raise TypeError(
            "the Sundman clock needs alpha, m, M and r; nothing fits every target. SamAdams uses "
            "alpha=1, m=0.1, M=10, r=0.25; clocks.scale_free needs the usual squared gradient only"
        )
    check.positive(dtau=dtau, alpha=alpha, s=s, omega=omega, kappa=kappa)
    check.not_negative(delta=delta)
    check.choice("lag", lag, LAGS)
    form, step_of, m = step_function(dtau, psi, m=m, M=M, r=r)
    watched = None if monitor is None else as_monitor(monitor)
    if watched is not None and blockwise:
        raise ValueError(
            "blockwise has a zeta for every array of the parameters, a monitor gives one number "
            "for all of them: give one of the two"
        )
    forget = -math.expm1(-alpha * dtau)
    stationary = 1.0 if isinstance(psi, str) and form == "scale_free" else 1.0 / alpha
    if zeta_0 is not None:
        check.not_negative(zeta_0=zeta_0)

    def init(params: PyTree) -> ClockState:
        shape = (len(jax.tree.leaves(params)),) if blockwise else ()
        first = jnp.full(shape, 0.0 if zeta_0 is None else zeta_0, time_dtype(params))
        return start(params, first, None if watched is None else watched.init(params))

    def tick(state: ClockState, grads: PyTree, params: PyTree) -> tuple[PyTree, ClockState]:
        begun = state.time > 0  # not the step: a chain that was put back has seen nothing again
        if watched is None:
            seen, memory = _squared_norms(grads, state.time.dtype, blockwise), None
        else:
            seen, memory = watched.measure(
                grads, params, state.memory, jnp.where(begun, state.step, jnp.uint32(0))
            )
        g = power(seen, s / 2.0)
        largest = jnp.finfo(state.time.dtype).max  # an infinite zeta would never be forgotten
        target = jnp.minimum((g / omega + delta) * stationary, largest)
        zeta = state.zeta
        assert zeta is not None  # init gave it
        if zeta_0 is None:
            zeta = jnp.where(begun, zeta, target)
        zeta_next = zeta + forget * (target - zeta)
        if lag == "none":
            effective = zeta_next
        elif lag == "full":
            effective = zeta
        else:
            effective = jnp.maximum(zeta, target / kappa)
        dt = step_of(effective)
        after = advance(state, jnp.mean(dt) if blockwise else dt, zeta_next, memory)
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
    if watched is not None:
        settings["monitor"] = in_words(watched)
    return Clock(init, tick, settings, splits=watched is None)


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

    with m = 1/M, the default: dt = dtau where the squared norm is g_ref, and never leaves
    [dtau/M, M dtau].
    """
    if "alpha" in settings:
        raise TypeError("scale_free takes the memory as a, in steps^-1: a = alpha dtau")
    check.positive(dtau=dtau, a=a, g_ref=g_ref)
    return sundman(
        dtau, alpha=a / dtau, m=m, M=M, r=r, omega=g_ref, psi="scale_free", lag=lag, **settings
    )
