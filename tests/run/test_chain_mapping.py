"""Chains of a network take turns: the same draws as side by side, and no more memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import models, native, priors
from sundman.gradients import minibatch
from sundman.run import chain_mapping, engines, scan, setup
from sundman.run.step import Plan

ROWS, KEY = 200, jax.random.key(3)
_generator = np.random.default_rng(0)
DATA = (
    _generator.normal(size=(ROWS, 30)).astype(np.float32),
    _generator.integers(0, 3, ROWS).astype(np.int32),
)
INIT = models.mlp_init(jax.random.key(0), [30, 8, 3])
CLOCK = {"alpha": 1e3, "m": 0.5, "M": 2.0, "r": 0.25, "omega": float(ROWS) ** 2}


@pytest.fixture
def turn_about(monkeypatch):
    """Sets whether chains take turns; programs compiled before stay as they are."""

    def choose(turn: bool) -> None:
        monkeypatch.setattr(chain_mapping, "_LARGE_POSITION", 0 if turn else 10**12)
        monkeypatch.setattr(chain_mapping, "_FEW_CHAINS", 0)

    return choose


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [
        {"draws": 6, "thin": 3},
        pytest.param(
            {"draws": 6, "thin": 3, "burn_in": 40, "online": lambda position: position},
            marks=pytest.mark.slow,
        ),
        pytest.param({"draws": 4, "thin_time": 2e-4}, marks=pytest.mark.slow),
    ],
    ids=["thin", "online", "time"],
)
def test_the_same_draws_in_turn_and_side_by_side(turn_about, more):
    found = []
    for turn in (False, True):
        turn_about(turn)
        # Another function of the same content: a program of its own.
        posterior = sundman.Posterior(lambda p, x: models.mlp_apply(p, x), data=DATA)
        sampler = sundman.sa_sgld(posterior.time_step(0.01, kinetic=False), **CLOCK)
        found.append(
            sundman.sample(posterior, sampler, init=INIT, key=KEY, chains=3, batch_size=20, **more)
        )
    for beside, in_turn in zip(*map(jax.tree.leaves, [f.values for f in found]), strict=True):
        np.testing.assert_allclose(in_turn, beside, rtol=0, atol=2e-5)
    np.testing.assert_allclose(found[1].weight, found[0].weight, rtol=1e-4)
    np.testing.assert_allclose(found[1].stats["potential"], found[0].stats["potential"], rtol=1e-4)


def _network_block(width: int, horseshoe: bool, kernels: bool):
    """The compiled block of one chain of a wide network, and the bytes of its parameters."""
    init = models.mlp_init(jax.random.key(0), [784, width, width, 10])
    data = (np.zeros((500, 784), np.float32), np.zeros(500, np.int32))
    rules = {"kernel": priors.horseshoe(1.0, fan_in="leading"), "bias": priors.horseshoe(1.0)}
    prior = rules if horseshoe else priors.gaussian(1.0)
    posterior = sundman.Posterior(models.mlp_apply, data=data, prior=prior)
    sampler = sundman.sa_sgld(posterior.time_step(0.01, kinetic=False), **CLOCK)
    gradient = minibatch(posterior, 100)
    plan = Plan(gradient, sampler, lambda position: jnp.float32(0.0), native=kernels)
    positions = jax.tree.map(lambda leaf: leaf[None], posterior.position(init))
    chain = setup.start_chains(positions, sampler, KEY, stacked=False)
    lowered = scan.block.lower(
        plan, chain, None, jnp.full(1, jnp.inf), jnp.uint32(2), capacity=2, thin=10
    )
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(init))
    activations = 4 * 100 * (784 + 2 * 6 * width)  # of a batch, forwards and backwards
    rows = sum(leaf.nbytes for leaf in data)
    return lowered.compile().memory_analysis(), size, rows + activations


@pytest.mark.long
@pytest.mark.parametrize("horseshoe", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kernels, most", [(True, 4.0), pytest.param(False, 5.0, marks=pytest.mark.slow)]
)
def test_peak_memory_of_a_block(horseshoe, kernels, most):
    """Position before and after, gradient, and what the loop holds: 4 times the parameters."""
    if kernels and not native.available():
        pytest.skip("the kernels were not built")
    found, parameters, batch = _network_block(600, horseshoe, kernels)
    peak = (
        found.argument_size_in_bytes
        + found.output_size_in_bytes
        + found.temp_size_in_bytes
        - found.alias_size_in_bytes
    )
    assert peak <= most * parameters + batch


def _bowl(x):
    return 0.5 * jnp.sum(x**2)


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [
        {"steps": 50, "burn_in": 7},
        pytest.param({"draws": 5, "thin_time": 0.5}, marks=pytest.mark.slow),
    ],
)
def test_a_few_small_chains_run_each_as_one_alone(more, monkeypatch):
    """In threads of their own: bit for bit the run of one chain, and of one program for all."""
    samplers = jax.vmap(sundman.sgld)(jnp.array([0.1, 0.2, 0.3]))
    init = jnp.arange(6.0).reshape(3, 2)

    def run(samplers, init):
        return sundman.sample(
            _bowl, samplers, init=init, key=KEY, chains=len(init), online=lambda x: x, **more
        )

    threads = run(samplers, init)
    alone = run(jax.tree.map(lambda leaf: leaf[:1], samplers), init[:1])
    np.testing.assert_array_equal(threads.values[:1], alone.values)
    monkeypatch.setattr(engines, "runs_in_threads", lambda positions: False)
    in_turn = run(samplers, init)
    for name in ("values", "weight", "online"):
        for one, other in zip(
            *(jax.tree.leaves(getattr(d, name)) for d in (threads, in_turn)), strict=False
        ):
            np.testing.assert_array_equal(one, other, name)


def test_threads_have_the_precision_that_was_asked_for_here():
    with jax.enable_x64(True):
        draws = sundman.sample(
            _bowl, sundman.sgld(0.1), init=jnp.zeros(2), key=KEY, chains=2, steps=5
        )
    assert draws.values.dtype == np.float64
