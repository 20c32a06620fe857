"""The scale L from a window of the warm-up: on the host, in double precision.

    L L' = the geometric mean of Cov(x) and Cov(G)^-1,    diagonal: L_i^2 = sqrt(Var x_i / Var G_i)

For a Gaussian G = H x, and L_i^2 = 1/H_i however short the window and however wrong the
temperature; also while the chains still descend. Variances are within chains, so that chains in
several modes do no harm, and the noise of minibatches is not in Cov(G).
"""

from __future__ import annotations

from typing import cast

import jax
import numpy as np

from sundman.tune.loops import Sums

Floats = np.ndarray
_RIDGE = 1e-4
NOISY_FLOOR = 1e-4  # of the largest curvature: what is less is the noise of minibatches
_ROUNDING = 1e-5  # of a position in single precision, with room for steps
_WIDEST = 1e8  # L_i^2 over Var x_i: further than that nothing is known


def host(sums: Sums) -> Sums:
    """The sums in double precision."""
    return cast(Sums, jax.tree.map(lambda column: np.asarray(column, np.float64), sums))


def moments(sums: Sums) -> tuple[Floats, Floats, Floats]:
    """Covariances of positions and of gradients within chains, and that of the noise.

    Vectors or matrices, as the sums are.
    """
    n, chains = float(sums.n), len(sums.x)
    x, g = np.asarray(sums.x) / n, np.asarray(sums.g) / n

    def products(means: Floats) -> Floats:
        matrix = np.ndim(sums.xx) == 2
        return (means.T @ means if matrix else (means**2).sum(0)) / chains

    noise = np.asarray(sums.noise) / n
    return (
        np.asarray(sums.xx) / n - products(x),
        np.asarray(sums.gg) / n - products(g) + noise / n,
        noise,
    )


def _diagonal_of(matrix: Floats) -> Floats:
    return matrix if matrix.ndim == 1 else np.diag(matrix)


def _shrunk(ratio: Floats, error: Floats | float) -> Floats:
    """Var x Var G / T^2, which is 1 where a Gaussian is known, drawn to 1 as far as it is not.

    Args:
      ratio: as measured, which with noise may be below 0.
      error: of it.
    """
    return np.maximum((np.maximum(ratio, 0.0) + error) / (1.0 + error), 1.0 / _WIDEST**2)


def diagonal(sums: Sums, temperature: float) -> Floats:
    """L_i of every coordinate."""
    of_x, of_g, noise = map(_diagonal_of, moments(sums))
    of_x = np.maximum(of_x, 1e-300)
    precision = of_x / temperature**2
    error = 2.0 * noise * precision / np.sqrt(float(sums.n) * len(sums.x))
    squares = of_x / temperature / np.sqrt(_shrunk(of_g * precision, error))
    size = np.median(np.abs(sums.origin), axis=0)  # steps below its rounding would freeze it
    scale = np.sqrt(np.where(np.isfinite(squares) & (squares > 0), squares, 1.0))
    return np.maximum(scale, _ROUNDING * size)


def dense(sums: Sums, temperature: float) -> Floats:
    """L as a matrix; diagonal where the window says too little."""
    of_x, of_g, noise = moments(sums)
    scale = diagonal(sums, temperature)
    d, outer = len(scale), np.outer(scale, scale)
    C, G, N = of_x / outer, of_g * outer, noise * outer
    C = C + _RIDGE * np.trace(C) / d * np.eye(d)
    G = G + _RIDGE * np.trace(G) / d * np.eye(d)
    if not all(np.isfinite(matrix).all() for matrix in (C, G, N)):
        return np.diag(scale)
    try:
        root = _root(C)
        loud = np.trace(root @ N @ root) / d / temperature**2
        error = 2.0 * np.sqrt(d) * loud / np.sqrt(float(sums.n) * len(sums.x))
        ratio, vectors = np.linalg.eigh(root @ G @ root / temperature**2)
        half = root @ (vectors / _shrunk(ratio, error) ** 0.25) / np.sqrt(temperature)
        return np.linalg.cholesky(half @ half.T * outer)
    except np.linalg.LinAlgError:
        return np.diag(scale)


def from_hessian(sums: Sums, hessian: Floats, temperature: float, floor: float) -> Floats:
    """L as a matrix, from the mean Hessian H: L L' = H^-1, wider where positions spread further.

    With r the eigenvalues of H^1/2 Cov(x) H^1/2 / T, which are 1 for a Gaussian and less in a short
    window, L L' = H^-1/2 max(1, r)^1/2 H^-1/2. Curvatures below ``floor`` times the largest are not
    known to be less.
    """
    scale = 1.0 / np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    if not np.isfinite(scale).all() or scale.max() > 1e140:
        return dense(sums, temperature)
    outer = np.outer(scale, scale)
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T) * outer)
    values = np.maximum(np.abs(values), floor * np.abs(values).max())
    root, inverse = ((vectors * values**power) @ vectors.T for power in (0.5, -0.5))
    spreads = root @ (moments(sums)[0] / outer) @ root / temperature
    if not np.isfinite(spreads).all():
        return np.diag(scale)
    spread, turned = np.linalg.eigh(spreads)
    half = inverse @ (turned * np.maximum(spread, 1.0) ** 0.25)
    try:
        return np.linalg.cholesky(half @ half.T * outer)
    except np.linalg.LinAlgError:
        return np.diag(scale)


def _root(matrix: Floats) -> Floats:
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return (vectors * np.sqrt(np.maximum(values, 1e-6 * values.max()))) @ vectors.T


def widest(rows: Floats) -> float:
    """tr(S^2) / tr(S) of the covariance S of ``rows`` (n, d): near its largest eigenvalue.

    What a finite number of rows adds to it is taken off. It is 1 of rows that do not differ.
    """
    n, d = rows.shape
    gram = rows.T @ rows / n if d <= n else rows @ rows.T / n
    first, second = np.trace(gram), np.sum(gram * gram)
    return float(max(second - first * first / n, first * first / d) / first) if first > 0 else 1.0


def widest_of_chains(rows: Floats) -> float:
    """As :func:`widest`, of ``rows`` (n, chain, d), from products of rows of different chains.

    In many dimensions the rows of one chain are few and alike, and would make S seem wider by far.
    """
    n, chains, d = rows.shape
    if chains == 1:
        return widest(rows.reshape(-1, d))
    flat, chain = rows.reshape(-1, d), np.tile(np.arange(chains), n)
    others = chain[:, None] != chain
    second = np.mean(np.square(flat @ flat.T)[others])
    first = np.mean(np.sum(flat * flat, axis=1))
    return float(max(second, first * first / d) / first) if first > 0 else 1.0


def stiff_directions(rows: Floats) -> float:
    """tr(S^2)^2 / tr(S^4) of the covariance S of ``rows`` (n, d): how many directions are stiff.

    In a harmonic well the energy error of a step is h^2 / 8 times the change of |L' G|^2, to which
    a direction adds the square of its variance: so many directions share it. Sums over pairs and
    over rings of four different rows have no bias from their finite number.
    """
    n, d = rows.shape
    gram = rows @ rows.T
    np.fill_diagonal(gram, 0.0)
    squares = gram * gram
    by_row = squares.sum(axis=1)
    second = by_row.sum() / (n * (n - 1))
    product = gram @ gram
    rings = np.sum(product * product) - 2.0 * np.sum(by_row**2) + np.sum(squares**2)
    fourth = rings / (n * (n - 1) * (n - 2) * (n - 3))
    return float(np.clip(second**2 / fourth, 1.0, d)) if fourth > 0 else float(d)


def inward(scale: Floats, rows: Floats) -> Floats:
    """L' G of every row."""
    return rows * scale if scale.ndim == 1 else rows @ scale


def whiten(scale: Floats, rows: Floats) -> Floats:
    """L^-1 x of every row."""
    return rows / scale if scale.ndim == 1 else np.linalg.solve(scale, rows.T).T
