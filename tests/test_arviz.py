"""The export to ArviZ keeps names, weights and settings, and ArviZ can use it."""

import dataclasses
import sys
import warnings

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import pytest

import sundman
from sundman._trees import leaf_paths

matplotlib.use("Agg")
with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    import arviz as az


def potential(p):
    return 0.5 * jnp.sum(p["net"]["w"] ** 2) + 0.5 * jnp.sum((p["b"] - 2.0) ** 2)


@pytest.fixture(scope="module")
def draws():
    return sundman.sample(
        potential,
        sundman.sa_sgld(0.05, alpha=1.0, m=0.1, M=10.0, r=0.5),
        init={"net": {"w": jnp.zeros((2, 2))}, "b": jnp.zeros(())},
        key=jax.random.key(2),
        chains=4,
        burn_in=500,
        steps=5_000,
        thin=10,
    )


@pytest.mark.long
def test_export(draws):
    data = draws.to_arviz(resample=False)
    assert dict(data.posterior.sizes)["chain"] == 4
    assert data.posterior["net/w"].dims[:2] == ("chain", "draw")
    np.testing.assert_array_equal(data.posterior["net/w"], draws.values["net"]["w"])
    for name in ("dt", "zeta", "time", "potential", "grad_norm"):
        np.testing.assert_array_equal(data.sample_stats[name], draws.stats[name])
    np.testing.assert_array_equal(data.sample_stats["weight"], draws.weight)
    assert not data.sample_stats["diverging"].any()
    assert data.sample_stats["diverging"].dtype == bool
    for attrs in (data.attrs, data.posterior.attrs):
        assert attrs["weighted"] == 1
        assert "sum(w x) / sum(w)" in attrs["note"]
        assert attrs["dtau"] == 0.05
        assert attrs["inference_library_version"] == sundman.__version__


def test_equal_weights(draws, key):
    data = draws.to_arviz(resample=300, key=key)
    assert dict(data.posterior.sizes)["draw"] == 300
    assert data.attrs["weighted"] == 0
    np.testing.assert_array_equal(data.sample_stats["weight"], 1.0)
    mean = draws.mean()
    found = data.posterior["b"].mean().item()
    assert abs(found - mean.value["b"]) < 2 * mean.error["b"]


def test_unequal_weights_are_resampled_by_default(draws):
    """ArviZ counts every draw the same: else its averages are those of another law."""
    data = draws.to_arviz()
    assert dict(data.posterior.sizes) == dict(draws.to_arviz(resample=False).posterior.sizes)
    assert data.attrs["weighted"] == 0
    assert "resampled to equal weights" in data.attrs["note"]
    wanted = draws.variance()["net"]["w"].mean()
    assert float(data.posterior["net/w"].var()) == pytest.approx(wanted, rel=0.05)
    equal = dataclasses.replace(draws, weight=np.ones_like(draws.weight))
    np.testing.assert_array_equal(equal.to_arviz().posterior["b"], draws.values["b"])


def test_chains_that_diverged_are_left_out(draws):
    weight = np.ones_like(draws.weight)
    weight[1, 300:] = 0.0
    lost = dataclasses.replace(draws, weight=weight, diverged_at=np.array([-1, 300, -1, -1]))
    with pytest.warns(sundman.DivergenceWarning, match=r"chains \[1\] diverged"):
        data = lost.to_arviz()
    assert dict(data.posterior.sizes)["chain"] == 3
    assert data.attrs["note"].endswith("Chains that diverged are left out: 1.")
    np.testing.assert_array_equal(data.posterior["b"], draws.values["b"][[0, 2, 3]])


def test_restarted_chains_stay_and_are_marked(draws):
    weight = np.array(draws.weight)
    weight[1, 300:310] = 0.0
    weight[1, 400:405] = 0.0
    settings = {**draws.settings, "on_divergence": "restart"}
    restarted = dataclasses.replace(
        draws, weight=weight, diverged_at=np.array([-1, 300, -1, -1]), settings=settings
    )
    assert restarted.restarts == [(1, 300, 310), (1, 400, 405)]
    assert not restarted.lost.any()
    assert dict(restarted.to_arviz().posterior.sizes)["chain"] == 4
    assert restarted.to_arviz(resample=False).sample_stats["diverging"].sum() == 15


def test_diverging_draws(draws):
    weight = draws.weight.copy()
    weight[1, 300:] = 0.0
    data = sundman.Draws(
        draws.values["b"], weight, draws.stats, np.array([-1, 300, -1, -1]), None
    ).to_arviz(resample=False)
    assert data.sample_stats["diverging"].sum() == 200
    assert data.sample_stats["diverging"][1, 300:].all()
    assert list(data.posterior) == ["x"]


def test_names():
    assert leaf_paths(np.zeros(3)) == ["x"]
    position = sundman.Position({"w": np.zeros(1)}, {"prior/w": [np.zeros(1)]})
    assert leaf_paths(position) == ["params/w", "hyper/prior/w/0"]


@pytest.mark.parametrize("resample", [False, 200])
def test_arviz_can_use_it(draws, key, resample):
    data = draws.to_arviz(resample=resample, key=key)
    table = az.summary(data)
    assert "net/w[0, 1]" in table.index
    assert table.loc["b", "mean"] == pytest.approx(2.0, abs=0.5)
    assert az.ess(data)["b"].item() > 50
    assert az.rhat(data)["b"].item() < 1.1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert az.plot_trace(data).size == 4
        titles = [axes.get_title() for axes in np.ravel(az.plot_posterior(data))]
    assert sum(title != "" for title in titles) == 5
    matplotlib.pyplot.close("all")


def test_without_arviz(draws, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r"pip install 'sundman\[arviz\]'"):
        draws.to_arviz()
