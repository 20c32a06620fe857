"""The scores of a chain's ensemble, its log-probability curves, and the steps it took."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import metrics
from sundman.paper.units import Numbers


def scores(probabilities: np.ndarray, labels: np.ndarray) -> Numbers:
    """NLL, accuracy, ECE with 15 and 30 bins, Brier."""
    return {
        "nll": metrics.nll(probabilities, labels),
        "accuracy": metrics.accuracy(probabilities, labels),
        "ece15": metrics.ece(probabilities, labels, bins=15),
        "ece30": metrics.ece(probabilities, labels, bins=30),
        "brier": metrics.brier(probabilities, labels),
    }


def ensemble(draws: sundman.Draws, labels: np.ndarray, skipped: int) -> Numbers:
    """Scores of the ensemble, weighted by dt and not, and the log-probability curves.

    The curves are of all draws; the scores leave the first ``skipped`` out. A diverged chain's
    draws have weight 0 and count in neither.
    """
    weight = np.asarray(draws.weight[0], np.float64)
    used = np.where(np.arange(len(weight)) < skipped, 0.0, weight)
    weights = {"weighted": used, "unweighted": (used > 0).astype(np.float64)}
    sums, log_prob = dict.fromkeys(weights, np.zeros(())), []
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
    found: Numbers = {"draws": len(weight), "used": int(np.count_nonzero(used))}
    found["member"] = [
        _finite(row.mean()) if w > 0 else None for row, w in zip(each, weight, strict=True)
    ]
    for kind, w in weights.items():
        found[kind] = scores(sums[kind] / w.sum(), labels) if w.sum() > 0 else None
        every = weight if kind == "weighted" else (weight > 0).astype(np.float64)
        shown = every[skipped:]
        curve = metrics.log_probability_curve(each[skipped:], shown) if shown.sum() > 0 else []
        found[f"curve_{kind}"] = [_finite(value) for value in curve]
    return found


def _finite(value: float) -> float | None:
    return round(float(value), 7) if math.isfinite(value) else None


def steps_taken(draws: sundman.Draws, posterior: sundman.Posterior, skipped: int) -> Numbers:
    """Mean and range of the step, in learning-rate units, and where the chain diverged."""
    good = draws.weight[0] > 0
    kept = good & (np.arange(len(good)) >= skipped)
    dt = np.asarray(draws.stats["dt"][0], np.float64)[kept if kept.any() else good]
    h = posterior.learning_rate(1.0, kinetic=False) * dt if dt.size else np.array([math.nan])
    step = int(draws.settings["diverged_step"][0])
    return {
        "mean_step": _finite(h.mean()),
        "step_range": [_finite(h.min()), _finite(h.max())],
        "diverged_step": step if step >= 0 else None,
    }


def final_scales(draws: sundman.Draws) -> Mapping[str, float]:
    """The horseshoe's scale factor softplus(p) of each array at the end of the chain."""
    hyper = getattr(draws.last, "hyper", {})
    return {
        path.removeprefix("prior/"): float(jax.nn.softplus(jnp.asarray(leaf["p"][0])))
        for path, leaf in hyper.items()
    }


def lost(step: int) -> Numbers:
    """What there is to say of a chain that diverged in its burn-in, before ``step``."""
    nothing: Numbers = {"draws": 0, "used": 0, "weighted": None, "unweighted": None}
    curves: Numbers = {"member": [], "curve_weighted": [], "curve_unweighted": [], "scales": {}}
    steps = {"mean_step": None, "step_range": [None, None], "diverged_step": step}
    return {**nothing, **curves, **steps, "seconds": 0.0, "ms_per_step": 0.0}
