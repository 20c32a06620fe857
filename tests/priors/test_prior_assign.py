"""Which prior goes to which parameter, for the parameter trees of several libraries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import priors
from sundman.priors import assign, is_bias, is_weight

A, B, C = priors.gaussian(1.0), priors.laplace(1.0), priors.student_t()
X = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
Y = np.array([0, 1, 0, 1, 1])


def layer(inputs=3, outputs=2):
    return {"kernel": jnp.ones((inputs, outputs)), "bias": jnp.zeros(outputs)}


NET = {"Dense_0": layer(), "Dense_1": layer(), "head": layer()}


def given(rules, params=None):
    return dict(assign(rules, NET if params is None else params))


def test_one_prior_for_all():
    assert set(given(A).values()) == {A}
    assert list(given(A)) == [
        "Dense_0/bias",
        "Dense_0/kernel",
        "Dense_1/bias",
        "Dense_1/kernel",
        "head/bias",
        "head/kernel",
    ]


def test_single_keys():
    for path, prior in given({"kernel": A, "bias": B}).items():
        assert prior is (A if path.endswith("kernel") else B)


def test_consecutive_keys_and_the_first_match_wins():
    found = given({"head/kernel": C, "kernel": A, "*": B})
    assert found["head/kernel"] is C
    assert found["Dense_0/kernel"] is A
    assert found["head/bias"] is B
    assert given({"*": B}) == dict.fromkeys(found, B)


def test_wildcards():
    found = given({"Dense_*/kernel": A, "he?d": B, "Dense_[01]": C})
    assert [found[f"{name}/kernel"] for name in NET] == [A, A, B]
    assert [found[f"{name}/bias"] for name in NET] == [C, C, B]


def test_a_key_is_matched_as_a_whole():
    with pytest.raises(ValueError, match="Dense_0/bias"):
        given({"Dense": A, "*/kernel": B})


def test_functions():
    found = given({is_weight: A, is_bias: B})
    assert found == given({"kernel": A, "bias": B})
    wide = given({lambda path, array: array.size > 3: A, lambda path, array: True: B})
    assert wide == found


def test_unmatched_parameters_are_named():
    with pytest.raises(ValueError, match=r"Dense_0/bias, Dense_1/bias, head/bias; .*'kernel'"):
        given({"kernel": A})


def test_an_idle_rule_is_named():
    with pytest.raises(ValueError, match=r"'kernal' fit no parameter; .*head/kernel"):
        given({"kernal": A, "*": B})
    with pytest.raises(ValueError, match="'bias' fit no parameter"):
        given({"*": A, "bias": B})


@pytest.mark.parametrize("rules", [None, {}, "kernel", 1.0, [A]])
def test_rules_must_be_a_prior_or_a_mapping(rules):
    with pytest.raises(TypeError, match="prior must be"):
        priors.as_rules(rules)


def test_values_must_be_priors():
    with pytest.raises(TypeError, match="prior for 'kernel'"):
        priors.as_rules({"kernel": 1.0})


@pytest.mark.parametrize("rules", [priors.gaussian, {"kernel": priors.gaussian}])
def test_a_prior_that_is_not_called_is_named(rules):
    with pytest.raises(
        TypeError, match=r"priors.gaussian is not called: write priors.gaussian\(\)"
    ):
        priors.as_rules(rules)


def test_rules_are_values():
    rules = priors.as_rules({"kernel": priors.gaussian(0.5), is_bias: B})
    assert rules == priors.Rules(("kernel", is_bias), (priors.gaussian(0.5), B))
    assert rules != priors.as_rules({"kernel": priors.gaussian(0.6), is_bias: B})
    assert priors.as_rules(rules) is rules
    assert jax.tree.leaves(rules) == [0.5, 1.0]
    assert repr(rules) == "{'kernel': priors.gaussian(0.5), is_bias: priors.laplace()}"
    assert given(rules)["head/kernel"] == priors.gaussian(0.5)
    with pytest.raises(ValueError, match="1 patterns and 2 priors"):
        priors.Rules(("kernel",), (A, B))
    with pytest.raises(TypeError, match="text or a function"):
        priors.as_rules({3: A})


def test_lists_of_tuples():
    params = [(jnp.ones((3, 4)), jnp.ones(4)), (jnp.ones((4, 2)), jnp.ones(2))]
    found = given({"1/0": C, "*/0": A, "*/1": B}, params)
    assert found == {"0/0": A, "0/1": B, "1/0": C, "1/1": B}


def test_a_bare_array():
    assert given({"*": A}, jnp.ones(3)) == {"": A}
    assert given({is_bias: A}, jnp.ones(3)) == {"": A}


def check_model(apply, params, rules, priors_of):
    """The rules fit the library's own paths, and the posterior has a gradient of the same tree."""
    for path, prior in assign(rules, params):
        assert prior is priors_of(path), path
    posterior = sundman.Posterior(apply, prior=rules, data=(X, Y))
    position = posterior.position(params)
    gradient = jax.jit(posterior.gradient)(position)
    assert jax.tree.structure(gradient) == jax.tree.structure(position)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))
    return posterior


def check_run(posterior, params):
    draws = sundman.sample(
        posterior, sundman.sgld(1e-3), init=params, key=jax.random.key(0), steps=2
    )
    probability = sundman.predict(draws, posterior, X)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-5)


def test_plain_dictionaries_with_a_sampled_scale():
    def apply(params, x):
        for name in ("Dense_0", "head"):
            x = jnp.tanh(x @ params[name]["kernel"] + params[name]["bias"])
        return x

    horseshoe = priors.horseshoe()
    params = {"Dense_0": layer(3, 4), "head": layer(4, 2)}
    rules = {"kernel": horseshoe, "bias": A}
    check_model(apply, params, rules, lambda p: horseshoe if p.endswith("kernel") else A)


@pytest.mark.long
def test_flax_linen():
    from flax import linen as nn

    net = nn.Sequential([nn.Dense(4), nn.tanh, nn.Dense(2)])
    params = net.init(jax.random.key(0), X)
    rules = {"layers_2": C, "kernel": A, "bias": B}
    check_model(
        net.apply,
        params,
        rules,
        lambda path: C if "layers_2" in path else A if path.endswith("kernel") else B,
    )


@pytest.mark.long
def test_flax_nnx():
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.first = nnx.Linear(3, 4, rngs=rngs)
            self.second = nnx.Linear(4, 2, rngs=rngs)

        def __call__(self, x):
            return self.second(nnx.tanh(self.first(x)))

    graph, params = nnx.split(Net(nnx.Rngs(0)), nnx.Param)
    rules = {"second/kernel": C, "kernel": A, "bias": B}
    posterior = check_model(
        lambda params, x: nnx.merge(graph, params)(x),
        params,
        rules,
        lambda path: C if "second/kernel" in path else A if "kernel" in path else B,
    )
    check_run(posterior, params)


@pytest.mark.long
def test_equinox():
    import equinox as eqx

    net = eqx.nn.MLP(3, 2, 4, 1, key=jax.random.key(0))
    params, rest = eqx.partition(net, eqx.is_inexact_array)
    rules = {"layers/1/weight": C, "weight": A, "bias": B}
    posterior = check_model(
        lambda params, x: jax.vmap(eqx.combine(params, rest))(x),
        params,
        rules,
        lambda path: C if path == "layers/1/weight" else A if "weight" in path else B,
    )
    check_run(posterior, params)
