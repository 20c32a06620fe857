"""A sampler in a loop of your own, in place of an optimizer: python examples/training_loop.py

The loop is the usual one of optax: the loss is the mean over a minibatch, the step is a learning
rate. ``on_mean_loss(N)`` tells the sampler that its gradients are those of U/N, where U is the
negative log posterior and N the number of training rows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

import sundman
from sundman import metrics, models

BATCH = 32


def main(steps: int = 20_000) -> dict[str, float]:
    """Scores of the ensemble on the test digits; the first half of the steps is burn-in."""
    data = sundman.data.digits()
    x, y, x_test = map(jnp.asarray, (*data.train, data.test.x))
    N = len(y)

    def loss(params, rows):
        """U/N on a minibatch: the mean of -log p(y | x, theta), and -log p(theta) / N."""
        logits = models.mlp_apply(params, x[rows])
        fit = optax.softmax_cross_entropy_with_integer_labels(logits, y[rows]).mean()
        return fit + 0.5 * optax.tree.norm(params, squared=True) / N  # the prior is N(0, 1)

    sampler = sundman.sgld(sundman.LearningRate(0.1)).on_mean_loss(N)
    params = models.mlp_init(jax.random.key(0), [64, 50, 10])
    state = sampler.init(params, jax.random.key(1))

    @jax.jit
    def step(params, state, key):
        rows = jax.random.randint(key, (BATCH,), 0, N)
        grads = jax.grad(loss)(params, rows)
        updates, state = sampler.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    @jax.jit
    def predict(params):
        return jax.nn.softmax(models.mlp_apply(params, x_test))

    probabilities, total = 0.0, 0.0
    for number, key in enumerate(jax.random.split(jax.random.key(2), steps)):
        before = params
        params, state = step(params, state, key)
        if number >= steps // 2 and number % 50 == 0:
            weight = sampler.weight(state)  # of the position that this step has left
            probabilities += weight * predict(before)
            total += weight
    probabilities /= total
    return {
        "accuracy": metrics.accuracy(probabilities, data.test.y),
        "NLL": metrics.nll(probabilities, data.test.y),
    }


if __name__ == "__main__":
    print("  ".join(f"{name} {value:.4f}" for name, value in main().items()))
