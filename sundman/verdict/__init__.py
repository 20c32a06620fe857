"""The verdict on a run: can its draws be trusted? ``sample`` asks for it at its end.

A wrong answer looks like a right one: the averages come with small errors whatever the step was.
``judge`` looks for what gives it away. It works on recorded statistics and on up to 2,000 kept
values at some draws, which takes milliseconds, on U and its gradient at some 240 points, and after
20,000 steps on 200 gradients more. The limits are in :mod:`sundman.verdict.checks`.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from sundman import _chunks, check
from sundman.draws import Draws
from sundman.draws.trust import Reason, TrustWarning, Verdict
from sundman.estimate.temperature import TargetLike
from sundman.verdict import checks
from sundman.verdict.summary import summarise

__all__ = ["Reason", "TrustWarning", "Verdict", "judge"]


def judge(draws: Draws, target: TargetLike | None = None) -> Verdict:
    """Whether the draws can be trusted; :func:`sundman.sample` asks this at its end.

    The reasons against it, each beyond four standard errors where it has one:

    - chains were lost;
    - the sampler is biased by design, such as ``psgld`` without its correction term: its law is not
      that of the target at any step, and no statistic of the run need show it;
    - U falls without bound, or the positions wander off: the target does not confine;
    - U is still falling or rising, by half of its standard deviation: the burn-in was too short;
    - the mean temperature is off by 10%, or that of one of the stiffest directions by 30%;
    - split R-hat of U, or of one of the kept values, is above 1.1 (of more than 20 kept values, the
      worst may be somewhat worse: 1.14 of 2,000 in four chains);
    - fewer than 100 effective draws, of U or of a kept value (of 2,000: 71);
    - the first 2.5%, 5%, 10% or 25% of the draws lie elsewhere, in the direction where they differ
      most or by their distance from the others;
    - of a classifier with 200 parameters or more, a chain that predicts the training data no better
      than the frequencies of the classes; of any such network, a training loss whose split R-hat is
      above 1.3, or chains that do not agree on a quarter of the training rows;
    - more than half of the draws are at a bound of the clock;
    - the energy jumps at more than one of 50,000 steps, or at many by the same amount, where it is
      recorded, as in self-tuned runs with exact gradients: the law is narrower there than the step
      is long, or U jumps;
    - U jumps on two or more of the lines between draws that are looked at, by 0.3 T or more;
    - U and its gradient do not belong together, on a sixth of the lines where that could be told;
    - the step that was tuned is so short that U seems to jump.

    If there is one, it is also said that a linear model separates the classes.

    With fewer than 50 draws per chain the verdict is ``"unknown"``, unless chains were lost, the
    sampler is biased by design, or U falls without bound. Of a network with 200 parameters or more
    the weights do not decide: they move slowly when the predictions have long settled. U, the
    predictions and the temperature do, and the kept values if ``collect=`` made them. A network is
    any posterior whose model's outputs are not linear in the parameters; a good verdict says what
    it has judged.

        draws = sundman.sample(target, sampler, key=key, steps=10_000)
        sundman.judge(draws[2000:], target)     # without the first 2000 draws

    Args:
      draws: of any run.
      target: what was sampled, for gradients computed anew (the stiffest directions) and for U
        along lines between draws; None does without them.

    Returns:
      The verdict, which ``draws.verdict`` is for a whole run.
    """
    check.draws(draws)
    verdict = _judge(draws, target)
    return verdict if draws.ended is None else replace(verdict, ended=str(draws.ended))


def _judge(draws: Draws, target: TargetLike | None) -> Verdict:
    biased = tuple(checks.biased_by_design(draws))
    if draws.facts.per_chain:
        note = "each chain has settings of its own: judge them one by one, draws.chain(i)"
        return Verdict("bad" if biased else "unknown", biased, note)
    certain = (*checks.lost_chains(draws), *biased)  # however few draws there are
    if not _chunks.ends_of_weight(draws.column("weight")).any():
        return Verdict("bad", certain)
    with np.errstate(all="ignore"):  # runs may have numbers near the largest there are
        network = checks.is_network(draws, target)
        summary = summarise(draws, kept_values=not network)
        certain += tuple(checks.not_finite(summary))
        runaway = tuple(checks.runaway(summary, target, positions=draws.has_position))
        if any(reason.check == checks.UNBOUNDED for reason in runaway):
            return Verdict("bad", runaway)  # which explains all else
        if len(draws) < checks.FEWEST:
            note = f"too short to judge: {len(draws)} draws per chain"
            return Verdict("bad" if certain else "unknown", certain, note)
        if not runaway or not (draws.has_position or runaway[0].check == checks.STILL_FALLING):
            runaway = (*checks.drift(summary), *runaway)
        slopes = checks.measured_slopes(draws, target)
        spots = checks.measured_spots(draws, target)
        reasons = (
            *certain,
            *runaway,
            *checks.temperature(draws, summary, target if spots is None else None),
            *checks.at_spots(draws, spots, summary.temperature),
            *checks.mixing(summary),
            *checks.first_draws(draws, summary),
            *checks.predictions(draws, target),
            *checks.at_a_bound(draws),
            *checks.energy_jumps(draws, summary.temperature),
            *checks.not_smooth(draws),
            *checks.along_lines(slopes),
        )
        if reasons and not network:
            reasons += tuple(checks.separated(draws, target))
        both = {"slopes": slopes, "spots": spots}
        measured = {name: each.as_numbers() for name, each in both.items() if each is not None}
        if reasons:
            return Verdict("bad", reasons, measured=measured)
        note = "of predictions, not of weights" if network else ""
        judged = checks.what_was_judged(draws, summary, target)
        if spots is not None:
            judged += f"; {checks.what_spots_see(spots)}"
        return Verdict("good", (), note, measured=measured, judged=judged)


def safe_judge(draws: Draws, target: TargetLike | None) -> Verdict:
    """As :func:`judge`; an error in judging must not cost the draws of a long run."""
    try:
        return judge(draws, target)
    except Exception as error:
        lost = tuple(checks.lost_chains(draws))
        note = f"judging it failed, {type(error).__name__}: {error}"
        return Verdict("bad" if lost else "unknown", lost, note)


def warn(verdict: Verdict | None, *, stacklevel: int) -> None:
    """One warning if the verdict is bad; ``stacklevel`` counts from the caller of this."""
    if verdict is not None and verdict.status == "bad":
        warnings.warn(str(verdict), TrustWarning, stacklevel=stacklevel + 1)
