"""The diagnosis: each row against a known truth, and verdicts that come out both ways."""

import dataclasses
import io
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

import sundman
from sundman import _chunks
from sundman._trees import some_of_each
from sundman.diagnosis.mixing import some_components
from sundman.draws import Draws
from tests.lazy_arrays import OnDisk

CHAINS, DRAWS = 4, 2000
RUN = {"temperature": 1.0, "burn_in": 100, "thin": 5, "draws": DRAWS, "chains": CHAINS}


def bowl(x):
    return 0.5 * jnp.sum(x * x)


def autoregression(phi, seed, shape=(CHAINS, DRAWS, 3)):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    for i in range(1, shape[1]):
        x[:, i] = phi * x[:, i - 1] + np.sqrt(1 - phi**2) * x[:, i]
    return x.astype(np.float32)


def make(values, weight=None, stats=None, diverged=None, **settings):
    leaf = jax.tree.leaves(values)[0]
    weight = np.ones(leaf.shape[:2], np.float32) if weight is None else weight
    diverged = np.full(len(weight), -1) if diverged is None else np.array(diverged)
    return Draws(values, weight, stats or {}, diverged, None, {**RUN, **settings})


def quiet(draws, *args, **options):
    return sundman.diagnose(draws, *args, show=False, **options)


def test_a_good_run():
    diagnosis = quiet(make(autoregression(0.5, 0), seconds=2.0, steps=DRAWS * 5 + 100), bowl)
    assert {row.verdict for row in diagnosis} <= {"good", ""}
    assert diagnosis.ok
    wanted = CHAINS * DRAWS * 0.5 / 1.5
    size = diagnosis["smallest ESS"].value
    assert size == pytest.approx(wanted, rel=0.25)
    assert diagnosis["gradient evaluations"].value == CHAINS * (DRAWS * 5 + 100)
    assert diagnosis["ESS per second"].value == size / 2.0
    assert diagnosis["largest error / sd"].value == pytest.approx(size**-0.5)
    row = diagnosis["temperature"]
    assert abs(row.value - 1.0) < 4 * row.error
    assert row.error == pytest.approx(np.sqrt(2 / 3 / (CHAINS * DRAWS) * 1.25 / 0.75), rel=0.25)


@pytest.mark.long
@pytest.mark.parametrize(("factor", "verdict", "word"), [(1.2, "bad", "hot"), (0.8, "bad", "cold")])
def test_a_wrong_temperature(factor, verdict, word):
    diagnosis = quiet(make(factor * autoregression(0.5, 1)), bowl)
    row = diagnosis["temperature"]
    assert row.value == pytest.approx(factor**2, rel=0.1)
    assert row.verdict == verdict
    assert word in row.note
    assert not diagnosis.ok
    warm = quiet(make(factor * autoregression(0.5, 1)), bowl, temperature=factor**2)
    assert warm["temperature"].verdict == "good"


def test_a_temperature_that_drifts():
    heat = np.linspace(0.8, 1.2, DRAWS)[:, None]
    row = quiet(make(autoregression(0.5, 2) * np.sqrt(heat)), bowl)["temperature drift"]
    assert row.verdict == "bad"
    assert abs(row.value - 0.9 * 0.4) < 4 * row.error


def test_false_alarms_are_rare():
    """Exact draws of medium length: no temperature and no drift is called bad."""
    for seed in range(60):
        x = autoregression(0.8, 100 + seed, (4, 500, 3))
        diagnosis = quiet(make(x, stats={"virial": np.mean(x**2, axis=2)}))
        assert diagnosis["temperature"].verdict != "bad"
        assert diagnosis["temperature drift"].verdict != "bad"


def test_temperatures_that_were_recorded():
    rng = np.random.default_rng(3)
    stats = {
        "virial": rng.gamma(5.0, 0.2, (CHAINS, DRAWS)),
        "kinetic_temperature": rng.gamma(5.0, 0.25, (CHAINS, DRAWS)),
    }
    draws = dataclasses.replace(make(autoregression(0.0, 3), stats=stats), has_position=False)
    diagnosis = quiet(draws, bowl)
    assert diagnosis["temperature"].verdict == "good"
    assert diagnosis["kinetic temperature"].verdict == "bad"
    assert diagnosis["kinetic temperature"].value == pytest.approx(1.25, rel=0.05)
    assert "Stein discrepancy" not in diagnosis
    none = quiet(dataclasses.replace(draws, stats={}))
    assert none["temperature"].value is None
    assert "virial" in none["temperature"].note


def test_few_draws_and_chains_that_disagree():
    short = quiet(make(autoregression(0.9, 4, (2, 200, 2))), bowl)
    assert short["smallest ESS"].verdict == "bad"
    assert short["largest error / sd"].verdict == "bad"
    apart = autoregression(0.0, 5)
    apart[1, :, 2] += 1.0
    row = quiet(make(apart))["largest split R-hat"]
    assert row.verdict == "bad"
    assert row.note.startswith("x[2]")
    still = quiet(make(np.ones((2, 100, 3), np.float32)))
    assert "nothing moves" in still["smallest ESS"].note
    assert not still.ok


def test_values_that_are_not_finite():
    x = autoregression(0.0, 14)
    x[0, 7, 1] = np.nan
    diagnosis = quiet(make(x))
    assert diagnosis["components not finite"].verdict == "bad"
    assert diagnosis["components not finite"].note.startswith("x[1]")
    assert diagnosis["smallest ESS"].verdict == "good"


def test_one_zeta_per_leaf_and_resampled_draws(key):
    sampler = sundman.sa_sgld(0.05, alpha=1.0, m=0.1, M=10.0, r=0.5, blockwise=True)
    draws = sundman.sample(
        lambda p: bowl(p["a"]) + bowl(p["b"]),
        sampler,
        init={"a": jnp.zeros(2), "b": jnp.zeros(())},
        key=key,
        steps=1000,
    )
    diagnosis = quiet(draws[100:].thin(2))
    assert diagnosis["autocorrelation of zeta"].value > 1.0
    equal = quiet(draws.resample(key, 300))
    assert equal["evenness of weights"].value == 1.0
    assert "autocorrelation of zeta" not in equal


def test_diverged_chains():
    x, weight = autoregression(0.0, 6), np.ones((CHAINS, DRAWS), np.float32)
    x[2, 300:], weight[2, 300:] = np.nan, 0.0
    diagnosis = quiet(make(x, weight, diverged=(-1, -1, 300, -1)), bowl)
    row = diagnosis["diverged chains"]
    assert (row.value, row.verdict) == (1, "bad")
    assert "chain 2 first, by draw 300, step 1,600" in row.note
    assert diagnosis["smallest ESS"].verdict == diagnosis["temperature"].verdict == "good"
    lost = quiet(make(x, 0 * weight, diverged=(0, 0, 0, 0)), bowl)
    assert [row.name for row in lost][-1] == "diverged chains"
    assert not lost.ok


def test_stepsize_and_zeta():
    zeta = autoregression(0.8, 7, (CHAINS, DRAWS))
    dt = np.where(np.arange(DRAWS) % 10 < 3, 0.1, 0.02) * np.ones((CHAINS, 1))
    clock = {"alpha": 2.0, "dtau": 0.01, "m": 0.1, "M": 10.0}
    diagnosis = quiet(make(zeta, dt, {"dt": dt, "zeta": zeta}, **clock))
    assert diagnosis["stepsize"].value == pytest.approx(dt.mean())
    assert diagnosis["draws at the largest step"].value == pytest.approx(0.3)
    assert diagnosis["draws at the largest step"].verdict == "look"
    assert diagnosis["draws at the smallest step"].verdict == "good"
    assert diagnosis["memory of zeta"].value == pytest.approx(1 / (1 - np.exp(-0.02)))
    assert diagnosis["memory of zeta"].verdict == ""
    short = {**clock, "alpha": 50.0, "lag": "none", "batch_size": 8}
    assert quiet(make(zeta, dt, **short))["memory of zeta"].verdict == "look"
    for change in ({"lag": "guarded"}, {"batch_size": None}, {"alpha": 20.0}):
        assert quiet(make(zeta, dt, **short | change))["memory of zeta"].verdict == ""
    tau = 5 * 0.5 * 1.8 / 0.2
    assert diagnosis["autocorrelation of zeta"].value == pytest.approx(tau, rel=0.2)
    even = diagnosis["evenness of weights"]
    assert even.value == pytest.approx((0.3 * 5 + 0.7) ** 2 / (0.3 * 25 + 0.7))
    assert even.verdict == "good"
    steep = np.where(np.arange(DRAWS) % 100 == 0, 1.0, 1e-4) * np.ones((CHAINS, 1))
    assert quiet(make(zeta, steep))["evenness of weights"].verdict == "bad"


def test_stein_discrepancy_says_when_the_law_is_another():
    x = autoregression(0.0, 8)
    assert quiet(make(x), bowl)["Stein discrepancy"].verdict == "good"
    assert quiet(make(x + 1.0), bowl)["Stein discrepancy"].verdict == "look"


def test_some_components_evenly():
    tree = {"a": autoregression(0.0, 9, (2, 50, 30, 40)), "b": autoregression(0.0, 10, (2, 50))}
    values, labels = some_components(make(tree), 13)
    assert values.shape == (2, 50, 13)
    assert labels[0] == "a[0, 0]"
    assert labels[1] == "a[2, 20]"
    assert labels[-1] == "b"
    np.testing.assert_array_equal(values[..., 1], tree["a"][:, :, 2, 20])
    np.testing.assert_array_equal(values[..., -1], tree["b"])


def test_no_leaf_is_left_out():
    assert some_of_each([10], 20).tolist() == list(range(10))
    assert some_of_each([1000], 3).tolist() == [0, 499, 999]
    assert some_of_each([0], 3).tolist() == []
    # scales after a long array: evenly spaced places would miss them
    assert some_of_each([1000, 1, 1, 1], 4).tolist() == [0, 1000, 1001, 1002]
    assert len(some_of_each([5] * 30, 10)) == 10


def test_draws_on_disk(monkeypatch):
    x = autoregression(0.5, 11)
    monkeypatch.setattr(_chunks, "BLOCK_BYTES", 5000)
    monkeypatch.setattr(_chunks, "IN_MEMORY", 1000)
    monkeypatch.setattr(_chunks, "ON_DISK", 1000)
    stored = OnDisk(x)
    diagnosis = quiet(make(stored), bowl, components=2)
    assert stored.largest < 0.2 * x.nbytes
    assert [row.name for row in diagnosis] == [row.name for row in quiet(make(x), bowl)]


@pytest.mark.long
def test_a_posterior_one_draw_at_a_time(key):
    x = np.random.default_rng(12).normal(size=(50, 3)).astype(np.float32)
    y = (x @ np.ones(3) > 0).astype(np.int32)
    posterior = sundman.Posterior(
        lambda w, x: jnp.stack([jnp.zeros(len(x)), x @ w], axis=1), data=(x, y)
    )
    draws = sundman.sample(
        posterior, sundman.sgld(0.01), init=jnp.zeros(3), key=key, steps=4000, thin=20, burn_in=500
    )
    wanted = sundman.estimate.configurational_temperature(draws, posterior.potential)
    for target in (posterior, sundman.gradients.minibatch(posterior, 10)):
        diagnosis = quiet(draws, target)
        assert diagnosis["temperature"].value == pytest.approx(wanted.value, rel=1e-4)
        assert "Stein discrepancy" in diagnosis
    with pytest.raises(TypeError, match="target must be a potential"):
        quiet(draws, 3)


@pytest.mark.slow
def test_a_real_run_is_judged_by_its_bias(key):
    """SGLD on N(0, 1) at step h has the temperature 1 / (1 - h/2)."""
    for h, verdict in ((0.01, "good"), (0.5, "bad")):
        draws = sundman.sample(
            bowl, sundman.sgld(h), init=jnp.zeros(20), key=key, chains=16, steps=8000, burn_in=1000
        )
        row = quiet(draws, bowl)["temperature"]
        assert abs(row.value - 1 / (1 - h / 2)) < 4 * row.error
        assert row.verdict == verdict


def test_printing(capsys, monkeypatch):
    draws = make(autoregression(0.5, 13))
    out = io.StringIO()
    diagnosis = sundman.diagnose(draws, bowl, file=out)
    assert isinstance(diagnosis, sundman.Diagnosis)
    assert capsys.readouterr().out == ""
    assert "smallest ESS" in out.getvalue()
    sundman.diagnose(draws)
    assert "largest split R-hat" in capsys.readouterr().out
    for row in diagnosis:
        assert row.name in str(diagnosis)
    with pytest.raises(KeyError, match="no row 'speed'"):
        diagnosis["speed"]
    monkeypatch.setitem(sys.modules, "rich.table", None)
    with pytest.raises(ImportError, match=r"pip install 'sundman\[report\]'"):
        diagnosis.show()
    assert quiet(draws).ok


def test_printing_on_a_console():
    console = Console(record=True, file=io.StringIO())
    diagnosis = sundman.diagnose(make(autoregression(0.5, 13)), console=console)
    assert "evenness of weights" in console.export_text()
    assert len(diagnosis) == len(list(diagnosis))


def _regression(features, bend=lambda w: w):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    y = rng.normal(size=(60, 1)).astype(np.float32)
    return sundman.Posterior(
        lambda w, x: (x @ bend(w[:4]))[:, None],
        data=(x, y),
        likelihood=sundman.likelihoods.gaussian(1.0),
    ), rng.normal(size=(2, 500, features)).astype(np.float32)


@pytest.mark.long
def test_function_space_of_a_posterior():
    posterior, w = _regression(4)
    diagnosis = quiet(make(w), posterior)
    assert diagnosis["smallest ESS, predictions"].value > 400
    assert diagnosis["largest split R-hat, predictions"].value < 1.05
    assert "of 50 rows of the data" in diagnosis["smallest ESS, predictions"].note
    apart = w + np.array([0.0, 3.0], np.float32)[:, None, None]
    assert quiet(make(apart), posterior)["largest split R-hat, predictions"].verdict == "bad"


def test_weights_of_a_network_do_not_decide():
    """Weights that the model does not use wander about; its predictions have settled."""
    posterior, w = _regression(300, jnp.tanh)
    w[:, :, 4:] = np.cumsum(w[:, :, 4:], axis=1)
    diagnosis = quiet(make(w), posterior)
    assert diagnosis["largest split R-hat"].value > 1.05
    assert diagnosis["largest split R-hat"].verdict == "look"
    assert "of the weights" in diagnosis["largest split R-hat"].note
    assert diagnosis["smallest ESS"].verdict == "look"
    assert diagnosis["largest split R-hat, predictions"].verdict != "bad"


def test_the_stiffest_direction():
    x = autoregression(0.0, 5)
    row = quiet(make(x), bowl)["temperature, stiffest direction"]
    assert row.verdict == "good"
    hot = quiet(make(1.3 * x), bowl)["temperature, stiffest direction"]
    assert hot.verdict == "bad"
    assert "too hot" in hot.note
