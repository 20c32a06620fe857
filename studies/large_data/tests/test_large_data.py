"""The truth of the large problems, and how draws are held to it."""

import jax
import numpy as np
import pytest

from studies.large_data import problems, scores, truth

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def double_precision(monkeypatch):
    monkeypatch.setattr(truth, "_MOST", 2**15)
    with jax.enable_x64(True):
        yield


SMALL = {
    "logistic": lambda: problems.logistic("", 400, 5, "raw", 0),
    "poisson": lambda: problems.poisson("", 400, 5, "standard", 0),
    "student": lambda: problems.student_t("", 400, 5, "standard", 0),
    "centred": lambda: problems.hierarchical("", 400, "centred", 0),
    "free": lambda: problems.hierarchical("", 400, "not centred", 0),
}


@pytest.mark.parametrize("kind", SMALL)
def test_density_by_hand_is_that_of_the_posterior(kind):
    assert truth.compare_with_library(SMALL[kind]()) < 1e-5


def test_reweighted_draws_have_the_moments_of_a_grid():
    problem = problems.logistic("", 60, 2, "standard", 3)
    known = truth.reweighted(problem)
    sd = np.sqrt(np.diag(known.covariance))
    axes = [np.linspace(m - 7 * s, m + 7 * s, 201) for m, s in zip(known.mean, sd, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_density = truth.Density(problem).log_density(grid)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ grid
    covariance = (grid - mean).T @ ((grid - mean) * weight[:, None])
    np.testing.assert_allclose(known.mean, mean, atol=5 * known.mean_error * sd.min())
    ratio = np.linalg.eigvals(np.linalg.solve(covariance, known.covariance)).real
    np.testing.assert_allclose(ratio, 1.0, atol=5 * known.eigenvalue_error)
    assert known.eigenvalue_error < 0.03


def test_hierarchies_have_one_law_in_both_forms():
    problem = problems.hierarchical("", 20_000, "centred", 0)
    centred = truth.reweighted(problem)  # in log tau
    rooted = truth.reweighted(
        truth._with_root(problem), lambda at: truth._from_root(at, centred=True)
    )
    sd = np.sqrt(np.diag(rooted.covariance))
    error = 5 * np.hypot(centred.mean_error, rooted.mean_error)
    np.testing.assert_allclose(centred.mean / sd, rooted.mean / sd, atol=error)


def test_exact_draws_have_no_error_beyond_chance():
    random, covariance = np.random.default_rng(0), np.array([[2.0, 1.0], [1.0, 3.0]])
    x = 5.0 + random.normal(size=(4, 5_000, 2)) @ np.linalg.cholesky(covariance).T
    known = scores.Truth(np.full(2, 5.0), covariance, 0.0, 0.0, "")
    found = scores.score(x, np.ones((4, 5_000)), known)
    assert found["beyond"] < 0.02
    assert found["mean_error"] < 5 / np.sqrt(20_000)
    assert 0.6 < found["ess"] / 20_000 < 1.3  # the least of four, each known to 10%
    wide = scores.score(5.0 + 1.2 * (x - 5.0), np.ones((4, 5_000)), known)
    assert wide["beyond"] > 0.3
    assert wide["sd_error"] > 0.15


def test_effective_draws_of_an_autoregression():
    random, memory = np.random.default_rng(1), 0.9
    x = random.normal(size=(4, 20_000, 1)) * np.sqrt(1 - memory**2)
    for step in range(1, x.shape[1]):
        x[:, step] += memory * x[:, step - 1]
    expected = 80_000 * (1 - memory) / (1 + memory)
    assert abs(scores.effective_draws(x)[0] / expected - 1.0) < 0.5
