"""One-dimensional transfer operators: the law of a scheme without any Monte Carlo.

With the memoryless clock, zeta_{n+1} = g_n, the published order makes x_n a Markov chain,

    x' = x - dt G + sqrt(2 T dt) eps,    dt = dtau psi(|G|²),    G = U'(x) + sigma xi

whose density solves mu(x') = ∫ mu(x) k(x, x') dx: on Gauss-Legendre nodes, a linear system. The
panels meet at x = 0 and crowd around G = 0, where psi(|G|²) has a cusp. With the lagged clock
dt = dtau psi(|G_{n-1}|²) leaves x_n, so the chain is (x_n, dt_n), moved by convolutions over x.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigs

Floats = NDArray[np.float64]
Function = Callable[[Floats], Floats]


class Moments(NamedTuple):
    """E[x²] by the three weights, and the mean step."""

    leaving: float
    arriving: float
    equal: float
    mean_dt: float


def paper_psi(m: float, M: float, r: float) -> Function:
    """psi of the paper as a function of zeta: m (zeta^r + M/m) / (zeta^r + 1)."""
    return lambda zeta: m * (zeta**r + M / m) / (zeta**r + 1)


def panels(edges: Floats, order: int) -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre rules between neighbouring edges."""
    node, weight = np.polynomial.legendre.leggauss(order)
    half = np.diff(edges) / 2
    middle = edges[:-1] + half
    return (middle[:, None] + half[:, None] * node).ravel(), (half[:, None] * weight).ravel()


def stationary(step: Floats) -> Floats:
    """The law left unchanged by a matrix of transition probabilities, rows to columns."""
    step = step / step.sum(axis=1, keepdims=True)
    system = step.T - np.eye(len(step))
    system[-1] = 1.0  # the equations are dependent; one gives way to the total mass
    return np.linalg.solve(system, np.append(np.zeros(len(step) - 1), 1.0))


def _noisy_gradients(drift: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Values of G and their probabilities for each U'(x), both (x, node)."""
    if sigma == 0:
        return drift[:, None], np.ones((len(drift), 1))
    cusp = sigma * np.geomspace(1e-4, 0.3, 6)
    around_zero = np.concatenate([-cusp, [0.0], cusp])
    values, chances = [], []
    for centre in drift:
        edges = np.append(around_zero, centre + sigma * np.linspace(-9, 9, 13))
        G, width = panels(np.sort(edges), 8)
        values.append(G)
        chances.append(width * np.exp(-(((G - centre) / sigma) ** 2) / 2))
    chance = np.array(chances)
    return np.array(values), chance / chance.sum(axis=1, keepdims=True)


def same_step(
    drift: Function,
    psi: Function,
    dtau: float,
    *,
    sigma: float = 0.0,
    T: float = 1.0,
    reach: float = 4.0,
) -> Moments:
    """The published order: dt follows from the gradient that also drives the step."""
    narrowest = np.sqrt(2 * T * dtau * psi((np.abs(drift(np.array(reach))) + 4 * sigma) ** 2))
    count = max(40, 2 * int(np.ceil(reach / (8 * narrowest))))
    x, width = panels(np.linspace(-reach, reach, count + 1), 10)
    G, chance = _noisy_gradients(drift(x), sigma)
    dt = dtau * psi(G**2)
    ahead = x[:, None] - dt * G
    kernel = np.zeros((len(x), len(x)))
    for k in range(G.shape[1]):
        variance = 2 * T * dt[:, k, None]
        bell = np.exp(-((x - ahead[:, k, None]) ** 2) / (2 * variance))
        kernel += chance[:, k, None] * bell / np.sqrt(variance)
    mu = stationary(kernel * width)
    weight = chance * dt
    mean_dt = mu @ weight.sum(axis=1)
    return Moments(
        leaving=mu @ (x**2 * weight.sum(axis=1)) / mean_dt,
        arriving=mu @ (weight * (ahead**2 + 2 * T * dt)).sum(axis=1) / mean_dt,
        equal=mu @ x**2,
        mean_dt=mean_dt,
    )


def lagged(
    drift: Function,
    psi: Function,
    dtau: float,
    *,
    sigma: float,
    T: float = 1.0,
    reach: float = 5.0,
    points: int = 256,
) -> tuple[float, float]:
    """E[x²] by leaving weights and the mean step, when G_{n-1} sets the step that leaves x_n."""
    x = (np.arange(points) - points // 2) * (2 * reach / points)
    size, width = panels(np.append(np.arange(0, 16, 2.0), [20, 28, 40, 64, 110, 160]), 5)
    dt = dtau * psi(size**2)
    # G is +size or -size: the chance of each at each x, axes (sign, node, x).
    offset = (np.array([1.0, -1.0])[:, None, None] * size[:, None] - drift(x)) / sigma
    chance = np.exp(-(offset**2) / 2) * width[:, None]
    chance /= chance.sum(axis=(0, 1)).clip(1e-300)
    wave = 2 * np.pi * np.fft.rfftfreq(points, 2 * reach / points)
    spread = np.exp(-T * dt[:, None] * wave**2)

    def advance(flat: Floats) -> Floats:
        mu = flat.reshape(len(size), points)
        moved = np.zeros((len(size), len(wave)), complex)
        for j in range(len(size)):
            shift = np.exp(1j * wave * dt[j] * size[:, None])
            moved += spread[j] * shift * np.fft.rfft(mu[j] * chance[0])
            moved += spread[j] * shift.conj() * np.fft.rfft(mu[j] * chance[1])
        return np.fft.irfft(moved, points).ravel()

    n = len(size) * points
    first = (chance.sum(axis=0) * np.exp(-(x**2))).ravel()
    _, vectors = eigs(LinearOperator((n, n), advance, dtype=float), k=1, v0=first, tol=1e-9)
    mu = np.real(vectors[:, 0]).reshape(len(size), points)
    weighted = dt[:, None] * mu
    return (weighted * x**2).sum() / weighted.sum(), weighted.sum() / mu.sum()


def leimkuhler_matthews(
    drift: Function, curvature: Function, f: Function, h: float, *, T: float = 1.0
) -> float:
    """E[f] under Leimkuhler-Matthews at the fixed step h, for h U'' < 2.

    y_n = theta_n - c R_n with c = sqrt(T h / 2) is a Markov chain: theta ~ N(y, c²) and then
    y' = 2 theta - h U'(theta) - y, an increasing function of theta.
    """
    reach, c = 6.0, np.sqrt(T * h / 2)
    y, width = panels(np.linspace(-reach, reach, 61), 10)
    total = y[:, None] + y
    grid = np.linspace(-3 * reach, 3 * reach, 20_001)
    theta = np.interp(total, 2 * grid - h * drift(grid), grid)
    for _ in range(2):
        theta -= (2 * theta - h * drift(theta) - total) / (2 - h * curvature(theta))
    density = np.exp(-(((theta - y[:, None]) / c) ** 2) / 2) / (2 - h * curvature(theta))
    mu = stationary(density * width)
    node, weight = np.polynomial.hermite_e.hermegauss(40)
    return float(mu @ f(y[:, None] + c * node) @ weight / weight.sum())
