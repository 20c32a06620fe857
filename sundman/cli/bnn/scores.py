"""How good a network's predictions are: its predictive on the test rows, scores and calibration.

With them go the temperatures of the run behind them, and a verdict on it by its predictions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
import numpy as np

import sundman
from sundman import estimate, metrics
from sundman._types import PyTree
from sundman.cli.bnn.plan import Plan
from sundman.cli.bnn.predictions import Predictive
from sundman.estimate import Estimate
from sundman.estimate.temperature import recomputed_temperatures
from sundman.report import Figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


_ROWS_AT_EVERY_DRAW = 100  # test rows whose predictive is kept at every draw, or looked at
_LEVELS = np.linspace(0.1, 0.9, 9)
_FEWEST_FOR_TEMPERATURE = 20  # draws of a chain
_ALL_ROWS, _ROWS_OF_GRADIENT = 20_000, 2_000  # of larger data some rows for each gradient
_DRAWS_FOR_CURVATURE = 400
_SHARP = 0.5  # an error with which a temperature says something


class RecordedPredictions(NamedTuple):
    """The functions whose values are recorded along a chain: at each draw, and on average."""

    collect: functools.partial[PyTree] | None
    online: functools.partial[PyTree] | None


def recorded_predictions(plan: Plan) -> RecordedPredictions:
    """Predictives on the test rows; one object for all seeds, so that it compiles once.

    A regression keeps them at all test rows, a classification at some, and the average at all; a
    run that keeps its positions has no need to.
    """
    predict, x_test = plan.posterior.predict, jnp.asarray(plan.data.test.x)
    everywhere = functools.partial(predict, x=x_test)
    average = None if plan.data.classes is None else everywhere
    if plan.keeps_positions:
        return RecordedPredictions(None, average)
    if plan.data.classes is None:
        return RecordedPredictions(everywhere, None)
    return RecordedPredictions(functools.partial(predict, x=x_test[:_ROWS_AT_EVERY_DRAW]), average)


def predictive(plan: Plan, draws: sundman.Draws) -> Predictive:
    """The predictive of a run on the test rows, all its chains together."""
    if plan.data.classes is not None:
        assert draws.online is not None  # recorded_predictions has one
        average = draws.online
        share = np.asarray(average.weight, np.float64)
        share = np.where(np.asarray(draws.weight).max(axis=1) > 0, share, 0.0)
        return np.average(np.asarray(average.weighted), axis=0, weights=share)
    data = plan.data
    if plan.keeps_positions:
        mixture = sundman.predict(draws, plan.posterior, jnp.asarray(data.test.x))
        mean, sd, weight = mixture.mean[..., 0], mixture.sd[..., 0], mixture.weight
    else:
        weight = np.asarray(draws.weight, np.float64).ravel()
        mean, sd = (np.asarray(leaf).reshape(len(weight), -1)[weight > 0] for leaf in draws.values)
        weight = weight[weight > 0] / weight.sum()
    mean, sd = mean.astype(np.float64), sd.astype(np.float64)
    return sundman.NormalMixture(mean * data.y_scale + data.y_mean, sd * data.y_scale, weight)


class Temperature(NamedTuple):
    """The temperatures of a run that kept its positions.

    Attributes:
      mean: over all directions.
      last_layer: of the last layer by gradients and curvature, mostly that of stiff directions.
      stiffest: along the stiffest direction, as :func:`sundman.estimate.stiff_temperature` has it.
    """

    mean: Estimate
    last_layer: Estimate
    stiffest: Estimate

    def __str__(self) -> str:
        """All that are known well enough, with their errors."""
        parts = {
            "on average over all directions": self.mean,
            "in the last layer, by its stiff directions": self.last_layer,
            "along the stiffest direction": self.stiffest,
        }
        return ", ".join(
            f"{each.value:.3g} ± {each.error:.1g} {where}"
            for where, each in parts.items()
            if each is not self.stiffest or each.error < _SHARP
        )


def temperature_of(plan: Plan, draws: sundman.Draws) -> Temperature | None:
    """The temperatures of a run that tuned itself and kept its positions; None if too short."""
    if not (plan.tunes_itself and draws.has_position) or len(draws) < _FEWEST_FOR_TEMPERATURE:
        return None
    posterior, rows = plan.posterior, None
    if posterior.size > _ALL_ROWS:
        rows = _ROWS_OF_GRADIENT
    last = f"layer_{len(plan.sizes) - 2}"
    again = recomputed_temperatures(draws, posterior, directions=1, rows=rows)
    recorded = estimate.configurational_temperature(draws)
    return Temperature(
        # one has gradients of minibatches, the other few draws and a centre that must be known
        mean=min(recorded, again.mean, key=lambda each: each.error),
        last_layer=estimate.curvature_temperature(
            draws, posterior, part=last, most=_DRAWS_FOR_CURVATURE, rows=rows
        ),
        stiffest=Estimate(float(again.stiff.value[0]), float(again.stiff.error[0])),
    )


def in_function_space(plan: Plan, draws: sundman.Draws) -> sundman.Draws:
    """The run with predictions at some test rows in place of positions, and judged by them, too.

    Weights move slowly when the predictions have long settled, so they are not looked at.
    """
    if not draws.has_position:
        return draws
    some = jnp.asarray(plan.data.test.x[:_ROWS_AT_EVERY_DRAW])
    values = estimate.evaluate(draws, functools.partial(plan.posterior.predict, x=some))
    by_predictions = replace(draws, values=values, has_position=False, verdict=None)
    return replace(by_predictions, verdict=_joined(sundman.judge(by_predictions), draws.verdict))


def _joined(verdict: sundman.Verdict, other: sundman.Verdict | None) -> sundman.Verdict:
    """A verdict with the reasons of another one that it does not have."""
    if other is None:
        return verdict
    known = {reason.check for reason in verdict.reasons}
    reasons = (*verdict.reasons, *(each for each in other.reasons if each.check not in known))
    notes = [each.note for each in (verdict, other) if each.status == "unknown"]
    if reasons:
        return replace(verdict, status="bad", reasons=reasons, note="")
    return replace(verdict, status="unknown", note=notes[0]) if notes else verdict


def scores_of(plan: Plan, predictive: Predictive) -> dict[str, float]:
    """The scores of a predictive on the test rows."""
    labels = plan.data.test.y
    if not isinstance(predictive, sundman.NormalMixture):
        return {
            "NLL": metrics.nll(predictive, labels),
            "accuracy %": 100 * metrics.accuracy(predictive, labels),
            "ECE % (15 bins)": 100 * metrics.ece(predictive, labels, bins=15),
            "Brier": metrics.brier(predictive, labels),
        }
    truth = held_out_targets(plan)
    mean, sd, weight = predictive
    low, high = predictive.interval(0.9)
    return {
        "RMSE": float(metrics.rmse(predictive.centre, truth)),
        "NLL": float(metrics.normal_mixture_nll(mean, sd, weight, truth)),
        "coverage of 90% intervals, %": 100 * float(metrics.coverage(low, high, truth)),
    }


def held_out_targets(plan: Plan) -> np.ndarray:
    """The test targets of a regression in their own units."""
    return plan.data.test.y.astype(np.float64) * plan.data.y_scale + plan.data.y_mean


def calibration_figure(plan: Plan, predictives: Mapping[str, Predictive]) -> Figure:
    """The reliability diagram of a classification, or the coverage of a regression's intervals."""
    mixtures = {
        name: each for name, each in predictives.items() if isinstance(each, sundman.NormalMixture)
    }
    probabilities = {
        name: each for name, each in predictives.items() if isinstance(each, np.ndarray)
    }
    return _coverage(plan, mixtures) if mixtures else reliability(probabilities, plan.data.test.y)


def reliability(predictives: Mapping[str, np.ndarray], labels: np.ndarray) -> Figure:
    """Accuracy against confidence, a line for each array of class probabilities."""
    # Here and below: matplotlib takes half a second to load, and help does not need it.
    from sundman import plot
    from sundman.report.figures import draw

    def draw_on(canvas: Canvas) -> None:
        ax = canvas.subplots()
        for name, probabilities in predictives.items():
            plot.reliability(ax, probabilities, labels, label=name)
        if len(predictives) > 1:
            ax.legend(loc="lower right")

    errors = [
        f"{name} {100 * metrics.ece(probabilities, labels, bins=15):.2g}%"
        for name, probabilities in predictives.items()
    ]
    calibration = f"Expected calibration error: {', '.join(errors)}."
    return draw(
        draw_on,
        title="Reliability diagram.",
        alt=f"Accuracy against confidence in 15 bins. {calibration}",
        caption=f"{calibration} The dashed line is ideal; bars are two standard errors.",
    )


def _coverage(plan: Plan, predictives: Mapping[str, sundman.NormalMixture]) -> Figure:
    """How many test targets are in the central intervals, against how many should be."""
    from sundman.report.figures import draw

    truth = held_out_targets(plan)
    lines = {
        name: [float(metrics.coverage(*mixture.interval(q), truth)) for q in _LEVELS]
        for name, mixture in predictives.items()
    }

    def draw_on(canvas: Canvas) -> None:
        ax = canvas.subplots()
        ax.plot([0, 100], [0, 100], color="0.6", linewidth=0.8, linestyle="--")
        for name, line in lines.items():
            ax.plot(100 * _LEVELS, 100 * np.array(line), marker="o", markersize=3, label=name)
        ax.set(xlabel="probability of the interval (%)", ylabel="test targets in it (%)")
        if len(lines) > 1:
            ax.legend()

    first = next(iter(lines.values()))
    share = f"{first[0]:.0%} to {first[-1]:.0%}"
    alt = f"Share of test targets in central intervals of 10 to 90%: {share}."
    return draw(
        draw_on, title="Coverage of intervals.", alt=alt, caption="The dashed line is ideal."
    )
