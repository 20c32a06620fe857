"""The same network as examples/mnist_jax.py, written in Flax NNX."""

import functools
import sys

import jax
import jax.numpy as jnp
from flax import nnx

import sundman
from sundman import metrics, priors

quick = "--quick" in sys.argv
data = sundman.data.digits() if quick else sundman.data.mnist()
inputs, width = data.train.x.shape[1], 50 if quick else 400


class Network(nnx.Module):
    """Two hidden layers."""

    def __init__(self, rngs: nnx.Rngs):
        self.hidden_1 = nnx.Linear(inputs, width, rngs=rngs)
        self.hidden_2 = nnx.Linear(width, width, rngs=rngs)
        self.out = nnx.Linear(width, 10, rngs=rngs)

    def __call__(self, x):
        return self.out(nnx.relu(self.hidden_2(nnx.relu(self.hidden_1(x)))))


graph, params = nnx.split(Network(nnx.Rngs(0)))
posterior = sundman.Posterior(
    lambda params, x: nnx.merge(graph, params)(x),
    prior={"kernel": priors.gaussian(1.41, fan_in="leading"), "bias": priors.gaussian(1.0)},
    data=tuple(data.train),
)
draws = sundman.sample(
    posterior,
    sundman.sgld(sundman.LearningRate(0.03)),
    init=params,
    key=jax.random.key(1),
    burn_in=3_000 if quick else 7_500,
    steps=3_000 if quick else 7_500,
    thin=100,
    batch_size=32 if quick else 100,
    collect=lambda position: jnp.float32(0.0),  # the online predictive is all we keep
    online=functools.partial(posterior.predict, x=jnp.asarray(data.test.x)),
)
probabilities = draws.online.weighted[0]
print(f"NLL      {metrics.nll(probabilities, data.test.y):.4f}")
print(f"accuracy {metrics.accuracy(probabilities, data.test.y):.4f}")
