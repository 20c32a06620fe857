"""Monitors: the number q that the Sundman clock watches, in the place of ||G||^2.

    g_n = q_n^(s/2) / Omega + delta,    q_n = monitor(G_n, theta_n, its memory, n) >= 0

    preconditioned   sum_i P_i G_i^2, P of the user or of RMSProp
    energy           U(theta) - lowest
    curvature        |v . H v|, v a random sign vector: |trace H| on average if H is definite
    noise_corrected  the average of ||G||^2 less the part that is noise
    a function       (grads, params) -> q

Any of them keeps the target. With one scalar dt for all coordinates a step is that of the same
diffusion over another time: d E[f(theta)] = E[psi L f] dtau for every f of the position alone,
however zeta came about, memory and random probes included. In the stationary state that is zero,
so the law weighted by psi, and by dt, is the one that L leaves alone. What a monitor changes is
where steps are short, hence the size of the O(dtau) bias. One condition is left, that of ``lag``:
psi must not be correlated with the noise in the same step's gradient.

A monitor is a value with ``init`` and ``measure``: a subclass of :class:`Monitor`.
"""

from sundman.clocks.monitors.base import Function as function
from sundman.clocks.monitors.base import Monitor
from sundman.clocks.monitors.noise import NoiseCorrected as noise_corrected
from sundman.clocks.monitors.of_potential import Curvature as curvature
from sundman.clocks.monitors.of_potential import Energy as energy
from sundman.clocks.monitors.preconditioned import preconditioned

__all__ = [
    "Monitor",
    "curvature",
    "energy",
    "function",
    "noise_corrected",
    "preconditioned",
]
