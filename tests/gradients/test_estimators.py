"""Gradient estimators on a small regression: right on average, exact where they were last."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import gradients, likelihoods, priors
from sundman.gradients import RemembersGradients
from sundman.noise import Stream

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
    "saga": lambda p: gradients.saga(p, BATCH),
    "importance": lambda p: gradients.importance(p, BATCH),
}
REPLACE = ("minibatch", "control_variate", "svrg")


def many(estimator, steps, begin=THERE, at=HERE):
    """(U, G) of many steps at one position, what is remembered being that of ``begin``."""

    def one(step, data, memory):
        stream = Stream(KEY, step)
        if isinstance(estimator, RemembersGradients):
            return estimator.recall(stream, at, data, memory)[:2]
        return estimator(stream, at, data)

    memory = ()
    if isinstance(estimator, RemembersGradients):
        memory = estimator.begin(begin, estimator.data)
    found = jax.jit(jax.vmap(one, (0, None, None)))(steps, estimator.data, memory)
    return np.asarray(found[0], np.float64), np.asarray(found[1]["w"], np.float64)


@pytest.mark.parametrize(
    ("name", "more"),
    [(name, {}) for name in MAKE] + [(name, {"replace": True}) for name in REPLACE],
)
def test_on_average_the_whole_gradient(name, more):
    estimator = MAKE[name](POSTERIOR, **more)
    # Not a multiple of svrg's 5, so that the snapshot stays; all places of an epoch.
    steps = jnp.asarray(np.setdiff1d(np.arange(30_000), np.arange(0, 30_000, 5)), jnp.uint32)
    values, grads = many(estimator, steps)
    value, whole = jax.value_and_grad(POSTERIOR.potential)(HERE)
    for found, wanted in ((values, value), (grads, whole["w"])):
        error = found.std(axis=0) / np.sqrt(len(steps))
        assert np.all(np.abs(found.mean(axis=0) - np.asarray(wanted)) < 5 * error + 1e-4)
        assert np.all(error < 0.03 * np.abs(np.asarray(whole["w"])).max())


def test_the_variance_near_the_point_of_comparison_is_that_of_the_difference():
    """A linear model: rows' gradients differ by x x' (theta - theta*), whatever theta."""
    near, steps = {"w": THERE["w"] + 0.05}, jnp.arange(20_000, dtype=jnp.uint32)
    found = many(MAKE["control_variate"](POSTERIOR, replace=True), steps, at=near)[1]
    each = (X * (X @ np.full(D, 0.05))[:, None]) / 0.25
    wanted = N**2 / BATCH * each.var(axis=0)
    np.testing.assert_allclose(found.var(axis=0), wanted, rtol=0.1)
    plain = N**2 / BATCH * (X * (X @ np.asarray(near["w"]) - Y)[:, None] / 0.25).var(axis=0)
    assert plain.sum() > 5 * wanted.sum()


@pytest.mark.parametrize("name", ["control_variate", "svrg", "saga"])
def test_exact_where_it_was_last(name):
    _, grads = many(MAKE[name](POSTERIOR), jnp.arange(1, 5, dtype=jnp.uint32), THERE, THERE)
    wanted = POSTERIOR.gradient(THERE)["w"]
    np.testing.assert_allclose(grads, np.broadcast_to(wanted, grads.shape), rtol=2e-4, atol=2e-3)


def test_a_whole_gradient_in_pieces(monkeypatch):
    module = importlib.import_module("sundman.gradients.control_variate")
    monkeypatch.setattr(module, "_AT_ONCE", 16)
    anchor = jax.jit(lambda at: module.anchored_at(POSTERIOR, at, POSTERIOR.data))(HERE)
    value, grads = jax.value_and_grad(POSTERIOR.potential)(HERE)
    np.testing.assert_allclose(anchor.value, value, rtol=1e-5)
    np.testing.assert_allclose(anchor.grads["w"], grads["w"], rtol=1e-4, atol=1e-3)


def test_snapshots_are_renewed_at_their_steps():
    estimator = gradients.svrg(POSTERIOR, BATCH, every=4)
    data = estimator.data
    recall = jax.jit(lambda n, at, memory: estimator.recall(Stream(KEY, n), at, data, memory)[2])
    memory, seen = jax.jit(estimator.begin)(THERE, data), []
    for step in range(1, 10):
        memory = recall(jnp.uint32(step), {"w": HERE["w"] + step}, memory)
        seen.append(float(memory.position["w"][0] - HERE["w"][0]))
    assert np.rint(seen[3:]).tolist() == [4, 4, 4, 4, 8, 8]
    assert seen[0] == pytest.approx(0.9 - 1.3)
    whole = POSTERIOR.gradient(memory.position)["w"]
    np.testing.assert_allclose(memory.grads["w"], whole, rtol=1e-5)


def test_svrg_computes_no_whole_gradient_between_snapshots():
    """Under ``vmap`` the pass over all rows stays behind one condition."""
    estimator = gradients.svrg(POSTERIOR, BATCH, every=4)
    at = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf + 1]), HERE)
    memory = jax.jit(jax.vmap(estimator.begin, (0, None)))(at, estimator.data)

    def one(step, at, memory):
        return estimator.recall(Stream(KEY, step), at, estimator.data, memory)

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


def test_the_table_holds_the_last_gradient_of_each_row_and_their_sum():
    estimator = gradients.saga(POSTERIOR, BATCH)
    data = estimator.data
    first = estimator.begin(THERE, data)

    def body(memory, step):
        at = {"w": HERE["w"] + 0.01 * step.astype(jnp.float32)}
        return estimator.recall(Stream(KEY, step), at, data, memory)[2], None

    memory, _ = jax.lax.scan(body, first, jnp.arange(200, dtype=jnp.uint32))
    table = np.asarray(memory.each["w"], np.float64)
    np.testing.assert_allclose(memory.total["w"], table.sum(axis=0), rtol=1e-5, atol=1e-3)
    residual = X @ np.asarray(HERE["w"] + 1.99) - Y
    newest = X * residual[:, None] / 0.25
    same = np.isclose(table, newest, rtol=1e-4, atol=1e-3).all(axis=1)
    assert same.sum() == BATCH


def test_rows_come_with_their_probabilities():
    p = np.arange(1.0, N + 1)
    estimator = gradients.importance(POSTERIOR, BATCH, probabilities=p)
    draw = jax.vmap(lambda step: estimator.chosen(Stream(KEY, step), estimator.data))
    rows = np.asarray(draw(jnp.arange(20_000, dtype=jnp.uint32))).ravel()
    counts, wanted = np.bincount(rows, minlength=N), len(rows) * p / p.sum()
    assert ((counts - wanted) ** 2 / wanted).sum() < N + 6 * np.sqrt(2 * N)
    np.testing.assert_allclose(estimator.data.inverse, p.sum() / p, rtol=1e-5)


def test_importance_by_norms_helps_where_they_differ():
    plain = many(gradients.minibatch(POSTERIOR, BATCH, replace=True), jnp.arange(20_000))[1]
    by_norm = many(gradients.importance(POSTERIOR, BATCH), jnp.arange(20_000))[1]
    assert by_norm.var(axis=0).sum() < 0.6 * plain.var(axis=0).sum()


def at_once(estimator, position):
    call = jax.jit(lambda at, data: estimator(Stream(KEY, jnp.uint32(0)), at, data)[1])
    return call(position, estimator.data)


def test_hyper_parameters_are_part_of_the_position():
    model = posterior(prior=priors.horseshoe())
    at = model.position(THERE)
    whole = jax.jit(model.gradient)(at)
    for make in (lambda p, n: gradients.control_variate(p, n, at=THERE), gradients.saga):
        grads = at_once(make(model, N), at)
        for one, other in zip(jax.tree.leaves(grads), jax.tree.leaves(whole), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_equal_parts_make_equal_estimators():
    for make in MAKE.values():
        one, other = make(POSTERIOR), make(POSTERIOR)
        assert one == other
        assert hash(one) == hash(other)


class Own(sundman.Posterior):
    def potential(self, position, batch=None):
        return 2 * super().potential(position, batch)


def streamed():
    return posterior(data=sundman.data.HostBatches(lambda: iter([(X, Y)]), size=N))


BAD = np.ones(N)
BAD[4] = np.nan


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: gradients.svrg(POSTERIOR, N + 1), ValueError, "62 is more than the 61 rows"),
        (lambda: gradients.saga(POSTERIOR, 0), ValueError, "batch_size=0"),
        (lambda: gradients.svrg(POSTERIOR, BATCH, every=0), ValueError, "every=0"),
        (lambda: gradients.svrg(lambda x: x, 3), TypeError, "svrg needs a sundman.Posterior"),
        (
            lambda: gradients.importance(POSTERIOR, 3, probabilities=BAD),
            ValueError,
            "row 4 has nan",
        ),
        (lambda: gradients.importance(POSTERIOR, 3, probabilities=[1.0]), ValueError, r"\(61,\)"),
        (
            lambda: gradients.importance(POSTERIOR, 3, probabilities=np.arange(N)),
            ValueError,
            r"row 0 has 0\.0",
        ),
        (
            lambda: gradients.importance(POSTERIOR, 3, probabilities=1e-12 + np.eye(N)[3]),
            ValueError,
            "row 0 has the probability 1e-12",
        ),
        (
            lambda: gradients.control_variate(POSTERIOR, 3, at={"w": np.full(D, np.inf)}),
            ValueError,
            "not finite at at=",
        ),
        (lambda: gradients.saga(posterior(Own), 3), ValueError, "Own has a potential of its own"),
    ],
)
def test_bad_arguments_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize("name", ["control_variate", "svrg", "saga", "importance"])
def test_host_batches_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} comes back to rows"):
        MAKE[name](streamed())


def test_a_point_of_another_structure_is_named():
    estimator = gradients.control_variate(POSTERIOR, BATCH, at=THERE)
    other = estimator.data._replace(anchor=estimator.data.anchor._replace(position={"v": X[0]}))
    with pytest.raises(ValueError, match="at= of the control variate"):
        estimator(Stream(KEY, jnp.uint32(0)), HERE, other)


def test_a_large_table_is_refused_with_its_size():
    estimator = gradients.saga(POSTERIOR, BATCH, limit_bytes=10 * 4 * N * D)
    several = jax.vmap(estimator.begin, (0, None))
    ten = {"w": jnp.zeros((10, D))}
    assert several(ten, estimator.data).total["w"].shape == (10, D)
    with pytest.raises(ValueError, match=r"7.32e-07 GB a chain: for 11 chains 8.05e-06 GB"):
        several({"w": jnp.zeros((11, D))}, estimator.data)


def test_a_potential_of_ones_own_is_followed():
    model = posterior(Own)
    grads = at_once(gradients.control_variate(model, N, at=THERE), HERE)
    np.testing.assert_allclose(grads["w"], jax.jit(model.gradient)(HERE)["w"], rtol=1e-3)
