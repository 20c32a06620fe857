"""Runs to be judged: good ones of many kinds, and bad ones, each wrong in one way."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import gradients, targets

GAUSSIAN = targets.gaussian(4, condition=10.0)
WELL = targets.double_well(barrier=3.0)


def _logistic(rows=100, features=4):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    y = (rng.uniform(size=rows) < 1 / (1 + np.exp(-x @ np.ones(features)))).astype(np.int32)

    def apply(w, x):
        return jnp.stack([jnp.zeros(len(x)), x @ w], axis=1)

    return sundman.Posterior(apply, data=(x, y), prior=sundman.priors.gaussian(1.0))


LOGISTIC = _logistic()


def _network(rows=32, hidden=35):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 4)).astype(np.float32)
    y = np.tanh(x[:, :1]) + 0.3 * rng.normal(size=(rows, 1)).astype(np.float32)
    sizes = (4, hidden, 1)
    likelihood = sundman.likelihoods.gaussian(1.0)
    posterior = sundman.Posterior(sundman.models.mlp_apply, data=(x, y), likelihood=likelihood)
    return posterior, sundman.models.mlp_init(jax.random.key(5), sizes)


NETWORK, WEIGHTS = _network()


def _log_density(x):
    return -0.5 * jnp.sum(jnp.square(x))


def _narrow(x):
    """Far from 0 compared with its width: theta . G / d is noise there."""
    return 0.5 * jnp.sum(jnp.square(x - 100.0))


def _tree(position):
    return 0.5 * jnp.sum(position["a"] ** 2) + jnp.sum(position["b"] ** 2)


_EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
_ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


def _schools(at):
    """Eight schools in the centred form: a funnel towards small tau."""
    mean, log_tau, theta = at[0], at[1], at[2:]
    misfit = jnp.sum(jnp.square((_EFFECTS - theta) / _ERRORS))
    apart = jnp.sum(jnp.square((theta - mean) * jnp.exp(-log_tau))) + 16.0 * log_tau
    prior = (mean / 5.0) ** 2 + 2.0 * jnp.log1p(jnp.exp(2.0 * log_tau) / 25.0) - 2.0 * log_tau
    return 0.5 * (misfit + apart + prior)


EXACT = "exact draws of the target"


def _on(target, sampler, *, init=None, **options):
    def run(key):
        first = init
        if first is EXACT:  # made here: importing the runs compiles nothing
            first = target.exact(jax.random.key(99), options["chains"])
        return sundman.sample(target, sampler, key=key, init=first, **options)

    return run


def _gaussian(sampler, **options):
    return _on(
        GAUSSIAN, sampler, **{"chains": 4, "steps": 40_000, "thin": 10, "init": EXACT, **options}
    )


_PLANE = targets.gaussian(2)
_CLOCK = {"alpha": 1.0, "m": 0.1, "M": 10.0, "r": 0.25, "omega": 20.0, "psi": "scale_free"}

GOOD = {
    "sgld": _gaussian(sundman.sgld(0.01)),
    "one chain": _gaussian(sundman.sgld(0.01), chains=1, init=None, steps=80_000),
    "many chains": _gaussian(sundman.sgld(0.01), chains=64, steps=8000),
    "another temperature": _gaussian(sundman.sgld(0.01, 0.2), burn_in=1000),
    "lm": _gaussian(sundman.lm(0.02)),
    "baoab": _gaussian(sundman.baoab(0.2)),
    "obabo": _gaussian(sundman.obabo(0.15)),
    "sghmc": _gaussian(sundman.sghmc(0.05)),
    "sgnht": _gaussian(sundman.sgnht(0.05)),
    "samadams": _gaussian(sundman.samadams(0.05, alpha=1.0, omega=20.0, psi="scale_free")),
    "sa-sgld": _gaussian(sundman.sa_sgld(0.01, **_CLOCK)),
    "sgrld": _gaussian(
        sundman.contrib.sgrld(0.01, metric=sundman.contrib.metric_tensors.diagonal(jnp.ones_like))
    ),
    "equally spaced in time": _on(
        _PLANE, sundman.sgld(0.05), init=EXACT, chains=4, draws=2000, thin_time=0.5
    ),
    "star": _on(
        targets.star(),
        sundman.sa_sgld(0.0005, alpha=50.0, m=0.1, M=10.0, r=0.5),
        init=EXACT,
        chains=32,
        steps=200_000,
        thin=200,
    ),
    "double well": _on(
        WELL, sundman.sgld(0.005), init=EXACT, chains=8, steps=200_000, thin=100
    ),
    "quartic": _on(targets.quartic(), sundman.lm(0.01), chains=4, steps=40_000, thin=10),
    "replicas": _on(
        WELL,
        sundman.replica_exchange_sgld(0.005, ratios=(1.0, 3.0)),
        init=EXACT,
        chains=8,
        steps=50_000,
        thin=50,
    ),
    "log density": lambda key: sundman.sample(
        log_density=_log_density,
        sampler=sundman.sgld(0.05),
        key=key,
        init=jnp.zeros(3),
        chains=4,
        steps=20_000,
        thin=10,
    ),
    "narrow and far from 0": _on(
        _narrow, sundman.sgld(0.05), init=jnp.full(3, 100.0), chains=4, steps=20_000, thin=10
    ),
    "a pytree": _on(
        _tree,
        sundman.baoab(0.2),
        init={"a": jnp.zeros(3), "b": jnp.zeros((2, 2))},
        chains=4,
        steps=20_000,
        thin=10,
    ),
    "logistic regression": _on(
        LOGISTIC, sundman.sgld(3e-3), init=jnp.zeros(4), chains=4, burn_in=1000, steps=20_000,
        thin=20,
    ),
    "minibatches": _on(
        LOGISTIC, sundman.sgld(1e-3), init=jnp.zeros(4), chains=4, burn_in=3000, steps=50_000,
        thin=50, batch_size=50,
    ),
    "a network": _on(
        NETWORK, sundman.baoab(0.01), init=WEIGHTS, chains=2, burn_in=3000, steps=25_000, thin=25
    ),
    "predictions of a network": _on(
        NETWORK, sundman.baoab(0.01), init=WEIGHTS, chains=2, burn_in=3000, steps=25_000,
        thin=25, collect=lambda w: sundman.models.mlp_apply(w, NETWORK.data.x[:20]),
    ),
}  # fmt: skip

BAD = {
    "too hot by noise": (
        "temperature",
        _on(
            gradients.noisy(GAUSSIAN.potential, 10.0), sundman.sgld(0.01),
            init=jnp.zeros(4), chains=4, steps=40_000, thin=10,
        ),
    ),
    "too hot by minibatches": (
        "temperature",
        _on(
            LOGISTIC, sundman.sgld(1e-2), init=jnp.zeros(4), chains=4, burn_in=1000, steps=10_000,
            thin=10, batch_size=5,
        ),
    ),
    "too hot by the step": ("temperature", _gaussian(sundman.sgld(0.1))),
    "different modes": (
        "R-hat",
        _on(
            targets.double_well(barrier=30.0), sundman.sgld(0.002),
            init=jnp.array([[-1.0], [-1.0], [1.0], [1.0]]), chains=4, steps=40_000, thin=10,
        ),
    ),
    "short burn-in": (
        "U still falling",
        _on(_narrow, sundman.sgld(0.002), init=jnp.zeros(3), chains=4, steps=4000),
    ),
    "improper": (
        "wandering",
        _on(
            lambda x: 0.5 * x[0] ** 2 + 0.0 * x[1], sundman.sgld(0.05),
            init=jnp.zeros(2), chains=16, steps=20_000, thin=10,
        ),
    ),
    "lost chains": (
        "lost chains",
        _on(
            lambda x: jnp.sum(x**4), sundman.sgld(0.05),
            init=jnp.array([[0.1], [0.1], [9.0], [0.1]]), chains=4, steps=20_000, thin=10,
        ),
    ),
    "the neck of a funnel": (
        "energy jumps",
        _on(_schools, None, init=jnp.zeros(10), chains=16, steps=20_000, thin=4),
    ),
    "biased by design": (
        "biased by design",
        _gaussian(sundman.contrib.psgld(0.01, decay=0.999), steps=4000, burn_in=1000),
    ),
    "wrong sign": (
        "U falls",
        _on(_log_density, sundman.sgld(0.01), init=jnp.ones(3), chains=4, steps=2000),
    ),
}  # fmt: skip


def _classifier(rows=300, features=12, hidden=14, classes=4):
    """A network of 242 weights whose labels are drawn from another one, somewhat noisy."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    teacher = np.tanh(x @ rng.normal(size=(features, 6))) @ rng.normal(size=(6, classes))
    y = (2.0 * teacher + rng.gumbel(size=(rows, classes))).argmax(axis=1)
    prior = {"kernel": sundman.priors.gaussian(1.0), "bias": sundman.priors.gaussian(5.0)}
    posterior = sundman.Posterior(sundman.models.mlp_apply, data=(x, y), prior=prior)
    starts = jax.vmap(lambda key: sundman.models.mlp_init(key, (features, hidden, classes)))
    return posterior, starts(jax.random.split(jax.random.key(6), 4))


CLASSIFIER, STARTS = _classifier()


def _classify(sampler, *, target=CLASSIFIER, starts=STARTS, rows=None, **options):
    options = {"chains": 4, "burn_in": 3000, "steps": 15_000, "thin": 15, **options}

    def run(key):
        estimator = gradients.minibatch(target, rows)
        return sundman.sample(estimator, sampler, key=key, init=starts, per_chain=True, **options)

    return run


def _one_without_outputs(starts):
    """The hidden units of chain 2 so far below 0 that nothing comes out of them."""
    bias = starts["layer_0"]["bias"].at[2].add(-2000.0)
    return {**starts, "layer_0": {**starts["layer_0"], "bias": bias}}


def _laplace():
    prior = {"kernel": sundman.priors.laplace(1.0), "bias": sundman.priors.gaussian(5.0)}
    return CLASSIFIER.replace(prior=prior)


_TUNED = {"burn_in": 0, "steps": 20_000, "thin": 20}
GOOD_NETWORKS = {
    "sghmc": _classify(sundman.sghmc(0.025)),
    "baoab": _classify(sundman.baoab(0.03)),
    "obabo": _classify(sundman.obabo(0.025)),
    "ubu": _classify(sundman.ubu(0.03)),
    "samadams": _classify(
        sundman.samadams(0.03, alpha=1.0, m=0.5, M=2.0, omega=1000.0, psi="scale_free")
    ),
    "another prior": _classify(sundman.baoab(0.03), target=_laplace()),
    "another temperature": _classify(sundman.baoab(0.03, 0.3)),
    "predictions": _classify(
        sundman.baoab(0.03),
        collect=lambda w: jax.nn.log_softmax(sundman.models.mlp_apply(w, CLASSIFIER.data.x[:20])),
    ),
    "without settings": _classify(None, **_TUNED),
    "without settings, on minibatches": _classify(None, rows=100, **_TUNED),
    "a regression without settings": lambda key: sundman.sample(
        NETWORK, key=key, init=WEIGHTS, chains=4, steps=20_000, thin=20
    ),
}


def _stuck(key):
    """Chains that have settled, each somewhere else, and then move too little to meet."""
    settled = _classify(sundman.baoab(0.03), steps=100, thin=1)(jax.random.fold_in(key, 1))
    return _classify(sundman.baoab(0.002), starts=settled.last, burn_in=0, steps=600, thin=1)(key)


_HOT = {"burn_in": 1000, "steps": 4000, "thin": 4}
BAD_NETWORKS = {
    "too hot by the step": ("temperature", _classify(sundman.sgld(8e-3), **_HOT)),
    "too hot by noise": ("temperature", _classify(sundman.sgld(1.2e-3), rows=10, **_HOT)),
    "not burnt in": (
        "U still falling",
        _classify(sundman.baoab(0.002), burn_in=0, steps=1000, thin=1),
    ),
    "a chain at chance level": (
        "chance level",
        _classify(
            sundman.baoab(0.03), starts=_one_without_outputs(STARTS), burn_in=200, steps=1000,
            thin=1,
        ),
    ),
    "chains that disagree": ("R-hat of the loss", _stuck),
}  # fmt: skip
