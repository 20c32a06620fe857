"""Log densities of the priors against scipy and against integrals, in double precision."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from sundman import priors

pytestmark = pytest.mark.usefixtures("x64")

SCALE = 0.7
W = np.array([[0.0, 1e-3, -0.2, 0.9], [-1.4, 3.0, 25.0, -1e3], [0.5, -0.6, 7.0, 2.0]])


def mixture(w, scale):
    narrow, wide = stats.norm(scale=scale / 8), stats.norm(scale=scale)
    return np.log(0.3 * narrow.pdf(w) + 0.7 * wide.pdf(w))


ELEMENTWISE = {
    "gaussian": (priors.gaussian, lambda w, s: stats.norm(scale=s).logpdf(w)),
    "laplace": (priors.laplace, lambda w, s: stats.laplace(scale=s).logpdf(w)),
    "student_t": (
        lambda scale, **fan: priors.student_t(4.5, scale, **fan),
        lambda w, s: stats.t(4.5, scale=s).logpdf(w),
    ),
    "cauchy_proxy": (
        priors.cauchy_proxy,
        lambda w, s: stats.cauchy(scale=math.sqrt(2) * s).logpdf(w),
    ),
    "scale_mixture": (
        lambda scale, **fan: priors.scale_mixture(scale / 8, scale, fraction=0.3, **fan),
        mixture,
    ),
}


def density(prior, w, hyper=None):
    return float(prior.log_density(jnp.asarray(w), hyper))


def total(log_density, low=-60.0, high=60.0, nodes=24_001):
    """∫ exp(log_density(x)) dx by the trapezoidal rule, for a density that vanishes at the ends."""
    x = jnp.linspace(low, high, nodes)
    values = np.exp(np.asarray(jax.jit(jax.vmap(log_density))(x)))
    return np.trapezoid(values, np.asarray(x))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_priors_are_scipys(name):
    build, oracle = ELEMENTWISE[name]
    usable = W[np.abs(W) < 20] if name in ("laplace", "scale_mixture") else W  # or pdf underflows
    assert density(build(SCALE), usable) == pytest.approx(oracle(usable, SCALE).sum(), rel=1e-12)


@pytest.mark.parametrize(
    "shape, fan_in, inputs",
    [
        ((3, 4), "leading", 3),
        ((3, 4), "trailing", 4),
        ((3, 4), 7, 7),
        ((3, 3, 2, 5), "leading", 18),
        ((5, 2, 3, 3), "trailing", 18),
        ((4,), "leading", 1),
        ((4,), "trailing", 1),
        ((4,), 7, 7),
        ((), "leading", 1),
        ((3, 4), None, 1),
    ],
)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_fan_in_divides_the_variance(name, shape, fan_in, inputs):
    build, oracle = ELEMENTWISE[name]
    w = np.random.default_rng(0).normal(size=shape)
    wanted = oracle(w, SCALE / math.sqrt(inputs)).sum()
    assert density(build(SCALE, fan_in=fan_in), w) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("w", [1e-3, 0.05, 0.6, 1.0, 4.0, 60.0])
def test_marginal_horseshoe_is_the_integral_over_local_scales(w):
    def given(log_local):
        local = math.exp(log_local)
        log_scale = stats.halfcauchy.logpdf(local) + log_local
        return math.exp(stats.norm.logpdf(w, scale=local * SCALE) + log_scale)

    wanted = integrate.quad(given, -30, 30, points=[math.log(w / SCALE)], limit=200)[0]
    found = density(priors.horseshoe(SCALE, form="marginal", floor=1e-9), [w])
    assert found == pytest.approx(math.log(wanted), abs=3e-6)


def test_marginal_horseshoe_is_within_carvalhos_bounds():
    z = np.geomspace(1e-4, 1e4, 41)
    K = 1 / math.sqrt(2 * math.pi**3)
    prior = priors.horseshoe(SCALE, form="marginal", floor=1e-9)
    p = np.array([math.exp(density(prior, [SCALE * value])) * SCALE for value in z])
    assert np.all(K / 2 * np.log1p(4 / z**2) < p * (1 + 3e-6))
    assert np.all(p * (1 - 3e-6) < K * np.log1p(2 / z**2))


def test_marginal_horseshoe_is_normalised_and_its_floor_takes_little():
    for floor, off in ((1e-9, 1e-5), (1e-3, 2e-3)):
        prior = priors.horseshoe(SCALE, form="marginal", floor=floor)
        mass = 2 * total(lambda x, prior=prior: prior.log_density(jnp.exp(x)[None], None) + x)
        assert mass == pytest.approx(1.0, abs=off)


def test_hierarchical_horseshoe_integrates_to_the_marginal():
    prior = priors.horseshoe(SCALE, form="hierarchical")
    tau = 0.4
    for w in (0.02, 0.5, 6.0):
        mass = total(
            lambda x, w=w: prior.log_density(
                jnp.array([w]), {"log_local": x[None], "log_global": math.log(tau)}
            )
        )
        marginal = density(priors.horseshoe(SCALE * tau, form="marginal", floor=1e-9), [w])
        wanted = marginal + stats.halfcauchy.logpdf(tau) + math.log(tau)
        assert math.log(mass) == pytest.approx(wanted, abs=3e-6)


@pytest.mark.parametrize("form", ["hierarchical", "regularised"])
def test_local_forms_are_the_sum_of_their_parts(form):
    rng = np.random.default_rng(1)
    w, local, tau, c2 = rng.normal(size=(3, 4)), rng.lognormal(size=(3, 4)), 0.3, 2.5
    slab, df = 1.5, 5.0
    hyper = {"log_local": np.log(local), "log_global": math.log(tau)}
    scale = local * tau * SCALE / math.sqrt(3)
    wanted = stats.halfcauchy.logpdf(local).sum() + np.log(local).sum()
    wanted += stats.halfcauchy.logpdf(tau) + math.log(tau)
    if form == "regularised":
        hyper["log_slab2"] = math.log(c2)
        scale = np.sqrt(c2 * scale**2 / (c2 + scale**2))
        wanted += stats.invgamma(df / 2, scale=df * slab**2 / 2).logpdf(c2) + math.log(c2)
    wanted += stats.norm.logpdf(w, scale=scale).sum()
    prior = priors.horseshoe(SCALE, form=form, fan_in="leading", slab=slab, slab_df=df)
    found = density(prior, w, jax.tree.map(jnp.asarray, hyper))
    assert found == pytest.approx(wanted, rel=1e-12)


def test_hyper_parameters_have_normalised_densities():
    """With no weight in the array what is left is the density of the scales alone."""
    none = jnp.zeros((0,))
    tensor = priors.horseshoe(SCALE, form="tensor", fan_in=9)
    assert total(lambda p: tensor.log_density(none, {"p": p}), -200, 20_000, 400_001) == (
        pytest.approx(1.0, abs=3e-4)  # the tail beyond is 2 / (pi s 20,000)
    )
    for form in ("hierarchical", "regularised"):
        prior = priors.horseshoe(SCALE, form=form)
        first = prior.hyper((0,), jnp.float64)
        at = density(prior, none, first)
        for name in set(first) - {"log_local"}:
            rest = (
                at
                - {
                    "log_global": stats.halfcauchy.logpdf(1.0),
                    "log_slab2": stats.invgamma(2, scale=8).logpdf(4.0) + math.log(4.0),
                }[name]
            )
            mass = total(
                lambda x, prior=prior, first=first, name=name: prior.log_density(
                    none, {**first, name: x}
                )
            )
            assert math.log(mass) == pytest.approx(rest, abs=1e-9)


@pytest.mark.parametrize("jacobian", [False, True])
@pytest.mark.parametrize("shape, multiplier", [((4, 3), 1.41 / 2), ((3,), 1.41)])
def test_tensor_horseshoe_is_the_papers(shape, multiplier, jacobian):
    """w ~ N(0, sigma²), sigma = softplus(p) * multiplier, half-Cauchy(1) density on sigma."""
    prior = priors.horseshoe(1.41, fan_in="leading", jacobian=jacobian)
    w, p = np.random.default_rng(2).normal(size=shape), -0.8
    sigma = math.log1p(math.exp(p)) * multiplier
    wanted = stats.norm.logpdf(w, scale=sigma).sum() + stats.halfcauchy.logpdf(sigma)
    if jacobian:
        wanted += math.log(multiplier * special.expit(p))
    assert density(prior, w, {"p": jnp.asarray(p)}) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("jacobian", [False, True])
def test_relative_horseshoe_is_of_the_ratio_to_its_base(jacobian):
    prior = priors.horseshoe(1.41, form="relative", fan_in="leading", jacobian=jacobian)
    w, p = np.random.default_rng(2).normal(size=(4, 3)), -0.8
    ratio = math.log1p(math.exp(p))
    wanted = stats.norm.logpdf(w, scale=ratio * 1.41 / 2).sum() + stats.halfcauchy.logpdf(ratio)
    wanted += math.log(special.expit(p)) if jacobian else 0.0
    assert density(prior, w, {"p": jnp.asarray(p)}) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0])
def test_log_half_cauchy_is_that_of_a_logarithm(scale):
    v = np.array([-9.0, -0.4, 0.0, 1.7, 30.0])
    wanted = stats.halfcauchy(scale=scale).logpdf(np.exp(v)) + v
    assert density(priors.log_half_cauchy(scale), v) == pytest.approx(wanted.sum(), rel=1e-12)


@pytest.mark.parametrize("form", ["tensor", "hierarchical", "regularised"])
def test_first_hyper_parameters(form):
    first = priors.horseshoe(form=form, slab=3.0).hyper((2, 3), jnp.float32)
    if form == "tensor":
        assert jax.nn.softplus(first["p"]) == pytest.approx(1.0, rel=1e-6)
        return
    assert first["log_local"].shape == (2, 3)
    np.testing.assert_array_equal(first["log_local"], 0.0)
    assert first["log_global"].shape == ()
    if form == "regularised":
        assert np.exp(first["log_slab2"]) == pytest.approx(9.0, rel=1e-6)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_another_scale_is_the_same_program(name):
    build, oracle = ELEMENTWISE[name]
    traced = []

    @jax.jit
    def at(prior, w):
        traced.append(prior)
        return prior.log_density(w, None)

    w = np.array([0.1, -0.4, 0.9])
    for scale in (0.7, 1.3):
        assert at(build(scale), w) == pytest.approx(oracle(w, scale).sum(), rel=1e-12)
    assert len(traced) == 1
    several = jax.vmap(lambda scale: at(build(scale), w))(jnp.array([0.7, 1.3]))
    np.testing.assert_allclose(several, [oracle(w, s).sum() for s in (0.7, 1.3)], rtol=1e-12)


@pytest.mark.parametrize(
    "name, build",
    [
        ("scale", lambda bad: priors.gaussian(bad)),
        ("df", lambda bad: priors.student_t(bad)),
        ("narrow", lambda bad: priors.scale_mixture(bad)),
        ("fraction", lambda bad: priors.scale_mixture(fraction=bad)),
        ("slab", lambda bad: priors.horseshoe(form="regularised", slab=bad)),
    ],
)
@pytest.mark.parametrize("bad", ["1", True, None, [1.0]])
def test_numbers_must_be_numbers(name, build, bad):
    with pytest.raises(TypeError, match=f"{name} must be"):
        build(bad)


def test_priors_are_values():
    one = priors.gaussian(1.41, fan_in="leading")
    assert one == priors.gaussian(1.41, fan_in="leading")
    assert one != priors.gaussian(1.41)
    assert hash(one) == hash(priors.gaussian(1.41, fan_in="leading"))
    assert repr(one) == "priors.gaussian(1.41, fan_in='leading')"
    assert repr(priors.horseshoe(form="marginal")) == "priors.horseshoe(form='marginal')"
    assert one.replace(scale=2.0) == priors.gaussian(2.0, fan_in="leading")
    assert jax.tree.leaves(priors.scale_mixture(0.2, 2.0, fraction=0.3)) == [0.2, 2.0, 0.3]
