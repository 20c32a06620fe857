"""The same network as examples/mnist_jax.py, written in Equinox, in a plain optax loop's terms."""

import sys

import equinox as eqx
import jax

import sundman
from sundman import metrics, priors

quick = "--quick" in sys.argv
data = sundman.data.digits() if quick else sundman.data.mnist()
model = eqx.nn.MLP(
    in_size=data.train.x.shape[1],
    out_size=10,
    width_size=50 if quick else 400,
    depth=2,
    key=jax.random.key(0),
)
params, static = eqx.partition(model, eqx.is_inexact_array)


def apply(params, x):
    """The network on a batch."""
    return jax.vmap(eqx.combine(params, static))(x)


posterior = sundman.Posterior(
    apply,
    prior={"weight": priors.gaussian(1.41, fan_in="trailing"), "bias": priors.gaussian(1.0)},
    data=tuple(data.train),
)
draws = sundman.sample(
    posterior,
    sundman.sa_sgld(sundman.LearningRate(0.02), alpha=1000.0, m=0.5, M=2.0, r=0.25),
    init=params,
    key=jax.random.key(1),
    burn_in=3_000 if quick else 7_500,
    steps=3_000 if quick else 7_500,
    thin=500,
    batch_size=32 if quick else 100,
)
probabilities = sundman.predict(draws, posterior, data.test.x)
print(f"{len(draws)} networks, {draws!r:.60}...")
print(f"NLL      {metrics.nll(probabilities, data.test.y):.4f}")
print(f"accuracy {metrics.accuracy(probabilities, data.test.y):.4f}")
