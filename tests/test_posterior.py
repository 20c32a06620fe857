"""U at full-data scale, its units, its temperature, and what it refuses before compiling."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from scipy import stats

import sundman
from sundman import Batch, Position, Posterior, gradients, likelihoods, priors
from sundman.data import HostBatches
from sundman.run import scan, setup
from sundman.units import LearningRate

RNG = np.random.default_rng(10)
N, D = 60, 3
X = RNG.normal(size=(N, D)).astype(np.float32)
W = RNG.normal(size=D).astype(np.float32)
REAL = (X @ W + 0.3 * RNG.normal(size=N)).astype(np.float32)
COIN = (REAL > 0).astype(np.int32)
SGLD = sundman.sgld(1e-4)


def linear(params, x):
    return x @ params["w"] + params["b"]


PARAMS = {"w": jnp.asarray(W), "b": jnp.float32(0.1)}


def regression(**changes):
    settings = {"likelihood": likelihoods.gaussian(0.3), "prior": priors.laplace(0.8)}
    return Posterior(linear, **{**settings, "data": (X, REAL), **changes})


def exact_potential():
    mean = X @ W + np.float32(0.1)
    log_prior = stats.laplace(scale=0.8).logpdf([*W, 0.1]).sum()
    return -stats.norm(mean, 0.3).logpdf(REAL).sum() - log_prior


def test_parts_of_the_potential():
    posterior = regression()
    assert posterior.size == N
    log_prior = stats.laplace(scale=0.8).logpdf([*W, 0.1]).sum()
    assert posterior.log_prior(PARAMS) == pytest.approx(log_prior, rel=1e-5)
    assert posterior.potential(PARAMS) == pytest.approx(exact_potential(), rel=1e-5)
    assert posterior.log_likelihood(PARAMS) == pytest.approx(
        float(jnp.sum(posterior.pointwise(PARAMS, X, REAL))), rel=1e-5
    )
    predictive = posterior.predict(PARAMS, X[:2])
    np.testing.assert_allclose(predictive.mean, X[:2] @ W + 0.1, rtol=1e-5)


def test_batches_of_an_epoch_average_to_the_whole():
    posterior = regression()
    found = [
        posterior.potential(PARAMS, (X[rows], REAL[rows]))
        for rows in np.random.default_rng(0).permutation(N).reshape(-1, 12)
    ]
    assert np.mean(found) == pytest.approx(exact_potential(), rel=1e-5)
    assert np.std(found) > 0.1


def test_gradients_of_an_epoch_average_to_the_whole():
    posterior = regression()
    gradient = jax.jit(posterior.gradient)
    whole = gradient(PARAMS)
    parts = [gradient(PARAMS, Batch(X[rows], REAL[rows])) for rows in np.arange(N).reshape(-1, 12)]
    mean = jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *parts)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3), mean, whole)


@pytest.mark.long
def test_the_minibatch_estimator_averages_to_the_whole():
    posterior = regression()
    estimator = gradients.minibatch(posterior, 12)

    @jax.jit
    @jax.vmap
    def at(step):
        stream = sundman.noise.Stream(jnp.array([1, 2], jnp.uint32), step)
        return estimator(stream, PARAMS)

    value, slope = at(jnp.arange(5, dtype=jnp.uint32))
    assert np.mean(value) == pytest.approx(exact_potential(), rel=1e-5)
    whole = posterior.gradient(PARAMS)
    np.testing.assert_allclose(slope["w"].mean(axis=0), whole["w"], rtol=1e-4, atol=1e-3)


def test_gradient_is_the_derivative(x64):
    posterior = Posterior(lambda w, x: x @ w, likelihood=likelihoods.poisson(), data=(X, COIN))
    w = jnp.asarray(W, jnp.float64)
    check_grads(posterior.potential, (w,), 1, ["rev"])
    up, down = (posterior.potential(w.at[1].add(s)) for s in (1e-6, -1e-6))
    assert posterior.gradient(w)[1] == pytest.approx(float(up - down) / 2e-6, rel=1e-7)


def test_a_short_batch_counts_its_real_rows_only():
    posterior = regression()
    mask = jnp.arange(12) < 5
    spoiled = np.where(mask, REAL[:12], 1e6)
    short = posterior.potential(PARAMS, Batch(X[:12], spoiled, mask))
    assert short == pytest.approx(float(posterior.potential(PARAMS, (X[:5], REAL[:5]))), rel=1e-5)
    log_likelihood = posterior.log_likelihood(PARAMS, (X[:5], REAL[:5]))
    wanted = -N / 5 * log_likelihood - posterior.log_prior(PARAMS)
    assert short == pytest.approx(float(wanted), rel=1e-5)
    slope = posterior.gradient(PARAMS, Batch(X[:12], spoiled, mask))
    right = posterior.gradient(PARAMS, (X[:5], REAL[:5]))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), slope, right)


def test_learning_rates():
    posterior = regression()
    assert posterior.time_step(0.3, kinetic=False) == pytest.approx(0.3 / N)
    assert posterior.time_step(0.3, kinetic=True) == pytest.approx(np.sqrt(0.3 / N))
    for kinetic in (False, True):
        dt = posterior.time_step(0.3, kinetic=kinetic)
        assert posterior.learning_rate(dt, kinetic=kinetic) == pytest.approx(0.3)
        assert LearningRate(0.3).time_step(N, kinetic=kinetic) == dt
    several = jax.jit(jax.vmap(lambda h: posterior.time_step(h, kinetic=False)))(
        jnp.array([0.3, 0.6])
    )
    np.testing.assert_allclose(several, np.array([0.3, 0.6]) / N, rtol=1e-6)
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="learning_rate must be"):
            posterior.time_step(bad, kinetic=False)
    with pytest.raises(TypeError, match="learning_rate must be a number"):
        posterior.time_step("0.1", kinetic=False)


def test_position_gains_hyper_parameters():
    posterior = regression(
        likelihood=likelihoods.gaussian(),
        prior={"w": priors.horseshoe(form="hierarchical"), "b": priors.gaussian(1.0)},
    )
    position = posterior.position(PARAMS)
    assert isinstance(position, Position)
    assert set(position.hyper) == {"prior/w", "likelihood"}
    assert position.hyper["prior/w"]["log_local"].shape == (D,)
    again = posterior.position(position)
    assert jax.tree.structure(again) == jax.tree.structure(position)

    moved = position._replace(hyper=jax.tree.map(lambda leaf: leaf + 0.5, position.hyper))
    kept = posterior.position(moved)
    assert kept.hyper["likelihood"]["log_noise"] == pytest.approx(-0.5)
    slope = posterior.gradient(moved)
    assert jax.tree.structure(slope) == jax.tree.structure(position)
    wanted = -N + np.sum(((REAL - X @ W - 0.1) / np.exp(-0.5)) ** 2)  # d/d log_noise of sum log p
    assert slope.hyper["likelihood"]["log_noise"] == pytest.approx(-wanted + 0.5, rel=1e-4)

    with pytest.raises(ValueError, match=r"it has \['likelihood'\], they have .*prior/w"):
        posterior.position(Position(PARAMS, {"likelihood": position.hyper["likelihood"]}))


def test_plain_positions_stay_plain():
    assert jax.tree.structure(regression().position(PARAMS)) == jax.tree.structure(PARAMS)


def test_hyper_parameters_are_sampled_with_the_weights(key):
    posterior = regression(likelihood=likelihoods.gaussian())
    draws = sundman.sample(posterior, SGLD, init=PARAMS, key=key, chains=2, steps=4, batch_size=7)
    log_noise = draws.position.hyper["likelihood"]["log_noise"]
    assert log_noise.shape == (2, 4)
    assert np.unique(log_noise).size == 7  # one start, then all differ
    predictive = sundman.predict(draws, posterior, X[:2])
    np.testing.assert_allclose(predictive.sd[:, 0], np.exp(log_noise.ravel()), rtol=1e-5)


def noise_of_one_step(of_posterior, of_sampler, key):
    """The first step less its drift, over sqrt(2 dt): sqrt(T) times a standard normal."""
    posterior = regression(temperature=of_posterior)
    draws = sundman.sample(posterior, sundman.sgld(1e-4, of_sampler), init=PARAMS, key=key, steps=1)
    drift = -1e-4 * np.asarray(posterior.gradient(PARAMS)["w"])
    return (draws.last["w"][0] - W - drift) / np.sqrt(2e-4), draws.settings["temperature"]


def test_temperature_makes_the_noise(key):
    standard, one = noise_of_one_step(1.0, 1.0, key)
    noise, half = noise_of_one_step(0.5, None, key)
    assert (one, half) == (1.0, 0.5)
    assert np.abs(standard).min() > 0.01
    np.testing.assert_allclose(noise, np.sqrt(0.5) * standard, atol=1e-4)


@pytest.mark.parametrize(
    "of_posterior, of_sampler, settled",
    [
        (0.5, None, 0.5),
        (0.5, 0.5, 0.5),
        (None, 0.5, 0.5),
        (1.0, None, 1.0),
        (None, None, 1.0),
        (0.0, None, 0.0),
    ],
)
def test_temperature_is_given_once(of_posterior, of_sampler, settled):
    from sundman.run.inputs import settle_temperature

    sampler = sundman.sgld(1e-4, of_sampler)
    found = settle_temperature(regression(temperature=of_posterior), sampler)
    assert found.temperature == settled


@pytest.mark.parametrize("one, other", [(0.5, 0.7), (1.0, 0.7), (0.5, 1.0)])
def test_contradicting_temperatures(one, other, key):
    with pytest.raises(ValueError, match=f"temperature={one} .* temperature={other}"):
        sundman.sample(
            regression(temperature=one), sundman.sgld(1e-4, other), init=PARAMS, key=key, steps=1
        )


def test_an_estimator_brings_the_temperature_and_the_hyper_parameters(key):
    posterior = regression(temperature=0.5, likelihood=likelihoods.gaussian())
    draws = sundman.sample(gradients.minibatch(posterior, 6), SGLD, init=PARAMS, key=key, steps=2)
    assert draws.settings["temperature"] == 0.5
    assert draws.last.hyper["likelihood"]["log_noise"].shape == (1,)


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


def shifted(y):
    return Posterior(lambda p, x: x @ p, data=(X, y))


BAD_DATA = {
    "lengths": ((X, REAL[:-1]), ValueError, r"one row per example.*\(60, 3\).*\(59,\)"),
    "no rows": ((X[:0], REAL[:0]), ValueError, "empty"),
    "a number": ((X, 1.0), ValueError, "one row per example"),
    "no arrays": (({}, REAL), ValueError, "one row per example"),
    "nan in x": ((changed(X, (7, 1), np.nan), REAL), ValueError, "x has .* not finite.* row 7"),
    "inf in y": ((X, changed(REAL, 9, np.inf)), ValueError, "y has .* not finite.* row 9"),
    "three": ((X, REAL, X), TypeError, r"pair \(x, y\)"),
    "one array": (X, TypeError, r"pair \(x, y\)"),
    "none": (None, TypeError, r"pair \(x, y\)"),
    "texts in x": ((np.full((N, D), "a"), REAL), TypeError, "^x has dtype <U1"),
    "texts in y": ((X, np.full(N, "cat")), TypeError, "^y has dtype <U3"),
    "objects in x": ((X.astype(object), REAL), TypeError, "^x has dtype object"),
    "dates in x": ((np.full((N, 1), "2020", "M8[D]"), REAL), TypeError, "^x has dtype datetime64"),
    "none in a list": ((X.tolist(), [None, *REAL.tolist()[1:]]), TypeError, "^y has dtype object"),
    "ragged list": (([[1.0, 2.0], [3.0]], [0.0, 1.0]), ValueError, "^x is a nested list.*lengths"),
    "list of texts": ((X.tolist(), ["cat"] * N), TypeError, "^y has dtype <U3"),
    "masked batch": (Batch(X, REAL, np.ones(N, bool)), TypeError, r"pair \(x, y\)"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(case):
    data, error, message = BAD_DATA[case]
    with pytest.raises(error, match=message):
        regression(data=data)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), "wide", None])
@pytest.mark.parametrize(
    "prior",
    [
        priors.gaussian,
        priors.laplace,
        lambda s: priors.student_t(3.0, s),
        lambda s: priors.student_t(s),
        priors.cauchy_proxy,
        priors.horseshoe,
        lambda s: priors.horseshoe(form="regularised", slab=s),
        lambda s: priors.scale_mixture(s, 1.0),
        lambda s: priors.scale_mixture(0.1, s),
        lambda s: priors.gaussian(fan_in=s) if s is not None else priors.gaussian(None),
    ],
)
def test_scales_must_be_positive(prior, scale):
    with pytest.raises((ValueError, TypeError), match=r"must be (greater|finite|a number|one of)"):
        prior(scale)


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: priors.horseshoe(form="flat"), "form must be one of 'tensor'"),
        (lambda: priors.scale_mixture(fraction=1.0), "fraction must be between"),
        (lambda: priors.horseshoe(form="marginal", floor=0.0), "floor"),
        (lambda: regression(temperature=-1.0), "temperature"),
        (lambda: regression(temperature=float("nan")), "temperature"),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"likelihood": 3}, "likelihood must be"),
        ({"prior": 3}, "prior must be"),
        ({"prior": {"w": 1.0}}, "prior for 'w'"),
    ],
)
def test_wrong_kinds(changes, message):
    with pytest.raises(TypeError, match=message):
        regression(**changes)


def test_apply_must_be_a_function():
    with pytest.raises(TypeError, match="apply must be a function"):
        Posterior(3, data=(X, COIN))


IRREGULAR = {
    "integer parameters": (
        regression(),
        {"w": np.arange(3), "b": 0.0},
        {},
        TypeError,
        r"\['w'\] has dtype int",
    ),
    "no parameters": (regression(), {}, {}, ValueError, "no array"),
    "rule without parameter": (
        regression(prior={"kernel": priors.gaussian(), "*": priors.gaussian()}),
        PARAMS,
        {},
        ValueError,
        "'kernel' fit no parameter; the parameters are b, w",
    ),
    "parameter without rule": (
        regression(prior={"w": priors.gaussian()}),
        PARAMS,
        {},
        ValueError,
        "no prior rule fits the parameters b",
    ),
    "label too large": (shifted(COIN + 2), np.ones((D, 2)), {}, ValueError, r"0\.\.1.* 2 to 3"),
    "label negative": (shifted(COIN - 1), np.ones((D, 2)), {}, ValueError, r"0\.\.1.* -1 to 0"),
    "label not whole": (shifted(REAL), np.ones((D, 2)), {}, TypeError, "integers or one-hot"),
    "shape of the output": (
        Posterior(lambda p, x: x @ p, likelihood=likelihoods.gaussian(1.0), data=(X, REAL)),
        np.ones((D, 2)),
        {},
        ValueError,
        r"target has shape \(\).* \(2,\)",
    ),
    "batch larger than N": (regression(), PARAMS, {"batch_size": 61}, ValueError, "61.* 60 rows"),
    "batch of none": (regression(), PARAMS, {"batch_size": 0}, ValueError, "batch_size"),
    "batch of a half": (regression(), PARAMS, {"batch_size": 0.5}, TypeError, "batch_size"),
    "replace without batch": (regression(), PARAMS, {"replace": True}, ValueError, "batch_size"),
    "batch of a potential": (
        lambda x: jnp.sum(x**2),
        np.ones(2),
        {"batch_size": 3},
        ValueError,
        "needs a sundman.Posterior",
    ),
    "host batch larger than N": (
        regression(data=HostBatches([(X, REAL)], size=59)),
        PARAMS,
        {},
        ValueError,
        "60 rows, but size=59",
    ),
    "host batch with a size": (
        regression(data=HostBatches([(X, REAL)], size=60)),
        PARAMS,
        {"batch_size": 3},
        ValueError,
        "batch_size is set by the host batches",
    ),
    "host batch of other lengths": (
        regression(data=HostBatches([(X, REAL[1:])], size=60)),
        PARAMS,
        {},
        ValueError,
        "one row per example",
    ),
    "nan in a host batch": (
        regression(data=HostBatches([(X, changed(REAL, 3, np.nan))], size=60)),
        PARAMS,
        {},
        ValueError,
        "y has .* row 3",
    ),
    "host label too large": (
        Posterior(lambda p, x: x @ p, data=HostBatches([(X, COIN + 1)], size=60)),
        np.ones((D, 2)),
        {},
        ValueError,
        "1 to 2",
    ),
}


@pytest.mark.parametrize("case", IRREGULAR)
def test_refused_before_anything_is_compiled(case, key, monkeypatch):
    target, init, settings, error, message = IRREGULAR[case]

    def compiled(*args, **kwargs):
        raise AssertionError("got as far as the compiled loop")

    for name in ("block", "advance"):
        monkeypatch.setattr(scan, name, compiled)
    monkeypatch.setattr(setup, "start_chains", compiled)
    init = jax.tree.map(lambda a: a.astype("f4") if np.ndim(a) == 2 else a, init)
    with pytest.raises(error, match=message):
        sundman.sample(target, SGLD, init=init, key=key, steps=1, **settings)


def test_a_streamed_posterior_needs_a_batch():
    posterior = regression(data=HostBatches([(X, REAL)], size=60))
    assert posterior.potential(PARAMS, (X, REAL)) == pytest.approx(exact_potential(), rel=1e-5)
    with pytest.raises(ValueError, match="streams its data"):
        posterior.potential(PARAMS)


def test_nested_lists_are_arrays():
    plain, listed = regression(), regression(data=(X.tolist(), REAL.tolist()))
    np.testing.assert_array_equal(listed.data.x, plain.data.x)
    np.testing.assert_array_equal(listed.data.y, plain.data.y)
    host = HostBatches([(X.tolist(), REAL.tolist())], size=N)
    np.testing.assert_array_equal(regression(data=host).host.peek()[0], X.tolist())
    several = Posterior(
        lambda w, x: x[0] @ w + x[1], likelihood=likelihoods.gaussian(1.0), data=([X, REAL], REAL)
    )
    assert jax.tree.map(jnp.shape, several.data.x) == [(N, D), (N,)]
    several.position(W)


def test_a_posterior_is_a_value():
    posterior = regression(temperature=0.5)
    assert posterior == regression(temperature=0.5)
    assert hash(posterior) == hash(regression(temperature=0.5))
    assert posterior != regression(temperature=1.0)
    assert posterior != regression()
    assert posterior != regression(temperature=0.5, data=(X, changed(REAL, 3, 0.0)))
    assert jax.tree.structure(posterior) == jax.tree.structure(jax.tree.map(lambda a: a, posterior))
    leaves = jax.tree.leaves(posterior)
    assert sorted(leaf for leaf in leaves if isinstance(leaf, float)) == [-1.0, 0.3, 0.5, 0.8, 1.0]
    wanted = "Posterior(linear, data=<60 rows>, likelihood=likelihoods.gaussian(0.3), "
    assert repr(posterior) == wanted + "prior=priors.laplace(0.8), temperature=0.5)"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_posterior_with_another_number(streamed):
    host = HostBatches([(X, REAL)], size=N)
    posterior = regression(data=host) if streamed else regression()
    assert posterior.temperature is None
    assert posterior.host is (host if streamed else None)
    for other in (posterior.replace(temperature=2.0), replace(posterior, temperature=2.0)):
        assert other.temperature == 2.0
        assert other.size == N
        assert other.replace(temperature=None) == posterior
        assert (other.data is posterior.data) == streamed
    with pytest.raises(ValueError, match="temperature"):
        posterior.replace(temperature=-1.0)
    wider = posterior.replace(prior={"*": priors.laplace(1.6)})
    assert jax.tree.leaves(wider.prior) == [1.6]
    again = jax.jit(lambda p: p.replace(temperature=3.0))(posterior)
    assert again.temperature == 3.0
    assert again.host is posterior.host


def test_other_numbers_and_data_are_the_same_program():
    traced = []

    @jax.jit
    def evaluate(posterior):
        traced.append(posterior)
        return posterior.value_and_grad(PARAMS)

    for noise, scale, y in ((0.3, 0.8, REAL), (0.5, 1.1, REAL + 1)):
        posterior = regression(
            likelihood=likelihoods.gaussian(noise), prior=priors.laplace(scale), data=(X, y)
        )
        evaluation = evaluate(posterior)
        wanted, slope = jax.jit(jax.value_and_grad(posterior.potential))(PARAMS)
        assert evaluation.value == pytest.approx(float(wanted), rel=1e-5)
        assert evaluation.loss == pytest.approx(float(posterior.scaled_loss(PARAMS)), rel=1e-5)
        for one, other in zip(*map(jax.tree.leaves, (evaluation.grads, slope)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    assert len(traced) == 1

    def at(scale):
        return regression(prior=priors.laplace(scale)).potential(PARAMS)

    scales = jnp.array([0.8, 1.1])
    np.testing.assert_allclose(jax.vmap(at)(scales), [at(0.8), at(1.1)], rtol=1e-5)


def test_the_gradient_with_hyper_parameters_is_that_of_the_potential():
    posterior = regression(
        likelihood=likelihoods.gaussian(),
        prior={"w": priors.horseshoe(form="regularised"), "b": priors.horseshoe()},
    )
    first = posterior.position(PARAMS)
    position = first._replace(hyper=jax.tree.map(lambda leaf: leaf + 0.3, first.hyper))
    value, slope = jax.jit(jax.value_and_grad(posterior.potential))(position)
    evaluation = posterior.value_and_grad(position)
    assert evaluation.value == pytest.approx(float(value), rel=1e-5)
    assert jax.tree.structure(evaluation.grads) == jax.tree.structure(slope)
    for one, other in zip(*map(jax.tree.leaves, (evaluation.grads, slope)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_model_without_a_hash():
    @dataclass
    class Line:
        offset: float

        def __call__(self, params, x):
            return linear(params, x) + self.offset

    line = Line(0.0)
    posterior, again = (
        Posterior(
            line, data=(X, REAL), likelihood=likelihoods.gaussian(0.3), prior=priors.laplace(0.8)
        )
        for _ in range(2)
    )
    assert posterior == again
    assert jax.jit(Posterior.potential)(posterior, PARAMS) == pytest.approx(
        exact_potential(), rel=1e-5
    )


def test_the_model_and_the_features_must_fit():
    wide = {"w": np.ones(D + 1, np.float32), "b": np.float32(0.0)}
    with pytest.raises(ValueError, match=r"x has 3 features, the parameters .* w \(4,\)"):
        regression().position(wide)
    with pytest.raises(ValueError, match=r"x has 4 features, the model was checked with 3 feat"):
        regression().predict(PARAMS, np.ones((2, D + 1), np.float32))
    with pytest.raises(ValueError, match="x has a value that is not finite, first in row 1"):
        regression().predict(PARAMS, changed(X[:2], (1, 2), np.nan))
    with pytest.raises(TypeError, match="x has dtype <U1"):
        regression().predict(PARAMS, np.full((2, D), "a"))
    listed = regression().predict(PARAMS, X[:2].tolist())
    np.testing.assert_allclose(listed.mean, regression().predict(PARAMS, X[:2]).mean, rtol=1e-6)


def test_an_error_in_the_model_itself_is_its_own():
    def broken(params, x):
        return x @ params["w"] if x.sum() > 0 else x @ params["v"]

    with pytest.raises(jax.errors.TracerBoolConversionError):
        Posterior(broken, data=(X, COIN)).position(PARAMS)


@pytest.mark.parametrize(
    "name, method",
    {
        "value_and_grad": lambda self, position, batch=None: (0.0, 0.0, PARAMS),
        "gradient": lambda self, position, batch=None: PARAMS,
        "add_prior": lambda self, position, loss, grads: (loss, loss, grads),
        "log_likelihood_of_rows": lambda self, position, x, y: jnp.zeros(len(y)),
        "overrides": lambda self, *methods: None,
    }.items(),
)
def test_a_method_that_would_be_ignored_cannot_be_replaced(name, method):
    own = type("Own", (Posterior,), {name: method})
    with pytest.raises(TypeError, match=f"Own replaces {name}, .* replace pointwise, log_likel"):
        own(linear, data=(X, REAL), likelihood=likelihoods.gaussian(0.3))
    with pytest.raises(TypeError, match=f"Further replaces {name}"):
        type("Further", (own,), {})(linear, data=(X, REAL))
