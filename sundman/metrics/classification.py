"""Scores of class probabilities p[i, c] at points i whose class is y[i], and of their ensembles.

Is the confidence of a prediction the frequency with which it is right? Points are put into bins
by their confidence max_c p[i, c]. With accuracy a_b, mean confidence c_b and a fraction f_b of the
points in bin b, the expected calibration error is

    ECE = sum_b f_b |a_b - c_b|

(Naeini, Cooper, Hauskrecht 2015; Guo, Pleiss, Sun, Weinberger 2017, arXiv:1706.04599).

An ensemble of weighted draws has two scores more: how much its members disagree, and how it
improves as it grows. Draws of weight 0, those of a chain that diverged, are left out, whatever
their values.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike

from sundman import check
from sundman.metrics import arguments
from sundman.metrics.arguments import Floats


def nll(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Negative log likelihood, mean_i -log p[i, y_i], in nats.

    Nothing is clipped: a probability of 0 for what happened costs infinity.
    """
    p = arguments.probabilities(probabilities)
    y = arguments.labels(labels, p.shape)
    with np.errstate(divide="ignore"):
        return float(-np.log(p[np.arange(len(y)), y]).mean())


def accuracy(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Fraction of the points with argmax_c p[i, c] = y_i; among equals the first class counts."""
    p = arguments.probabilities(probabilities)
    return float((p.argmax(axis=1) == arguments.labels(labels, p.shape)).mean())


def brier(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Brier score, mean_i sum_c (p[i, c] - [c = y_i])^2.

    The sum is over all classes, as in Brier (1950), so it lies in [0, 2]; for two classes it is
    twice the score that looks at one of them only.
    """
    p = arguments.probabilities(probabilities)
    y = arguments.labels(labels, p.shape)
    return float(np.square(p - np.eye(p.shape[1])[y]).sum(axis=1).mean())


def total_variation(probabilities: ArrayLike, reference: ArrayLike) -> float:
    """Mean over points of the total variation, mean_i 1/2 sum_c |p[i, c] - q[i, c]|.

    Between 0 and 1. Of a predictive and the true one it says how far a sampler is from the
    posterior, which scores on labels do not: a wrong sampler may score better. For densities of
    draws in the plane there is :func:`sundman.estimate.total_variation`.

        >>> metrics.total_variation([[0.5, 0.5]], [[0.7, 0.3]])
        0.2

    Args:
      probabilities: p, (point, class).
      reference: q, of the same shape.

    Returns:
      The distance.
    """
    p = arguments.probabilities(probabilities)
    q = arguments.probabilities(reference, "reference")
    arguments.same_shape(probabilities=p, reference=q)
    return float(0.5 * np.abs(p - q).sum(axis=1).mean())


def entropy(probabilities: ArrayLike) -> Floats:
    """Predictive entropy of each point, -sum_c p[i, c] log p[i, c], in nats."""
    return scipy.special.entr(arguments.probabilities(probabilities)).sum(axis=1)


def auroc(scores_in: ArrayLike, scores_out: ArrayLike) -> float:
    """Area under the ROC curve of a score that should be higher out of distribution.

    P(S_out > S_in) + P(S_out = S_in) / 2, by ranks: 1 tells the two apart, 1/2 is a coin.
    Entropy and mutual information are such scores; of a confidence give the negative.
    """
    inside = arguments.numbers("scores_in", scores_in)
    outside = arguments.numbers("scores_out", scores_out)
    for name, scores in (("scores_in", inside), ("scores_out", outside)):
        if scores.ndim != 1 or scores.size == 0:
            raise ValueError(f"{name} must be one number for each point, got {scores.shape}")
    ordered = np.sort(inside)
    below, up_to = (np.searchsorted(ordered, outside, side) for side in ("left", "right"))
    return float((below + up_to).mean() / (2 * inside.size))


Scheme = Literal["width", "mass"]


class Reliability(NamedTuple):
    """Per bin, from the least confident on: NaN confidence and accuracy where a bin is empty."""

    confidence: Floats
    accuracy: Floats
    fraction: Floats


def reliability(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15, scheme: Scheme = "width"
) -> Reliability:
    """Confidence, accuracy and fraction of the points in each bin.

    ``scheme="width"`` has the bins (0, 1/B], (1/B, 2/B], ... ((B - 1)/B, 1]; ``"mass"`` puts the
    edges at quantiles of the confidence, so that bins hold equally many points, except that
    points of equal confidence stay together.

    Args:
      probabilities: of the classes, (point, class).
      labels: class numbers, or one-hot rows.
      bins: B.
      scheme: ``"width"`` or ``"mass"``.

    Returns:
      Three arrays with one entry for each bin.
    """
    p = arguments.probabilities(probabilities)
    y = arguments.labels(labels, p.shape)
    check.count("bins", bins, least=1)
    check.choice("scheme", scheme, ("width", "mass"))
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    edges = np.arange(1, bins) / bins
    if scheme == "mass":
        edges = np.quantile(confidence, edges, method="inverted_cdf")
    index = np.searchsorted(edges, confidence, side="left")
    count = np.bincount(index, minlength=bins)
    with np.errstate(invalid="ignore"):
        return Reliability(
            confidence=np.bincount(index, confidence, bins) / count,
            accuracy=np.bincount(index, right, bins) / count,
            fraction=count / len(y),
        )


def ece(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 15, scheme: Scheme = "width"
) -> float:
    """Expected calibration error, sum_b f_b |a_b - c_b|, in [0, 1]; see :func:`reliability`.

    Args:
      probabilities: of the classes, (point, class).
      labels: class numbers, or one-hot rows.
      bins: how many.
      scheme: ``"width"`` or ``"mass"``.

    Returns:
      The error.
    """
    confidence, accuracy, fraction = reliability(probabilities, labels, bins, scheme)
    return float(np.nansum(fraction * np.abs(accuracy - confidence)))


def mutual_information(member_probabilities: ArrayLike, weight: ArrayLike | None) -> Floats:
    """How much the members disagree at each point, in nats: H(sum_d w_d p_d) - sum_d w_d H(p_d).

    ``member_probabilities`` has the axes (draw, point, class), ``weight`` (draw,), of any sum;
    None stands for equal weights. It is what the draw would tell about the class (Houlsby and
    others 2011, arXiv:1112.5745): never negative, and 0 where all members agree.
    """
    members = np.asarray(member_probabilities)
    if members.ndim != 3 or 0 in members.shape:
        raise ValueError(
            "member_probabilities must have the axes (draw, point, class), got shape "
            f"{members.shape}"
        )
    w = arguments.weights(weight, len(members))
    mean, mean_entropy = np.zeros(members.shape[1:]), np.zeros(members.shape[1])
    for draw in np.flatnonzero(w):
        p = arguments.probabilities(members[draw], f"member_probabilities[{draw}]")
        mean += w[draw] * p
        mean_entropy += w[draw] * scipy.special.entr(p).sum(axis=1)
    return np.maximum(scipy.special.entr(mean).sum(axis=1) - mean_entropy, 0.0)


def log_probability_curve(log_prob: ArrayLike, weight: ArrayLike | None) -> Floats:
    """The mean log probability of the ensemble of the first k draws, for each k.

    mean_i log( sum_{d<=k} w_d p_di / sum_{d<=k} w_d ), p_di = p(y_i | x_i, theta_d)

    ``log_prob`` has the axes (draw, point) and holds log p_di; ``weight`` (draw,) is of any sum,
    None stands for equal weights. The sum is carried along in logarithms, so nothing under- or
    overflows. NaN before the first draw that has a weight.
    """
    values = np.asarray(log_prob)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"log_prob must have the axes (draw, point), got shape {values.shape}")
    w = arguments.weights(weight, len(values))
    curve = np.full(len(values), np.nan)
    log_sum, log_weight = np.full(values.shape[1], -np.inf), -np.inf
    for draw, mass in enumerate(w):
        if mass > 0:
            row = arguments.numbers(f"log_prob[{draw}]", values[draw])
            if row.max() == np.inf:
                raise ValueError(f"log_prob[{draw}] is infinite, that is, an infinite probability")
            log_sum = np.logaddexp(log_sum, row + np.log(mass))
            log_weight = np.logaddexp(log_weight, np.log(mass))
        if log_weight > -np.inf:
            curve[draw] = log_sum.mean() - log_weight
    return curve
