"""What an ensemble of weighted draws says: its disagreement, and how it improves as it grows.

Draws of weight 0, those of a chain that diverged, are left out, whatever their values.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from sundman.metrics import arguments
from sundman.metrics.arguments import Floats


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
