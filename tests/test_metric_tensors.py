"""Metric tensors: roots and divergences against the matrices written out, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import sundman
from sundman import check
from sundman.contrib import curvature, metric_tensors
from sundman.contrib.metric_tensors import Metric
from sundman.noise import Stream
from sundman.value import Number, Value

STREAM = Stream(jnp.array([1, 2], jnp.uint32), jnp.uint32(0))
POSITION = jnp.array([0.4, -0.9, 0.2])
ROWS = np.array([[0.5, 1.0, -1.0], [2.0, 0.1, 0.3]], np.float32)


def potential(x):
    return jnp.sum(x**4) / 4 + x[0] * x[1] ** 2 + jnp.cos(x[2] * x[1])


def information(x):
    return 1.0 + x**2 + jnp.roll(x, 1) ** 2


def matrix(x):
    return jnp.diag(1.0 + x**2) + 0.3 * jnp.outer(jnp.sin(x), jnp.sin(x)) + 0.2 * x[0] ** 2


def log_likelihood(x, row):
    return -jnp.log1p(jnp.sum((x - row) ** 2) + x[0] * x[1])


def monge_matrix(x):
    u = jax.grad(potential)(x)
    return jnp.eye(3) + 0.49 * jnp.outer(u, u)


def fisher_matrix(x):
    each = jax.vmap(jax.grad(log_likelihood), (None, 0))(x, ROWS)
    return jnp.diag(1.5 * (each**2).sum(axis=0) + 0.1)


def sheared(x):
    return jnp.array([[1.0 + x[0] ** 2, x[1], 0.0], [0.0, jnp.exp(x[2]), x[0]], [0.2, 0.0, 1.0]])


class Radial(Metric):
    """G = (1 + strength |theta|^2) I: a metric of a user's, with nothing but its root."""

    strength: Number = 1.0
    is_diagonal = True

    def __post_init__(self):
        self._settle(strength=check.not_negative)

    def root_times(self, position, v):
        return v / jnp.sqrt(1.0 + self.strength * jnp.sum(position**2))


class Sheared(Metric):
    """A root that is not symmetric."""

    def root_times(self, position, v):
        return sheared(position) @ v

    def transpose_times(self, position, v):
        return sheared(position).T @ v


CASES = {
    "diagonal": (metric_tensors.diagonal(information), lambda x: jnp.diag(information(x))),
    "slope given": (
        metric_tensors.diagonal(information, slope=lambda x: 2.0 * x),
        lambda x: jnp.diag(information(x)),
    ),
    "elementwise": (
        metric_tensors.diagonal(lambda x: jnp.exp(x), slope="elementwise"),
        lambda x: jnp.diag(jnp.exp(x)),
    ),
    "dense": (metric_tensors.dense(matrix), matrix),
    "fisher": (
        metric_tensors.fisher(log_likelihood, ROWS, prior_precision=0.1, scale=1.5),
        fisher_matrix,
    ),
    "monge": (metric_tensors.monge(potential, 0.7), monge_matrix),
    "monge, trace given": (
        metric_tensors.monge(
            potential, 0.7, curvature=lambda stream, x: jnp.diag(jax.hessian(potential)(x))
        ),
        monge_matrix,
    ),
    "of a user's": (Radial(0.3), lambda x: (1.0 + 0.3 * jnp.sum(x**2)) * jnp.eye(3)),
    "not symmetric": (Sheared(), lambda x: jnp.linalg.inv(sheared(x) @ sheared(x).T)),
}


def columns(times):
    return jax.vmap(lambda v: times(POSITION, v), out_axes=1)(jnp.eye(3))


def check_against_the_matrix(metric, G):
    def root_at(x):
        return jax.vmap(lambda v: metric.root_times(x, v), out_axes=1)(jnp.eye(3))

    @jax.jit
    def ours():
        products = metric.root_times, metric.transpose_times, metric.inverse_times
        divergences = metric.divergence, metric.root_divergence
        return [columns(f) for f in products], [f(STREAM, POSITION) for f in divergences]

    @jax.jit
    def wanted(x):
        inverse, slopes = jnp.linalg.inv(G(x)), jax.jacfwd(lambda x: jnp.linalg.inv(G(x)))(x)
        return inverse, jnp.einsum("ijj->i", slopes), jnp.einsum("jij->i", jax.jacfwd(root_at)(x))

    (root, transpose, product), (divergence, root_divergence) = jax.tree.map(np.asarray, ours())
    inverse, of_inverse, of_root = wanted(POSITION)
    np.testing.assert_allclose(root @ root.T, inverse, atol=2e-6)
    np.testing.assert_allclose(transpose, root.T, atol=2e-6)
    np.testing.assert_allclose(product, inverse, atol=2e-6)
    np.testing.assert_allclose(divergence, of_inverse, atol=1e-5)
    np.testing.assert_allclose(root_divergence, of_root, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_root_and_divergences_are_those_of_the_matrix(name):
    check_against_the_matrix(*CASES[name])


@pytest.mark.long
def test_probed_divergence_is_unbiased():
    metric, exact = metric_tensors.diagonal(information, slope="probed"), CASES["diagonal"][0]
    streams = jax.vmap(lambda step: Stream(STREAM.key, step))(jnp.arange(4000, dtype=jnp.uint32))
    estimates = np.asarray(jax.jit(jax.vmap(metric.divergence, (0, None)))(streams, POSITION))
    error = estimates.std(axis=0) / np.sqrt(4000)
    truth = exact.divergence(STREAM, POSITION)
    np.testing.assert_array_less(np.abs(estimates.mean(axis=0) - truth), 5 * error + 1e-6)


@pytest.mark.long
def test_monge_on_a_tree_is_monge_on_its_ravelled_vector():
    tree = {"a": POSITION[:1], "b": POSITION[1:].reshape(2, 1)}
    _, unravel = ravel_pytree(tree)
    flat = metric_tensors.monge(potential, 0.7)
    metric = metric_tensors.monge(lambda tree: potential(ravel_pytree(tree)[0]), 0.7)
    v = jnp.array([1.0, 2.0, -1.0])
    for one, other in (
        (metric.root_times(tree, unravel(v)), flat.root_times(POSITION, v)),
        (metric.divergence(STREAM, tree), flat.divergence(STREAM, POSITION)),
    ):
        np.testing.assert_allclose(ravel_pytree(one)[0], other, rtol=1e-5)


def linear(w, x):
    return x @ w


def line_posterior(noise=0.5):
    x = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
    return sundman.Posterior(
        linear, data=(x, x[:, 0]), likelihood=sundman.likelihoods.gaussian(noise)
    )


@pytest.mark.long
def test_posterior_fisher_is_fisher_of_its_rows():
    posterior = line_posterior()
    x = np.asarray(posterior.data.x)
    metric = metric_tensors.posterior_fisher(posterior, prior_precision=2.0, rows=4)
    w = jnp.array([0.3])
    slopes = (x[:4, 0] - x[:4, 0] * 0.3) * x[:4, 0] / 0.25
    truth = 1.0 / (2.0 * np.sum(slopes**2) + 2.0)
    assert metric.inverse_times(w, jnp.ones(1))[0] == pytest.approx(truth, rel=1e-5)


def test_posterior_fisher_has_the_data_as_leaves():
    """Not as constants of the program: other data of the same shape do not compile again."""
    metric = metric_tensors.posterior_fisher(line_posterior(), prior_precision=2.0, rows=4)
    sizes = {np.size(leaf) for leaf in jax.tree.leaves(metric)}
    assert 8 in sizes
    jitted = jax.jit(lambda metric, w: metric.inverse_times(w, jnp.ones(1)))
    w = jnp.array([0.3])
    for each in (metric, metric.replace(posterior=line_posterior(0.25))):
        np.testing.assert_allclose(jitted(each, w), each.inverse_times(w, jnp.ones(1)), rtol=1e-5)
    assert jitted._cache_size() == 1


class Steep(Value):
    """A potential whose number is a leaf."""

    scale: Number

    def __call__(self, x):
        return self.scale * potential(x)


MAKERS = {
    "diagonal": lambda: metric_tensors.diagonal(information, slope="probed", probes=2),
    "dense": lambda: metric_tensors.dense(matrix),
    "fisher": lambda: metric_tensors.fisher(log_likelihood, ROWS, prior_precision=0.1, scale=1.5),
    "posterior_fisher": lambda: metric_tensors.posterior_fisher(
        line_posterior(), prior_precision=0.1
    ),
    "monge": lambda: metric_tensors.monge(
        Steep(2.0), 0.7, curvature=curvature.probed(Steep(2.0), 2)
    ),
    "radial": lambda: Radial(0.3),
}


@pytest.mark.parametrize("name", MAKERS)
def test_metrics_made_alike_are_equal(name):
    one, other = MAKERS[name](), MAKERS[name]()
    assert one == other
    assert hash(one) == hash(other)
    assert one.name == name
    leaves, structure = jax.tree.flatten(one)
    assert jax.tree.unflatten(structure, leaves) == one
    assert structure == jax.tree.structure(other)


def test_other_metrics_differ():
    assert Radial(0.3) != Radial(0.4)
    assert metric_tensors.diagonal(information) != metric_tensors.diagonal(matrix)
    assert metric_tensors.diagonal(information) != metric_tensors.diagonal(
        information, slope="probed"
    )
    assert metric_tensors.monge(potential) != metric_tensors.monge(potential, 0.5)
    one = metric_tensors.fisher(log_likelihood, ROWS, prior_precision=0.1)
    assert one != metric_tensors.fisher(log_likelihood, ROWS[::-1], prior_precision=0.1)


def test_repr_names_functions_and_shows_numbers():
    assert (
        repr(metric_tensors.monge(potential, 0.7)) == "contrib.metric_tensors.monge(potential, 0.7)"
    )
    assert repr(metric_tensors.dense(matrix)) == "contrib.metric_tensors.dense(matrix)"


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (Radial, [0.2, 0.9]),
        (lambda alpha: metric_tensors.monge(potential, alpha), [0.2, 0.9]),
        (lambda scale: metric_tensors.monge(Steep(scale), 0.5), [0.2, 0.9]),
        (
            lambda precision: metric_tensors.fisher(
                log_likelihood, ROWS, prior_precision=precision
            ),
            [0.1, 2.0],
        ),
    ],
)
def test_numbers_of_a_metric_are_leaves(make, numbers):
    """``vmap`` over a number is one metric at a time; another number compiles nothing."""
    everything = jax.jit(
        lambda metric: (
            metric.root_times(POSITION, POSITION),
            metric.divergence(STREAM, POSITION),
            metric.root_divergence(STREAM, POSITION),
        )
    )
    mapped = jax.vmap(lambda number: everything(make(number)))(jnp.array(numbers))
    for row, number in enumerate(numbers):
        for many, one in zip(mapped, everything(make(number)), strict=True):
            np.testing.assert_allclose(many[row], one, rtol=1e-5, atol=1e-6)
    assert everything._cache_size() <= 2  # one for the tracers of vmap, one for floats


@pytest.mark.parametrize(
    ("metric", "position", "message"),
    [
        (metric_tensors.diagonal(lambda x: x), jnp.array([1.0, -2.0]), "least element is -2.0"),
        (
            metric_tensors.diagonal(lambda x: {"w": x["w"] * 0}),
            {"w": jnp.ones(2)},
            r"least element in \['w'\] is 0.0",
        ),
        (metric_tensors.diagonal(lambda x: x * jnp.nan), jnp.ones(2), "is nan"),
        (metric_tensors.diagonal(lambda x: x[:1]), jnp.ones(2), r"\(2,\), the metric \(1,\)"),
        (
            metric_tensors.dense(lambda x: jnp.array([[1.0, 2.0], [2.0, 1.0]])),
            jnp.ones(2),
            "least eigenvalue is -1.0",
        ),
        (metric_tensors.dense(lambda x: jnp.eye(3)), jnp.ones(2), r"\(2, 2\), got \(3, 3\)"),
        (metric_tensors.dense(lambda x: jnp.eye(2)), {"w": jnp.ones(2)}, r"shape \(d,\)"),
        (
            metric_tensors.dense(lambda x: jnp.array([[3.0, 1.0], [0.0, 3.0]])),
            jnp.ones(2),
            "symmetric",
        ),
    ],
)
def test_a_metric_that_is_none_is_refused_at_the_first_position(metric, position, message):
    for make in (sundman.contrib.integrators.sgrld, sundman.contrib.integrators.sgrhmc):
        with pytest.raises(ValueError, match=message):
            make(metric=metric).init(position)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: metric_tensors.diagonal(2.0), TypeError, "function=2.0"),
        (lambda: metric_tensors.diagonal(information, slope="steep"), ValueError, "slope='steep'"),
        (lambda: metric_tensors.diagonal(information, probes=0), ValueError, "probes=0"),
        (lambda: metric_tensors.dense(None), TypeError, "function=None"),
        (lambda: metric_tensors.monge(potential, -1.0), ValueError, "alpha=-1.0"),
        (
            lambda: metric_tensors.fisher(log_likelihood, ROWS, prior_precision=0.0),
            ValueError,
            "prior_precision=0.0",
        ),
        (
            lambda: sundman.contrib.integrators.sgrld(metric=information),
            TypeError,
            "sundman.contrib.metric_tensors",
        ),
        (lambda: sundman.contrib.integrators.sgrhmc(metric="fisher"), TypeError, "metric='fisher'"),
        (
            lambda: sundman.contrib.integrators.sgrld(metric=metric_tensors.monge),
            TypeError,
            r"metric=monge\(...\)",
        ),
        (lambda: metric_tensors.monge(potential, curvature=1.0), TypeError, "curvature=1.0"),
        (lambda: metric_tensors.monge("U"), TypeError, "potential='U'"),
        (lambda: Radial(-1.0), ValueError, "strength=-1.0"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
