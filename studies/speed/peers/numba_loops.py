"""SA-SGLD on the star in numba: a loop of the published kind, and the best scalar one we can write.

    U = x^2 + 1000 x^2 y^2 + y^2

What makes ``published`` the published kind: a compiled loop whose step is written with small NumPy
arrays, so that each step allocates: the position is an array, the gradient a function that returns
a new array, noise comes from ``np.random.randn`` once a step, histories of position, step and zeta
are kept in double precision, and the gradient is evaluated twice, for the monitor and for the
drift. It is written from the algorithm's description, not copied: the second evaluation is our
reading, and ``gradients=1`` is the same loop without it. The research code itself was measured at
about twice the time of this loop.

``scalar`` has no arrays but the histories, and one gradient a step.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

DTAU, ALPHA, LEAST, MOST, POWER, OMEGA, DELTA = 1e-3, 0.5, 0.1, 10.0, 0.5, 100.0, 1e-8


@njit
def gradient(position: np.ndarray) -> np.ndarray:
    """The gradient of U, a new array."""
    x, y = position[0], position[1]
    return np.array([2.0 * x + 2000.0 * x * y**2, 2.0 * y + 2000.0 * x**2 * y])


@njit
def psi(zeta: float) -> float:
    """The step as a multiple of dtau."""
    return LEAST * (zeta**POWER + MOST) / (zeta**POWER + LEAST)


@njit
def published(steps: int, seed: int, gradients: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Histories of the position, of dt and of zeta."""
    np.random.seed(seed)  # noqa: NPY002
    positions, times, zetas = np.zeros((steps, 2)), np.zeros(steps), np.zeros(steps)
    position, rho = np.zeros(2), np.exp(-ALPHA * DTAU)
    zeta = 0.0
    for n in range(steps):
        grads = gradient(position)
        monitor = np.linalg.norm(grads) ** 2 / OMEGA + DELTA
        zeta = rho * zeta + (1.0 - rho) / ALPHA * monitor
        dt = psi(zeta) * DTAU
        positions[n], times[n], zetas[n] = position, dt, zeta
        if gradients == 2:
            grads = gradient(position)
        noise = np.random.randn(2)  # noqa: NPY002
        position = position - dt * grads + np.sqrt(2.0 * dt) * noise
    return positions, times, zetas


@njit(fastmath=True)
def scalar(steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Histories of the position and of dt, in single precision like ours."""
    np.random.seed(seed)  # noqa: NPY002
    positions = np.empty((steps, 2), np.float32)
    times = np.empty(steps, np.float32)
    rho = math.exp(-ALPHA * DTAU)
    gain = (1.0 - rho) / ALPHA
    x = y = zeta = 0.0
    for n in range(steps):
        a = 2.0 * x * (1.0 + 1000.0 * y * y)
        b = 2.0 * y * (1.0 + 1000.0 * x * x)
        zeta = rho * zeta + gain * ((a * a + b * b) / OMEGA + DELTA)
        root = math.sqrt(zeta)
        dt = DTAU * LEAST * (root + MOST) / (root + LEAST)
        positions[n, 0], positions[n, 1], times[n] = x, y, dt
        scale = math.sqrt(2.0 * dt)
        x += scale * np.random.normal() - dt * a  # noqa: NPY002
        y += scale * np.random.normal() - dt * b  # noqa: NPY002
    return positions, times
