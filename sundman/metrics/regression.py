"""Scores of real predictions; those of an ensemble are mixtures of normal densities.

Draw d predicts N(mean[d, i], sd[d, i]^2) at point i, so the ensemble's predictive density is
sum_d w_d N(y_i; mean[d, i], sd[d, i]^2) / sum_d w_d. Draws of weight 0 are left out.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import ArrayLike

from sundman.metrics import arguments
from sundman.metrics.arguments import Floats

_PRECISION = 1e-10


def rmse(mean: ArrayLike, y: ArrayLike) -> float:
    """Root of the mean squared error, sqrt(mean_i (mean_i - y_i)^2), in the units of y."""
    prediction, truth = arguments.finite("mean", mean), arguments.finite("y", y)
    arguments.same_shape(mean=prediction, y=truth)
    return float(np.sqrt(np.square(prediction - truth).mean()))


def coverage(lower: ArrayLike, upper: ArrayLike, y: ArrayLike) -> float:
    """Fraction of the points with lower_i <= y_i <= upper_i.

    Args:
      lower: the lower end of each interval.
      upper: the upper end of each interval.
      y: what was observed.

    Returns:
      The fraction, from 0 to 1.
    """
    low, high = arguments.numbers("lower", lower), arguments.numbers("upper", upper)
    truth = arguments.finite("y", y)
    arguments.same_shape(lower=low, upper=high, y=truth)
    if crossed := int((low > high).sum()):
        raise ValueError(f"lower must not exceed upper, but does at {crossed} of {low.size} points")
    return float(((low <= truth) & (truth <= high)).mean())


def normal_mixture_nll(
    mean: ArrayLike, sd: ArrayLike, weight: ArrayLike | None, y: ArrayLike
) -> float:
    """Negative log likelihood, mean_i -log( sum_d w_d N(y_i; mean_di, sd_di^2) / sum_d w_d ).

    ``mean`` has the axes (draw, point); ``sd`` too, or a shape that broadcasts to them. ``weight``
    (draw,) is of any sum; None stands for equal weights.

    Args:
      mean: of each draw's normal at each point.
      sd: its standard deviation.
      weight: of the draws.
      y: what was observed at each point.

    Returns:
      The mean over the points, in nats.
    """
    centre, spread, w = _components(mean, sd, weight)
    truth = arguments.finite("y", y)
    if truth.shape != centre.shape[1:]:
        raise ValueError(
            f"y must have one number for each point, {centre.shape[1:]}, got {truth.shape}"
        )
    with np.errstate(over="ignore"):
        log_density = -0.5 * np.square((truth - centre) / spread) - np.log(spread)
    total = scipy.special.logsumexp(log_density, axis=0, b=w[:, None])
    return float(0.5 * np.log(2 * np.pi) - np.mean(total))


def normal_mixture_quantile(
    mean: ArrayLike, sd: ArrayLike, weight: ArrayLike | None, q: ArrayLike
) -> Floats:
    """The quantile of each point's mixture: where sum_d w_d Phi((x - mean_di) / sd_di) = q.

    Found by bisection between the least and the greatest quantile of the components, to 1e-10
    of the smallest sd or the last digit. The result has the shape of ``q`` and then (point,).

    Args:
      mean: of each draw's normal at each point, (draw, point).
      sd: its standard deviation.
      weight: of the draws, of any sum; None stands for equal weights.
      q: one level or several, between 0 and 1.

    Returns:
      The quantiles.
    """
    centre, spread, w = _components(mean, sd, weight)
    level = arguments.finite("q", q)
    if level.size == 0 or level.min() <= 0 or level.max() >= 1:
        raise ValueError(f"q must be greater than 0 and less than 1, got q={q!r}")
    quantiles = [_bisect(centre, spread, w, each) for each in level.ravel()]
    return np.stack(quantiles).reshape(*level.shape, -1)


def _bisect(centre: Floats, spread: Floats, w: Floats, q: float) -> Floats:
    ends = centre + spread * scipy.special.ndtri(q)
    low, high = ends.min(axis=0), ends.max(axis=0)
    enough = _PRECISION * spread.min(axis=0)
    while True:
        middle = 0.5 * (low + high)
        if ((high - low <= enough) | (middle <= low) | (middle >= high)).all():
            return middle
        with np.errstate(over="ignore"):
            below = w @ scipy.special.ndtr((middle - centre) / spread) < q
        low, high = np.where(below, middle, low), np.where(below, high, middle)


def _components(
    mean: ArrayLike, sd: ArrayLike, weight: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Means and standard deviations (draw, point) and the weights of the draws that have one."""
    values = np.asarray(mean)
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"mean must have the axes (draw, point), got shape {values.shape}")
    try:
        spreads = np.broadcast_to(np.asarray(sd), values.shape)
    except ValueError:
        raise ValueError(
            f"sd must have the shape {values.shape} of mean or broadcast to it, got shape "
            f"{np.shape(sd)}"
        ) from None
    w = arguments.weights(weight, len(values))
    has_weight = w > 0
    centre, spread = (
        arguments.finite("mean", values[has_weight]),
        arguments.finite("sd", spreads[has_weight]),
    )
    if spread.min() <= 0:
        raise ValueError(f"sd must be greater than 0, got {spread.min():.6g}")
    return centre, spread, w[has_weight]
