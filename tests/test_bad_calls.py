"""Wrong calls that people make: each is refused at the door, in one sentence with the argument."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, integrators, likelihoods, models, priors

KEY = jax.random.key(0)
X = np.ones((6, 2), np.float32)
Y = np.ones(6, np.float32)
CLOCK = {"alpha": 1.0, "m": 0.1, "M": 10.0, "r": 0.5}


def bowl(x):
    return 0.5 * sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(x))


def linear(w, x):
    return x @ w


def sample(target=bowl, sampler=None, **more):
    settings = {"init": jnp.zeros(3), "key": KEY, "steps": 10, "progress": False, **more}
    return sundman.sample(target, sampler or sundman.sgld(0.01), **settings)


def posterior(**more):
    settings = {"data": (X, Y), "likelihood": likelihoods.gaussian(1.0), **more}
    return sundman.Posterior(linear, **settings)


def on_posterior(init=None, **more):
    start = jnp.zeros(2) if init is None else init
    return sample(posterior(**more), init=start)


def draws():
    return sample(posterior(), init=jnp.zeros(2))


NEED_TARGET = ("curvature_temperature", "kernel_stein_discrepancy", "stiff_temperature")
CALLS = {
    # silent or misleading before
    "compose swapped": (
        lambda: sundman.compose(clocks.constant(0.1), integrators.baoab()),
        TypeError,
        "integrator first, then the clock",
    ),
    "a step as text": (lambda: sundman.sgld("0.1"), TypeError, "h must be a number.*'0.1'"),
    "a step as True": (lambda: sundman.sgld(True), TypeError, "h must be a number.*True"),
    "a scale as text": (lambda: priors.gaussian("1"), TypeError, "scale must be a number.*'1'"),
    "four rows for five chains": (
        lambda: sample(init=jnp.zeros((4, 3)), chains=5),
        ValueError,
        "init has 4 rows.*chains=5.*per_chain=False",
    ),
    "empty init": (lambda: sample(init=jnp.zeros(0)), ValueError, "init is empty"),
    "nan in init": (
        lambda: sample(init=jnp.array([0.0, np.nan, 0.0])),
        ValueError,
        r"init is not finite: nan at \[1\]",
    ),
    "infinity in init": (
        lambda: sample(init={"a": jnp.array([np.inf])}),
        ValueError,
        r"init\['a'\] is not finite: inf",
    ),
    "nan in U(init)": (
        lambda: sample(lambda x: jnp.log(-1.0 - bowl(x)), chains=2, burn_in=3),
        ValueError,
        "first position of chain 0 U = nan.*init",
    ),
    "infinite U(init)": (
        lambda: sample(lambda x: jnp.sum(1.0 / x**2)),
        ValueError,
        "first position of chain 0 U = inf.*init",
    ),
    "predict on nan": (
        lambda: sundman.predict(draws(), posterior(), np.array([[1.0, np.nan]])),
        ValueError,
        "x has a value that is not finite.*row 0",
    ),
    # from the depths before
    "text in x": (
        lambda: posterior(data=(np.array([["a", "b"]] * 6), Y)),
        TypeError,
        "^x .*(text|str|number)",
    ),
    "objects in y": (
        lambda: posterior(data=(X, np.array([object()] * 6))),
        TypeError,
        "^y .*(object|number)",
    ),
    "key=None": (lambda: sample(key=None), TypeError, r"key must be.*jax.random.key\(0\)"),
    "a NumPy generator as key": (
        lambda: sample(key=np.random.default_rng(0)),
        TypeError,
        "key must be a JAX random key",
    ),
    "text in init": (lambda: sample(init="zero"), TypeError, "init is the text 'zero'"),
    "a function in init": (
        lambda: sample(init=[jnp.zeros(2), jnp.tanh]),
        TypeError,
        r"init\[1\] is the function tanh",
    ),
    "a whole equinox model as init": (
        lambda: sample(init=eqx.nn.MLP(2, 1, 4, 1, key=KEY)),
        TypeError,
        "init.activation.*equinox.filter",
    ),
    "a potential that is a Python number": (
        lambda: sample(lambda x: 3.0),
        TypeError,
        "potential does not depend on its position",
    ),
    "a potential that calls float": (
        lambda: sample(lambda x: float(x[0])),
        TypeError,
        "potential must be written with jax.numpy",
    ),
    "a likelihood not called": (
        lambda: posterior(likelihood=likelihoods.gaussian),
        TypeError,
        r"not called: write likelihoods.gaussian\(",
    ),
    "an integrator not called": (
        lambda: sundman.compose(integrators.baoab, clocks.constant(0.1)),
        TypeError,
        r"integrator is not called: write integrators.baoab\(",
    ),
    "a recipe not called": (
        lambda: sundman.sample(bowl, sundman.sgld, init=jnp.zeros(2), key=KEY, steps=5),
        TypeError,
        "sampler must be.*the function sgld: call it",
    ),
    "Omega": (
        lambda: sundman.sa_sgld(0.1, **CLOCK, Omega=2.0),
        TypeError,
        "no setting 'Omega'; did you mean omega",
    ),
    "diagnose a path": (lambda: sundman.diagnose("runs/a"), TypeError, r"Draws.open\(path\)"),
    "diagnose nothing": (lambda: sundman.diagnose(None), TypeError, "diagnose takes draws"),
    "predict with its arguments swapped": (
        lambda: sundman.predict(posterior(), draws(), X),
        TypeError,
        r"predict\(draws, posterior, x\)",
    ),
    "collect as text": (lambda: sample(collect="mean"), TypeError, "collect must be a function"),
    "watchers is a function": (lambda: sample(watchers=print), TypeError, "watchers is a sequence"),
    "stats is a text": (lambda: sample(stats="time"), TypeError, r"write stats=\('time',\)"),
    "store is empty": (lambda: sample(store=""), ValueError, "store must be the path"),
    "stats=None": (lambda: sample(stats=None), TypeError, "stats must be a sequence of names"),
    "stats=3": (lambda: sample(stats=3), TypeError, "stats must be a sequence.*stats=3"),
    "store=3": (lambda: sample(store=3), TypeError, "store must be the path.*store=3"),
    "judge nothing": (lambda: sundman.judge(None), TypeError, r"Draws.open\(path\).*draws=None"),
    "judge a path": (lambda: sundman.judge("runs/a"), TypeError, "draws must be.*draws='runs/a'"),
    "a potential that is text": (
        lambda: sample(lambda x: "U"),
        TypeError,
        "the potential must return arrays.*the text 'U'",
    ),
    "collect returns text": (
        lambda: sample(collect=lambda x: {"x": x, "name": "a"}),
        TypeError,
        "collect must return arrays.*the text 'a'",
    ),
    "collect returns a Python number": (
        lambda: sample(collect=lambda x: 3.0),
        TypeError,
        "collect must return arrays.*got 3.0",
    ),
    "online returns text": (
        lambda: sample(online=lambda x: "a"),
        TypeError,
        "online must return arrays.*the text 'a'",
    ),
    "a schedule as the step of an adaptive sampler": (
        lambda: sundman.sa_sgld(lambda n: 0.1, **CLOCK),
        TypeError,
        r"dtau must be a number.*clocks.times\(clocks.sundman\(dtau, ...\), schedule\)",
    ),
    "a clock as the step of an adaptive sampler": (
        lambda: sundman.samadams(clocks.constant(0.1)),
        TypeError,
        r"dtau must be a number.*compose\(integrator, clock\)",
    ),
    "too many features": (
        lambda: on_posterior(init=jnp.zeros(3)),
        ValueError,
        "features",
    ),
    "predict at other features": (
        lambda: sundman.predict(draws(), posterior(), np.ones((2, 5), np.float32)),
        ValueError,
        "features",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_refused_in_a_sentence(name):
    call, error, message = CALLS[name]
    with pytest.raises(error, match=message) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 400


@pytest.mark.parametrize("name", [each for each in sundman.estimate.__all__ if each.islower()])
@pytest.mark.parametrize("draws", [None, "runs/a"])
def test_an_estimate_of_what_are_no_draws(name, draws):
    estimate = getattr(sundman.estimate, name)
    needed = {"quantile": [0.5], "histogram": [()], "total_variation": [None, ()]}
    rest = needed.get(name, [bowl] if name in NEED_TARGET else [])
    with pytest.raises(TypeError, match=f"draws must be what .* got draws={draws!r}"):
        estimate(draws, *rest)


def test_an_optax_schedule_is_a_step():
    draws = sample(sampler=sundman.sgld(lambda n: 0.01 / (1 + n)))
    np.testing.assert_allclose(draws.weight[0, :2], [0.01, 0.005])


def test_lists_are_data():
    same = posterior(data=(X.tolist(), Y.tolist()))
    assert same.size == 6
    on_posterior(data=(X.tolist(), Y.tolist()))


def test_the_mean_of_one_draw_has_no_known_error():
    value, error = sundman.estimate.mean(sample(steps=1))
    assert np.isfinite(value).all()
    assert np.isnan(error).all()


@pytest.mark.long
def test_several_layers_still_work():
    model = sundman.Posterior(models.mlp_apply, data=(X, Y.astype(int)))
    init = models.mlp_init(KEY, [2, 3, 2])
    assert len(sample(model, sundman.sgld(1e-4), init=init, chains=2)) == 10
