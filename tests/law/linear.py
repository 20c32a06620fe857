"""The exact stationary variance of fixed-step schemes on a Gaussian.

On U = precision x²/2 each of these schemes is a linear recursion

    state_{n+1} = A state_n + B noise_n,    noise ~ N(0, I)

whose stationary covariance solves Sigma = A Sigma A' + B B'. The matrices are written from the
published equations, h being the step, sigma the standard deviation of the gradient noise and
``known`` the part of it that the scheme is told of and takes out of its own noise.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_discrete_lyapunov


def _position_variance(A: list[list[float]], B: list[list[float]]) -> float:
    A, B = np.array(A), np.array(B)
    assert np.abs(np.linalg.eigvals(A)).max() < 1, "the scheme is unstable at this step"
    return float(solve_discrete_lyapunov(A, B @ B.T)[0, 0])


def euler_maruyama(h: float, precision: float, T: float, sigma: float = 0.0) -> float:
    """x <- x - h G + sqrt(2 T h) eps."""
    return _position_variance([[1 - h * precision]], [[math.sqrt(2 * T * h), h * sigma]])


def leimkuhler_matthews(h: float, precision: float, T: float, sigma: float = 0.0) -> float:
    """State (x_n, R_n), noise (R_{n+1}, xi)."""
    half = math.sqrt(T * h / 2)
    return _position_variance([[1 - h * precision, half], [0, 0]], [[half, -h * sigma], [1, 0]])


def sghmc(
    h: float, precision: float, T: float, sigma: float = 0.0, *, gamma: float, known: float = 0.0
) -> float:
    """State (x, p): p <- c p - sqrt(c) h G + scale eps, then x <- x + h p."""
    c = math.exp(-gamma * h)
    scale = math.sqrt((1 - c * c) * T - c * (h * known) ** 2)
    force = math.sqrt(c) * h
    kick = np.array([[1, 0], [-force * precision, c]])
    drift = np.array([[1, h], [0, 1]])
    return _position_variance(drift @ kick, drift @ np.array([[0, 0], [scale, -force * sigma]]))


def baoab(
    h: float, precision: float, T: float, sigma: float = 0.0, *, gamma: float, known: float = 0.0
) -> float:
    """State (x, p) between B and B: the half kicks on either side share one noisy gradient."""
    c = math.exp(-gamma * h)
    scale = math.sqrt((1 - c * c) * T - c * (h * known) ** 2)
    kicks = np.array([[1, 0], [-h * precision, 1]])
    drift = np.array([[1, h / 2], [0, 1]])
    friction = np.diag([1, c])
    after = drift @ friction @ drift
    noise = np.column_stack([drift @ [0, scale], after @ [0, -h * sigma]])
    return _position_variance(after @ kicks, noise)


def obabo(
    h: float, precision: float, T: float, sigma: float = 0.0, *, gamma: float, known: float = 0.0
) -> float:
    """State (x, p) before the trailing B, whose noisy gradient the next step's B shares."""
    c = math.exp(-gamma * h)
    scale = math.sqrt((1 - c * c) * T - (known * h * (1 + c) / 2) ** 2)
    kick = np.array([[1, 0], [-h / 2 * precision, 1]])
    drift = np.array([[1, h], [0, 1]])
    friction = np.diag([1, c])
    shaken = drift @ (friction @ [0, -h / 2 * sigma] + np.array([0, -h / 2 * sigma]))
    noise = np.column_stack([drift @ [0, scale], shaken])
    return _position_variance(drift @ kick @ friction @ kick, noise)


def ubu(
    h: float, precision: float, T: float, sigma: float = 0.0, *, gamma: float, known: float = 0.0
) -> float:
    """State (x, p) in the middle of a step, before its kick: B over h, then U over h."""
    flow, noise = free_flow(h, gamma, T)
    if known:
        # of U's noise only that of the momentum is lessened, and the position's part with it
        whole = noise[1, 1]
        part = noise[:, 1:] / whole * math.sqrt(whole - flow[1, 1] * (h * known) ** 2)
        noise = noise - np.outer(noise[:, 1], noise[:, 1]) / whole + part @ part.T
    kick = np.array([[1, 0], [-h * precision, 1]])
    shaken = flow @ [0, -h * sigma]
    return _position_variance(flow @ kick, np.column_stack([np.linalg.cholesky(noise), shaken]))


def ubu_ends(h: float, precision: float, T: float, *, gamma: float) -> float:
    """The variance of the ends of UBU's steps: U over h/2, B over h, U over h/2."""
    flow, noise = free_flow(h / 2, gamma, T)
    kick = np.array([[1, 0], [-h * precision, 1]])
    after, root = flow @ kick, np.linalg.cholesky(noise)
    return _position_variance(after @ flow, np.column_stack([after @ root, root]))


def free_flow(t: float, gamma: float, T: float) -> tuple[np.ndarray, np.ndarray]:
    """Kinetic Langevin without a force over a time t: its matrix, and the noise's covariance."""
    c = math.exp(-gamma * t)
    x, p = (2 * gamma * t - 3 + 4 * c - c * c) / gamma**2, 1 - c * c
    cross = (1 - c) ** 2 / gamma
    return np.array([[1, (1 - c) / gamma], [0, c]]), T * np.array([[x, cross], [cross, p]])
