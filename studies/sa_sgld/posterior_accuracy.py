"""How near the true posterior does a sampler come? A small network whose predictive is known.

The network and its true predictive are those of :mod:`studies.sa_sgld.digits_posterior`, batch 32;
where the reference under the horseshoe is not at hand, only the Gaussian prior is examined. The
distance is the mean over test points of the total variation of class probabilities,

    TV = mean_i 1/2 sum_c |p[i, c] - q[i, c]|

Test scores cannot show this: a wrong sampler can improve them. Beside TV stand the training loss,
and the temperature of the last layer, E|grad U|^2 / E[Laplacian of U], which is T for the exact law
and rises first if the step or the noise of minibatches heats the stiff directions.

A budget is a number of gradients on 32 rows; one on all 1438 rows counts as 45 of them. Four chains
are run: the budgets of one chain are beginnings of each, the last budget is shared by all four. Of
each beginning the second half is kept; of a self-tuned run everything after its warm-up, whose
gradients count.

Not every row was tuned alike. The steps of SGLD, SGHMC, low-rank BAOAB and full-batch BAOAB are
those of an earlier study of this network, which had compared a few by TV on these same test points.
LM, SA-SGLD, BAOAB, OBABO, SA-SGHMC, SamAdams and SGNHT have the same step and friction as their
relatives, pSGLD a step of about the same mean length, cyclical SGLD a guess; none of these was
tuned here. The horseshoe has the settings of the Gaussian. So a difference of two rows is one of
these settings, and between a tuned and an untuned row it favours the former.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import jax
import numpy as np

import sundman
from studies.sa_sgld import experiment
from studies.sa_sgld.digits_posterior import (
    BATCH,
    PRIORS,
    SIZES,
    at_each,
    base_scale,
    chain_predictives,
    data,
    evaluations,
    posterior,
    reference,
    reference_path,
    score_unit,
)
from studies.sa_sgld.experiment import AccuracyBudget, Findings, Numbers, Task
from studies.sa_sgld.figures import Figure, Points, against_gradients
from studies.sa_sgld.network import CLOCK
from studies.sa_sgld.statistics import Measurement, error_text, less, over_seeds
from sundman import clocks, integrators, metrics, models
from sundman.clocks import SundmanSettings
from sundman.draws.trust import AllDivergedError
from sundman.report.model import Table, Verdict

MATCHED = "SGLD, mean step of SA-SGLD"
_RATE, _KINETIC_RATE, _GAMMA = 0.025, 5e-4, 20.0  # learning rates, and a friction
_DIAGNOSED = 200  # draws of a chain at which the full gradient is computed


Build = Callable[[sundman.Posterior], sundman.Sampler | None]


@dataclass(frozen=True)
class Row:
    """A sampler with its settings.

    Attributes:
      build: makes it for a posterior; None is the one that tunes itself.
      settings: in words.
      full_batch: whether each gradient is on all rows.
      lengthened: how many times the budget's gradients it gets.
    """

    build: Build
    settings: str
    full_batch: bool = False
    lengthened: int = 1


def _rate(h: float) -> sundman.LearningRate:
    return sundman.LearningRate(h)


def whitened(integrator: integrators.Integrator, h: float) -> Build:
    """An integrator in units of the prior's own scale, at the fixed step h."""

    def build(target: sundman.Posterior) -> sundman.Sampler:
        moving = integrators.whitened(integrator, base_scale(target))
        return sundman.compose(moving, clocks.constant(h))

    return build


_LANGEVIN = f"h {_RATE}"
_KINETIC = f"h {_KINETIC_RATE}, gamma {_GAMMA:g}"
_CLOCK: SundmanSettings = {**CLOCK, "r": 0.25}
_PSI = "m .5, M 2, r .25, alpha 1000"
ROWS: dict[str, Row] = {
    "SGLD": Row(lambda _: sundman.sgld(_rate(_RATE)), _LANGEVIN),
    "SA-SGLD": Row(lambda _: sundman.sa_sgld(_rate(_RATE), **_CLOCK), f"dtau {_RATE}, {_PSI}"),
    "LM": Row(lambda _: sundman.lm(_rate(_RATE)), _LANGEVIN),
    "pSGLD": Row(lambda _: sundman.contrib.psgld(_rate(0.7)), "h .7"),
    "cyclical SGLD": Row(
        lambda _: sundman.cyclical_sgld(_rate(0.1), cycle=2500), "h .1, cycles of 2500 steps"
    ),
    "SGHMC": Row(lambda _: sundman.sghmc(_rate(_KINETIC_RATE), gamma=_GAMMA), _KINETIC),
    "SA-SGHMC": Row(
        lambda _: sundman.sa_sghmc(_rate(_KINETIC_RATE), gamma=_GAMMA, **_CLOCK),
        f"dtau {_KINETIC_RATE}, gamma {_GAMMA:g}, {_PSI}",
    ),
    "BAOAB": Row(lambda _: sundman.baoab(_rate(_KINETIC_RATE), gamma=_GAMMA), _KINETIC),
    "OBABO": Row(lambda _: sundman.obabo(_rate(_KINETIC_RATE), gamma=_GAMMA), _KINETIC),
    "SamAdams": Row(
        lambda _: sundman.samadams(_rate(_KINETIC_RATE), gamma=_GAMMA, **_CLOCK),
        f"dtau {_KINETIC_RATE}, gamma {_GAMMA:g}, {_PSI}",
    ),
    "SGNHT": Row(lambda _: sundman.sgnht(_rate(_KINETIC_RATE), gamma=_GAMMA), _KINETIC),
    "low-rank BAOAB": Row(
        whitened(integrators.low_rank_baoab(gamma=0.5, rank=20, learn_after=20), 0.003),
        "h .003, gamma .5, rank 20, learnt after 20 differences, in units of the prior",
    ),
    "BAOAB, full batch": Row(
        whitened(integrators.baoab(gamma=5.0), 0.02),
        "h .02, gamma 5, in units of the prior",
        full_batch=True,
    ),
    "BAOAB, full batch, long": Row(
        whitened(integrators.baoab(gamma=5.0), 0.02),
        "h .02, gamma 5, in units of the prior; ten times the gradients",
        full_batch=True,
        lengthened=10,
    ),
    "auto": Row(lambda _: None, "none"),
}
NAMES = (*ROWS, MATCHED)


def sampler_of(task: Task, prior: str, name: str, seed: int) -> sundman.Sampler | None:
    """The sampler of a row; the matched one needs the mean step of SA-SGLD first."""
    if name != MATCHED:
        return ROWS[name].build(posterior(prior))
    adaptive = run_unit(task, prior, "SA-SGLD", seed)
    return sundman.sgld(_rate(round(adaptive["mean_step"], 5)))


def run_unit(task: Task, prior: str, name: str, seed: int) -> Numbers:
    """One row's chains for one seed, run or read."""
    row, budget = ROWS.get(name, ROWS["SGLD"]), task.scale.accuracy
    settings = {
        "row": name,
        "settings": row.settings if name in ROWS else "matched",
        "prior": prior,
        "seed": seed,
        **{name: value for name, value in asdict(budget).items() if name != "rows"},
    }
    unit = f"posterior-accuracy/{prior}-{name.replace(' ', '-').replace(',', '')}-{seed}"
    return task.cache.get_or_run(
        unit,
        settings,
        lambda: measure(prior, sampler_of(task, prior, name, seed), row, budget, seed),
    )


def measure(
    prior: str,
    sampler: sundman.Sampler | None,
    row: Row,
    budget: AccuracyBudget,
    seed: int,
    batch: int = BATCH,
) -> Numbers:
    """Run the chains of a row and score every budget.

    Args:
      prior: of the posterior.
      sampler: None tunes itself.
      row: what else belongs to the row.
      budget: how long.
      seed: of starts, minibatches and noise.
      batch: how many rows a gradient has; the budget counts such gradients.

    Returns:
      The scores by budget, the seconds of the run, the mean step.
    """
    target = posterior(prior)
    per_step = target.size / batch if row.full_batch else 1.0
    length = row.lengthened * budget.gradients_of_chain / per_step
    thin = max(1, round(budget.thin / per_step))
    tuned = sampler is None
    steps = round((0.62 if tuned else 1.0) * length) // thin * thin  # the rest is the warm-up
    starts, noise = jax.random.split(jax.random.key(seed))
    keys = jax.random.split(starts, budget.chains)
    try:
        draws = experiment.sample(
            target,
            sampler,
            init=jax.vmap(lambda key: models.mlp_init(key, SIZES))(keys),
            per_chain=True,
            chains=budget.chains,
            key=noise,
            steps=steps,
            thin=thin,
            batch_size=None if row.full_batch else batch,
            progress=False,
        )
    except AllDivergedError:
        return {"budgets": {}, "seconds": None, "gradients": math.nan, "mean_step": None}
    warm_up = draws.tuning.gradients if draws.tuning is not None else 0
    predict, diagnose = evaluations(prior)
    weight = np.asarray(draws.weight, np.float64)
    count = len(draws)
    some = np.unique(np.linspace(0, count - 1, min(count, _DIAGNOSED)).astype(int))
    probabilities = at_each(predict, draws.position)
    diagnosed = at_each(diagnose, jax.tree.map(lambda leaf: leaf[:, some], draws.position))
    scores: dict[str, Numbers] = {}
    for gradients, chains in budget.budgets:
        # of a sampler in cycles draws are not evenly spaced, but so are its cycles
        share = (gradients * row.lengthened / chains - warm_up) / (steps * per_step)
        last = count if gradients == budget.budgets[-1][0] else round(share * count)
        first = 0 if tuned else last // 2
        if last > count or last - first < 2:
            continue
        used = slice(first, last)
        in_used = (some >= first) & (some < last)
        scores[str(gradients)] = chain_predictives(
            probabilities[:, used],
            weight[:, used],
            diagnosed[:, in_used],
            weight[:, some[in_used]],
            pooled=chains > 1,
        )
    dt = np.asarray(draws.stats["dt"], np.float64)
    kinetic = sampler is not None and sampler.kinetic
    return {
        "budgets": scores,
        "seconds": draws.facts.seconds,
        "gradients": budget.chains * (warm_up + steps * per_step),
        "mean_step": float(target.learning_rate(1.0, kinetic=kinetic) * (dt**2 if kinetic else dt)[
            weight > 0].mean()),
        "lost": int(draws.diverged.sum()),
    }  # fmt: skip


Summary = Mapping[str, Mapping[str, Mapping[str, Measurement]]]
"""Scores by row and budget."""
_SCORES = ("tv", "nll", "train_nll", "potential", "stiff_temperature")


Scores = Mapping[str, Mapping[str, Sequence[float]]]
"""Of one unit: values of each score, by budget."""


def summarise(
    units: Mapping[str, Sequence[Scores]],
) -> dict[str, dict[str, dict[str, Measurement]]]:
    """Mean and error of each score over chains and seeds, by row and budget."""
    summary: dict[str, dict[str, dict[str, Measurement]]] = {}
    for name, seeds in units.items():
        budgets = dict.fromkeys(budget for unit in seeds for budget in unit)
        summary[name] = {
            budget: {
                score: over_seeds(
                    [value for unit in seeds if budget in unit for value in unit[budget][score]]
                )
                for score in _SCORES
            }
            for budget in sorted(budgets, key=int)
        }
    return summary


def run(task: Task) -> Findings:
    """Every row asked for, under each prior whose true predictive is at hand."""
    known = [prior for prior in PRIORS if reference_path(prior) is not None]
    seeds = task.seeds or [task.seed + i for i in range(task.scale.accuracy.seeds)]
    names = tuple(task.rows or task.scale.accuracy.rows or NAMES)
    for name in names:
        if name not in NAMES:
            raise ValueError(f"the rows are {'; '.join(NAMES)}; got {name!r}")
    for seed in seeds:  # a run that is broken off has all rows of the first seeds
        for prior in known:
            for name in names:
                run_unit(task, prior, name, seed)
    units = {
        prior: {name: [run_unit(task, prior, name, seed) for seed in seeds] for name in names}
        for prior in known
    }
    scores = {
        prior: {name: [score_unit(prior, unit) for unit in each] for name, each in rows.items()}
        for prior, rows in units.items()
    }
    summaries = {prior: summarise(rows) for prior, rows in scores.items()}
    return Findings(
        settings={
            **asdict(task.scale.accuracy),
            "batch": BATCH,
            "sizes": SIZES,
            "rows": {name: row.settings for name, row in ROWS.items() if name in names},
        },
        numbers={
            prior: {
                "floor": reference(prior).floor,
                "reference_nll": metrics.nll(reference(prior).mean, data().test.y),
                "reference_train_nll": reference(prior).train_nll,
                "reference_potential": reference(prior).potential,
                "rows": {
                    name: {
                        "seconds": [unit["seconds"] for unit in units[prior][name]],
                        "mean_step": [unit["mean_step"] for unit in units[prior][name]],
                        "budgets": {
                            budget: {
                                score: {"value": each.value, "error": each.error}
                                for score, each in of_budget.items()
                            }
                            for budget, of_budget in summaries[prior][name].items()
                        },
                    }
                    for name in names
                },
            }
            for prior in known
        },
        verdicts=[
            judge(prior, scores[prior])
            for prior in known
            if {"SA-SGLD", MATCHED} <= set(names)
        ],
        tables=[table(prior, summaries[prior], units[prior]) for prior in known],
        figures=[figure(prior, summaries[prior], units[prior]) for prior in known],
    )  # fmt: skip


def judge(prior: str, scores: Mapping[str, Sequence[Scores]]) -> Verdict:
    """Is SA-SGLD nearer the truth than SGLD at its mean step? Paired by chain."""
    differences: list[float] = []
    for one, other in zip(scores["SA-SGLD"], scores[MATCHED], strict=True):
        shared = sorted((budget for budget in one if budget in other), key=int)
        if len(shared) > 1:
            longest = shared[-2]  # of one chain
            pairs = zip(one[longest]["tv"], other[longest]["tv"], strict=False)
            differences += [ours - theirs for ours, theirs in pairs]
    difference = over_seeds(differences)
    return Verdict(
        claim=f"Adaptive steps sample the posterior more accurately ({prior} prior)",
        paper="more accurate posterior sampling, shown by test scores",
        ours=f"TV of SA-SGLD minus TV of SGLD at its mean step: {difference.text(sign=True)}",
        error=error_text(difference),
        outcome=less(difference, -0.002),
        note="Class probabilities of one chain against the true predictive, pairs of chains with "
        "the same start. Reproduces if lower by more than half of the 95% interval; does not if "
        "the interval excludes a gain of .002, a fifth of what separates good samplers.",
    )


def table(prior: str, summary: Summary, units: Mapping[str, Sequence[Numbers]]) -> Table:
    """A line for each row: TV at every budget, and at the last all else."""
    budgets = list(dict.fromkeys(b for scores in summary.values() for b in scores))

    def cell(scores: Mapping[str, Measurement] | None, name: str) -> str:
        if scores is None or not math.isfinite(scores[name].value):
            return "-"
        each = scores[name]
        error = f" ± {each.error:.1g}" if math.isfinite(each.error) else ""
        return f"{each.text()}{error}"

    lines = []
    for name, scores in summary.items():
        last = scores.get(budgets[-1]) if budgets else None
        seconds = [unit["seconds"] for unit in units[name] if unit["seconds"] is not None]
        lines.append(
            [
                name,
                *(cell(scores.get(budget), "tv") for budget in budgets),
                *(cell(last, s) for s in ("nll", "train_nll", "stiff_temperature", "potential")),
                f"{gradients_of(units[name]):,.0f}" if seconds else "-",
                f"{np.mean(seconds):.0f}" if seconds else "-",
            ]
        )
    truth = reference(prior)
    exact = [
        "exact",
        *(f"floor {truth.floor:.4f}" for _ in budgets),
        f"{metrics.nll(truth.mean, data().test.y):.4f}",
        f"{truth.train_nll[0]:.1f}",
        "1",
        f"{truth.potential[0]:.0f}",
        "",
        "",
    ]
    heads = [f"TV, {int(budget):,} gradients" for budget in budgets]
    return Table(
        title=f"Distance from the true predictive, {prior} prior: mean and standard error",
        columns=[
            "sampler",
            *heads,
            "test NLL",
            "train NLL",
            "stiff T",
            "U",
            "gradients of all chains",
            "seconds",
        ],
        rows=[*lines, exact],
    )


def figure(prior: str, summary: Summary, units: Mapping[str, Sequence[Numbers]]) -> Figure:
    """TV against the gradients that a row really had."""
    curves: dict[str, Points] = {}
    for name, scores in summary.items():
        times = ROWS[name].lengthened if name in ROWS else 1
        points = [(times * float(budget), each["tv"]) for budget, each in scores.items()]
        if points:
            points[-1] = (gradients_of(units[name]), points[-1][1])
            curves[name] = points
    ends = "; ".join(f"{name} {points[-1][1].value:.4f}" for name, points in curves.items())
    return against_gradients(
        curves,
        reference(prior).floor,
        f"Distance from the true posterior predictive, {prior} prior",
        f"Total variation against gradients, {prior} prior; at the end: {ends}",
        ylabel="TV",
    )


def gradients_of(units: Sequence[Numbers]) -> float:
    """Gradients on 32 rows of all chains of a row, its warm-up included; the mean over seeds."""
    return float(np.mean([unit.get("gradients", math.nan) for unit in units]))
