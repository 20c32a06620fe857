"""NLL, accuracy, Brier score, entropy and AUROC against scikit-learn and by hand."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from predictions import predictions, random_predictions
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
