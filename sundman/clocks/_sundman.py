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

import copy
import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any, NamedTuple, TypeAlias, TypedDict, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from sundman import check
from sundman._types import PyTree
from sundman.clocks._psi import check_psi, power, stretch_of
from sundman.clocks.base import (
    Clock,
    ClockState,
    Step,
    advance,
    start,
    step_size,
    time_dtype,
)
from sundman.clocks.monitors import Monitor, as_monitor
from sundman.native.split_gradient import squared_norm
from sundman.units import LearningRate, monitor_scale
from sundman.value import Number, derived, static

LAGS = ("none", "full", "guarded")
Psi: TypeAlias = str | Callable[[Array], Array]
Watched: TypeAlias = Monitor | Callable[[PyTree, PyTree], ArrayLike]


class SundmanSettings(TypedDict, total=False):
    """The settings every adaptive recipe hands to :class:`Sundman`."""

    alpha: Number | None
    a: Number | None
    m: Number | None
    M: Number
    r: float | None
    s: float
    omega: Number
    delta: Number
    psi: Psi
    lag: str
    kappa: Number
    zeta_0: Number | None
    blockwise: bool
    monitor: Watched | None


class Constants(NamedTuple):
    """What the equations have of the settings alone.

    forget = 1 - rho; gain and floor turn ||G||^s into the stationary zeta, g/alpha;
    shortest = m dtau, span = (M - m) dtau, stretch = k of psi.
    """

    forget: Number
    gain: Number
    floor: Number
    shortest: Number
    span: Number
    stretch: Number | None


def _check_no_clock(dtau: object) -> None:
    """dtau is not a schedule or a clock; raise with what to write instead."""
    if isinstance(dtau, Clock):
        raise TypeError(
            f"dtau must be a number, got the clock {dtau!r}: any clock goes with any integrator by "
            "sundman.compose(integrator, clock)"
        )
    if callable(dtau):
        raise TypeError(
            "dtau must be a number, got a function: a schedule multiplies the clock, "
            "sundman.compose(integrator, clocks.times(clocks.sundman(dtau, ...), schedule))"
        )


class Sundman(Clock):
    """The adaptive clock of SA-SGLD and SamAdams.

    With ``psi="scale_free"`` zeta is the average itself, z = rho z + (1 - rho) g, so omega is
    the reference gradient g_ref at which dt = dtau; m defaults to 1/M. See
    :func:`scale_free` for that clock in its own terms.

    Args:
      dtau: step of the transformed time, m dtau <= dt <= M dtau; or a learning rate.
      alpha: rate of forgetting; a = alpha dtau is the memory's inverse in steps.
      a: the memory's inverse in steps, in place of alpha.
      m, M: bounds of psi.
      r: exponent of zeta in psi; not for a psi of your own.
      s: exponent of the gradient norm in the monitor; with ``monitor``, g = q^(s/2).
      omega: scale that divides the monitor; of the mean loss if dtau is a learning rate.
      delta: added to the monitor, so that zeta stays positive.
      psi: ``"research_code"``, ``"published"``, ``"scale_free"``, or a function of zeta with values
        in [m, M].
      lag: ``"none"``, ``"full"`` or ``"guarded"``.
      kappa: how much larger than its average the monitor must be for the guard to act.
      zeta_0: first zeta; by default the stationary value for the first gradient, g_0/alpha.
      blockwise: one zeta and one dt per leaf. Approximate: it samples another law.
      monitor: what to watch instead of ||G||^2, one of :mod:`sundman.clocks.monitors` or a
        function (grads, params) -> q.
    """

    label = "Sundman"
    adaptive = True
    references = ("rajpal2025sasgld", "leimkuhler2025samadams")

    dtau: Step
    _: KW_ONLY
    alpha: Number | None = None
    M: Number | None = None
    r: float | None = static(default=None)
    m: Number | None = None
    s: float = static(default=2.0)
    omega: Number = 1.0
    delta: Number = 1e-8
    psi: Psi = static(default="research_code")
    lag: str = static(default="none")
    kappa: Number = 10.0
    zeta_0: Number | None = None
    blockwise: bool = static(default=False)
    monitor: Watched | None = None
    a: Number | None = None
    constants: Constants | None = derived()

    def __post_init__(self) -> None:
        _check_no_clock(self.dtau)
        step_size(dtau=self.dtau)
        if (self.alpha is None and self.a is None) or self.M is None:
            raise TypeError(
                "the Sundman clock needs alpha, m, M and r; nothing fits every target. SamAdams "
                "uses alpha=1, m=0.1, M=10, r=0.25; clocks.scale_free needs the usual squared "
                "gradient only"
            )
        if self.alpha is not None and self.a is not None:
            raise TypeError(
                "alpha and a = alpha dtau are the same memory: give one of them; got "
                f"alpha={self.alpha!r}, a={self.a!r}"
            )
        if not isinstance(self.dtau, LearningRate):
            self._settle(dtau=check.positive)
        check.choices_are_static(
            r=self.r, s=self.s, psi=self.psi, lag=self.lag, blockwise=self.blockwise
        )
        check.positive(s=self.s)
        check.flag(blockwise=self.blockwise)
        self._set(s=float(self.s), r=None if self.r is None else _plain(self.r))
        check.choice("lag", self.lag, LAGS)
        for name in ("alpha", "a", "zeta_0"):
            if getattr(self, name) is not None:
                self._settle(**{name: check.not_negative if name == "zeta_0" else check.positive})
        self._settle(omega=check.positive, kappa=check.positive, delta=check.not_negative)
        if isinstance(self.psi, str):
            self._set(psi=self.psi.replace("-", "_"))
        self._set(m=check_psi(self.psi, m=self.m, M=self.M, r=self.r))
        self._settle(m=check.positive, M=check.positive)
        if self.monitor is not None:
            self._set(monitor=as_monitor(self.monitor))
            if self.blockwise:
                raise ValueError(
                    "blockwise has a zeta for every array of the parameters, a monitor gives one "
                    "number for all of them: give one of the two"
                )

    def _work_out(self) -> Constants:
        """The constants of the equations."""
        dtau, m, M = (cast(Number, number) for number in (self.dtau, self.m, self.M))
        memory = self.alpha * dtau if self.alpha is not None else cast(Number, self.a)
        rho_less_1 = math.expm1(-memory) if isinstance(memory, float) else jnp.expm1(-memory)
        stationary = 1.0 if self.psi == "scale_free" else dtau / memory
        return Constants(
            forget=-rho_less_1,
            gain=stationary / self.omega,
            floor=stationary * self.delta,
            shortest=m * dtau,
            span=M * dtau - m * dtau,
            stretch=stretch_of(self.psi, m, M) if isinstance(self.psi, str) else None,
        )

    def prepared(self) -> Sundman:
        """The clock with its constants worked out: a loop has nothing left but zeta and psi."""
        clock = copy.copy(self)
        clock._set(constants=self._work_out())
        return clock

    @property
    def _monitor(self) -> Monitor | None:
        """The monitor, which ``__post_init__`` made of a function."""
        return cast(Monitor | None, self.monitor)

    @property
    def biased(self) -> bool:
        """One zeta per tensor is not a change of time."""
        return self.blockwise

    @property
    def takes_split_gradients(self) -> bool:
        """Only the norm is looked at, unless there is a monitor."""
        return self.monitor is None

    @property
    def in_learning_rates(self) -> bool:
        """Whether dtau is a learning rate."""
        return isinstance(self.dtau, LearningRate)

    def in_time(self, size: int, *, kinetic: bool) -> Clock:
        """The clock with dtau in physical time and omega in units of |grad U|^s."""
        if not isinstance(self.dtau, LearningRate):
            return self
        power = 2.0 if self._monitor is None else self._monitor.power_of_rows
        return self.replace(
            dtau=self.dtau.time_step(size, kinetic=kinetic),
            omega=monitor_scale(self.omega, size, self.s, power=power),
        )

    def init(self, params: PyTree) -> ClockState:
        """zeta_0, or 0 until the first gradient gives it."""
        shape = (len(jax.tree.leaves(params)),) if self.blockwise else ()
        first = jnp.full(shape, 0.0 if self.zeta_0 is None else self.zeta_0, time_dtype(params))
        return start(params, first, None if self._monitor is None else self._monitor.init(params))

    def tick(self, state: ClockState, grads: PyTree, params: PyTree) -> tuple[PyTree, ClockState]:
        """dt = psi(zeta) dtau."""
        dtype = state.time.dtype
        begun = state.time > 0  # not the step: a chain that was put back has seen nothing again
        if self._monitor is None:
            squares, memory = _squared_norms(grads, dtype, self.blockwise), None
        else:
            squares, memory = self._monitor.measure(
                grads, params, state.memory, jnp.where(begun, state.step, jnp.uint32(0))
            )
        largest = jnp.finfo(dtype).max  # an infinite zeta would never be forgotten
        c = self._work_out() if self.constants is None else self.constants
        target = jnp.minimum(power(squares, self.s / 2.0) * c.gain + c.floor, largest)
        zeta = state.zeta
        assert zeta is not None  # init gave it
        if self.zeta_0 is None:
            zeta = jnp.where(begun, zeta, target)
        zeta_next = (zeta + c.forget * (target - zeta)).astype(dtype)
        if self.lag == "none":
            effective = zeta_next
        elif self.lag == "full":
            effective = zeta
        else:
            effective = jnp.maximum(zeta, target / self.kappa)
        dt = self._step(c, effective).astype(dtype)
        after = advance(state, jnp.mean(dt) if self.blockwise else dt, zeta_next, memory)
        if self.blockwise:
            return jax.tree.unflatten(jax.tree.structure(params), list(dt)), after
        return after.dt, after

    def _step(self, c: Constants, zeta: Array) -> Array:
        """psi(zeta) dtau, between m dtau and M dtau."""
        if isinstance(self.psi, str):
            stretch, r = cast(Number, c.stretch), cast(float, self.r)
            return c.shortest + c.span / (1.0 + stretch * power(zeta, r))
        dtau = cast(Number, self.dtau)
        return jnp.clip(dtau * self.psi(zeta), c.shortest, c.shortest + c.span)


def _plain(r: Any) -> object:
    """A number of any kind as a float; anything else as it is, to be refused by name."""
    return float(r) if hasattr(r, "__float__") and not isinstance(r, (bool, str)) else r


def _squared_norms(grads: PyTree, dtype: DTypeLike, blockwise: bool) -> Array:
    squares = [squared_norm(leaf, dtype) for leaf in jax.tree.leaves(grads)]
    return jnp.stack(squares) if blockwise else sum(squares[1:], squares[0])


def scale_free(
    dtau: Step,
    *,
    g_ref: Number,
    a: Number = 0.01,
    M: Number = 10.0,
    m: Number | None = None,
    r: float = 0.5,
    lag: str = "guarded",
    **settings: Any,
) -> Sundman:
    """The Sundman clock in units of a reference squared gradient norm, with our defaults.

        z <- exp(-a) z + (1 - exp(-a)) ||G||^2 / g_ref,    dt = dtau (M + z^r) / (1 + M z^r)

    with m = 1/M, the default: dt = dtau where the squared norm is g_ref, and never leaves
    [dtau/M, M dtau].

    Args:
      dtau: the step where the squared gradient norm is ``g_ref``; or a learning rate.
      g_ref: the usual squared gradient norm; of the mean loss if dtau is a learning rate.
      a: the memory's inverse, in steps.
      M: the longest step over dtau.
      m: the shortest step over dtau; 1/M if not given.
      r: how strongly the step follows the gradient.
      lag: which zeta sets the step.
      settings: others of :class:`Sundman`.

    Returns:
      The clock.
    """
    if "alpha" in settings:
        raise TypeError("scale_free takes the memory as a, in steps^-1: a = alpha dtau")
    step_size(dtau=dtau)
    check.positive(a=a, g_ref=g_ref)
    return Sundman(dtau, a=a, m=m, M=M, r=r, omega=g_ref, psi="scale_free", lag=lag, **settings)
