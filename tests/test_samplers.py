"""The contract, for every sampler: optax protocol, pytrees, transformations, keys, errors."""

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from samplers import SAMPLERS

import sundman

PARAMS = {"w": jnp.ones((3, 2)), "b": [jnp.zeros(2), jnp.float32(0.5)]}
# Products whose integrator and clock are in other rows.
PRODUCTS = {"sa_obabo", "sa_sgrld", "sgld_decreasing", "sa_sgld_blockwise", "sgnht_per_coordinate"}
assert SAMPLERS.keys() >= PRODUCTS
every_sampler = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in PRODUCTS else []) for n in SAMPLERS]
)
# One of each kind is enough for the quick tests of what `compose` does for all of them.
KINDS = {"sa_sgld", "sgnht", "psgld", "cyclical_sghmc", "replica_exchange_sgld", "contour_sgld"}
some_samplers = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in KINDS else [pytest.mark.slow]) for n in SAMPLERS]
)


def potential(params):
    return sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))


def build(name, temperature=1.0):
    return SAMPLERS[name].build(0.01, temperature, 10.0)


def copies(sampler, params):
    """The position as the sampler moves it: several copies if it has replicas."""
    number = sampler.integrator.replicas
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * number), params) if number > 1 else params


MOST_STEPS = 3000


def told(sampler, params):
    """The gradient, and U as ``value=``."""
    value_and_grad = jax.value_and_grad(potential)
    if sampler.integrator.replicas > 1:
        value_and_grad = jax.vmap(value_and_grad)
    value, grads = value_and_grad(params)
    return grads, {"value": value}


def _whole(sampler, params, key, steps):
    def body(i, carry):
        params, state, dts = carry
        grads, value = told(sampler, params)
        updates, state = sampler.update(grads, state, params, **value)
        return optax.apply_updates(params, updates), state, dts.at[i].set(state.clock.dt)

    state = sampler.init(params, key)
    dt = jnp.asarray(state.clock.dt)
    dts = jnp.zeros((MOST_STEPS, *dt.shape), dt.dtype)
    params, state, dts = lax.fori_loop(0, steps, body, (params, state, dts))
    return (params, state), dts


# Samplers are values and the number of steps is an argument: tests share one program a sampler.
_compiled = jax.jit(_whole)


def run(sampler, params, key, steps=3, jit=True):
    """((params, state), dts) after some steps."""
    params = copies(sampler, params)
    if jit:
        last, dts = _compiled(sampler, params, key, steps)
    else:
        with jax.disable_jit():
            last, dts = _whole(sampler, params, key, steps)
    return last, dts[:steps]


def shapes(tree):
    return jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)


def assert_close(one, other, rtol=2e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=2e-6), one, other)


@every_sampler
def test_is_an_optax_transformation(name):
    sampler = build(name)
    assert isinstance(sampler, optax.GradientTransformationExtraArgs)
    chained = optax.chain(sampler.with_key(jax.random.key(0)), optax.scale(1.0))

    def one_update(params):
        grads, value = told(sampler, params)
        return chained.update(grads, chained.init(params), params, **value)[0]

    params = copies(sampler, PARAMS)
    assert shapes(jax.eval_shape(one_update, params)) == shapes(params)


def test_a_chain_of_transformations_runs():
    chained = optax.chain(build("sa_sgld").with_key(jax.random.key(0)), optax.scale(1.0))

    @jax.jit
    def one_update(params):
        grads, value = told(build("sa_sgld"), params)
        return chained.update(grads, chained.init(params), params, **value)

    updates, _ = one_update(PARAMS)
    assert jax.tree.structure(updates) == jax.tree.structure(PARAMS)


@every_sampler
def test_update_keeps_structure_shapes_and_dtypes(name, key):
    sampler = build(name)
    params = copies(sampler, PARAMS)

    def one_update(params):
        state = sampler.init(params, key)
        grads, value = told(sampler, params)
        return state, *sampler.update(grads, state, params, **value)

    state, updates, after = jax.eval_shape(one_update, params)
    assert shapes(updates) == shapes(params)
    assert shapes(after) == shapes(state)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_momentum_is_found_by_its_name(name):
    """So a run records the kinetic temperature of all that have one, and of no other."""
    sampler = build(name)
    state = sampler.init(copies(sampler, PARAMS), jax.random.key(0))
    assert hasattr(state.motion, "momentum") == SAMPLERS[name].kinetic


HALVES_AND_DOUBLE = pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float64])


@pytest.mark.long
@HALVES_AND_DOUBLE
@every_sampler
def test_half_precision_and_double_parameters(name, dtype, key, x64):
    sampler = build(name)
    params = copies(sampler, {"a": jnp.ones(3, dtype)})
    (params, _), dts = jax.eval_shape(_whole, sampler, params, key, 2)
    assert params["a"].dtype == dtype
    assert dts.dtype == (jnp.float64 if dtype == jnp.float64 else jnp.float32)


@HALVES_AND_DOUBLE
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "sa_sgld" else [pytest.mark.slow]) for n in SAMPLERS]
)
def test_runs_in_half_and_double_precision(name, dtype, key, x64):
    (params, _), dts = run(build(name), {"a": jnp.ones(3, dtype)}, key, steps=2)
    assert params["a"].dtype == dtype
    assert dts.dtype == (jnp.float64 if dtype == jnp.float64 else jnp.float32)


@pytest.mark.slow  # every operation is a program of its own
@pytest.mark.parametrize("name", SAMPLERS)
def test_jit_changes_nothing_but_rounding(name, key):
    assert_close(
        run(build(name), PARAMS, key)[0][0], run(build(name), PARAMS, key, jit=False)[0][0]
    )


@pytest.mark.long
def test_jit_changes_nothing_but_rounding_of_one_array(key):
    sampler, params = build("sa_sgld"), {"a": np.ones(3, np.float32)}
    jitted, step_by_step = (run(sampler, params, key, jit=jit)[0][0] for jit in (True, False))
    assert_close(jitted, step_by_step)


@pytest.mark.long
@pytest.mark.parametrize(  # every sampler is run with vmapped chains in the law tests
    "name",
    [
        pytest.param(n, marks=() if n in ("sa_sgld", "replica_exchange_sgld") else pytest.mark.slow)
        for n in SAMPLERS
    ],
)
def test_vmap_over_chains_is_separate_chains(name):
    keys = jax.random.split(jax.random.key(3), 4)
    sampler = build(name)
    together = jax.vmap(lambda key: run(sampler, PARAMS, key)[0][0])(keys)
    for i, key in enumerate(keys):
        apart = run(sampler, PARAMS, key)[0][0]
        assert_close(jax.tree.map(lambda leaf, i=i: leaf[i], together), apart)


@every_sampler
def test_same_key_same_path_other_key_other_path(name):
    sampler = build(name)
    one, again, other = (run(sampler, PARAMS, jax.random.key(seed))[0][0] for seed in (1, 1, 2))
    jax.tree.map(np.testing.assert_array_equal, one, again)
    begins_without_noise = sampler.clock.stages is not None
    assert np.allclose(one["w"], other["w"]) == begins_without_noise


@pytest.mark.long
@some_samplers
def test_key_given_to_update_replaces_the_state_key(name):
    sampler = build(name)
    params = copies(sampler, PARAMS)

    @jax.jit
    def both(one, other):
        grads, value = told(sampler, params)
        mine, _ = sampler.update(grads, sampler.init(params, one), params, **value, key=other)
        theirs, _ = sampler.update(grads, sampler.init(params, other), params, **value)
        return mine, theirs

    mine, theirs = both(jax.random.key(1), jax.random.key(9))
    jax.tree.map(np.testing.assert_array_equal, mine, theirs)


@every_sampler
def test_weights_sum_to_elapsed_time(name, key):
    (_, state), dts = run(build(name), PARAMS, key, steps=40)
    total = np.asarray(dts, np.float64).sum()
    assert float(state.clock.time) == pytest.approx(total, rel=1e-6)
    assert (dts > 0).all()


@every_sampler
def test_zero_temperature_minimises(name, key):
    (params, _), _ = run(build(name, temperature=0.0), PARAMS, key, steps=MOST_STEPS)
    assert float(potential(params)) < 1e-6


@some_samplers
def test_the_same_at_another_temperature(name, key):
    def make(T):
        if name == "contour_sgld":  # the levels of its row follow the temperature
            return sundman.contour_sgld(0.01, T, low=-5.0, high=25.0)
        return build(name, T)

    cold = make(1.0).with_temperature(0.3)
    assert cold.settings == {**make(1.0).settings, "temperature": 0.3}
    assert cold.temperature == 0.3
    one, other = (run(sampler, PARAMS, key) for sampler in (cold, make(0.3)))
    jax.tree.map(np.testing.assert_array_equal, one, other)


@some_samplers
def test_survives_a_pickle(name, key):
    sampler = build(name)
    again = cloudpickle.loads(cloudpickle.dumps(sampler))
    assert again.settings == sampler.settings
    jax.tree.map(np.testing.assert_array_equal, run(again, PARAMS, key), run(sampler, PARAMS, key))


@pytest.mark.parametrize(
    ("adaptive", "fixed", "rtol"),
    [
        # The steps are equal bit for bit; positions to the last bit or two, since XLA contracts a
        # product and a sum into one rounding in one program and not in the other.
        (sundman.sa_sgld, sundman.sgld, 1e-6),
        (sundman.sa_lm, sundman.lm, 1e-6),
        (sundman.sa_sghmc, sundman.sghmc, 1e-5),
        (sundman.samadams, sundman.baoab, 1e-5),
        (sundman.sa_sgnht, sundman.sgnht, 1e-5),
    ],
)
def test_equal_bounds_give_the_fixed_step_sampler(adaptive, fixed, rtol, key):
    moving = adaptive(0.04, alpha=1.0, m=0.5, M=0.5, r=0.5)
    one, other = (run(sampler, PARAMS, key, steps=20) for sampler in (moving, fixed(0.02)))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol), one[0][0], other[0][0])
    np.testing.assert_array_equal(one[1], other[1])


@pytest.mark.parametrize("lag", ["none", "full", "guarded"])
def test_recipe_passes_every_setting_to_the_clock(lag):
    sampler = sundman.sa_sgld(
        0.1,
        alpha=3.0,
        m=0.2,
        M=5.0,
        r=0.25,
        s=1.0,
        omega=2.0,
        delta=1e-4,
        psi="published",
        lag=lag,
        temperature=0.5,
    )
    wanted = {
        "dtau": 0.1,
        "alpha": 3.0,
        "m": 0.2,
        "M": 5.0,
        "r": 0.25,
        "s": 1.0,
        "omega": 2.0,
        "delta": 1e-4,
        "psi": "published",
        "lag": lag,
        "temperature": 0.5,
        "integrator": "euler_maruyama",
        "clock": "sundman",
    }
    assert wanted.items() <= sampler.settings.items()
    assert sampler.temperature == 0.5


any_shapes = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=4)


@pytest.mark.long
@settings(max_examples=3)
@given(any_shapes)
def test_any_pytree_moves_like_its_ravelled_vector(shapes):
    moves_like_its_ravelled_vector(shapes)


@pytest.mark.slow
@settings(max_examples=30)
@given(any_shapes)
def test_many_pytrees_move_like_their_ravelled_vectors(shapes):
    moves_like_its_ravelled_vector(shapes)


def moves_like_its_ravelled_vector(shapes):
    tree = {f"leaf{i}": jnp.ones(shape) for i, shape in enumerate(shapes)}
    size = sum(leaf.size for leaf in jax.tree.leaves(tree))
    if size == 0:
        return
    sampler = build("sa_sgld")
    key = jax.random.key(5)
    (moved, _), _ = run(sampler, tree, key, steps=3)
    (flat, _), _ = run(sampler, jnp.ones(size), key, steps=3)
    ravelled = jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(moved)])
    np.testing.assert_allclose(ravelled, flat, rtol=1e-5)


@pytest.mark.long
def test_blockwise_clock_works_with_every_integrator(key):
    settings = {"alpha": 1.0, "m": 0.1, "M": 10.0, "r": 0.5, "blockwise": True}
    for make in (
        sundman.sa_sgld,
        sundman.sa_lm,
        sundman.sa_sghmc,
        sundman.samadams,
        sundman.sa_sgnht,
    ):
        (params, state), _ = run(make(0.01, **settings), PARAMS, key)
        assert state.clock.zeta.shape == (3,)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(params))


def test_step_size_can_be_swept_by_vmap(key):
    def last(h):
        return run(sundman.sgld(h), PARAMS, key)[0][0]["w"]

    swept = jax.vmap(last)(jnp.array([0.01, 0.1]))
    np.testing.assert_allclose(swept[1], last(0.1), rtol=1e-5)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({}, ValueError, "empty pytree"),
        ({"n": jnp.arange(3)}, TypeError, r"\['n'\] has dtype int32"),
        ([jnp.ones(2, jnp.complex64)], TypeError, "complex64"),
        ({"flag": jnp.ones(2, bool)}, TypeError, "bool"),
    ],
)
def test_bad_parameters(params, error, message):
    with pytest.raises(error, match=message):
        sundman.sgld(0.1).init(params, jax.random.key(0))


def test_noise_is_never_shared_by_accident():
    with pytest.raises(TypeError, match=r"init\(params, key\).*with_key"):
        sundman.sgld(0.1).init(PARAMS)
    with pytest.raises(TypeError, match="with_key"):
        optax.chain(optax.clip(1.0), sundman.sgld(0.1)).init(PARAMS)


def test_members_of_an_ensemble_do_not_share_the_key_of_a_sampler():
    members = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), PARAMS)
    keys = jax.random.split(jax.random.key(0), 2)
    shared = sundman.sgld(0.1).with_key(keys[0])
    for transformation in (shared, optax.chain(optax.clip(1.0), shared)):
        with pytest.raises(TypeError, match=r"one key.*jax.vmap\(sampler.init\)\(params, keys\)"):
            jax.vmap(transformation.init)(members)
    own = [
        jax.vmap(lambda params, key: sundman.sgld(0.1).with_key(key).init(params))(members, keys),
        jax.vmap(shared.init)(members, keys),
    ]
    for states in own:
        assert (states.key[0] != states.key[1]).any()
    jax.vmap(sundman.sgld(0.1, temperature=0.0).with_key(keys[0]).init)(members)  # has no noise


def test_bad_gradients():
    sampler = sundman.sgld(0.1)
    state = sampler.init(PARAMS, jax.random.key(0))
    with pytest.raises(TypeError, match=r"update\(grads, state, params\)"):
        sampler.update(PARAMS, state)
    with pytest.raises(ValueError, match="structure"):
        sampler.update({"w": PARAMS["w"]}, state, PARAMS)
    with pytest.raises(ValueError, match=r"\['w'\] has shape \(3, 2\)"):
        sampler.update({**PARAMS, "w": jnp.ones(6)}, state, PARAMS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sundman.sgld(-0.1), "h=-0.1"),
        (lambda: sundman.sgld(0.1, temperature=-1.0), "temperature=-1.0"),
        (lambda: sundman.lm(0.1, temperature=float("nan")), "temperature=nan"),
        (lambda: sundman.sghmc(0.1, gamma=0.0), "gamma=0.0"),
        (lambda: sundman.baoab(0.1, sigma=-2.0), "sigma=-2.0"),
        (lambda: sundman.sgnht(0.1, mass=0.0), "mass=0.0"),
        (lambda: sundman.sgld(0.1, noise="pink"), "noise='pink'"),
        (lambda: sundman.sa_sgld(0.1, alpha=1.0, m=3.0, M=2.0, r=0.5), "m=3.0 > M=2.0"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
