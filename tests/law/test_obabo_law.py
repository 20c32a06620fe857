"""OBABO against the exact law of its own recursion, gradient noise included; second order."""

from __future__ import annotations

from functools import partial

import linear
import numpy as np
import pytest
from battery import Expected, check_law, run

from sundman import obabo
from sundman.targets import gaussian

GAMMA, H = 2.0, 0.5
VARIANCES = {"square": lambda x: x**2, "x": lambda x: x}
PRECISIONS = np.array([1.0, 4.0])
variance = partial(linear.obabo, gamma=GAMMA)


def test_known_gradient_noise_is_corrected() -> None:
    T, sigma = 1.0, 1.5
    target = gaussian(covariance=np.diag(1.0 / PRECISIONS), temperature=T)
    draws = run(
        target,
        obabo(H, T, gamma=GAMMA, sigma=sigma),
        VARIANCES,
        steps=20_000,
        drop=200,
        thin=4,
        seed=61,
        sigma=sigma,
    )
    wanted = [variance(H, p, T, sigma, known=sigma) for p in PRECISIONS]
    check_law(draws, {"x": Expected(0.0), "square": Expected(np.array(wanted))})


def test_the_variance_in_closed_form() -> None:
    h, k, T = 0.3, 2.0, 0.7
    assert variance(h, k, T) == pytest.approx(T / k / (1 - k * h * h / 4), rel=1e-12)
