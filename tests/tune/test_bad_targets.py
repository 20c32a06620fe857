"""Targets that cannot be tuned for: a sentence that says what was seen, and never a hang."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.run.inputs import temperature_of
from sundman.tune.state import TuningError


def tune(potential, init=None, **arguments):
    init = jnp.ones(2) if init is None else init
    return sundman.sample(
        potential, init=init, key=jax.random.key(0), **{"chains": 2, "steps": 200, **arguments}
    )


def test_a_flat_potential():
    with pytest.raises(TuningError, match="U does not change"):
        tune(lambda x: 0.0 * jnp.sum(x))


def test_an_infinite_potential_at_the_start():
    with pytest.raises(TuningError, match=r"chain 0 U = inf"):
        tune(lambda x: jnp.where(x[0] > 0, jnp.inf, 0.0) + jnp.sum(x**2))


def test_one_bad_start_of_several_is_named():
    starts = jnp.array([[1.0, 1.0], [-1.0, 1.0]])
    with pytest.raises(TuningError, match=r"chain 1 U = nan"):
        tune(lambda x: jnp.log(x[0]) ** 2 + x[1] ** 2, init=starts, per_chain=True)


def test_no_coordinate():
    with pytest.raises((TuningError, ValueError), match=r"no coordinate|empty|no number|element"):
        tune(lambda x: jnp.sum(x**2), init=jnp.zeros(0))


@pytest.mark.long
def test_a_potential_that_jumps_does_not_hang_and_is_named():
    def walls(x):
        return jnp.sum(x**2) + 100.0 * jnp.sum(jnp.floor(20.0 * x) % 2)

    with pytest.warns(sundman.TrustWarning, match="seems to jump"):
        tune(walls, chains=4, steps=2000)


@pytest.mark.long
@pytest.mark.parametrize(
    "potential",
    [lambda x: -jnp.sum(x**2), pytest.param(lambda x: jnp.sum(x), marks=pytest.mark.slow)],
)
def test_an_improper_potential_is_named(potential):
    with pytest.raises(TuningError, match=r"falls without bound.*log_density"):
        tune(potential, chains=4, steps=2000)


def test_streamed_data_are_refused(tmp_path):
    def batches():
        while True:
            yield np.zeros((4, 2), np.float32), np.zeros(4, np.int32)

    posterior = sundman.Posterior(
        lambda w, x: x @ w,
        data=sundman.data.HostBatches(batches, size=100),
        likelihood=sundman.likelihoods.bernoulli(),
        prior=sundman.priors.gaussian(1.0),
    )
    with pytest.raises(ValueError, match="in memory"):
        tune(posterior)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bias": 0.0}, "bias"),
        ({"bias": 0.9}, "bias"),
        ({"bias": "small"}, "bias"),
        ({"method": "nuts"}, "method"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": 0.0}, "temperature"),
        ({"warm_up": 10}, "warm_up"),
        ({"dense_up_to": -1}, "dense_up_to"),
        ({"first_step": 0.0}, "first_step"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        sundman.auto(**settings)


def test_two_temperatures_must_agree():
    target = sundman.targets.muller_brown(temperature=2.0)
    with pytest.raises(ValueError, match="temperature"):
        sundman.sample(target, sundman.auto(temperature=3.0), key=jax.random.key(0), steps=10)


def test_a_posterior_at_temperature_zero_needs_a_sampler():
    cold = sundman.Posterior(
        lambda w, x: x @ w,
        data=(np.ones((6, 2), np.float32), np.ones(6, np.float32)),
        likelihood=sundman.likelihoods.gaussian(1.0),
        temperature=0.0,
    )
    with pytest.raises(ValueError, match=r"temperature greater than 0.*give a sampler"):
        tune(cold, jnp.zeros(2))


@pytest.mark.parametrize("of_target", [None, 0.0, 0.5])
@pytest.mark.parametrize("given", [None, 0.0, 0.5])
def test_the_temperature_is_what_one_of_both_states(of_target, given):
    posterior = sundman.Posterior(
        lambda w, x: x @ w,
        data=(np.ones((6, 2), np.float32), np.ones(6, np.float32)),
        temperature=of_target,
    )
    stated = {temperature for temperature in (of_target, given) if temperature is not None}
    if len(stated) == 2:
        with pytest.raises(ValueError, match="give it to one of them"):
            temperature_of(posterior, given)
    else:
        assert temperature_of(posterior, given) == next(iter(stated), 1.0)


@pytest.mark.slow
def test_a_short_step_without_a_matrix_is_no_jump():
    """Where L is no matrix, a direction that mixes many coordinates may be stiff, and U smooth."""
    draws = sundman.sample(sundman.targets.star(), key=jax.random.key(0), chains=2, steps=20)
    for dense in (True, False):
        chosen = draws.tuning.chosen._replace(h=0.01, dense=dense)
        assert dataclasses.replace(draws.tuning, chosen=chosen).jumps == dense
