"""A Bayesian neural network on MNIST in plain JAX: python examples/mnist_jax.py [--quick]."""

import functools
import sys

import jax
import jax.numpy as jnp

import sundman
from sundman import metrics, models, priors

quick = "--quick" in sys.argv
data = sundman.data.digits() if quick else sundman.data.mnist()
x_test, y_test = data.test
sizes = [data.train.x.shape[1], 50, 50, 10] if quick else [784, 400, 400, 10]

posterior = sundman.Posterior(
    models.mlp_apply,
    likelihood=sundman.likelihoods.categorical(),
    prior={
        "kernel": priors.horseshoe(1.41, fan_in="leading"),
        "bias": priors.horseshoe(1.0),
    },
    data=tuple(data.train),
)
sampler = sundman.sa_sgld(sundman.LearningRate(0.2), alpha=1000.0, m=0.5, M=2.0, r=0.25)
draws = sundman.sample(
    posterior,
    sampler,
    init=models.mlp_init(jax.random.key(0), sizes),
    key=jax.random.key(1),
    burn_in=3_000 if quick else 7_500,
    steps=3_000 if quick else 7_500,
    thin=100,
    batch_size=32 if quick else 100,
    collect=lambda position: position.hyper,  # keep the prior's scales, not the weights
    online=functools.partial(posterior.predict, x=jnp.asarray(x_test)),
)
probabilities = draws.online.weighted[0]
rate = posterior.learning_rate(draws.stats["dt"].mean(), kinetic=False)
print(f"{len(draws)} draws, mean step {rate:.3f}")
print(f"NLL      {metrics.nll(probabilities, y_test):.4f}")
print(f"accuracy {metrics.accuracy(probabilities, y_test):.4f}")
print(f"ECE      {metrics.ece(probabilities, y_test, bins=15):.4f}")
