"""BAOAB with friction along the noisiest directions: the law, with and without noise.

With noise of variance s along a direction the friction there is gamma_j = h s / (2 share T), and
the noise heats by ``share``, and by the kick of one step, h^2 s / (4 T).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, gradients, integrators
from sundman.integrators._low_rank import LowRankBaoab
from sundman.noise import Purpose, Stream, gaussian, substream

CHAINS, STEPS, THIN = 24, 6000, 10
PRECISION = np.array([1.0, 1.0, 4.0, 4.0, 9.0], np.float32)
LOUD = 60.0


class LoudDirections(gradients.GradientEstimator):
    """A Gaussian whose gradient has noise along two directions, not along an axis."""

    sigma: jax.Array

    def __call__(self, stream, position, batch=None):
        value = 0.5 * jnp.sum(jnp.asarray(PRECISION) * position**2)
        noise = gaussian(substream(stream, Purpose.GRADIENT_NOISE), jnp.zeros(2))
        noise = jnp.asarray(DIRECTIONS).T @ (self.sigma * noise)
        return value, jnp.asarray(PRECISION) * position + noise


DIRECTION = np.array([1.0, 1.0, 1.0, 0.0, 0.0], np.float32) / np.sqrt(3.0)
QUIETER = np.array([0.0, 0.0, 0.0, 1.0, 1.0], np.float32) / np.sqrt(2.0)
DIRECTIONS = np.stack([DIRECTION, QUIETER])


def temperatures(integrator, h, sigma, T=1.0, steps=STEPS, burn_in=600, quieter=0.0):
    """The temperature of every coordinate, k E[x^2], and its error."""
    draws = sundman.sample(
        LoudDirections(jnp.array([sigma, quieter])),
        sundman.compose(integrator.with_temperature(T), clocks.constant(h)),
        init=jnp.zeros(5),
        key=jax.random.key(2),
        chains=CHAINS,
        burn_in=burn_in,
        steps=steps,
        thin=THIN,
    )
    found = draws.expectation(lambda x: jnp.asarray(PRECISION) * x**2 / T)
    return np.asarray(found.value), np.asarray(found.error)


LOW_RANK = integrators.low_rank_baoab(gamma=1.0, rank=2, share=0.1)


@pytest.mark.long
@pytest.mark.parametrize("T", [1.0, pytest.param(0.3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loudest", [None, 1])
def test_without_noise_it_has_the_law_of_baoab(T, loudest):
    value, error = temperatures(LOW_RANK.replace(loudest=loudest), 0.2, 0.0, T)
    assert np.all(np.abs(value - 1) < 4 * error)  # BAOAB is exact for Gaussians


@pytest.mark.slow
@pytest.mark.parametrize("T", [1.0, pytest.param(4.0, marks=pytest.mark.slow)])
def test_loud_directions_are_heated_by_the_share_and_the_kick(T):
    h, sigma = 0.01, LOUD * np.sqrt(T)
    # friction 180 along the loud direction: a chain forgets its start in 18,000 steps
    value, error = temperatures(LOW_RANK, h, sigma, T, steps=120_000, burn_in=60_000)
    plain, _ = temperatures(integrators.baoab(gamma=1.0), h, sigma, T)
    assert plain[0] > 3  # one friction for all: 1 + h s / (2 gamma) of a third of the noise
    assert np.all(value < 1 + LOW_RANK.share + h**2 * LOUD**2 / 4 + 4 * error)
    assert np.all(value > 1 - 0.03 - 4 * error)


@pytest.mark.long
@pytest.mark.parametrize("T", [1.0, pytest.param(4.0, marks=pytest.mark.slow)])
def test_quieter_directions_can_wait_for_their_friction(T):
    """They are heated by the share, too, and by the kicks of eight steps: not by five times it."""
    h, noise = 0.01, {"sigma": LOUD * np.sqrt(T), "quieter": 10.0 * np.sqrt(T)}
    waits = LOW_RANK.replace(loudest=1, quiet_every=8)
    value, error = temperatures(waits, h, T=T, steps=12_000, burn_in=4_000, **noise)
    forgotten, _ = temperatures(LOW_RANK.replace(rank=1), h, T=T, steps=6_000, **noise)
    allowed = 0.5 * (LOW_RANK.share + 8 * h**2 * 10.0**2 / 4)  # of either coordinate half
    assert np.all(np.abs(value[3:] - 1 - 0.5 * allowed) < 0.5 * allowed + 4 * error[3:])
    assert np.all(forgotten[3:] > 1.15)  # 1 + h s / (2 gamma) of half of the noise is 1.25


@pytest.mark.slow
def test_less_share_less_heat():
    heat, errors = [], []
    for share in (0.8, 0.05):
        value, error = temperatures(LOW_RANK.replace(share=share), 0.004, LOUD, steps=60_000)
        heat.append(value[:3].mean() - 1)
        errors.append(error[:3].mean())
    assert heat[1] < 0.5 * heat[0] + 2 * np.hypot(*errors)
    assert heat[0] > 3 * errors[0]


@pytest.mark.long
@pytest.mark.parametrize("every", [2, 5])
def test_it_finds_the_direction(every):
    integrator = LOW_RANK.with_temperature(1.0).replace(every=every)
    draws_state = sundman.compose(integrator, clocks.constant(0.02))
    estimator = LoudDirections(jnp.array([LOUD, 0.0]))
    state = draws_state.init(jnp.zeros(5), jax.random.key(0))

    def step(carry, _):
        x, state = carry
        stream = sundman.noise.Stream(state.key, state.clock.step)
        value, grads = estimator(stream, x)
        return draws_state.step(grads, state, x, value), None

    (_, state), _ = jax.lax.scan(step, (jnp.zeros(5), state), None, length=2000)
    loudest = np.asarray(state.motion.directions[-1])
    assert abs(loudest @ DIRECTION) > 0.99
    assert float(state.motion.variances[-1]) == pytest.approx(LOUD**2, rel=0.35)


@pytest.mark.long
@pytest.mark.parametrize("n", [3, 2, 5])
def test_the_directions_are_those_of_the_whole_matrix(n):
    """The leading eigenvectors of old V' diag(s) V + (1 - old) rows' rows / n, over two arrays."""
    k, shapes = 3, {"a": (4, 2), "b": (5,)}
    first, second = jax.random.split(jax.random.key(3))

    def normal(key, number):
        return {name: jax.random.normal(key, (number, *shape)) for name, shape in shapes.items()}

    def flat(tree):
        leaves = jax.tree.leaves(tree)
        return np.concatenate([np.reshape(leaf, (len(leaf), -1)) for leaf in leaves], axis=1)

    V, _ = np.linalg.qr(flat(normal(first, k)).T)
    V = {"a": jnp.asarray(V.T[:, :8].reshape(k, 4, 2)), "b": jnp.asarray(V.T[:, 8:])}
    rows, s, old = normal(second, n), np.array([0.5, 1.0, 3.0]), 0.6
    learns = integrators.low_rank_baoab(rank=k, learn_after=n)
    new, values = learns._leading(V, jnp.asarray(s, jnp.float32), rows, jnp.float32(old))
    whole = old * (flat(V).T * s) @ flat(V) + (1 - old) / n * flat(rows).T @ flat(rows)
    wanted, vectors = np.linalg.eigh(whole)
    np.testing.assert_allclose(values, wanted[-k:], rtol=1e-4)
    np.testing.assert_allclose(np.abs(flat(new) @ vectors[:, -k:]), np.eye(k), atol=1e-3)


def fed(power, memory, chains=256, steps=20_000):
    """Temperatures by coordinate: exact gradients move, directions are learnt from noisy ones.

    The noise has the variance 400 (|x|^2/d)^power along one direction. It does not heat: all that
    is off comes from friction that follows the position.
    """
    given = {"gamma": 0.5, "rank": 1, "memory": memory, "learn_after": 1}
    d, h, learns, moves = 6, 0.05, integrators.low_rank_baoab(1.0, **given), Told(1.0, **given)
    direction = jnp.zeros(d).at[0].set(0.8).at[1].set(0.6)

    def chain(key):
        def step(carry, n):
            x, state, squares = carry
            size = jnp.sqrt(400.0 * (jnp.sum(x * x) / d) ** power)
            noise = size * jax.random.normal(jax.random.fold_in(key, n)) * direction
            state = learns._learn(state, x + noise)
            update, state = moves.move(Stream(words, n), x, state, x, jnp.float32(h))
            return (x + update, state, squares + jnp.where(n < 1000, 0.0, x * x)), None

        words = jax.random.bits(jax.random.fold_in(key, steps), (2,), jnp.uint32)
        x = jax.random.normal(jax.random.fold_in(key, steps + 1), (d,))
        begin = (x, learns.init(x), jnp.zeros(d))
        carry, _ = jax.lax.scan(step, begin, jnp.arange(steps, dtype=jnp.uint32))
        return carry[2] / (steps - 1000)

    by_chain = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(1), chains))
    return np.mean(by_chain, axis=0), np.std(by_chain, axis=0) / np.sqrt(chains)


class Told(LowRankBaoab):
    """Moves along the directions in its state, and learns nothing itself."""

    def _learn(self, state, grads):
        return state


@pytest.mark.slow
def test_friction_that_follows_the_position_changes_the_law():
    """1.24 with noise of variance like |x|^4, 1.03 with a memory 100 times as long."""
    value, error = fed(0, 0.5)
    assert np.all(np.abs(value - 1) < 4.5 * error)  # the friction varies, but does not know x
    value, error = fed(2, 0.5)
    assert value[0] > 1.1 + 4 * error[0]
    assert np.all(np.abs(value[2:] - 1) < 4.5 * error[2:])
    longer, more = fed(2, 0.995)
    assert longer[0] + 4 * np.hypot(more[0], error[0]) < value[0]
