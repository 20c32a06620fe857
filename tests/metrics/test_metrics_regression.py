"""RMSE, coverage and mixtures of normal densities."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from sklearn.metrics import root_mean_squared_error

from sundman import metrics


@st.composite
def mixtures(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 5)))
    mean = draw(st.sampled_from([0.1, 3.0, 1e3])) * rng.normal(size=shape)
    weight = rng.exponential(size=shape[0])
    return mean, rng.uniform(0.1, 2, size=shape), weight, rng.normal(size=shape[1])


def test_rmse():
    rng = np.random.default_rng(0)
    mean, y = rng.normal(size=(2, 50))
    assert metrics.rmse(mean, y) == pytest.approx(root_mean_squared_error(y, mean))
    assert metrics.rmse([1, 1], [0, 2]) == 1


def test_coverage():
    assert metrics.coverage([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0.5, 2]) == 0.75
    assert metrics.coverage([-np.inf], [np.inf], [0]) == 1


@given(mixtures())
def test_nll_of_a_mixture(mixture):
    mean, sd, weight, y = mixture
    log_density = scipy.stats.norm.logpdf(y, mean, sd)
    curve = metrics.log_probability_curve(log_density, weight)
    assert metrics.normal_mixture_nll(mean, sd, weight, y) == pytest.approx(-curve[-1])


def test_nll_of_one_component_and_in_other_units():
    y, mean = np.array([1.0, 2.0, 4.0]), np.array([[1.5, 2.0, 3.0]])
    expected = -scipy.stats.norm.logpdf(y, mean[0], 0.5).mean()
    assert metrics.normal_mixture_nll(mean, 0.5, None, y) == pytest.approx(expected)
    scaled = metrics.normal_mixture_nll(10 * mean, 5, [3], 10 * y)
    assert scaled == pytest.approx(expected + np.log(10))
    assert metrics.normal_mixture_nll([[0]], 1e-200, None, [1]) == np.inf


@given(mixtures(), st.sampled_from([1e-6, 0.025, 0.5, 0.8, 0.999]))
def test_quantile_against_a_root_finder(mixture, q):
    mean, sd, weight, _ = mixture
    w = weight / weight.sum()
    found = metrics.normal_mixture_quantile(mean, sd, weight, q)
    assert found.shape == mean.shape[1:]
    for point, x in enumerate(found):
        m, s = mean[:, point], sd[:, point]
        level = lambda z, m=m, s=s: w @ scipy.stats.norm.cdf(z, m, s) - q  # noqa: E731
        low, high = m.min() - 10 * s.max(), m.max() + 10 * s.max()
        assert level(x - 1e-9 * (1 + abs(x))) <= 1e-12
        assert level(x + 1e-9 * (1 + abs(x))) >= -1e-12
        assert level(brentq(level, low, high, xtol=1e-12)) == pytest.approx(level(x), abs=1e-8)


def test_quantiles_of_one_normal():
    q = np.array([[0.025, 0.5], [0.9, 0.975]])
    found = metrics.normal_mixture_quantile([[1.0, -2.0, 1e12]], [[2.0, 0.5, 1.0]], None, q)
    assert found.shape == (2, 2, 3)
    for point, (mean, sd) in enumerate([(1.0, 2.0), (-2.0, 0.5), (1e12, 1.0)]):
        np.testing.assert_allclose(found[..., point], scipy.stats.norm.ppf(q, mean, sd), rtol=1e-9)


def test_intervals_cover():
    rng = np.random.default_rng(1)
    mean, sd, weight = rng.normal(size=(3, 4000)), [[0.5], [1.0], [2.0]], [1.0, 2.0, 1.0]
    low, high = metrics.normal_mixture_quantile(mean, sd, weight, [0.05, 0.95])
    pick = rng.choice(3, p=[0.25, 0.5, 0.25], size=4000)
    y = mean[pick, np.arange(4000)] + np.take([0.5, 1, 2], pick) * rng.normal(size=4000)
    assert metrics.coverage(low, high, y) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: metrics.rmse([1, 2], [1]), r"mean \(2,\), y \(1,\)"),
        (lambda: metrics.rmse([], []), "not empty"),
        (lambda: metrics.rmse([np.nan], [1]), "mean has 1 NaN"),
        (lambda: metrics.rmse([1], [np.inf]), "y has 1 infinite"),
        (lambda: metrics.coverage([1], [0], [0]), "must not exceed upper, but does at 1 of 1"),
        (lambda: metrics.coverage([0], [1, 2], [0]), r"upper \(2,\)"),
        (lambda: metrics.normal_mixture_nll([0], 1, None, [0]), r"\(draw, point\), got shape"),
        (lambda: metrics.normal_mixture_nll([[0]], 1, None, [0, 1]), r"y must have .* got \(2,\)"),
        (lambda: metrics.normal_mixture_nll([[0]], 0, None, [0]), "sd must be greater than 0"),
        (lambda: metrics.normal_mixture_nll([[0]], [1, 2], None, [0]), "or broadcast to it"),
        (lambda: metrics.normal_mixture_quantile([[0]], 1, None, 1.0), r"q=1\.0"),
        (lambda: metrics.normal_mixture_quantile([[0]], 1, None, []), r"q=\[\]"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
