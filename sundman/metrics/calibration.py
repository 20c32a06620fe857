"""Calibration: is the confidence of a prediction the frequency with which it is right?

Points are put into bins by their confidence max_c p[i, c]. With accuracy a_b, mean confidence c_b
and a fraction f_b of the points in bin b, the expected calibration error is

    ECE = sum_b f_b |a_b - c_b|

(Naeini, Cooper, Hauskrecht 2015; Guo, Pleiss, Sun, Weinberger 2017, arXiv:1706.04599).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sundman import check
from sundman.metrics import arguments
from sundman.metrics.arguments import Floats

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
    """Expected calibration error, sum_b f_b |a_b - c_b|, in [0, 1]; see :func:`reliability`."""
    confidence, accuracy, fraction = reliability(probabilities, labels, bins, scheme)
    return float(np.nansum(fraction * np.abs(accuracy - confidence)))
