"""Every sampler on five problems: bias, effective draws per gradient, largest stable step.

A sampler starts from exact draws (near the mode for the regression) at a small step, which is
doubled until a chain is lost. The step before is its largest stable one; bias and effective sample
size are shown for the longest step that is accurate, so that each is judged at one of its own. The
result is written after every sampler, and what is there is not run again.

    python -m studies.samplers.family            # run what is missing, then write comparison.md
    python -m studies.samplers.family --page     # only write the page
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import sundman
from studies.report import settings
from studies.samplers.family_page import write_page
from sundman import likelihoods, priors, targets

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests"))
RESULT = Path(__file__).parent / "results" / "family.json"
REFERENCE = json.loads((ROOT / "tests" / "law" / "logistic_reference.json").read_text())
CHAINS, STEPS, THIN, MOST = 64, 20_000, 10, 11
BATCH = 57


class Problem(NamedTuple):
    """A target, its stiffness, squared gradient and lowest U, and the average looked at."""

    target: Any
    stiffness: float
    g_ref: float
    lowest: float
    first: Callable[[jax.Array], Any]
    values: Callable[[Any], np.ndarray]
    error: Callable[[sundman.Draws], tuple[float, float]]
    batch_size: int | None = None


def of_target(target: targets.Target, stiffness: float, name: str, relative: bool) -> Problem:
    """The bias of one observable of a test density."""
    assert target.exact is not None
    exact, truth = target.exact, target.truth[name]
    observe = jax.jit(jax.vmap(jax.vmap(target.observables[name])))
    some = exact(jax.random.key(1), 4096)
    slopes = np.asarray(jax.vmap(jax.grad(target.potential))(some))

    def error(draws: sundman.Draws) -> tuple[float, float]:
        found = sundman.estimate.mean(draws)
        scale = abs(truth) if relative else 1.0
        return float((found.value - truth) / scale), float(found.error / scale)

    return Problem(
        target,
        stiffness,
        float(np.median(np.sum(slopes**2, axis=1))),
        float(jax.vmap(target.potential)(some).min()),
        lambda key: exact(key, CHAINS),
        lambda position: np.asarray(observe(position)),
        error,
    )


def regression() -> Problem:
    """Logistic regression on breast cancer by minibatches: the posterior variances."""
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    x = x[:, :10]
    posterior = sundman.Posterior(
        lambda params, x: x @ params[:10] + params[10],
        likelihood=likelihoods.bernoulli(),
        prior=priors.gaussian(1.0),
        data=((x - x.mean(axis=0)) / x.std(axis=0), y),
    )
    mean, sd = (np.array(REFERENCE[name], np.float32) for name in ("mean", "sd"))

    def error(draws: sundman.Draws) -> tuple[float, float]:
        """Of the mean over the coefficients of the variance, in units of the true one."""
        found = sundman.estimate.mean(draws)
        return float(found.value - 1.0), float(found.error)

    return Problem(
        posterior,
        300.0,
        2000.0,
        float(posterior.potential(mean)),
        lambda key: mean + sd * np.asarray(jax.random.normal(key, (CHAINS, 11)), np.float32),
        lambda position: np.mean(((position - mean) / sd) ** 2, axis=-1),
        error,
        BATCH,
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "star": lambda: of_target(targets.star(), 1500.0, "r2", True),
    "muller-brown": lambda: of_target(targets.muller_brown(), 100.0, "U", True),
    "funnel": lambda: of_target(targets.funnel(), 20.0, "v", False),
    "mixture": lambda: of_target(targets.mixture(), 4.0, "y2", True),
    "regression": regression,
}


# The tests' cycles are as long as a chain needs to forget; these fit into a run. A range of
# energies belongs to a target.
OWN: dict[str, Callable[[float, Problem], sundman.Sampler]] = {
    "cyclical_sgld": lambda h, problem: sundman.cyclical_sgld(h, cycle=1000, explore=0.5),
    "cyclical_sghmc": lambda h, problem: sundman.cyclical_sghmc(
        h, cycle=1000, explore=0.5, gamma=2.0
    ),
    "contour_sgld": lambda h, problem: sundman.contour_sgld(
        h, low=problem.lowest, high=problem.lowest + 25.0
    ),
}


def one_run(problem: Problem, sampler: sundman.Sampler) -> dict[str, Any]:
    """Chains lost, mean step, bias with its error, effective draws per thousand gradients."""
    first, second = jax.random.split(jax.random.key(5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sundman.DivergenceWarning)
        warnings.simplefilter("ignore", sundman.TrustWarning)
        draws = sundman.sample(
            problem.target,
            sampler,
            init=problem.first(first),
            per_chain=True,
            key=second,
            chains=CHAINS,
            steps=STEPS,
            thin=THIN,
            batch_size=problem.batch_size,
            stats=(),
            progress=False,
        )
    lost = int(np.sum(draws.diverged))
    dt = float(np.mean(draws.stats["dt"], dtype=np.float64))
    if lost:
        return {"lost": lost, "dt": dt}
    kept = sundman.Draws(
        problem.values(draws.position),
        draws.weight,
        {},
        draws.diverged_at,
        None,
        has_position=False,
    )
    bias, error = problem.error(kept)
    gradients = CHAINS * draws.settings["steps"] * sampler.integrator.replicas
    effective = float(np.sum(kept.ess())) / gradients * 1000.0
    return {"lost": 0, "dt": dt, "bias": bias, "error": error, "ess": effective}


def one_sampler(name: str, problem: Problem) -> dict[str, Any]:
    """Runs at doubled steps until a chain is lost."""
    from samplers import SAMPLERS

    row = SAMPLERS[name]
    stiffness = np.sqrt(problem.stiffness) if row.kinetic else problem.stiffness
    runs = []
    for k in range(MOST):
        h = row.sharpness / 4.0 / stiffness * 2.0**k
        try:
            build = OWN.get(name, lambda h, problem: row.build(h, 1.0, problem.g_ref))
            found = one_run(problem, build(h, problem))
        except sundman.AllDivergedError:
            found = {"lost": CHAINS}
        runs.append({"h": h, **found})
        if found["lost"]:
            break
    return {"kinetic": row.kinetic, "biased": row.biased, "runs": runs}


def main() -> None:
    """Run what is missing and write the page."""
    from samplers import EVERY, SAMPLERS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("--samplers", nargs="*", help="only these")
    options = parser.parse_args()
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {"problems": {}}
    if not options.page:
        for where, build in PROBLEMS.items():
            done, problem = result["problems"].setdefault(where, {}), build()
            for name in options.samplers or SAMPLERS:
                if name in done or SAMPLERS[name].unfair == EVERY:
                    continue
                done[name] = one_sampler(name, problem)
                about = settings(chains=CHAINS, steps=STEPS, thin=THIN, batch=BATCH)
                RESULT.write_text(json.dumps({**about, **result}, indent=1) + "\n")
                print(where, name, json.dumps(done[name]["runs"][-2:]), flush=True)
    write_page(result, Path(__file__).with_name("comparison.md"))


if __name__ == "__main__":
    main()
