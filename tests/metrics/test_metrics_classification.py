"""Scores of class probabilities against scikit-learn and by hand, and those of ensembles."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from predictions import ensembles, predictions, random_predictions
from scipy.special import logsumexp
from sklearn import metrics as oracle

from sundman import metrics


@given(predictions())
def test_against_scikit_learn(prediction):
    p, y = prediction
    p = 0.999 * p + 0.001 / p.shape[1]  # scikit-learn clips what is below the rounding of 1
    classes = range(p.shape[1])
    assert metrics.nll(p, y) == pytest.approx(oracle.log_loss(y, p, labels=classes), rel=1e-9)
    assert metrics.accuracy(p, y) == pytest.approx(oracle.accuracy_score(y, p.argmax(1)))
    one_against_all = sum(oracle.brier_score_loss(y == c, p[:, c], pos_label=True) for c in classes)
    assert metrics.brier(p, y) == pytest.approx(one_against_all)
    np.testing.assert_allclose(metrics.entropy(p), scipy.stats.entropy(p, axis=1), atol=1e-12)


@given(predictions())
def test_order_and_form_of_labels_do_not_matter(prediction):
    p, y = prediction
    order = np.random.default_rng(0).permutation(len(y))
    one_hot = np.eye(p.shape[1])[y]
    for metric in (metrics.nll, metrics.accuracy, metrics.brier):
        value = metric(p, y)
        assert metric(p[order], y[order]) == pytest.approx(value)
        for form in (one_hot, one_hot.astype(bool), one_hot.astype(np.int8), y.astype(np.uint8)):
            assert metric(p, form) == value


def test_by_hand():
    p, y = [[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], [0, 1]
    assert metrics.nll(p, y) == pytest.approx(-(np.log(0.7) + np.log(0.3)) / 2)
    assert metrics.accuracy(p, y) == 0.5
    first, second = 0.3**2 + 0.2**2 + 0.1**2, 0.1**2 + 0.7**2 + 0.6**2
    assert metrics.brier(p, y) == pytest.approx((first + second) / 2)
    assert metrics.brier([[1, 0]], [1]) == 2
    assert metrics.nll([[1.0, 0.0]], [1]) == np.inf
    assert metrics.nll([[1.0, 0.0]], [0]) == 0
    np.testing.assert_allclose(metrics.entropy([[1, 0], [0.5, 0.5]]), [0, np.log(2)])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_jax_arrays(dtype):
    p = jnp.array([[0.75, 0.25], [0.5, 0.5]], dtype)
    assert metrics.nll(p, jnp.array([0, 1])) == pytest.approx(-np.log(0.375) / 2)
    assert metrics.brier(p, jnp.array([[1, 0], [0, 1]])) == pytest.approx(0.3125)


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 40), st.integers(1, 50))
def test_auroc(seed, inside, outside, levels):
    """Few levels make ties."""
    rng = np.random.default_rng(seed)
    scores_in, scores_out = rng.integers(levels, size=inside), rng.integers(levels, size=outside)
    truth = np.repeat([0, 1], [inside, outside])
    expected = oracle.roc_auc_score(truth, np.concatenate([scores_in, scores_out]))
    found = metrics.auroc(scores_in, scores_out)
    assert found == pytest.approx(expected)
    assert metrics.auroc(scores_out, scores_in) == pytest.approx(1 - found)
    assert metrics.auroc(np.exp(scores_in / 7), np.exp(scores_out / 7)) == pytest.approx(found)


def test_auroc_extremes():
    assert metrics.auroc([1, 2], [3, 4]) == 1
    assert metrics.auroc([3, 4], [1, -np.inf]) == 0
    assert metrics.auroc([5, 5], [5]) == 0.5


P, Y = random_predictions(0, 4, 3)
SECOND = np.arange(12).reshape(4, 3) == 1


@pytest.mark.parametrize("metric", [metrics.nll, metrics.accuracy, metrics.brier, metrics.ece])
@pytest.mark.parametrize(
    ("p", "y", "error", "words"),
    [
        (P[0], Y, ValueError, r"axes \(point, class\), got shape \(3,\)"),
        (P[:0], Y[:0], ValueError, r"got shape \(0, 3\)"),
        (2 * P, Y, ValueError, "row 0 sums to 2"),
        (np.log(P), Y, ValueError, "must not be negative.*logits"),
        (np.where(SECOND, np.nan, P), Y, ValueError, "probabilities has 1 NaN among its 12"),
        (np.where(SECOND, np.inf, P), Y, ValueError, "probabilities has 1 infinite"),
        (P.astype(str), Y, TypeError, "probabilities must be real numbers"),
        (P.astype(complex), Y, TypeError, "probabilities must be real numbers"),
        (P, Y[:3], ValueError, r"labels must have shape \(4,\).* got \(3,\)"),
        (P, Y + 3, ValueError, "labels must be from 0 to 2"),
        (P, Y - 3, ValueError, "labels must be from 0 to 2"),
        (P, Y.astype(float), TypeError, "labels must be whole numbers, got dtype float64"),
        (P, np.eye(4), ValueError, r"one-hot labels must have the shape \(4, 3\)"),
        (P, np.ones((4, 3)), ValueError, "a single 1"),
        (P, P, ValueError, "a single 1"),
    ],
)
def test_bad_input(metric, p, y, error, words):
    with pytest.raises(error, match=words):
        metric(p, y)


def test_bad_scores():
    with pytest.raises(ValueError, match="scores_in has 1 NaN"):
        metrics.auroc([np.nan, 1], [2])
    with pytest.raises(ValueError, match=r"scores_out must be one number .* got \(0,\)"):
        metrics.auroc([1], [])
    with pytest.raises(ValueError, match=r"scores_in must be one number .* got \(1, 2\)"):
        metrics.auroc([[1, 2]], [1])


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
