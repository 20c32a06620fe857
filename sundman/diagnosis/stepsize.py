"""The stepsize: its range, its bounds, the memory of zeta, and the spread of the weights."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sundman.diagnosis.table import Row, Verdict, graded, sparkline
from sundman.draws import Draws
from sundman.estimate.moments import moments

_BINS = 16
_OFTEN = 0.2  # the share of draws at a bound from which the clock hardly adapts
_SHORT = 0.3  # alpha dtau: a shorter memory lets dt follow the noise of a minibatch


def stepsize_rows(draws: Draws) -> Iterator[Row]:
    """Stepsize, zeta and weights, as far as they were recorded."""
    if "dt" in draws.stats:
        yield from _dt(draws)
    yield from _zeta(draws)
    if draws.tuning is not None and draws.tuning.bias > 0:
        note = "about, from the energy error of a step; a smaller bias= in sundman.auto lessens it"
        yield Row("bias of the step / sd", draws.tuning.bias, None, "", note)
    weight = draws.weight[draws.weight > 0].astype(np.float64)
    share = float(weight.sum() ** 2 / (weight**2).sum() / len(weight))
    verdict = graded(-share, look=-0.5, bad=-0.1)
    note = {
        "good": "little is lost to unequal weights",
        "look": "unequal weights cost draws: bring m and M closer",
        "bad": "a few draws rule the averages: bring m and M closer",
    }
    yield Row("evenness of weights", share, None, verdict, f"1 is equal; {note[verdict]}")


def _dt(draws: Draws) -> Iterator[Row]:
    settings = draws.settings
    dt = np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0]
    low, high = float(dt.min()), float(dt.max())
    if high <= low * (1 + 1e-6):
        yield Row("stepsize", float(dt.mean()), None, "", "the same at every draw")
        return
    counts, _ = np.histogram(np.log(dt), bins=_BINS)
    yield Row(
        "stepsize",
        float(dt.mean()),
        None,
        "",
        f"{low:.3g} {sparkline(counts)} {high:.3g} (log scale)",
    )
    if not {"m", "M", "dtau"} <= set(settings):
        return
    for name, bound, share in (
        ("draws at the smallest step", "m", np.mean(dt <= 1.01 * settings["m"] * settings["dtau"])),
        ("draws at the largest step", "M", np.mean(dt >= 0.99 * settings["M"] * settings["dtau"])),
    ):
        verdict: Verdict = "look" if share > _OFTEN else "good"
        note = f"dt within 1% of {bound} dtau = {settings[bound] * settings['dtau']:.3g}"
        if verdict == "look":
            note += ": the clock hardly adapts there"
        yield Row(name, float(share), None, verdict, note)


def _zeta(draws: Draws) -> Iterator[Row]:
    settings = draws.settings
    a = settings.get("a")
    if a is None and settings.get("alpha") is not None and settings.get("dtau") is not None:
        a = settings["alpha"] * settings["dtau"]
    if a is not None:
        note = "steps: 1 / (1 - exp(-alpha dtau))"
        verdict: Verdict = ""
        if a > _SHORT and settings.get("lag") == "none" and settings.get("batch_size") is not None:
            verdict = "look"
            note += ": dt follows the noise of single minibatches; lower alpha or set lag"
        yield Row("memory of zeta", -1.0 / math.expm1(-a), None, verdict, note)
    if "zeta" not in draws.stats:
        return
    zeta = np.asarray(draws.stats["zeta"], np.float64)
    zeta = zeta.reshape(*zeta.shape[:2], -1).mean(axis=2)
    alive = (draws.weight > 0).astype(np.float64)
    _, error, variance = moments(np.where(alive > 0, zeta, 0.0), alive)
    thin = settings.get("thin") or 1
    evenly = settings.get("thin_time") is None and "resampled" not in settings
    if evenly and variance > 0:
        tau = 0.5 * thin * float(error**2 / variance) * alive.sum()
        note = "steps: 1/2 + the sum of its autocorrelations"
        if tau < thin:
            note += f", not resolved by draws {thin} steps apart"
        yield Row("autocorrelation of zeta", tau, None, "", note)
