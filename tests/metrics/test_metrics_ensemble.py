"""Mutual information and the log-probability curve of weighted ensembles."""

import numpy as np
import pytest
from hypothesis import given
from predictions import ensembles, random_predictions
from scipy.special import logsumexp

from sundman import metrics


@given(ensembles())
def test_mutual_information_is_a_divergence_from_the_mean(ensemble):
    """I = sum_d w_d KL(p_d, mean), which is how it is computed here."""
    members, weight = ensemble
    mean = np.average(members, axis=0, weights=weight)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(members > 0, members * np.log(members / mean), 0).sum(axis=2)
    found = metrics.mutual_information(members, weight)
    np.testing.assert_allclose(found, np.average(terms, axis=0, weights=weight), atol=1e-12)
    assert (found >= 0).all()
    assert (found <= metrics.entropy(mean) + 1e-12).all()
    np.testing.assert_allclose(found, metrics.mutual_information(members, 7 * weight), atol=1e-12)


def test_mutual_information_extremes():
    p, _ = random_predictions(0, 20, 5)
    same = np.stack([p] * 6)
    np.testing.assert_allclose(metrics.mutual_information(same, None), 0, atol=1e-12)
    certain = np.eye(4)[:, None, :]
    np.testing.assert_allclose(metrics.mutual_information(certain, None), np.log(4))
    np.testing.assert_allclose(metrics.mutual_information(certain, [1, 1, 0, 0]), np.log(2))


def test_draws_without_weight_may_be_anything():
    p, _ = random_predictions(0, 3, 2)
    members = np.stack([np.full_like(p, np.nan), p])
    np.testing.assert_allclose(metrics.mutual_information(members, [0, 2]), 0, atol=1e-12)
    log_prob = np.array([[np.nan, np.nan], [-1.0, -3.0], [np.inf, 0.0]])
    np.testing.assert_allclose(metrics.log_probability_curve(log_prob, [0, 2, 0]), [np.nan, -2, -2])


@given(ensembles())
def test_curve_ends_at_the_nll_of_the_weighted_mean(ensemble):
    members, weight = ensemble
    y = np.random.default_rng(0).integers(members.shape[2], size=members.shape[1])
    log_prob = np.log(members[:, np.arange(len(y)), y])
    curve = metrics.log_probability_curve(log_prob, weight)
    mean = np.average(members, axis=0, weights=weight)
    assert curve[-1] == pytest.approx(-metrics.nll(mean, y))
    for k in range(len(weight)):
        if not weight[: k + 1].any():
            assert np.isnan(curve[k])
            continue
        mixture = logsumexp(log_prob[: k + 1], axis=0, b=weight[: k + 1, None])
        assert curve[k] == pytest.approx(mixture.mean() - np.log(weight[: k + 1].sum()))


def test_curve_neither_under_nor_overflows():
    log_prob = np.array([[-1e5, 2e4], [-1e5 + 1, 2e4], [-np.inf, 2e4]])
    curve = metrics.log_probability_curve(log_prob, [1e-200, 1e-200, 1e-200])
    first = (-1e5 + np.log((1 + np.e) / 2) + 2e4) / 2
    np.testing.assert_allclose(curve[:2], [-4e4, first], rtol=1e-12)
    assert curve[2] == pytest.approx((-1e5 + np.log((1 + np.e) / 3) + 2e4) / 2)
    assert metrics.log_probability_curve([[-np.inf]], None)[0] == -np.inf


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, 1, 1], r"one number for each draw, \(2,\), got \(3,\)"),
        ([[1, 1]], r"got \(1, 2\)"),
        ([1, -1], "negative"),
        ([0, 0], "not 0 for every draw"),
        ([1, np.nan], "weight has 1 NaN"),
        ([1, np.inf], "weight has 1 infinite"),
    ],
)
def test_bad_weights(weight, words):
    p, _ = random_predictions(0, 3, 2)
    with pytest.raises(ValueError, match=words):
        metrics.mutual_information(np.stack([p, p]), weight)
    with pytest.raises(ValueError, match=words):
        metrics.log_probability_curve(np.zeros((2, 3)), weight)
    with pytest.raises(ValueError, match=words):
        metrics.normal_mixture_nll(np.zeros((2, 3)), 1.0, weight, np.zeros(3))


def test_bad_members():
    p, _ = random_predictions(0, 3, 2)
    with pytest.raises(ValueError, match=r"\(draw, point, class\), got shape \(3, 2\)"):
        metrics.mutual_information(p, None)
    with pytest.raises(ValueError, match=r"member_probabilities\[1\] must sum to 1, but row 0"):
        metrics.mutual_information(np.stack([p, 2 * p]), None)
    with pytest.raises(ValueError, match=r"\(draw, point\), got shape \(3,\)"):
        metrics.log_probability_curve(np.zeros(3), None)
    with pytest.raises(ValueError, match=r"log_prob\[0\] has 1 NaN"):
        metrics.log_probability_curve([[0, np.nan]], None)
    with pytest.raises(ValueError, match=r"log_prob\[1\] is infinite"):
        metrics.log_probability_curve([[0], [np.inf]], None)
