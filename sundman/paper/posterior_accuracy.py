"""How near the true posterior does a sampler come? A small network whose predictive is known.

The network of ``sundman bnn digits``, 64-50-50-10 with rectified units, under the Gaussian and the
per-tensor horseshoe prior, batch 32. Its posterior predictive comes from full-batch Hamiltonian
Monte Carlo with a Metropolis test: under the Gaussian prior by ``benchmarks/true_posterior.py``,
in the package; under the horseshoe from an earlier run of another program, whose chains agree less
well (R-hat of the log of the logit scale 1.19). That one is read from the directory that
``SUNDMAN_DATA_DIR`` names, and without it only the Gaussian prior is examined. The distance is the
mean over test points of the total variation of class probabilities,

    TV = mean_i 1/2 sum_c |p[i, c] - q[i, c]|

and no sampler can be seen to be nearer than the reference itself is known: its floor is the
distance of the means of disjoint halves of its chains.

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

import base64
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

import sundman
from sundman import clocks, integrators, metrics, models, priors, scaling
from sundman._types import PyTree
from sundman.clocks import SundmanSettings
from sundman.data.base import Dataset
from sundman.draws.divergence import AllDivergedError
from sundman.paper import experiment
from sundman.paper.experiment import AccuracyBudget, Findings, Numbers, Task
from sundman.paper.figures import Figure, Points, against_gradients
from sundman.paper.measured import Measured, error_text, less, over_seeds
from sundman.paper.network import CLOCK
from sundman.posterior.evaluation import hyper_params, model_params, prior_name
from sundman.report.model import Table, Verdict

SIZES, BATCH = (64, 50, 50, 10), 32
PRIORS = ("gaussian", "horseshoe")
LAST = f"layer_{len(SIZES) - 2}"
MATCHED = "SGLD, mean step of SA-SGLD"
_REFERENCE = "reference_digits.npz"
_PARTS = ("mean", "half1", "half2", "train_nll", "potential")
_RATE, _KINETIC_RATE, _GAMMA = 0.025, 5e-4, 20.0  # learning rates, and a friction
_DIAGNOSED = 200  # draws of a chain at which the full gradient is computed


@dataclass(frozen=True)
class Reference:
    """The true predictive of one prior.

    Attributes:
      mean: class probabilities at the test points.
      halves: the same from disjoint halves of the chains.
      train_nll: loss on the training points, mean and standard deviation over draws.
      potential: U, likewise.
    """

    mean: np.ndarray
    halves: tuple[np.ndarray, np.ndarray]
    train_nll: tuple[float, float]
    potential: tuple[float, float]

    @property
    def floor(self) -> float:
        """TV of the halves: how well the mean itself is known, and a little worse."""
        return metrics.total_variation(*self.halves)


@functools.cache
def reference(prior: str) -> Reference:
    """The true predictive of the digits network under ``"gaussian"`` or ``"horseshoe"``."""
    path = _reference_path(prior)
    if path is None:
        raise FileNotFoundError(
            f"the true predictive under the {prior} prior is not part of the package: put "
            f"reference/{_REFERENCE} into the directory that SUNDMAN_DATA_DIR names"
        )
    with np.load(path) as stored:
        part = {name: np.asarray(stored[f"{prior}_{name}"]) for name in _PARTS}
    nll, potential = (tuple(map(float, part[name])) for name in ("train_nll", "potential"))
    return Reference(part["mean"], (part["half1"], part["half2"]), nll, potential)  # type: ignore[arg-type]


def _reference_path(prior: str) -> Path | None:
    """The file that has the true predictive under a prior, if there is one."""
    folders = [Path(__file__).parent]
    if named := os.environ.get("SUNDMAN_DATA_DIR"):
        folders.append(Path(named) / "reference")
    for path in (folder / _REFERENCE for folder in folders):
        if path.is_file():
            with np.load(path) as stored:
                if f"{prior}_mean" in stored:
                    return path
    return None


@functools.cache
def data() -> Dataset:
    """scikit-learn's digits, as ``sundman bnn digits`` splits them."""
    return sundman.data.digits()


@functools.cache
def posterior(prior: str) -> sundman.Posterior:
    """The posterior of ``sundman bnn digits`` under a prior."""
    rules = {
        "kernel": priors.named(prior, scale=1.41, fan_in="leading"),
        "bias": priors.named(prior, scale=1.0, fan_in=None),
    }
    return sundman.Posterior(models.mlp_apply, prior=rules, data=tuple(data().train))


def base_scale(target: sundman.Posterior) -> scaling.Scale:
    """The prior's own scale of every array, 1.41 / sqrt(fan_in) or 1; 1 for hyper-parameters."""
    position = target.position(models.mlp_init(jax.random.key(0), SIZES))

    def of(path: str, leaf: Array) -> float:
        return 1.41 / math.sqrt(leaf.shape[0]) if path.endswith("kernel") else 1.0

    sizes = [of(path, leaf) for path, leaf in priors.paths(position)]
    return scaling.diagonal(jax.tree.unflatten(jax.tree.structure(position), sizes))


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


def _whitened(integrator: integrators.Integrator, h: float) -> Build:
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
    "pSGLD": Row(lambda _: sundman.psgld(_rate(0.7)), "h .7"),
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
        _whitened(integrators.low_rank_baoab(gamma=0.5, rank=20), 0.003),
        "h .003, gamma .5, rank 20, in units of the prior",
    ),
    "BAOAB, full batch": Row(
        _whitened(integrators.baoab(gamma=5.0), 0.02),
        "h .02, gamma 5, in units of the prior",
        full_batch=True,
    ),
    "BAOAB, full batch, long": Row(
        _whitened(integrators.baoab(gamma=5.0), 0.02),
        "h .02, gamma 5, in units of the prior; ten times the gradients",
        full_batch=True,
        lengthened=10,
    ),
    "auto": Row(lambda _: None, "none"),
}
NAMES = (*ROWS, MATCHED)


def last_layer(target: sundman.Posterior, position: PyTree) -> Array:
    """|grad U|^2 and the Laplacian of U over the last layer, in which logits are linear.

    The likelihood's part of the Laplacian is sum_i (|a_i|^2 + 1)(1 - sum_c p_ic^2), with a_i the
    last hidden layer; the prior's is its precision times the number of weights.

    Args:
      target: a posterior of :func:`sundman.models.mlp_apply` with priors that are normal given
        their scales, its data in memory.
      position: where.

    Returns:
      Both numbers.
    """
    params, hyper = model_params(position), hyper_params(position)
    slope = model_params(target.gradient(position))[LAST]
    squares = sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(slope))
    hidden = jnp.asarray(target.example().x if target.host else target.data.x)  # type: ignore[union-attr]
    for layer in range(len(SIZES) - 2):
        own = params[f"layer_{layer}"]
        hidden = jax.nn.relu(hidden @ own["kernel"] + own["bias"])
    p = jax.nn.softmax(hidden @ params[LAST]["kernel"] + params[LAST]["bias"])
    laplacian = jnp.sum((jnp.sum(hidden**2, -1) + 1.0) * (1.0 - jnp.sum(p * p, -1)))
    leaves = priors.paths(params)
    for (path, prior), (_, leaf) in zip(priors.assign(target.prior, params), leaves, strict=True):
        if path.startswith(LAST):
            pull = jax.grad(prior.of_squares)(
                jnp.float32(0.0), leaf.shape, hyper.get(prior_name(path))
            )
            laplacian += -2.0 * pull * leaf.size
    return jnp.stack([jnp.asarray(squares), laplacian])


@functools.cache
def _evaluations(prior: str) -> tuple[Callable[[PyTree], Array], Callable[[PyTree], Array]]:
    """Class probabilities at the test points; and loss, U, and the last layer's two numbers."""
    target, x = posterior(prior), jnp.asarray(data().test.x)

    def predict(positions: PyTree) -> Array:
        return jax.lax.map(lambda position: target.predict(position, x), positions)

    def diagnose(positions: PyTree) -> Array:
        def one(position: PyTree) -> Array:
            loss = -target.log_likelihood(position)
            own = jnp.stack([loss, target.potential(position)])
            return jnp.concatenate([own, last_layer(target, position)])

        return jax.lax.map(one, positions)

    return jax.jit(predict), jax.jit(diagnose)


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
        **asdict(budget),
    }
    unit = f"posterior-accuracy/{prior}-{name.replace(' ', '-').replace(',', '')}-{seed}"
    return task.cache.get_or_run(
        unit,
        settings,
        lambda: measure(prior, sampler_of(task, prior, name, seed), row, budget, seed),
    )


def measure(
    prior: str, sampler: sundman.Sampler | None, row: Row, budget: AccuracyBudget, seed: int
) -> Numbers:
    """Run the chains of a row and score every budget.

    Args:
      prior: of the posterior.
      sampler: None tunes itself.
      row: what else belongs to the row.
      budget: how long.
      seed: of starts, minibatches and noise.

    Returns:
      The scores by budget, the seconds of the run, the mean step.
    """
    target = posterior(prior)
    rows_of_step = target.size if row.full_batch else BATCH
    per_step = rows_of_step / BATCH
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
            batch_size=None if row.full_batch else BATCH,
            progress=False,
        )
    except AllDivergedError:
        return {"budgets": {}, "seconds": None, "gradients": math.nan, "mean_step": None}
    warm_up = draws.tuning.gradients if draws.tuning is not None else 0
    predict, diagnose = _evaluations(prior)
    weight = np.asarray(draws.weight, np.float64)
    count = len(draws)
    some = np.unique(np.linspace(0, count - 1, min(count, _DIAGNOSED)).astype(int))
    probabilities = _at_each(predict, draws.position)
    diagnosed = _at_each(diagnose, jax.tree.map(lambda leaf: leaf[:, some], draws.position))
    scores: dict[str, Numbers] = {}
    for gradients, chains in budget.budgets:
        # of a sampler in cycles draws are not evenly spaced, but so are its cycles
        share = (gradients * row.lengthened / chains - warm_up) / (steps * per_step)
        last = count if gradients == budget.budgets[-1][0] else round(share * count)
        first = 0 if tuned else last // 2
        if last > count or last - first < 2:
            continue
        kept = slice(first, last)
        in_kept = (some >= first) & (some < last)
        scores[str(gradients)] = _predictive(
            probabilities[:, kept],
            weight[:, kept],
            diagnosed[:, in_kept],
            weight[:, some[in_kept]],
            pooled=chains > 1,
        )
    dt = np.asarray(draws.stats["dt"], np.float64)
    kinetic = sampler is not None and sampler.kinetic
    return {
        "budgets": scores,
        "seconds": draws.settings["seconds"],
        "gradients": budget.chains * (warm_up + steps * per_step),
        "mean_step": float(target.learning_rate(1.0, kinetic=kinetic) * (dt**2 if kinetic else dt)[
            weight > 0].mean()),
        "lost": int(draws.diverged.sum()),
    }  # fmt: skip


def _at_each(function: Callable[[PyTree], Array], positions: PyTree) -> np.ndarray:
    """A function of many positions, at positions with the axes (chain, draw)."""
    chains, count = jax.tree.leaves(positions)[0].shape[:2]
    flat = jax.tree.map(lambda leaf: np.reshape(leaf, (-1, *leaf.shape[2:])), positions)
    values = np.asarray(function(flat), np.float64)
    return values.reshape(chains, count, *values.shape[1:])


def _predictive(
    probabilities: np.ndarray,
    weight: np.ndarray,
    diagnosed: np.ndarray,
    its_weight: np.ndarray,
    *,
    pooled: bool,
) -> Numbers:
    """The predictive of each chain, or of all together; what the draws say of themselves.

    Args:
      probabilities: (chain, draw, point, class).
      weight: of these draws.
      diagnosed: (chain, draw, what): loss, U, the last layer's squares and Laplacian.
      its_weight: of those draws.
      pooled: whether the chains are one ensemble.

    Returns:
      The numbers of every chain that lives; the predictives as text, single precision in base 64.
    """
    alive = (weight.sum(axis=1) > 0) & (its_weight.sum(axis=1) > 0)
    if not alive.any():
        return {}
    weight, probabilities = weight[alive], probabilities[alive]
    diagnosed, its_weight = diagnosed[alive], its_weight[alive]
    means = np.einsum("cd,cdik->cik", weight, probabilities) / weight.sum(axis=1)[:, None, None]
    if pooled:
        means = np.einsum("c,cik->ik", weight.sum(axis=1) / weight.sum(), means)[None]
    loss, U, squares, laplacian = np.moveaxis(
        np.einsum("cd,cdf->cf", its_weight, diagnosed) / its_weight.sum(axis=1)[:, None], -1, 0
    )
    return {
        "predictive": base64.b64encode(means.astype("<f4").tobytes()).decode(),
        "train_nll": loss.tolist(),
        "potential": U.tolist(),
        "stiff_temperature": (squares / laplacian).tolist(),
    }


def scored(prior: str, unit: Numbers) -> dict[str, dict[str, list[float]]]:
    """The scores of a unit by budget: TV and NLL of its predictives, and the rest."""
    truth, labels = reference(prior), data().test.y
    scores: dict[str, dict[str, list[float]]] = {}
    for budget, numbers in unit["budgets"].items():
        if not numbers:
            continue
        raw = np.frombuffer(base64.b64decode(numbers["predictive"]), "<f4").astype(np.float64)
        means = raw.reshape(-1, *truth.mean.shape)
        means = means / means.sum(axis=-1, keepdims=True)
        scores[budget] = {
            "tv": [metrics.total_variation(mean, truth.mean) for mean in means],
            "nll": [metrics.nll(mean, labels) for mean in means],
            **{name: values for name, values in numbers.items() if name != "predictive"},
        }
    return scores


Summary = Mapping[str, Mapping[str, Mapping[str, Measured]]]
"""Scores by row and budget."""
_TOLD = ("tv", "nll", "train_nll", "potential", "stiff_temperature")


Scores = Mapping[str, Mapping[str, Sequence[float]]]
"""Of one unit: values of each score, by budget."""


def summarise(units: Mapping[str, Sequence[Scores]]) -> dict[str, dict[str, dict[str, Measured]]]:
    """Mean and error of each score over chains and seeds, by row and budget."""
    summary: dict[str, dict[str, dict[str, Measured]]] = {}
    for name, seeds in units.items():
        budgets = dict.fromkeys(budget for unit in seeds for budget in unit)
        summary[name] = {
            budget: {
                score: over_seeds(
                    [value for unit in seeds if budget in unit for value in unit[budget][score]]
                )
                for score in _TOLD
            }
            for budget in sorted(budgets, key=int)
        }
    return summary


def run(task: Task) -> Findings:
    """Every row asked for, under each prior whose true predictive is at hand."""
    known = [prior for prior in PRIORS if _reference_path(prior) is not None]
    seeds = task.seeds or [task.seed + i for i in range(task.scale.accuracy.seeds)]
    names = NAMES if task.rows is None else tuple(task.rows)
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
        prior: {name: [scored(prior, unit) for unit in each] for name, each in rows.items()}
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
                                for score, each in told.items()
                            }
                            for budget, told in summaries[prior][name].items()
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

    def cell(scores: Mapping[str, Measured] | None, name: str) -> str:
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
