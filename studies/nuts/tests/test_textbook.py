"""The posteriors and scores of studies/nuts/auto.py; its peers are not needed."""

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from studies.nuts import auto_page, scores, textbook_posteriors


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name == "stochastic_volatility" else [])
        for name in textbook_posteriors.PROBLEMS
    ],
)
def test_potential_is_finite_and_has_its_gradient_at_the_start(name):
    problem = textbook_posteriors.PROBLEMS[name]()
    first = textbook_posteriors.first_positions(problem, jax.random.key(0), 4)
    value, grads = jax.jit(jax.vmap(jax.value_and_grad(problem.potential)))(first)
    flat = jax.jit(jax.vmap(lambda tree: ravel_pytree(tree)[0]))(grads)
    assert np.isfinite(value).all()
    assert np.isfinite(flat).all()
    assert flat.shape[1] == len(textbook_posteriors.coordinate_names(problem))
    assert f"d = {flat.shape[1]}" in problem.about


@pytest.mark.long
@pytest.mark.parametrize("name", ["schools_centred", "varying_intercepts"])
def test_two_forms_of_a_posterior_differ_by_the_volume_of_the_map(name):
    problem = textbook_posteriors.PROBLEMS[name]()
    assert problem.via is not None
    other, change = problem.via
    with jax.enable_x64(True):
        first = textbook_posteriors.first_positions(other, jax.random.key(1), 3)
        unravel = ravel_pytree(other.unit)[1]
        gaps = []
        for i in range(3):
            at = jax.tree.map(lambda leaf, i=i: leaf[i], first)
            flat = ravel_pytree(at)[0]
            jacobian = jax.jit(jax.jacfwd(lambda x: ravel_pytree(change(unravel(x)))[0]))(flat)
            volume = np.linalg.slogdet(np.asarray(jacobian))[1]
            gaps.append(problem.potential(change(at)) - volume - other.potential(at))
    assert np.ptp(np.array(gaps)) < 1e-8 * np.max(np.abs(gaps)) + 1e-6


def test_longley_has_its_certified_coefficients():
    table = textbook_posteriors.longley()
    design = np.column_stack([table[:, 1:], np.ones(16)])
    slopes = np.linalg.lstsq(design, table[:, 0], rcond=None)[0]
    certified = [15.0618722713733, -0.0358191792925910, -2.02022980381683]
    np.testing.assert_allclose(slopes[:3], certified, rtol=1e-6)


@pytest.fixture
def truth():
    return scores.Moments(np.zeros(2), np.zeros(2), np.ones(2), np.zeros(2))


def chains_of(rho, chains=16, draws=4000, seed=0):
    """Stationary AR(1) chains of unit variance: effective draws (1 - rho) / (1 + rho) of them."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=(chains, draws, 2)) * np.sqrt(1 - rho**2)
    x = np.empty_like(noise)
    x[:, 0] = random.normal(size=(chains, 2))
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.9])
def test_effective_draws_of_correlated_chains(rho, truth):
    x = chains_of(rho)
    row = scores.score(x, np.ones(x.shape[:2]), 64_000, {"second": 2.0}, truth, ["a", "b"])
    exact = 1000 * (1 - rho) / (1 + rho)
    assert row["ess_per_1000"] == pytest.approx(exact, rel=0.35)
    assert row["ess_per_second"] == pytest.approx(row["ess"] / 2.0)
    assert row["astray"] == row["mean"]["beyond"] == row["sd"]["beyond"] == 0


def test_weights_undo_a_tilt(truth):
    x = chains_of(0.0) + 0.5  # a unit normal around 0.5 in both coordinates
    weight = np.exp(-0.5 * x.sum(2))
    row = scores.score(x, weight, 64_000, {}, truth, ["a", "b"])
    assert abs(row["mean"]["bias"]) < 4 * row["mean"]["error"]
    assert abs(row["sd"]["bias"]) < 4 * row["sd"]["error"]


def test_bias_and_stray_chains_are_found(truth):
    x = chains_of(0.0)
    x[..., 1] *= 1.1
    x[3, :, 0] += 50.0
    row = scores.score(x, np.ones(x.shape[:2]), 64_000, {}, truth, ["a", "b"])
    assert row["astray"] == 1
    assert row["mean"]["of"] == "a"
    x[3, :, 0] -= 50.0
    row = scores.score(x, np.ones(x.shape[:2]), 64_000, {}, truth, ["a", "b"])
    assert row["sd"]["of"] == "b"
    assert row["sd"]["bias"] == pytest.approx(0.1, abs=0.02)
    assert row["sd"]["beyond"] == 1


def test_a_chain_without_weight_is_left_out(truth):
    x, weight = chains_of(0.0), np.ones((16, 4000))
    x[2], weight[2] = 1e6, 0.0
    found = scores.moments(x, weight)
    assert np.abs(found.mean).max() < 0.03


def test_the_section_is_replaced_and_the_rest_of_the_page_stays(tmp_path):
    page, worst = tmp_path / "page.md", {"bias": 0.01, "error": 0.002}
    row = {
        "ess_per_1000": 12.0,
        "ess_of_chain_means": 4000.0,
        "ess_per_second": 5.0,
        "ess_per_processor_second": 6.0,
        "mean": worst,
        "sd": worst,
        "failures": 0,
        "warm_up_a_chain": 2000,
        "gradients_a_chain": 20_000,
    }
    rows = {"auto": row, "mclmc": {"refused": "why"}}
    result = {"posteriors": {"one": {"about": "first", "rows": rows}}}
    page.write_text("# Self-tuning\n\nBefore.\n")
    auto_page.write_section(result, page)
    page.write_text(page.read_text() + "\nAfter.\n")
    result["posteriors"]["one"]["about"] = "second"
    auto_page.write_section(result, page)
    text = page.read_text()
    assert "Before." in text
    assert "After." in text
    assert "second" in text
    assert "first" not in text
    assert "| MCLMC | refused |" in text
