"""SGRLD and SGRHMC: the right law with the divergence of their metric, a predicted one without.

On a line SGRLD without Gamma samples exp(-U/T) G and SGRHMC exp(-U/T) sqrt(G): the metric's
volume, twice and once. E[x^2] on the quartic with G = 1 + x^2, T = 1: .46792 with Gamma; .68124
and .56469 without.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import linear
import numpy as np
import pytest
from battery import Expected, average, check_law, lost, observe, run
from euler_operator import average as exact_average
from euler_operator import by_density, limit

import sundman
from sundman.contrib import metric_tensors, sgrhmc, sgrld
from sundman.contrib.integrators import sgrld as sgrld_integrator
from sundman.contrib.metric_tensors import Metric
from sundman.noise import Stream
from sundman.targets import gaussian, quartic
from sundman.targets.base import namespace
from sundman.targets.from_potential import by_quadrature

QUARTIC = quartic()
X2 = {"x2": lambda x: x[..., 0] ** 2}
ROWS = np.array([-1.0, 0.5, 1.5])


def square(x):
    return x**2


def student(position, row):
    return -jnp.log1p(jnp.sum(jnp.square(position - row)))


METRICS = {
    "exact": lambda: metric_tensors.diagonal(lambda x: 1.0 + x**2),
    "elementwise": lambda: metric_tensors.diagonal(lambda x: 1.0 + x**2, slope="elementwise"),
    "probed": lambda: metric_tensors.diagonal(lambda x: 1.0 + x**2, slope="probed"),
    "given": lambda: metric_tensors.diagonal(lambda x: 1.0 + x**2, slope=lambda x: 2.0 * x),
    "dense": lambda: metric_tensors.dense(lambda x: jnp.exp(jnp.sin(x))[:, None]),
    "fisher": lambda: metric_tensors.fisher(student, ROWS, prior_precision=0.5),
    "monge": lambda: metric_tensors.monge(QUARTIC.potential, 0.5),
}


def log_metric(metric: Metric, x):
    """log G on a line, from the metric itself."""
    one = jnp.ones(1)
    inverse = jax.vmap(lambda x: metric.inverse_times(x.reshape(1), one)[0])(jnp.asarray(x))
    return -np.log(np.asarray(inverse, np.float64))


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "T"),
    [
        ("elementwise", 0.3),
        *(
            pytest.param(name, T, marks=[] if name == "elementwise" else [pytest.mark.slow])
            for name, T in [*((name, 1.0) for name in METRICS), ("dense", 0.3)]
        ),
    ],
)
def test_sgrld_tends_to_the_predicted_law(name, T, x64):
    """From h and h/2 without Monte Carlo; without Gamma for one temperature."""
    metric, target = METRICS[name](), quartic(temperature=T)
    h = 0.02 if name == "dense" else 0.04  # a bounded metric does not slow the steep part down
    for divergence in (True, False) if T == 1.0 else (True,):

        def scheme(noise, divergence=divergence):
            return sgrld_integrator(T, metric=metric, divergence=divergence, noise=noise)

        def log_density(x, divergence=divergence):
            volume = 0.0 if divergence else log_metric(metric, x)
            return -(x**4 / 4 + x**2 / 2) / T + volume

        found = limit(scheme, target.potential, lambda x: x + x**2, h, reach=3.6)
        truth = by_density(log_density, lambda x: x + x**2, reach=5.0)
        assert found == pytest.approx(truth, rel=3e-3)
        if not divergence:
            assert abs(truth - target.truth["x2"]) > 0.1 * target.truth["x2"]


@pytest.mark.slow
def test_a_chain_has_the_law_of_the_operator():
    h, metric = 0.1, METRICS["elementwise"]()
    with jax.enable_x64(True):
        law = exact_average(partial(_with_noise, metric), QUARTIC.potential, square, h, reach=3.6)
    check_law(
        run(QUARTIC, sgrld(h, metric=metric), X2, steps=10_000, seed=3, thin=4),
        {"x2": Expected(law)},
    )


def _with_noise(metric, noise):
    return sgrld_integrator(metric=metric, noise=noise)


@pytest.mark.long
@pytest.mark.parametrize(
    ("T", "divergence"),
    [
        (0.3, True),
        pytest.param(0.3, False, marks=pytest.mark.slow),
        pytest.param(1.0, True, marks=pytest.mark.slow),
        pytest.param(1.0, False, marks=pytest.mark.slow),
    ],
)
def test_sgrhmc_has_the_predicted_law(T, divergence):
    """From h and h/2 of a scheme of order two; the law without Gamma is another."""
    target, metric = quartic(temperature=T), METRICS["elementwise"]()

    def log_density(x):
        volume = 0.0 if divergence else np.log(1 + x**2) / 2
        return -(x**4 / 4 + x**2 / 2) / T + volume

    law = by_density(log_density, square, reach=5.0)
    found, error = second_order_limit(
        target,
        partial(sgrhmc, metric=metric, gamma=2.0, divergence=divergence),
        X2,
        h=0.2,
        seed=4,
        time=400.0,
    )
    assert abs(found - law) < 5 * error
    assert (abs(found - target.truth["x2"]) > 5 * error) != divergence


def second_order_limit(target, build, observables, *, h, seed, time):
    found = []
    for step in (h, h / 2):
        draws = run(
            target,
            build(step, target.temperature),
            observables,
            steps=int(time / step),
            seed=seed,
            thin=int(0.2 / step),
            drop=int(20 / step),
        )
        found.append(average(draws, next(iter(observables))))
    (whole, whole_error), (half, half_error) = found
    return (4 * half - whole) / 3, np.hypot(4 * half_error, whole_error) / 3


def rippled_plane(T: float) -> sundman.targets.Target:
    """U = (x^2 + x y + y^2) / 2 + cos(2x) / 2: bounded curvature, both coordinates coupled."""

    def potential(x):
        return (x[0] ** 2 + x[0] * x[1] + x[1] ** 2) / 2 + namespace(x).cos(2 * x[0]) / 2

    return by_quadrature(
        "rippled plane",
        potential,
        lambda x: [x[0] + x[1] / 2 - np.sin(2 * x[0]), x[1] + x[0] / 2],
        {"x2": lambda x: x[0] ** 2, "y2": lambda x: x[1] ** 2},
        temperature=T,
        start=[0.0, 0.0],
        box=[(-12.0, 12.0), (-12.0, 12.0)],
        longest=0.5,
    )


PLANE = rippled_plane(1.0)
SQUARES = {"squares": lambda x: x**2}
SQUARES_TRUTH = np.array([PLANE.truth["x2"], PLANE.truth["y2"]])


def leaning(x):
    """A matrix that couples both coordinates and depends on both."""
    along = jnp.stack([1.0 + x[1] ** 2, x[0]])
    return jnp.eye(2) + 0.5 * jnp.outer(along, along)


PLANE_METRICS = {
    "dense": metric_tensors.dense(leaning),
    "monge": metric_tensors.monge(PLANE.potential, 0.7),
    "diagonal": metric_tensors.diagonal(lambda x: 1.0 + x**2 + 2.0 * x[::-1] ** 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANE_METRICS)
def test_sgrld_in_two_dimensions(name):
    """E[x^2] and E[y^2] from h and h/2 with Gamma; without it others."""
    found = {}
    for h, divergence in ((0.16, True), (0.08, True), (0.08, False)):
        sampler = sgrld(h, metric=PLANE_METRICS[name], divergence=divergence)
        draws = run(PLANE, sampler, SQUARES, steps=int(400 / h), seed=5, thin=5)
        found[h, divergence] = average(draws, "squares")
    (whole, whole_error), (half, half_error) = found[0.16, True], found[0.08, True]
    error = np.hypot(2 * half_error, whole_error)
    assert (abs(2 * half - whole - SQUARES_TRUTH) < 5 * error).all()
    plain, error = found[0.08, False]
    assert (abs(plain - SQUARES_TRUTH) > 5 * error + 2 * abs(whole - half)).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dense", "monge"])
def test_sgrhmc_in_two_dimensions(name):
    build = partial(sgrhmc, metric=PLANE_METRICS[name], gamma=2.0)
    found, error = second_order_limit(PLANE, build, SQUARES, h=0.2, seed=6, time=300.0)
    assert (abs(found - SQUARES_TRUTH) < 5 * error).all()


@pytest.mark.slow
@pytest.mark.parametrize("T", [0.3, 1.0])
def test_the_hessian_as_metric_makes_every_direction_alike(T):
    """Twenty dimensions, condition 1000: the law of the scheme on N(0, T), at any stiffness."""
    precisions = np.geomspace(1.0, 1e3, 20)
    target = gaussian(20, 1e3, temperature=T)
    metric = metric_tensors.diagonal(
        lambda x: jnp.asarray(precisions, x.dtype), slope=jnp.zeros_like
    )
    squares = {"squares": lambda x: x**2 * precisions}
    for build, h, law, drop in (
        (sgrld, 0.5, linear.euler_maruyama(0.5, 1.0, T), 0),
        (partial(sgrhmc, gamma=2.0), 0.5, linear.sghmc(0.5, 1.0, T, gamma=2.0), 100),
    ):
        draws = run(
            target, build(h, T, metric=metric), squares, steps=3000, seed=7, thin=4, drop=drop
        )
        check_law(draws, {"squares": Expected(law)})


@pytest.mark.slow
def test_a_metric_that_moves_with_every_stiff_coordinate(x64):
    """g_i = p_i (1 + p_i x_i^2) is 1 + y^2 in units y of each direction: all have one law."""
    precisions, h = np.geomspace(1.0, 1e3, 20), 0.2
    target = gaussian(20, 1e3)
    metric = metric_tensors.diagonal(
        lambda x: precisions.astype(np.float32) * (1.0 + precisions.astype(np.float32) * x**2),
        slope="elementwise",
    )
    law = exact_average(
        partial(_with_noise, METRICS["elementwise"]()),
        lambda y: jnp.sum(y**2) / 2,
        square,
        h,
        reach=8.0,
    )
    with jax.enable_x64(False):
        squares = {"squares": lambda x: x**2 * precisions}
        draws = run(target, sgrld(h, metric=metric), squares, steps=5000, seed=8, thin=5)
    check_law(draws, {"squares": Expected(law)})


@pytest.mark.slow
def test_a_dense_metric_on_a_correlated_gaussian():
    T, covariance = 0.3, np.array([[1.0, 0.6], [0.6, 0.5]])
    target = gaussian(covariance=covariance, temperature=T)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    metric = metric_tensors.dense(lambda x: precision)
    products = {"xx": lambda x: np.stack([x[..., 0] ** 2, x[..., 0] * x[..., 1]], axis=-1)}
    draws = run(target, sgrld(0.5, T, metric=metric), products, steps=4000, seed=9, thin=4)
    law = linear.euler_maruyama(0.5, 1.0, T) * covariance[0]
    check_law(draws, {"xx": Expected(law)})


@pytest.mark.slow
def test_posterior_fisher_keeps_the_posterior():
    """A logistic regression with one weight: its moments by quadrature, from h and h/2."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 1)).astype(np.float32)
    y = (rng.random(30) < 1 / (1 + np.exp(-3 * x[:, 0]))).astype(np.int32)
    posterior = sundman.Posterior(
        lambda w, x: jnp.stack([jnp.zeros(len(x)), x @ w], axis=-1),
        data=(x, y),
        prior=sundman.priors.gaussian(3.0),
    )
    metric = metric_tensors.posterior_fisher(posterior, prior_precision=1 / 9)
    potential = jax.jit(jax.vmap(lambda w: posterior.potential(w.reshape(1))))
    truth = by_density(
        lambda w: -np.asarray(potential(jnp.asarray(w, jnp.float32)), np.float64), square, 14.0
    )
    stream = Stream(jnp.zeros(2, jnp.uint32), jnp.uint32(0))
    assert abs(metric.divergence(stream, jnp.ones(1))[0]) > 0.01
    found = []
    for h in (0.2, 0.1):
        draws = sundman.sample(
            posterior,
            sgrld(h, metric=metric),
            init=jnp.full(1, 2.0),
            key=jax.random.key(1),
            chains=64,
            steps=int(400 / h),
            burn_in=int(20 / h),
            thin=int(0.4 / h),
        )
        assert lost(draws) == 0
        found.append(average(observe(draws, {"w2": lambda w: w[..., 0] ** 2}), "w2"))
    (whole, whole_error), (half, half_error) = found
    assert abs(2 * half - whole - truth) < 5 * np.hypot(2 * half_error, whole_error)
