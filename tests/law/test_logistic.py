"""Bayesian logistic regression on real data by minibatches, against a long NUTS run.

Breast cancer (Wisconsin): 569 rows in batches of 57, the last one short; ten standardised
features and an intercept, standard normal priors. The reference is stored with the command that
made it. At this step Euler-Maruyama's own bias is +4% on the sd of the stiffest direction.
"""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import sundman
from sundman import likelihoods, priors

REFERENCE = json.loads((Path(__file__).parent / "logistic_reference.json").read_text())
BATCH, CHAINS = 57, 160
DT, STEPS, DROP, THIN = 2e-3, 5000, 1200, 20
G_REF = 2000.0  # near the mean squared norm of a minibatch gradient

SAMPLERS = {
    "sgld": sundman.sgld(DT),
    "sa_sgld": sundman.compose(
        sundman.integrators.euler_maruyama(),
        sundman.clocks.scale_free(DT, g_ref=G_REF, a=0.1, r=1.0),
    ),
}


def posterior() -> sundman.Posterior:
    x, y = load_breast_cancer(return_X_y=True)
    x = x[:, :10]
    return sundman.Posterior(
        lambda params, x: x @ params["w"] + params["b"],
        likelihood=likelihoods.bernoulli(),
        prior=priors.gaussian(1.0),
        data=((x - x.mean(axis=0)) / x.std(axis=0), y),
    )


def run(sampler: sundman.Sampler) -> sundman.Draws:
    """Draws whose values are the eleven coefficients, from draws of the prior on."""
    rng = np.random.default_rng(16)
    first = {"w": rng.normal(size=(CHAINS, 10)), "b": rng.normal(size=CHAINS)}
    draws = sundman.sample(
        posterior(),
        sampler,
        init={name: value.astype(np.float32) for name, value in first.items()},
        per_chain=True,
        key=jax.random.key(17),
        chains=CHAINS,
        steps=STEPS,
        thin=THIN,
        batch_size=BATCH,
    )
    w = np.concatenate([draws.position["w"], draws.position["b"][..., None]], axis=-1)
    kept = slice(DROP // THIN, None)
    return sundman.Draws(w[:, kept], draws.weight[:, kept], {}, draws.diverged_at, None)


@pytest.mark.slow  # the exact law with minibatches is in test_linear_regression.py
@pytest.mark.parametrize("name", SAMPLERS)
def test_means_and_sds_are_those_of_nuts(name: str) -> None:
    draws = run(SAMPLERS[name])
    sd = np.array(REFERENCE["sd"])
    mean = sundman.estimate.mean(draws)
    shift = (mean.value - REFERENCE["mean"]) / sd
    assert np.all(mean.error < 0.05 * sd)
    assert np.all(np.abs(shift) < 0.1), f"means off by {shift.round(3)} posterior sds"
    ratio = np.sqrt(sundman.estimate.variance(draws)) / sd
    assert np.all(np.abs(ratio - 1) < 0.1), f"sds off by the factors {ratio.round(3)}"
    if name == "sa_sgld":
        assert draws.weight.std() > 0.1 * draws.weight.mean()


def test_the_reference_is_precise() -> None:
    sd = np.array(REFERENCE["sd"])
    assert np.all(np.array(REFERENCE["mean_error"]) < 0.01 * sd)
    assert np.all(np.array(REFERENCE["sd_error"]) < 0.01 * sd)
    assert REFERENCE["largest_r_hat"] < 1.001
