"""Draws: slices, blocks, and draws of equal weight; in memory and on disk."""

import dataclasses
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import _chunks
from sundman.draws import Draws, exports
from sundman.draws.facts import RunFacts
from tests.lazy_arrays import OnDisk

RNG = np.random.default_rng(5)
CHAINS, DRAWS = 3, 40
WEIGHT = RNG.uniform(0.1, 2.0, (CHAINS, DRAWS)).astype(np.float32)
TREE = {
    "a": RNG.normal(size=(CHAINS, DRAWS, 2, 3)).astype(np.float32),
    "b": RNG.normal(size=(CHAINS, DRAWS)).astype(np.float32),
}


def make(values, weight=WEIGHT, diverged_at=(-1, -1, -1), **rest):
    stats = {"dt": weight, "number": np.broadcast_to(np.arange(weight.shape[1]), weight.shape)}
    return Draws(values, weight, stats, np.array(diverged_at), None, **rest)


def on_disk(tree):
    return jax.tree.map(OnDisk, tree)


@pytest.mark.parametrize("store", [lambda tree: tree, on_disk])
def test_blocks_are_all_draws_in_order(store):
    parts = list(make(store(TREE)).blocks(7))
    assert [part for part, _ in parts][-1] == slice(35, 40)
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *[v for _, v in parts])
    assert all(type(leaf) is np.ndarray for leaf in jax.tree.leaves(joined))
    jax.tree.map(np.testing.assert_array_equal, joined, TREE)


def test_blocks_are_bounded(monkeypatch):
    monkeypatch.setattr(_chunks, "BLOCK_BYTES", 1000)
    sizes = [sum(leaf.nbytes for leaf in values.values()) for _, values in make(TREE).blocks()]
    assert max(sizes) <= 1000
    assert len(sizes) == -(-DRAWS // (1000 // (7 * 4 * CHAINS)))
    with pytest.raises(ValueError, match="size must be 1 or more, got size=0"):
        list(make(TREE).blocks(0))


@pytest.mark.parametrize("store", [lambda tree: tree, on_disk])
def test_slices_and_thinning(store):
    draws = make(store(TREE), settings={"thin": 5, "draws": DRAWS})
    for found, wanted in (
        (draws[10:], slice(10, None)),
        (draws[-8:-1], slice(-8, -1)),
        (draws.thin(3), slice(None, None, 3)),
        (draws[5:].thin(4)[1:], slice(9, None, 4)),
    ):
        jax.tree.map(
            lambda leaf, whole, s=wanted: np.testing.assert_array_equal(leaf, whole[:, s]),
            jax.tree.map(np.asarray, found.values),
            TREE,
        )
        np.testing.assert_array_equal(found.weight, WEIGHT[:, wanted])
        np.testing.assert_array_equal(found.stats["number"][0], np.arange(DRAWS)[wanted])
        assert len(found) == found.settings["draws"] == found.weight.shape[1]
    assert draws.thin(3).settings["thin"] == 15
    with pytest.raises(TypeError, match=r"draws\[a:b\]"):
        draws[3]
    with pytest.raises(ValueError, match="no draw"):
        draws[50:]


def test_slices_of_draws_on_disk_are_read_late():
    leaf = OnDisk(TREE["a"])
    draws = make(leaf).thin(2)[4:]
    assert leaf.largest == 0
    wanted = TREE["a"][:, 8::2]
    for index in (
        np.s_[1, 3],
        np.s_[:, 2:9:2, 1],
        np.s_[1:2, np.array([0, 5, 5])],
        np.s_[..., 0],
        np.s_[0],
    ):
        np.testing.assert_array_equal(draws.values[index], wanted[index])
    assert len(draws) == 16
    assert draws.chains == 3
    with pytest.raises(ValueError, match="forwards"):
        draws.values[:, ::-1]


def test_where_a_chain_diverged_moves_with_the_slice():
    draws = make(TREE["b"], diverged_at=(-1, 20, DRAWS))
    np.testing.assert_array_equal(draws[10:].diverged_at, [-1, 10, 30])
    np.testing.assert_array_equal(draws[:15].diverged_at, [-1, -1, -1])
    np.testing.assert_array_equal(draws.thin(3).diverged_at, [-1, 7, 14])
    np.testing.assert_array_equal(draws[25:].diverged_at, [-1, 0, 15])


def test_sizes_do_not_read_the_weights():
    draws = make(TREE)
    object.__delattr__(draws, "weight")
    assert (draws.chains, len(draws)) == (3, DRAWS)
    assert "draws=40" in repr(draws)


def test_systematic_resampling_counts():
    share = np.array([0.0, 0.5, 0.0, 0.2, 0.3, 0.0])
    counts = np.stack(
        [
            np.bincount(exports.systematic(share, u, 7), minlength=6)
            for u in np.linspace(0, 1, 1000, endpoint=False)
        ]
    )
    assert (counts >= np.floor(7 * share)).all()
    assert (counts <= np.ceil(7 * share)).all()
    np.testing.assert_allclose(counts.mean(axis=0), 7 * share, atol=0.01)


@pytest.mark.parametrize("store", [lambda tree: tree, on_disk])
def test_resampled_draws_are_draws_with_their_statistics(store, key):
    draws = make(store(TREE))
    one = draws.resample(key, 50)
    assert (one.chains, len(one)) == (1, 50)
    np.testing.assert_array_equal(one.weight, 1.0)
    each = draws.resample(key, 11, per_chain=True)
    assert (each.chains, len(each)) == (3, 11)
    for chain in range(3):
        number = each.stats["number"][chain]
        assert (np.diff(number) >= 0).all()
        np.testing.assert_array_equal(each.values["a"][chain], TREE["a"][chain, number])
        np.testing.assert_array_equal(each.stats["dt"][chain], WEIGHT[chain, number])
    assert one.ess()["b"] > 0


def test_diverged_chains_are_not_resampled(key):
    weight = WEIGHT.copy()
    weight[1, 20:] = 0.0
    draws = make(TREE, weight, diverged_at=(-1, 20, -1))
    assert (draws.resample(key, 500).stats["dt"] > 0).all()
    with pytest.warns(sundman.DivergenceWarning, match=r"chains \[1\]"):
        each = draws.resample(key, 5, per_chain=True)
    assert each.chains == 2
    lost = make(TREE, 0 * WEIGHT, diverged_at=(0, 0, 0))
    for per_chain in (True, False):
        with pytest.raises(ValueError, match="all chains diverged"):
            lost.resample(key, 5, per_chain=per_chain)


STAR = sundman.targets.star()
SA = sundman.sa_sgld(0.005, alpha=50.0, m=0.1, M=10.0, r=0.5)


@pytest.fixture(scope="module")
def star():
    return sundman.sample(
        STAR, SA, key=jax.random.key(31), chains=8, burn_in=5_000, steps=40_000, thin=10
    )


@pytest.mark.long
@pytest.mark.parametrize("per_chain", [False, True])
def test_resampling_reproduces_the_weighted_mean(star, key, per_chain):
    f = STAR.observables["r2"]
    weighted = star.expectation(f)
    plain = dataclasses.replace(star, weight=np.ones_like(star.weight)).expectation(f)
    assert abs(plain.value - weighted.value) > 6 * weighted.error
    equal = star.resample(key, 4_000, per_chain=per_chain).expectation(f)
    assert abs(equal.value - weighted.value) < 2 * weighted.error


def test_methods_are_the_estimates(star):
    f = STAR.observables["r2"]
    assert star.expectation(f) == sundman.estimate.mean(star, f)
    np.testing.assert_array_equal(star.mean().value, sundman.estimate.mean(star).value)
    np.testing.assert_array_equal(star.variance(), sundman.estimate.variance(star))
    np.testing.assert_array_equal(star.ess(), sundman.estimate.ess(star))
    assert star.quantile(0.9, f) == sundman.estimate.quantile(star, 0.9, f)
    found = star.expectation(lambda x: {"r2": f(x), "x": x})
    assert found.value["r2"] == star.expectation(f).value
    np.testing.assert_array_equal(found.error["x"], star.mean().error)
    assert isinstance(found.value["r2"], float)
    assert star.ess(lambda x: {"one": jnp.sum(x)})["one"] > 100


def test_facts_are_typed_and_those_of_all_chains():
    settings = {
        "sampler": "sgld",
        "h": [0.1, 0.2],
        "dtau": "text",
        "m": 1,
        "burn_in": 3,
        "thin": 2,
        "draws": 10,
        "chains": 2,
        "per_chain": ["h"],
    }
    facts = RunFacts.of(settings)
    assert (facts.sampler, facts.h, facts.dtau, facts.m) == ("sgld", None, None, 1)
    assert (facts.finished, facts.resampled, facts.seconds) == (True, False, None)
    assert facts.gradient_evaluations == 2 * (3 + 20)
    assert RunFacts.of({**settings, "thin_time": 0.5}).gradient_evaluations is None
    assert RunFacts.of({}) == RunFacts()


def test_settings_are_looked_up_in_one_place():
    """What computes with them asks ``draws.facts``, which has names and types."""
    package = Path(sundman.__file__).parent
    asking = re.compile(r"draws\.settings(\[|\.get\()")
    assert [str(path) for path in package.rglob("*.py") if asking.search(path.read_text())] == []
