"""The checks of a verdict: each gives a reason not to trust a run, or none.

A reason is a sentence with the number that was measured and what to do about it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import jax
import numpy as np

from sundman import _chunks, likelihoods
from sundman._types import PyTree
from sundman.draws import Draws
from sundman.draws.trust import BIASED, FALLS, Reason
from sundman.estimate import Estimate
from sundman.estimate.moments import moments
from sundman.estimate.temperature import TargetLike, Temperatures, recomputed_temperatures
from sundman.gradients.slopes import Slopes
from sundman.posterior import Posterior
from sundman.posterior.linear import has_linear_outputs
from sundman.verdict import spots
from sundman.verdict.early import early_draws
from sundman.verdict.slopes import slopes_of
from sundman.verdict.spots import SpotChecks
from sundman.verdict.summary import (
    RunSummary,
    effective_draws,
    losses_at,
    losses_of_rows,
    number_of,
    split_rhat_of,
    summarise,
)

ERRORS = 4.0  # what lies within so many standard errors may be chance
TEMPERATURE = 0.10  # the mean temperature may be off by this share of T,
STIFF = 0.30  # that of the stiffest directions by this one
_USUAL_NUMBER = 20  # of statistics, whose worst has the limits RHAT and ESS
RHAT = 1.1  # chains of one law are below this, if they are long enough
ESS = 100.0  # effective draws: an error of a tenth of the standard deviation
DRIFT = 0.5  # of the standard deviation of U, from the first third of the run to the last
AT_BOUND = 0.5  # the share of draws at a bound of the clock
UNBOUNDED = "U falls"  # the check that explains all others
STILL_FALLING = "U still falling"
FEWEST = 50  # draws per chain; with fewer a run is too short to judge

_STEPS_FOR_GRADIENTS, _GRADIENTS, _SHARE_OF_ROWS = 20_000, 200, 0.02
_DIRECTIONS, _ERRORS_OF_HEAT = 4, 3.0
_NUMBERS = 60_000  # steps that are looked at
_NETWORK = 200  # parameters from which the weights of a network decide nothing
_SPREAD_OF_ESS = 0.21  # sd of the log of an estimate of some 100 effective draws, by Monte Carlo
_APART = 1.5  # R-hat of what goes somewhere; that of a straight line is 2.6
_SEVERAL = 4  # chains that together show a direction
_LOOKED_AT, _FEWEST_ROWS = 60, 100  # draws of a chain, and rows, where the loss is computed
_FORWARD = 80  # of the affordable gradients: forward passes cost a third, and there are 240 of them
_AT_CHANCE = 0.97  # of the loss of class frequencies
_RHAT_OF_LOSS, _SHARE_APART = 1.3, 0.25  # few draws are looked at, which widens R-hat
_JUMP, _USUAL_SIZES = 3.0, 12.0  # in units of T, and of the median: a change of energy beyond both
_JUMPS, _FEW_JUMPS = 2e-5, 4  # the share of steps with such a change, and how many may be chance
_LARGE = 0.3  # in units of T: changes of energy that are compared with each other,
_HALF = 0.3  # and with those from so much of it on, the least that are about half as large
_ROUNDINGS = 8.0  # so many roundings of U may be chance
_ALIKE, _FEW_ALIKE = 0.2, 50  # the spread of changes of one size, and how many may be chance
_SHARE_ALIKE = 1e-3  # of the steps: where U jumps so rarely little of the law lies beyond
_SHARE_OF_HALF = 0.3  # of those of one size: a tail has more of half the size
_JUMP_ON_A_LINE, _LINES_WITH_JUMPS = 0.3, 2  # in units of T; one line may lead where no mass is
_FEWEST_OFF, _SHARE_OFF = 3, 1 / 6  # lines on which U and its gradient disagree
_UNACCOUNTED = 0.02  # of the change of U: half the gradient is missing of 1 in 600 coordinates
_SLOPES, _FEWEST_ROWS_OF_SLOPES = 300, 32  # evaluations on lines, and rows of each
_ERRORS_AT_SPOTS = 4.5  # few spots make wide tails, and there are several directions
_OF_CLASSES = (likelihoods.bernoulli, likelihoods.categorical)
_PARTS = 8  # into which a run is cut to see where it goes


def _average(column: np.ndarray, weight: np.ndarray) -> Estimate:
    value, error, _ = moments(column, weight)
    return Estimate(float(value), float(error))


def _posterior(target: object) -> Posterior | None:
    posterior = target if isinstance(target, Posterior) else getattr(target, "posterior", None)
    return posterior if isinstance(posterior, Posterior) else None


def is_network(draws: Draws, target: object) -> bool:
    """Whether the kept values are many weights of a model that bends in them."""
    return draws.has_position and are_weights(draws.values, target)


def _are_many(positions: PyTree) -> bool:
    return number_of(positions) >= _NETWORK


def are_weights(positions: PyTree, target: object) -> bool:
    """Whether positions, (chain, draw, ...), are many weights of a model that bends in them."""
    posterior = _posterior(target)
    if posterior is None or not _are_many(positions):
        return False
    first = jax.tree.map(lambda leaf: np.asarray(leaf[:1, :1])[0, 0], positions)
    return not has_linear_outputs(posterior, first)


def lost_chains(draws: Draws) -> Iterator[Reason]:
    """Chains that ran away."""
    lost = int(draws.diverged.sum())
    if lost:
        of = "its one chain" if draws.chains == 1 else f"{lost} of {draws.chains} chains"
        todo = "use a smaller step"
        if draws.tuning is not None:
            todo = (
                "look where U or its gradient is not finite, such as beyond a wall, a logarithm or "
                "a root, and sample in coordinates without such places"
            )
        yield Reason("lost chains", f"It lost {of}: {todo}.")


def not_finite(summary: RunSummary) -> Iterator[Reason]:
    """Draws that count although U or a kept value is no number there."""
    bad = ~np.isfinite(summary.values) & (summary.weight > 0)[..., None]
    if bad.any():
        worst = int(np.argmax(bad.sum(axis=(0, 1))))
        share = bad[..., worst].sum() / (summary.weight > 0).sum()
        yield Reason(
            "not finite",
            f"{summary.labels[worst]} is not finite at {share:.2g} of the draws that count: look "
            "at where U is not a number, and leave such draws out or give them weight 0.",
        )


def biased_by_design(draws: Draws) -> Iterator[Reason]:
    """A sampler whose law is another one at any step, which no statistic of its run need show."""
    if draws.facts.biased:
        yield Reason(
            BIASED,
            f"The law of {draws.facts.sampler or 'its sampler'} is not that of the target, however "
            "small the step and long the run, so that good scores say nothing about the posterior: "
            "take another sampler (of a metric, divergence=True; of a clock, blockwise=False).",
        )


def runaway(
    summary: RunSummary, target: TargetLike | None = None, *, positions: bool = True
) -> Iterator[Reason]:
    """U that falls without bound, and positions, or other kept values, that move away for good.

    Args:
      summary: of the run.
      target: what was sampled; a posterior knows the sign of its U.
      positions: whether the kept values are positions.

    Yields:
      The reason, if there is one.
    """
    end = int(np.flatnonzero((summary.weight > 0).any(axis=0))[-1]) + 1  # if all chains are lost
    if end < _PARTS:
        return
    counted = summary.weight[:, :end] > 0
    U = _course(summary.values[:, :end, 0], counted)
    falls = -np.diff(U)
    scale = summary.temperature * math.sqrt((summary.size or 1) / 2)
    if (falls > 0).all() and falls[-1] > 0.8 * falls[0] and U[0] - U[-1] > 10 * scale:
        # on the way down to a mode, where U is convex, it falls ever more slowly
        if falls[-1] > falls[0] and _posterior(target) is None:
            yield Reason(UNBOUNDED, f"{FALLS} If U is right, lengthen the burn-in.")
        else:
            yield Reason(
                STILL_FALLING,
                f"U falls all along and does not level off, from {U[0]:.6g} in the first eighth of "
                f"the run to {U[-1]:.6g} in the last: run longer, or begin nearer to a mode.",
            )
        return
    for index in np.flatnonzero(summary.rhat[1:] > _APART).tolist():
        x = summary.values[:, :end, 1 + index]
        square = _course(np.square(x - x[:, :1]), counted)
        away = np.sqrt(square.reshape(4, -1).mean(axis=1))
        if not (np.diff(away) > 0).all() or not away[3] > 1.2 * away[1]:
            continue
        if len(x) < _SEVERAL and not away[3] > 4 * away[0]:
            continue  # any slow chain may look like that
        what = "positions" if positions else "kept values"
        todo = "run longer, from a start that is nearer, or lengthen the burn-in."
        if positions:
            todo = (
                "check that the density can be normalised, and that start and step suit its scale, "
                "or run longer; if you passed log p, use sample(log_density=...)."
            )
        yield Reason(
            "wandering",
            f"The {what} move away from where they began and do not turn back (in "
            f"{summary.labels[1 + index]} the last quarter of the run is {away[3] / away[0]:.2g} "
            f"times as far off as the first): {todo}",
        )
        return


def separated(draws: Draws, target: TargetLike | None) -> Iterator[Reason]:
    """Classes that a linear model tells apart without an error: a prior alone bounds its weights.

    Asked where something is wrong anyway. All rows are looked at, where every chain ended.
    """
    posterior = _posterior(target)
    if posterior is None or posterior.host is not None or not draws.has_position:
        return
    if not isinstance(posterior.likelihood, _OF_CLASSES):
        return
    last = jax.tree.map(lambda leaf: np.asarray(leaf[:, -1]), draws.position)
    losses = losses_at(posterior, last)
    first = jax.tree.map(lambda leaf: leaf[0], last)
    if (losses.max(axis=1) < math.log(2.0)).any() and has_linear_outputs(posterior, first):
        yield Reason(
            "no mode",
            f"The columns separate the classes: at the end all {losses.shape[1]:,} rows are "
            "predicted right, and U falls as the weights grow, so that under a flat prior there is "
            "no mode and no posterior: give the weights a prior.",
        )


def _course(column: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """The average of each part of the run, over all chains and draws that count."""
    edges = np.linspace(0, column.shape[1], _PARTS + 1).astype(int)[:-1]
    sums = np.add.reduceat(np.where(counted, column, 0.0).sum(axis=0), edges)
    return sums / np.add.reduceat(counted.sum(axis=0), edges)


def drift(summary: RunSummary) -> Iterator[Reason]:
    """U that differs between the first and the last third of the run."""
    U, share = summary.blocks["potential"], summary.share
    third = U.shape[1] // 3
    if third < 4 or not (share[:, :third] > 0).any() or not (share[:, -third:] > 0).any():
        return
    first, last = (
        _average(U[:, part], share[:, part]) for part in (slice(third), slice(-third, None))
    )
    change = last.value - first.value
    error = math.hypot(first.error, last.error)
    spread = float(np.std(summary.values[:, -(summary.values.shape[1] // 3) :, 0]))
    if summary.size is not None and summary.temperature > 0:
        spread = min(spread, summary.temperature * math.sqrt(summary.size / 2))
    # a transient widens the error of the first third: if it is large, the last one's is the measure
    early = abs(change) > ERRORS * math.sqrt(2) * last.error and abs(change) > 2 * DRIFT * spread
    if early or (abs(change) > ERRORS * error and abs(change) > DRIFT * spread):
        way = "falling" if change < 0 else "rising"
        yield Reason(
            f"U still {way}",
            f"U is still {way}: {first.value:.6g} in the first third of the run, {last.value:.6g} "
            "in the last: lengthen the burn-in.",
        )


def _off(measured: Estimate, temperature: float, share: float) -> bool:
    off = abs(measured.value - temperature)
    return off > ERRORS * measured.error and off > share * temperature


def temperature(draws: Draws, summary: RunSummary, target: TargetLike | None) -> Iterator[Reason]:
    """The mean temperature, and that of the stiffest directions."""
    T = summary.temperature
    if not T > 0:
        return
    measured = {
        name: _average(summary.blocks[name], summary.share)
        for name in ("virial", "kinetic_temperature")
        if name in summary.blocks
    }
    kinetic, virial = measured.get("kinetic_temperature"), measured.get("virial")
    advice = "use a smaller step"
    if draws.facts.batch_size is not None:
        advice += " or larger batches"
    known = virial is not None and virial.error < TEMPERATURE / 2 * T
    again = _again(draws, target)
    if (
        again is not None
        and not known
        and not (virial is not None and _off(virial, T, TEMPERATURE))
    ):
        # few draws of a skewed number come out cold, with too small an error: only heat is sure
        virial = again.mean if again.mean.value > T else virial
    of_momenta = T if draws.tuning is None else draws.tuning.chosen.kinetic_temperature
    for name, each, right in (
        ("temperature", virial, T),
        ("kinetic temperature", kinetic, of_momenta),
    ):
        if each is None or not _off(each, right, TEMPERATURE) or (each is kinetic and known):
            continue
        text = f"The {name} is {_text(each)} and should be {right:.3g}: "
        text += advice if each.value > right else "run longer, or use a smaller step"
        yield Reason("temperature", f"{text}.")
        return
    if again is None:
        return
    for number, each in enumerate(map(Estimate, again.stiff.value, again.stiff.error)):
        # The error of exact gradients grows with the value, so the logarithm is looked at; that of
        # minibatches does not, so both must be beyond chance.
        sure = each.value - T > _ERRORS_OF_HEAT * each.error
        sure &= each.value > T and math.log(each.value / T) > ERRORS * each.error / each.value
        if sure and each.value > (1 + STIFF) * T:
            mean = f" (on average over all directions {_text(virial)})" if virial else ""
            which = ("stiffest", "second stiffest", "third stiffest", "fourth stiffest")[number]
            yield Reason(
                "stiff temperature",
                f"Along the {which} direction the temperature is {_text(each)} and should be "
                f"{T:g}{mean}: {advice}.",
            )
            return


def measured_spots(draws: Draws, target: TargetLike | None) -> SpotChecks | None:
    """U and its gradient on all rows at a few draws, where the kept values are what is judged."""
    posterior = _posterior(target)
    if posterior is None or is_network(draws, target):
        return None
    return spots.measure(draws, posterior)


def at_spots(draws: Draws, seen: SpotChecks | None, temperature: float) -> Iterator[Reason]:
    """What draws look like where U is known without the noise of minibatches."""
    if seen is None or not temperature > 0:
        return
    T, rows = temperature, "all rows" if seen.rows == seen.of_rows else f"{seen.rows:,} rows"
    where = f"Spot checks on {rows} at {len(seen.virial)} draws"
    advice = "run longer"
    if draws.facts.batch_size is not None:
        advice = 'use larger batches, gradient="control_variate", or run longer'
    beside, mean = _mean_of(seen.slope), _mean_of(seen.virial)
    if abs(beside.value) > _ERRORS_AT_SPOTS * beside.error:
        yield Reason(
            "beside the mode",
            f"{where} find the draws beside the mode: the gradient does not average to 0, which is "
            f"a distance of about {abs(beside.value) / T:.2g} standard deviations: lengthen the "
            "burn-in.",
        )
        return
    if _off(mean, T, TEMPERATURE):
        yield Reason(
            "temperature",
            f"{where} find a temperature of {_text(mean)} that should be {T:g}: {advice}.",
        )
        return
    for value, error in zip(seen.temperatures, seen.errors, strict=True):
        if abs(value - T) > max(_ERRORS_AT_SPOTS * error, STIFF * T):
            than = "wide" if value > T else "narrow"
            factor = math.sqrt(max(value / T, 1e-12))
            yield Reason(
                "width",
                f"{where} find the draws too {than} along one direction: {factor:.2g} times as "
                f"wide as U has it ({_text(Estimate(float(value), float(error)))} in the variance, "
                f"which should be {T:g}): {advice}.",
            )
            return


def what_spots_see(seen: SpotChecks) -> str:
    """What size of error the spot checks could see, for a verdict that found none."""
    mean, widest = _mean_of(seen.virial), _ERRORS_AT_SPOTS * float(np.max(seen.errors))
    hot = max(TEMPERATURE, ERRORS * mean.error)
    text = "spot checks without minibatch noise, which found nothing, see temperatures off by "
    text += f"{hot:.0%}"
    off = max(STIFF, widest)
    return text + (f", or one direction's variance by {off:.0%}" if off < 1.0 else "")


def _mean_of(numbers: np.ndarray) -> Estimate:
    """The mean of numbers that are independent, about."""
    return Estimate(float(np.mean(numbers)), float(np.std(numbers) / math.sqrt(len(numbers) - 1)))


def _text(measured: Estimate) -> str:
    return f"{measured.value:.3g} ± {measured.error:.1g}"


def _again(draws: Draws, target: TargetLike | None) -> Temperatures | None:
    """Temperatures from gradients computed anew, if the run was long enough to pay for them."""
    steps, chains = draws.facts.steps or 0, draws.chains
    if target is None or not draws.has_position or steps * chains < _STEPS_FOR_GRADIENTS:
        return None
    rows = None
    if _posterior(target) is not None:
        rows = _affordable_rows(draws, target, _GRADIENTS)
        if rows is None:
            return None
    return recomputed_temperatures(
        draws, target, directions=_DIRECTIONS, most=_GRADIENTS, rows=rows
    )


def _affordable_rows(draws: Draws, target: TargetLike | None, evaluations: int) -> int | None:
    """How many rows an evaluation may have, if all cost a fiftieth of the run; None: no data."""
    posterior = _posterior(target)
    if posterior is None or posterior.host is not None:
        return None
    batch = draws.facts.batch_size or getattr(target, "batch_size", None)
    steps = draws.facts.steps or 0
    budget = _SHARE_OF_ROWS * steps * draws.chains * (batch or posterior.size)
    return min(posterior.size, max(1, int(budget) // evaluations))


def _rhat_limit(number: int, chains: int) -> float:
    """The limit of the largest of so many split R-hats: RHAT of those of 20, or fewer.

    In chains of one law R^2 - 1 is a multiple of chi^2 with 2 chains - 1 degrees of freedom, which
    the number of effective draws sets: the limit grows as its quantile at 1 - 1/number does.
    """

    def quantile(number: int) -> float:
        degrees = 2 * chains - 1  # Wilson and Hilferty (1931)
        z = NormalDist().inv_cdf(1.0 - 1.0 / number)
        return degrees * (1.0 - 2.0 / (9 * degrees) + z * math.sqrt(2.0 / (9 * degrees))) ** 3

    more = quantile(max(number, _USUAL_NUMBER)) / quantile(_USUAL_NUMBER)
    return math.sqrt(1.0 + (RHAT**2 - 1.0) * more)


def _ess_limit(number: int) -> float:
    """The limit of the least of so many effective sizes: ESS of those of 20, or fewer."""
    normal = NormalDist()
    more = normal.inv_cdf(1.0 / max(number, _USUAL_NUMBER)) - normal.inv_cdf(1.0 / _USUAL_NUMBER)
    return ESS * math.exp(_SPREAD_OF_ESS * more)


def mixing(summary: RunSummary) -> Iterator[Reason]:
    """Chains, or halves of chains, that do not agree; and too few effective draws."""
    ratio, number = summary.rhat, len(summary.labels) - 1
    worst, chains = int(np.argmax(ratio)), len(summary.values)
    limit = _rhat_limit(number, chains)
    of = f" (of {number:,})" if number > _USUAL_NUMBER else ""
    if ratio[worst] > limit:
        who = "The two halves of the chain" if chains == 1 else f"The {chains} chains"
        yield Reason(
            "R-hat",
            f"{who} do not agree: split R-hat of {summary.labels[worst]}{of} is "
            f"{ratio[worst]:.3g}, above {limit:.3g}: run longer; chains that stay apart sit in "
            "different modes.",
        )
    size = effective_draws(summary.values, summary.weight)
    least, limit = int(np.argmin(size)), _ess_limit(number)
    if size[least] < limit:
        yield Reason(
            "effective draws",
            f"{summary.labels[least]}{of} has {size[least]:.3g} effective draws, fewer than "
            f"{limit:.3g}: run {max(2.0, 2 * ESS / size[least]):.0f} times as long.",
        )


def first_draws(draws: Draws, summary: RunSummary) -> Iterator[Reason]:
    """Kept values that lie elsewhere at the beginning of the run, in a direction or several."""
    found = early_draws(summary.values[..., 1:], summary.weight)
    if found is not None:
        yield Reason(
            "early draws",
            f"The first {100 * found.share:.3g}% of the draws lie apart from the others: their "
            f"mean squared Mahalanobis distance is {found.out:.3g} where {found.usual:.3g} is "
            f"usual: leave them out, draws[{math.ceil(found.share * len(draws))}:], or lengthen "
            "the burn-in.",
        )


def what_was_judged(draws: Draws, summary: RunSummary, target: TargetLike | None) -> str:
    """In words, what a verdict without reasons is about."""
    if not is_network(draws, target):
        looked_at, kept = len(summary.labels) - 1, number_of(draws.values)
        many = f"{kept:,}" if looked_at >= kept else f"{looked_at:,} of {kept:,}"
        text = f"U and {many} kept value{'s' if kept > 1 else ''}" if kept else "U"
        return text + _of_covariances(summary, kept)
    streamed = _affordable_rows(draws, target, _FORWARD) is None
    weights = summarise(draws, kept_values=True)
    worst = int(np.argmax(weights.rhat[1:])) + 1
    settled = weights.rhat[worst] <= _rhat_limit(len(weights.labels) - 1, draws.chains)
    return (
        f"U and {'the temperature, neither predictions nor' if streamed else 'predictions, not'} "
        f"the weights, which {'agree' if settled else 'have not settled'} (largest split R-hat "
        f"{weights.rhat[worst]:.3g}, of {weights.labels[worst]})"
    )


def _of_covariances(summary: RunSummary, number: int) -> str:
    """How far off a covariance may be, where draws are too few to know it in every direction.

    Of n independent draws the eigenvalues of the covariance of d values lie below
    (1 + sqrt(d/n))^2 (Marchenko and Pastur, 1967).
    """
    if number < 2:
        return ""
    least = float(np.min(effective_draws(summary.values[..., 1:], summary.weight)))
    off = (1.0 + math.sqrt(number / max(least, 1.0))) ** 2 - 1.0
    if off <= STIFF:
        return ""
    if off > 1.0:
        return " one by one, not how they vary together"
    return f" one by one; their covariance is known along its worst direction to {off:.0%} only"


def predictions(draws: Draws, target: TargetLike | None) -> Iterator[Reason]:
    """Of a large model: chains that have learnt nothing, and predictions that do not agree.

    U of a network may move by thousands along directions that leave its outputs as they are, or
    stand still where they do not: the loss on training rows says where the chain is.
    """
    rows = _affordable_rows(draws, target, _FORWARD)
    posterior = _posterior(target)
    if rows is None or posterior is None or not (draws.has_position and _are_many(draws.values)):
        return
    losses, weight = losses_of_rows(draws, posterior, max(rows, _FEWEST_ROWS), _LOOKED_AT)
    if losses.shape[1] < FEWEST // 2:
        return
    loss = losses.mean(axis=2)
    guessing = _loss_of_guessing(posterior)
    at_chance = np.zeros(len(loss), bool)
    if guessing is not None:
        third = loss.shape[1] // 3
        counted = weight[:, -third:] > 0
        ends = np.where(counted, loss[:, -third:], 0.0).sum(axis=1) / np.maximum(counted.sum(1), 1)
        at_chance = (ends > _AT_CHANCE * guessing) & counted.any(axis=1)
    if at_chance.any():
        of = "Its one chain" if draws.chains == 1 else f"{at_chance.sum()} of {draws.chains} chains"
        verb = "predicts" if draws.chains == 1 or at_chance.sum() == 1 else "predict"
        yield Reason(
            "chance level",
            f"{of} {verb} the training data no better than the frequencies of the classes do: a "
            "network that gives the same outputs everywhere has no gradient that leads back; use a "
            "smaller step or another start.",
        )
        return
    ratio = float(split_rhat_of(loss[..., None], weight)[0])
    if ratio > _RHAT_OF_LOSS:
        yield Reason(
            "R-hat of the loss",
            f"The training loss has not settled: its split R-hat is {ratio:.3g}, above "
            f"{_RHAT_OF_LOSS:g}: lengthen the burn-in, or run longer.",
        )
        return
    apart = float(np.mean(split_rhat_of(losses, weight) > _RHAT_OF_LOSS))
    if apart > _SHARE_APART:
        yield Reason(
            "R-hat of predictions",
            f"The chains do not agree on {apart:.0%} of the training rows looked at: split R-hat "
            f"of their log probability is above {_RHAT_OF_LOSS:g}: run longer.",
        )


def _loss_of_guessing(posterior: Posterior) -> float | None:
    """The loss of class frequencies in place of a prediction, where there are classes."""
    if not isinstance(posterior.likelihood, likelihoods.categorical):
        return None
    y = np.asarray(posterior.data.y)  # type: ignore[union-attr]  # in memory
    shares = np.bincount(y.ravel().astype(int)) / y.size if y.ndim == 1 else y.mean(axis=0)
    return float(-np.sum(shares[shares > 0] * np.log(shares[shares > 0])))


def at_a_bound(draws: Draws) -> Iterator[Reason]:
    """An adaptive clock that is at one of its bounds most of the time."""
    m, M, dtau = draws.facts.m, draws.facts.M, draws.facts.dtau
    if m is None or M is None or dtau is None or not m < M or "dt" not in draws.stats:
        return
    some = slice(None, None, max(1, draws.chains * len(draws) // _NUMBERS))
    dt = draws.column("dt")[:, some][draws.column("weight")[:, some] > 0]
    for bound, share, advice in (
        ("smallest", np.mean(dt <= 1.01 * m * dtau), "lower m or dtau"),
        ("largest", np.mean(dt >= 0.99 * M * dtau), "raise M or dtau"),
    ):
        if share > AT_BOUND:
            yield Reason(
                "clock at a bound",
                f"{share:.0%} of the draws were made with the {bound} step that the clock allows, "
                f"where it does not adapt: {advice}.",
            )


def energy_jumps(draws: Draws, temperature: float) -> Iterator[Reason]:
    """Steps at which the energy jumps: the law is narrower there than the step is long, or U jumps.

    Errors of a smooth U have a tail, in which there are more of half the size than of the whole:
    jumps of U are all alike.
    """
    known = "work" in draws.stats and not draws.facts.resampled
    if not known or not temperature > 0 or not draws.facts.steps:
        return
    jumps, largest, changes = _energy_changes(draws, temperature)
    steps = draws.facts.steps * draws.chains
    if jumps >= _FEW_JUMPS and jumps > _JUMPS * steps:
        yield Reason(
            "energy jumps",
            f"At {jumps:,} of {steps:,} steps the energy jumped, by up to "
            f"{largest / temperature:.2g} T: the law is narrower there than the step, as in the "
            "neck of a funnel, and averages over such places are off: write a hierarchical model "
            "in its non-centred form; elsewhere a shorter step, sundman.auto(bias=0.005), helps.",
        )
        return
    large = changes[changes > _LARGE * temperature]
    usual = float(np.median(large)) if len(large) else math.inf
    alike = int((np.abs(changes / usual - 1.0) < _ALIKE).sum())
    half = int((np.abs(changes / usual - 0.5) < _ALIKE).sum())
    if alike > max(_FEW_ALIKE, _SHARE_ALIKE * steps) and half < _SHARE_OF_HALF * alike:
        yield Reason(
            "energy jumps",
            f"At {alike:,} of {steps:,} steps the energy jumped by about {usual / temperature:.2g} "
            "T, and hardly ever by half as much: U jumps there, which its gradient does not know, "
            "so that both sides have the wrong weight: look for comparisons, rounding or whole "
            "numbers in U.",
        )


def _energy_changes(draws: Draws, temperature: float) -> tuple[int, float, np.ndarray]:
    """How many changes of energy are jumps by size alone, the largest, and those not small."""
    jumps, largest, size, large = 0, 0.0, None, [np.zeros(0)]
    for part in _chunks.draw_slices(len(draws), max(2, _NUMBERS // draws.chains)):
        before = slice(max(part.start - 1, 0), part.stop)
        work = np.asarray(draws.column("work")[:, before])
        done = np.abs(np.diff(work.astype(np.float64), axis=1))
        size = float(np.median(done)) if size is None else size
        U = np.abs(draws.column("potential")[:, before]).max()
        rounding = _ROUNDINGS * float(np.finfo(work.dtype).eps * U)
        jumps += int((done > _JUMP * temperature + _USUAL_SIZES * size + rounding).sum())
        largest = max(largest, float(done.max(initial=0.0)))
        large.append(done[done > _HALF * _LARGE * temperature + rounding])
    return jumps, largest, np.concatenate(large)


def not_smooth(draws: Draws) -> Iterator[Reason]:
    """A tuned step that is too short for a smooth U."""
    if draws.tuning is not None and draws.tuning.jumps:
        yield Reason(
            "smoothness",
            f"The tuned step is {draws.tuning.chosen.h:.2g} where 0.1 to 0.5 is usual: U or its "
            "gradient seems to jump, and chains may be shut in between the jumps; look at the "
            "potential.",
        )


def measured_slopes(draws: Draws, target: TargetLike | None) -> Slopes | None:
    """U and its gradient along lines between draws, where they are to belong together."""
    if target is None:
        return None
    rows = None
    if _posterior(target) is not None:
        rows = _affordable_rows(draws, target, _SLOPES)
        if rows is None:
            return None
        rows = max(rows, _FEWEST_ROWS_OF_SLOPES)
    return slopes_of(draws, target, rows)


def along_lines(slopes: Slopes | None) -> Iterator[Reason]:
    """A gradient that is not of this U, and jumps of U, which no gradient knows."""
    if slopes is None:
        return
    jumps = slopes.jump[slopes.jump > _JUMP_ON_A_LINE]
    if len(jumps) >= _LINES_WITH_JUMPS:
        yield Reason(
            "U jumps",
            f"U jumps on {len(jumps)} of the lines between draws that were looked at, by up to "
            f"{jumps.max():.2g} T: its gradient does not know of it, so that both sides have the "
            "wrong weight: look for comparisons, rounding or whole numbers in U.",
        )
        return  # U is not what its gradient adds up to, which is all that the next one would say
    told, off, ratio = slopes.disagreement()
    unaccounted = slopes.unaccounted()
    if off >= max(_FEWEST_OFF, _SHARE_OFF * told):
        yield Reason(
            "gradient",
            f"U and its gradient do not belong together: on {off} of {told} lines U does not "
            f"change as its gradient says, which is {ratio:.2g} of the slope that U has: is there "
            "a stop_gradient, a custom derivative, clipping?",
        )
    elif unaccounted > _UNACCOUNTED:
        yield Reason(
            "gradient",
            f"U and its gradient do not belong together: along most lines {unaccounted:.0%} of the "
            "change of U is not in the integral of its slope, as where the gradient of one "
            "coordinate of many is wrong: is there a stop_gradient, a custom derivative, clipping?",
        )
