"""The yardstick: its temperature is exact, its reference a predictive, its rows run and resume."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from studies.sa_sgld import digits_posterior, posterior_accuracy, run
from studies.sa_sgld.digits_posterior import LAST, PRIORS, SIZES
from sundman import metrics, models, priors
from sundman.posterior.evaluation import Position, model_params


@pytest.mark.parametrize("prior", PRIORS)
def test_the_reference_is_a_predictive_known_to_its_floor(prior):
    try:
        digits_posterior.reference(prior)
    except FileNotFoundError as error:
        assert prior == "horseshoe"
        pytest.skip(str(error))
    truth = digits_posterior.reference(prior)
    labels = digits_posterior.data().test.y
    assert truth.mean.shape == (len(labels), 10)
    np.testing.assert_allclose(truth.mean.sum(axis=1), 1.0, atol=1e-4)
    assert 0.001 < truth.floor < 0.015
    nearer = [metrics.total_variation(half, truth.mean) for half in truth.halves]
    assert max(nearer) < truth.floor
    # NLL of the exact predictive, as HMC found it elsewhere: .1902 and .0651
    nll = {"gaussian": 0.190, "horseshoe": 0.065}[prior]
    assert abs(metrics.nll(truth.mean, labels) - nll) < 0.006


@pytest.mark.slow
@pytest.mark.parametrize("prior", PRIORS)
def test_the_last_layer_is_that_of_automatic_differentiation(prior):
    target = digits_posterior.posterior(prior)
    position = target.position(models.mlp_init(jax.random.key(1), SIZES))
    params = model_params(position)

    def potential(last):
        moved = {**params, LAST: last}
        return target.potential(
            position._replace(params=moved) if isinstance(position, Position) else moved
        )

    flat, unravel = jax.flatten_util.ravel_pytree(params[LAST])
    slope = jax.jit(jax.grad(lambda v: potential(unravel(v))))(flat)
    hessian = jax.jit(jax.hessian(lambda v: potential(unravel(v))))(flat)
    squares, laplacian = digits_posterior.last_layer(target, position)
    np.testing.assert_allclose(squares, jnp.vdot(slope, slope), rtol=1e-4)
    np.testing.assert_allclose(laplacian, jnp.trace(hessian), rtol=1e-4)


def test_total_variation_by_hand():
    p, q = [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], [[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]]
    assert metrics.total_variation(p, q) == pytest.approx((0.25 + 1.0) / 2)
    assert metrics.total_variation(q, p) == metrics.total_variation(p, q)
    assert metrics.total_variation(p, p) == 0.0
    with pytest.raises(ValueError, match="reference"):
        metrics.total_variation(p, [[0.5, 0.6, 0.1], [1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="one shape"):
        metrics.total_variation(p, [[0.5, 0.5], [1.0, 0.0]])


def test_units_of_weights_are_those_of_the_prior():
    target = digits_posterior.posterior("gaussian")
    scale = digits_posterior.base_scale(target).scale
    for path, leaf in priors.paths(scale):
        fan_in = dict(zip(("layer_0", "layer_1", "layer_2"), SIZES, strict=False))[path[:7]]
        assert float(leaf) == pytest.approx(1.41 / fan_in**0.5 if "kernel" in path else 1.0)


@pytest.mark.slow
def test_a_run_goes_on_and_scores_do_not_change(tmp_path, monkeypatch):
    rows = ["SGLD", "BAOAB, full batch"]
    first = run("posterior-accuracy", scale="test", directory=tmp_path, rows=rows)
    assert set(first.numbers["gaussian"]["rows"]) == set(rows)
    scores = first.numbers["gaussian"]["rows"]["SGLD"]["budgets"]
    assert list(scores) == ["100", "200", "600"]
    # far from burnt in: the longer, the nearer
    assert scores["600"]["tv"]["value"] < scores["100"]["tv"]["value"]

    def never(*arguments):
        raise AssertionError("a run that is there was done again")

    monkeypatch.setattr(posterior_accuracy, "measure", never)
    again = run("posterior-accuracy", scale="test", directory=tmp_path, rows=rows)
    assert again.numbers == first.numbers
    with pytest.raises(ValueError, match="the rows are"):
        run("posterior-accuracy", scale="test", directory=tmp_path, rows=["Gibbs"])
