"""What one chain of a network gave: scores of its ensemble, log-probability curves, its steps."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Literal, Self

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from studies.sa_sgld.experiment import Numbers
from sundman import metrics

Weighting = Literal["weighted", "unweighted"]


@dataclass(frozen=True)
class Scores:
    """NLL, accuracy, ECE with 15 and 30 bins, Brier."""

    nll: float
    accuracy: float
    ece15: float
    ece30: float
    brier: float


@dataclass(frozen=True)
class ChainRun:
    """What one chain gave; the defaults are those of a chain that diverged in its burn-in.

    Attributes:
      draws: how many draws it has.
      used: how many of them are in the ensemble.
      member: the mean log-probability of each draw by itself; None where it is not finite.
      weighted, unweighted: the scores of the ensemble, None if it is empty.
      curve_weighted, curve_unweighted: the log-probability of the growing ensemble.
      mean_step, step_range: of the steps, in learning-rate units.
      diverged_step: where the chain diverged, or None.
      scales: the horseshoe's scale factor of each array at the end of the chain.
      steps_per_epoch: how many steps go once through the data.
      seconds, ms_per_step: how long it took.
    """

    draws: int = 0
    used: int = 0
    member: list[float | None] = field(default_factory=list)
    weighted: Scores | None = None
    curve_weighted: list[float | None] = field(default_factory=list)
    unweighted: Scores | None = None
    curve_unweighted: list[float | None] = field(default_factory=list)
    mean_step: float | None = None
    step_range: tuple[float | None, float | None] = (None, None)
    diverged_step: int | None = None
    scales: dict[str, float] = field(default_factory=dict)
    steps_per_epoch: int = 0
    seconds: float = 0.0
    ms_per_step: float = 0.0

    @classmethod
    def from_json(cls, numbers: Numbers) -> Self:
        """The run whose numbers ``to_json`` gave."""
        scores = {
            kind: None if numbers[kind] is None else Scores(**numbers[kind])
            for kind in ("weighted", "unweighted")
        }
        return cls(**{**numbers, **scores, "step_range": tuple(numbers["step_range"])})

    def to_json(self, *, without: tuple[str, ...] = ()) -> Numbers:
        """The numbers by name, except those whose names begin as one of ``without``."""
        return {k: v for k, v in asdict(self).items() if not k.startswith(without)}

    def scores(self, kind: Weighting) -> Scores | None:
        """The scores of the ensemble."""
        return self.weighted if kind == "weighted" else self.unweighted

    def curve(self, kind: Weighting = "weighted") -> np.ndarray:
        """The log-probability of the growing ensemble; NaN where there is no value."""
        curve = self.curve_weighted if kind == "weighted" else self.curve_unweighted
        return np.array([math.nan if value is None else value for value in curve])

    @property
    def diverged(self) -> bool:
        """Not finite, or no better than guessing among ten classes at its end."""
        if self.diverged_step is not None or self.weighted is None:
            return True
        last = [value for value in self.member[-3:] if value is not None]
        missing = len(last) < len(self.member[-3:])
        return missing or sum(last) / len(last) < -math.log(10.0)


def score(
    draws: sundman.Draws,
    posterior: sundman.Posterior,
    labels: np.ndarray,
    skipped: int,
    steps_per_epoch: int,
) -> ChainRun:
    """Scores of the ensemble, weighted by dt and not, log-probability curves, and steps.

    A diverged chain's draws have weight 0 and count in none of them.

    Args:
      draws: class probabilities at the test points.
      posterior: converts the steps to learning rates.
      labels: the classes of the test points.
      skipped: draws at the start that the scores, the curves and the steps leave out.
      steps_per_epoch: noted in the result.

    Returns:
      What the chain gave.
    """
    weight = np.asarray(draws.weight[0], np.float64)
    used = np.where(np.arange(len(weight)) < skipped, 0.0, weight)
    weights = {"weighted": used, "unweighted": (used > 0).astype(np.float64)}
    sums: dict[str, np.ndarray] = dict.fromkeys(weights, np.zeros(()))
    log_prob = []
    for part, block in draws.blocks():
        good = weight[part] > 0
        probabilities = np.asarray(block[0])
        counted = probabilities[good].astype(np.float64)
        for kind, w in weights.items():
            sums[kind] = sums[kind] + np.tensordot(w[part][good], counted, 1)
        with np.errstate(divide="ignore"):
            own = np.log(probabilities[:, np.arange(len(labels)), labels].astype(np.float64))
        log_prob.append(np.where(good[:, None], own, 0.0))
    each = np.concatenate(log_prob)

    def scores(kind: Weighting) -> Scores | None:
        total = weights[kind].sum()
        return scores_of(sums[kind] / total, labels) if total > 0 else None

    def curve(every: np.ndarray) -> list[float | None]:
        shown = every[skipped:]
        values = metrics.log_probability_curve(each[skipped:], shown) if shown.sum() > 0 else []
        return [_finite(value) for value in values]

    good = weight > 0
    used_or_good = (used > 0) if (used > 0).any() else good
    dt = np.asarray(draws.stats["dt"][0], np.float64)[used_or_good]
    rate = float(posterior.learning_rate(1.0, kinetic=False))
    h = rate * dt if dt.size else np.array([math.nan])
    (diverged_step,) = draws.facts.diverged_step or (-1,)
    seconds = draws.facts.seconds or 0.0
    return ChainRun(
        draws=len(weight),
        used=int(np.count_nonzero(used)),
        member=[
            _finite(row.mean()) if w > 0 else None for row, w in zip(each, weight, strict=True)
        ],
        weighted=scores("weighted"),
        curve_weighted=curve(weight),
        unweighted=scores("unweighted"),
        curve_unweighted=curve(good.astype(np.float64)),
        mean_step=_finite(h.mean()),
        step_range=(_finite(h.min()), _finite(h.max())),
        diverged_step=diverged_step if diverged_step >= 0 else None,
        scales=final_scales(draws),
        steps_per_epoch=steps_per_epoch,
        seconds=seconds,
        ms_per_step=1e3 * seconds / max(1, draws.facts.steps or 0),
    )


def scores_of(probabilities: np.ndarray, labels: np.ndarray) -> Scores:
    """The scores of class probabilities."""
    return Scores(
        nll=metrics.nll(probabilities, labels),
        accuracy=metrics.accuracy(probabilities, labels),
        ece15=metrics.ece(probabilities, labels, bins=15),
        ece30=metrics.ece(probabilities, labels, bins=30),
        brier=metrics.brier(probabilities, labels),
    )


def _finite(value: float) -> float | None:
    return round(float(value), 7) if math.isfinite(value) else None


def final_scales(draws: sundman.Draws) -> dict[str, float]:
    """The horseshoe's scale factor softplus(p) of each array at the end of the chain."""
    hyper = getattr(draws.last, "hyper", {})
    return {
        path.removeprefix("prior/"): float(jax.nn.softplus(jnp.asarray(leaf["p"][0])))
        for path, leaf in hyper.items()
    }
