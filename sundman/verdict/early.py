"""Do the first draws of a run lie where the others do? On plain arrays, without JAX.

A warm-up that ends during the descent leaves its tail in the draws, which averages hide: a fortieth
of them at ten standard deviations in one direction moves its mean by a quarter of one and triples
its variance. With m and S the mean and covariance of the late draws of one half of the chains, the
draws x of the other half are looked at by two numbers,

    s = (e - m)' S^-1 (x - m)            how far along the shift of the first half's early mean e
    D = (x - m)' S^-1 (x - m)            how far out, in any direction; d is right

so that neither direction nor covariance were chosen by the draws that they judge, and a run that is
short, or has many coordinates, does not look bad. D^(1/3) is compared, whose law is nearly normal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sundman.estimate.moments import moments

CUTS = (0.025, 0.05, 0.1, 0.25)  # the shares of a run that may be its early part
_CHANCE = 6.0  # standard errors
_SHIFT = 0.1  # of a mean, in standard deviations: the error that 100 effective draws have
_SPREAD = 0.1  # of the sum of d variances of 1, in units of sqrt(d)
_FEWEST = 4  # rows of a chain that are an early part
_MOST = 200  # coordinates


class EarlyDraws(NamedTuple):
    """Early draws that lie apart from the others.

    Attributes:
      share: of the run.
      out: their mean squared Mahalanobis distance from the late draws,
      usual: and of the late draws among themselves, about d.
    """

    share: float
    out: float
    usual: float


class _Stretch(NamedTuple):
    """How a stretch of the draws differs from the late ones: in standard errors, and in size."""

    errors_along: float
    errors_apart: float
    shift: float
    out: float
    usual: float


class _Fold(NamedTuple):
    """Whitened draws, (chain, draw, d), with the mean and covariance of others' late draws.

    Attributes:
      z: of the chains to be looked at, the late ones from ``late`` on.
      weight: of these.
      others: of the other chains, to learn the direction of the shift from; None if there is none.
      late: the first draw that is late.
    """

    z: np.ndarray
    weight: np.ndarray
    others: tuple[np.ndarray, np.ndarray] | None
    late: int

    def stretch(self, begin: int, end: int) -> _Stretch:
        """How the draws from ``begin`` to ``end`` differ."""
        far = np.square(self.z).sum(axis=2)
        apart, _, _ = self._difference(np.cbrt(far), begin, end)
        _, out, usual = self._difference(far, begin, end)
        if self.others is None:
            return _Stretch(0.0, apart, 0.0, out, usual)
        z, weight = (part[:, begin:end] for part in self.others)
        towards = weight.ravel() @ z.reshape(-1, z.shape[2])
        along, shifted, _ = self._difference(
            self.z @ (towards / max(np.linalg.norm(towards), 1e-300)), begin, end, unit=True
        )
        return _Stretch(along, apart, shifted, out, usual)

    def _difference(
        self, f: np.ndarray, begin: int, end: int, *, unit: bool = False
    ) -> tuple[float, float, float]:
        """Early mean minus late mean of f in standard errors, and both; or their difference in sds.

        The error is from the correlations of the late draws. The mean of a short stretch varies no
        more than one draw of each chain does.
        """
        weight = self.weight[:, self.late :]
        late, error, variance = map(float, moments(f[:, self.late :], weight))
        w = self.weight[:, begin:end]
        early = float(np.sum(w * f[:, begin:end]) / w.sum())
        share = weight.sum() / w.sum()
        more = min(error**2 * share, variance / np.count_nonzero(w.sum(axis=1)))
        difference = early - late
        errors = difference / max(np.sqrt(error**2 + more), 1e-300)
        return (errors, difference / np.sqrt(variance), 0.0) if unit else (errors, early, late)


def early_draws(values: np.ndarray, weight: np.ndarray) -> EarlyDraws | None:
    """The early part of the run that lies apart from its late draws.

    Args:
      values: of some coordinates at evenly spaced draws, (chain, draw, k).
      weight: of these draws, (chain, draw).

    Returns:
      The longest such part, if it moves averages by as much as matters; None if there is none, or
      too few draws to tell.
    """
    whole = (weight > 0).all(axis=1)
    cuts = [int(share * weight.shape[1]) for share in CUTS]
    if not whole.any() or cuts[0] < _FEWEST:
        return None
    x, weight = _usable(values[whole], weight[whole])
    draws, d = x.shape[1:]
    if not d:
        return None
    folds = list(_folds(x, weight, cuts[-1]))
    if not any(_matters(folds, 0, cut, cut / draws, d) for cut in cuts):
        return None
    parts = list(pairwise([0, *cuts]))
    apart = [i for i, part in enumerate(parts) if _errors(folds, *part) > _CHANCE]
    share = CUTS[apart[-1] if apart else 0]
    seen = [fold.stretch(0, int(share * draws)) for fold in folds]
    out, usual = (
        float(np.mean([getattr(each, name) for each in seen])) for name in ("out", "usual")
    )
    return EarlyDraws(share, out, usual)


def _usable(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Some of the coordinates that move, in units of their sd."""
    moving = np.isfinite(values).all(axis=(0, 1)) & (np.ptp(values, axis=(0, 1)) > 0)
    some = np.flatnonzero(moving)
    if len(some) > _MOST:
        some = some[np.linspace(0, len(some) - 1, _MOST).astype(int)]
    x = values[..., some]
    return (x - x.mean(axis=(0, 1))) / x.std(axis=(0, 1)), weight


def _folds(x: np.ndarray, weight: np.ndarray, quarter: int) -> Iterator[_Fold]:
    """One half of the chains judged by the other, and the other by this one."""
    if len(x) == 1:  # the first half of the chain by the second
        half = x.shape[1] // 2
        mean, root = _whitening(x[:, half:], weight[:, half:])
        yield _Fold((x[:, :half] - mean) @ root, weight[:, :half], None, quarter)
        return
    even, odd = slice(0, None, 2), slice(1, None, 2)
    for ours, theirs in ((even, odd), (odd, even)):
        mean, root = _whitening(x[theirs, quarter:], weight[theirs, quarter:])
        z = (x - mean) @ root
        yield _Fold(z[ours], weight[ours], (z[theirs], weight[theirs]), quarter)


def _whitening(x: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean m, and R with R R' = S^-1; S is drawn to its diagonal where draws are few."""
    mean, error, variance = moments(x, weight)
    d = len(mean)
    sd = np.sqrt(np.maximum(variance, 1e-12))
    z = (x - mean) / sd
    rows = z.reshape(-1, d)
    S = rows.T @ (weight.reshape(-1, 1) * rows) / weight.sum()
    effective = np.median(variance / np.maximum(error, 1e-300) ** 2)
    few = min(1.0, (d / effective) ** 2)
    values, vectors = np.linalg.eigh((1.0 - few) * S + few * np.eye(d))
    return mean, vectors / sd[:, None] / np.sqrt(np.maximum(values, 1e-9))


def _errors(folds: list[_Fold], begin: int, end: int) -> float:
    """By how many standard errors a stretch lies along the shift, or apart: the larger."""
    seen = [fold.stretch(begin, end) for fold in folds]
    both = (sum(each.errors_along for each in seen), sum(each.errors_apart for each in seen))
    return max(both) / np.sqrt(len(seen))


def _matters(folds: list[_Fold], begin: int, end: int, share: float, d: int) -> bool:
    """Whether a stretch differs by more than chance, and moves averages by as much as matters."""
    seen = [fold.stretch(begin, end) for fold in folds]
    root = np.sqrt(len(seen))
    shifted = sum(each.errors_along for each in seen) / root > _CHANCE
    shifted &= share * np.mean([each.shift for each in seen]) > _SHIFT
    apart = sum(each.errors_apart for each in seen) / root > _CHANCE
    spread = np.mean([(each.out - each.usual) * d / each.usual for each in seen])
    return bool(shifted or (apart and share * spread > _SPREAD * np.sqrt(d)))
