"""Gradient estimators on a small regression: right on average, exact where they were last."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import sundman
from sundman import gradients, likelihoods, priors
from sundman.gradients import RemembersGradients
from sundman.noise import Stream
from sundman.value import public_name

N, D, BATCH = 61, 3, 7  # the last batch of an epoch is short
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, D)) * np.exp(0.7 * RNG.normal(size=(N, 1)))
Y = X @ np.array([1.0, -1.0, 0.5]) + 0.3 * RNG.normal(size=N)
KEY = jnp.array([17, 4], jnp.uint32)
HERE = {"w": jnp.array([1.3, -0.8, 0.2], jnp.float32)}
THERE = {"w": jnp.array([0.9, -1.0, 0.6], jnp.float32)}


def posterior(kind=sundman.Posterior, **changes):
    settings = {
        "likelihood": likelihoods.gaussian(0.5),
        "prior": priors.gaussian(2.0),
        "data": (X, Y),
        **changes,
    }
    return kind(lambda params, x: x @ params["w"], **settings)


POSTERIOR = posterior()
MAKE = {
    "minibatch": lambda p, **more: gradients.minibatch(p, BATCH, **more),
    "control_variate": lambda p, **more: gradients.control_variate(p, BATCH, at=THERE, **more),
    "svrg": lambda p, **more: gradients.svrg(p, BATCH, every=5, **more),
}
REPLACE = ("minibatch", "control_variate", "svrg")


def many(estimator, steps, begin=THERE, at=HERE):
    """(U, G) of many steps at one position, what is remembered being that of ``begin``."""

    def one(step, estimator, memory):
        stream = Stream(KEY, step)
        if isinstance(estimator, RemembersGradients):
            return estimator.recall(stream, at, memory)[:2]
        return estimator(stream, at)

    memory = ()
    if isinstance(estimator, RemembersGradients):
        memory = jax.jit(lambda estimator: estimator.begin(begin))(estimator)
    found = jax.jit(jax.vmap(one, (0, None, None)))(steps, estimator, memory)
    return np.asarray(found[0], np.float64), np.asarray(found[1]["w"], np.float64)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "more"),
    [(name, {}) for name in MAKE]
    + [(name, {"order": "with_replacement"}) for name in REPLACE]
    + [("minibatch", {"order": "symmetric"})],
)
def test_on_average_the_whole_gradient(name, more):
    estimator = MAKE[name](POSTERIOR, **more)
    # Not a multiple of svrg's 5, so that the snapshot stays; all places of an epoch.
    steps = np.setdiff1d(np.arange(30_000), np.arange(0, 30_000, 5)).astype(np.uint32)
    values, grads = many(estimator, steps)
    value, whole = jax.jit(jax.value_and_grad(POSTERIOR.potential))(HERE)
    if name == "control_variate":  # which leaves the sum over rows at its point away
        values = values + float(estimator.anchor.value)
    for found, wanted in ((values, value), (grads, whole["w"])):
        error = found.std(axis=0) / np.sqrt(len(steps))
        assert np.all(np.abs(found.mean(axis=0) - np.asarray(wanted)) < 5 * error + 1e-4)
        assert np.all(error < 0.03 * np.abs(np.asarray(whole["w"])).max())


def test_the_variance_near_the_point_of_comparison_is_that_of_the_difference():
    """A linear model: rows' gradients differ by x x' (theta - theta*), whatever theta."""
    near, steps = {"w": THERE["w"] + 0.05}, jnp.arange(20_000, dtype=jnp.uint32)
    found = many(MAKE["control_variate"](POSTERIOR, order="with_replacement"), steps, at=near)[1]
    each = (X * (X @ np.full(D, 0.05))[:, None]) / 0.25
    wanted = N**2 / BATCH * each.var(axis=0)
    np.testing.assert_allclose(found.var(axis=0), wanted, rtol=0.1)
    plain = N**2 / BATCH * (X * (X @ np.asarray(near["w"]) - Y)[:, None] / 0.25).var(axis=0)
    assert plain.sum() > 5 * wanted.sum()


@pytest.mark.parametrize("name", ["control_variate", "svrg"])
def test_exact_where_it_was_last(name):
    _, grads = many(MAKE[name](POSTERIOR), jnp.arange(1, 5, dtype=jnp.uint32), THERE, THERE)
    wanted = jax.jit(POSTERIOR.gradient)(THERE)["w"]
    np.testing.assert_allclose(grads, np.broadcast_to(wanted, grads.shape), rtol=2e-4, atol=2e-3)


def test_a_whole_gradient_in_pieces(monkeypatch):
    module = importlib.import_module("sundman.gradients.control_variates")
    monkeypatch.setattr(module, "_ROWS_PER_PASS", 16)
    anchor = jax.jit(lambda at: module.anchored_at(POSTERIOR, at))(HERE)
    value, grads = jax.jit(jax.value_and_grad(POSTERIOR.scaled_loss))(HERE)
    np.testing.assert_allclose(anchor.value, value, rtol=1e-5)
    np.testing.assert_allclose(anchor.grads["w"], grads["w"], rtol=1e-4, atol=1e-3)


def test_snapshots_are_renewed_at_their_steps():
    estimator = gradients.svrg(POSTERIOR, BATCH, every=4)
    recall = jax.jit(lambda n, at, memory: estimator.recall(Stream(KEY, n), at, memory)[2])
    memory, seen = jax.jit(estimator.begin)(THERE), []
    for step in range(1, 10):
        memory = recall(jnp.uint32(step), {"w": HERE["w"] + step}, memory)
        seen.append(float(memory.position["w"][0] - HERE["w"][0]))
    assert np.rint(seen[3:]).tolist() == [4, 4, 4, 4, 8, 8]
    assert seen[0] == pytest.approx(0.9 - 1.3)
    whole = jax.jit(jax.grad(POSTERIOR.scaled_loss))(memory.position)["w"]
    np.testing.assert_allclose(memory.grads["w"], whole, rtol=1e-5)


def test_svrg_computes_no_whole_gradient_between_snapshots():
    """Under ``vmap`` the pass over all rows stays behind one condition."""
    estimator = gradients.svrg(POSTERIOR, BATCH, every=4)
    at = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), HERE)
    memory = jax.jit(jax.vmap(estimator.begin))(at)

    def one(step, at, memory):
        return estimator.recall(Stream(KEY, step), at, memory)

    steps = jnp.full(2, 7, jnp.uint32)
    jaxpr = jax.make_jaxpr(jax.vmap(one))(steps, at, memory)
    branches = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "cond"]
    assert [eqn.invars[0].aval.shape for eqn in branches] == [()]
    outside = [
        var.aval.shape
        for eqn in jaxpr.eqns
        if eqn.primitive.name == "dot_general"
        for var in (*eqn.invars, *eqn.outvars)
    ]
    assert outside
    assert not any(N in shape for shape in outside)
    # Lanes at different steps are still each right.
    renewed = jax.jit(jax.vmap(lambda *given: one(*given)[2]))
    memory = renewed(jnp.array([8, 7], jnp.uint32), jax.tree.map(jnp.add, at, at), memory)
    np.testing.assert_allclose(memory.position["w"][0], 2 * HERE["w"])
    np.testing.assert_allclose(memory.position["w"][1], HERE["w"] + 1)


def at_once(estimator, position):
    call = jax.jit(lambda at, estimator: estimator(Stream(KEY, jnp.uint32(0)), at)[1])
    return call(position, estimator)


def test_hyper_parameters_are_part_of_the_position():
    model = posterior(prior=priors.horseshoe())
    at = model.position(THERE)
    whole = jax.jit(model.gradient)(at)
    grads = at_once(gradients.control_variate(model, N, at=THERE), at)
    for one, other in zip(jax.tree.leaves(grads), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_equal_parts_make_equal_estimators():
    for make in MAKE.values():
        one, other = make(POSTERIOR), make(POSTERIOR)
        assert one == other
        assert hash(one) == hash(other)
        assert one != make(posterior(likelihood=likelihoods.gaussian(0.6)))
        assert repr(one).startswith(f"gradients.{public_name(type(one))}(")


class Own(sundman.Posterior):
    def potential(self, position, batch=None):
        return 2 * super().potential(position, batch)


def streamed():
    return posterior(data=sundman.data.HostBatches(lambda: iter([(X, Y)]), size=N))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: gradients.svrg(POSTERIOR, N + 1), ValueError, "62 is more than the 61 rows"),
        (lambda: gradients.svrg(POSTERIOR, 0), ValueError, "batch_size=0"),
        (lambda: gradients.svrg(POSTERIOR, BATCH, every=0), ValueError, "every=0"),
        (lambda: gradients.svrg(lambda x: x, 3), TypeError, "svrg needs a sundman.Posterior"),
        (
            lambda: gradients.control_variate(POSTERIOR, 3, at={"w": np.full(D, np.inf)}),
            ValueError,
            "not finite at at=",
        ),
        (
            lambda: gradients.minibatch(POSTERIOR, 3, order="sorted"),
            ValueError,
            "order must be one of 'shuffled', 'symmetric', 'with_replacement'; got order='sorted'",
        ),
        (
            lambda: gradients.minibatch(streamed(), None, order="symmetric"),
            ValueError,
            "order='symmetric' chooses rows of data in memory, but host batches come once",
        ),
    ],
)
def test_bad_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("name", ["control_variate", "svrg"])
def test_host_batches_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} comes back to rows"):
        MAKE[name](streamed())


def test_a_point_of_another_structure_is_named():
    estimator = gradients.control_variate(POSTERIOR, BATCH, at=THERE)
    other = estimator.replace(anchor=estimator.anchor._replace(position={"v": X[0]}))
    with pytest.raises(ValueError, match="at= of the control variate"):
        other(Stream(KEY, jnp.uint32(0)), HERE)


def test_a_potential_of_ones_own_is_followed():
    model = posterior(Own)
    grads = at_once(gradients.control_variate(model, N, at=THERE), HERE)
    np.testing.assert_allclose(grads["w"], jax.jit(model.gradient)(HERE)["w"], rtol=1e-3)


class OwnPrior(sundman.Posterior):
    """A numerical prior of its own, with a number of its own."""

    strength: float = 3.0

    def log_prior(self, position):
        return super().log_prior(position) - self.strength * jnp.sum(position["w"] ** 4)


class OwnLikelihood(sundman.Posterior):
    def log_likelihood(self, position, batch=None):
        batch = self.data if batch is None else sundman.Batch(*batch)
        each = -jnp.log1p(jnp.square(batch.x @ position["w"] - batch.y))
        return jnp.sum(each if batch.mask is None else jnp.where(batch.mask, each, 0.0))


class OwnRows(sundman.Posterior):
    def pointwise(self, position, x, y):
        return -jnp.log1p(jnp.square(x @ position["w"] - y))


class OwnLoss(sundman.Posterior):
    def scaled_loss(self, position, batch=None):
        return 0.3 * super().scaled_loss(position, batch)


SUBCLASSES = {
    "log_prior": OwnPrior,
    "log_likelihood": OwnLikelihood,
    "pointwise": OwnRows,
    "potential": Own,
    "scaled_loss": OwnLoss,
}


def expected_potential(model):
    """U written out by hand, in the words of the subclass."""

    def gaussian(w):
        each = 0.5 * jnp.square((X @ w - Y) / 0.5) + jnp.log(0.5) + 0.5 * jnp.log(2 * jnp.pi)
        return jnp.sum(each)

    def normal(w):
        return jnp.sum(0.5 * jnp.square(w / 2.0) + jnp.log(2.0) + 0.5 * jnp.log(2 * jnp.pi))

    def heavy(w):
        return jnp.sum(jnp.log1p(jnp.square(X @ w - Y)))

    return {
        OwnPrior: lambda w: gaussian(w) + normal(w) + 3.0 * jnp.sum(w**4),
        OwnLikelihood: lambda w: heavy(w) + normal(w),
        OwnRows: lambda w: heavy(w) + normal(w),
        Own: lambda w: 2 * (gaussian(w) + normal(w)),
        OwnLoss: lambda w: 0.3 * gaussian(w) + normal(w),
    }[type(model)]


def _quick(name, own):
    """Every estimator with one subclass, every subclass with one estimator."""
    return own == "log_prior" or name == "control_variate"


@pytest.mark.parametrize(
    ("name", "own"),
    [
        pytest.param(name, own, marks=() if _quick(name, own) else pytest.mark.slow)
        for name in MAKE
        for own in SUBCLASSES
    ],
)
def test_what_a_subclass_replaces_is_followed_by_every_estimator(name, own):
    """The mean of G over batches is the gradient of the subclass's U."""
    model = posterior(SUBCLASSES[own])
    value, whole = jax.jit(jax.value_and_grad(expected_potential(model)))(HERE["w"])
    steps = np.setdiff1d(np.arange(6000), np.arange(0, 6000, 5)).astype(np.uint32)
    estimator = MAKE[name](model)
    values, grads = many(estimator, steps)
    if name == "control_variate":  # which leaves the sum over rows at its point away
        values = values + float(estimator.anchor.value)
    for found, wanted in ((values, value), (grads, whole)):
        error = found.std(axis=0) / np.sqrt(len(steps))
        assert np.all(np.abs(found.mean(axis=0) - np.asarray(wanted)) < 5 * error + 1e-4)
        assert np.all(error < 0.05 * np.abs(np.asarray(wanted)).max())


@pytest.mark.long
@pytest.mark.parametrize("own", SUBCLASSES)
def test_batches_of_an_epoch_average_to_the_gradient_of_a_subclass(own):
    """Exactly, with batches that divide the rows."""
    model = posterior(SUBCLASSES[own], data=(X[:60], Y[:60]))
    estimator = gradients.minibatch(model, 12)
    call = jax.jit(lambda step: estimator(Stream(KEY, step), HERE))
    calls = [call(jnp.uint32(step)) for step in range(5)]
    value, whole = jax.jit(jax.value_and_grad(model.potential))(HERE)
    assert np.mean([call[0] for call in calls]) == pytest.approx(float(value), rel=1e-5)
    mean = np.mean([call[1]["w"] for call in calls], axis=0)
    np.testing.assert_allclose(mean, whole["w"], rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(jax.jit(model.gradient)(HERE)["w"], whole["w"], rtol=1e-4)


@pytest.mark.parametrize("own", SUBCLASSES)
def test_the_map_of_a_subclass_is_its_own(own, key):
    model = posterior(SUBCLASSES[own])
    mode = sundman.map_estimate(model, THERE, key=key, steps=2000, optimizer=optax.adam(0.02))
    slope = jax.jit(jax.grad(expected_potential(model)))
    assert np.abs(slope(mode["w"])).max() < 2e-3 * np.abs(slope(HERE["w"])).max()


def test_a_batch_that_a_stream_gives():
    model = streamed()
    estimator = gradients.minibatch(model, None)
    assert isinstance(estimator, gradients.Streamed)
    stream, batch = Stream(KEY, jnp.uint32(0)), (X[:7].astype("f4"), Y[:7].astype("f4"))
    value, grads = jax.jit(type(estimator).__call__)(estimator, stream, HERE, batch)
    evaluation, memory = jax.jit(type(estimator).evaluate)(estimator, stream, HERE, (), batch)
    assert memory == ()
    wanted, slope = jax.jit(jax.value_and_grad(model.potential))(HERE, batch)
    for found in (value, evaluation.value):
        assert found == pytest.approx(float(wanted), rel=1e-5)
    for found in (grads, evaluation.grads):
        np.testing.assert_allclose(found["w"], slope["w"], rtol=1e-5)
    with pytest.raises(ValueError, match="streams its data"):
        estimator(stream, HERE)


@pytest.mark.long
@pytest.mark.parametrize("name", MAKE)
def test_evaluations(name):
    """What a run asks for at each step, with the loss apart where it is cheaper."""
    estimator, stream = MAKE[name](POSTERIOR), Stream(KEY, jnp.uint32(3))
    remembers = isinstance(estimator, RemembersGradients)
    memory = jax.jit(estimator.begin)(THERE) if remembers else ()
    evaluation, after = jax.jit(estimator.evaluate)(stream, HERE, memory)
    if remembers:
        value, grads, wanted = jax.jit(estimator.recall)(stream, HERE, memory)
        assert jax.tree.structure(after) == jax.tree.structure(wanted)
    else:
        value, grads = jax.jit(type(estimator).__call__)(estimator, stream, HERE)
    assert evaluation.value == pytest.approx(float(value), rel=1e-6)
    np.testing.assert_allclose(evaluation.grads["w"], grads["w"], rtol=1e-6)
    assert estimator.parts_differ == (name == "minibatch")
    if estimator.parts_differ:
        log_prior = POSTERIOR.log_prior(HERE)
        assert evaluation.loss == pytest.approx(float(value + log_prior), rel=1e-5)
    else:
        assert evaluation.loss == evaluation.value


def test_other_numbers_are_the_same_program():
    traced = []

    @jax.jit
    def call(estimator):
        traced.append(estimator)
        return estimator(Stream(KEY, jnp.uint32(0)), HERE)[1]["w"]

    for noise, scale in ((0.5, 2.0), (0.7, 1.0)):
        model = POSTERIOR.replace(
            likelihood=likelihoods.gaussian(noise), prior=priors.gaussian(scale)
        )
        residual = X @ np.asarray(HERE["w"]) - Y
        wanted = X.T @ residual / noise**2 + np.asarray(HERE["w"]) / scale**2
        np.testing.assert_allclose(call(gradients.minibatch(model, None)), wanted, rtol=1e-4)
    assert len(traced) == 1
    quartic = gradients.noisy(lambda at: jnp.sum(at["w"] ** 4), 0.5)
    np.testing.assert_array_equal(jax.tree.leaves(quartic), [0.5])
    assert quartic == quartic.replace(sigma=np.float32(0.5))
    with pytest.raises(ValueError, match="sigma"):
        quartic.replace(sigma=-1.0)


def test_an_estimator_of_ones_own():
    class Halved(gradients.GradientEstimator):
        posterior: sundman.Posterior
        share: float = 0.5

        def __call__(self, stream, position, batch=None):
            value, grads = jax.value_and_grad(self.posterior.potential)(position)
            return value, jax.tree.map(lambda g: self.share * g, grads)

    estimator = Halved(POSTERIOR)
    assert not estimator.parts_differ
    evaluation, memory = estimator.evaluate(Stream(KEY, jnp.uint32(0)), HERE)
    assert memory == ()
    np.testing.assert_allclose(
        evaluation.grads["w"], 0.5 * POSTERIOR.gradient(HERE)["w"], rtol=1e-5
    )
    assert "Halved(posterior=Posterior(" in repr(estimator)
    with pytest.raises(NotImplementedError, match="has no __call__"):
        gradients.GradientEstimator()(Stream(KEY, jnp.uint32(0)), HERE)
