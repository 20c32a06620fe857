"""A posterior's gradient in the parts it is made of, for the loop and the native kernels."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from sundman import native, priors
from sundman.gradients.base import GradientEstimator, PyTree, RemembersGradients
from sundman.gradients.minibatch import Minibatch, Streamed
from sundman.noise import Stream
from sundman.posterior import Batch, Position, Posterior, model_params
from sundman.priors import Prior
from sundman.split import Split


def has_parts(gradient: GradientEstimator) -> bool:
    """Whether a part of U is cheaper than the whole."""
    return isinstance(gradient, (Minibatch, Streamed)) and gradient.posterior.is_sum


def in_parts(
    gradient: GradientEstimator,
    stream: Stream,
    position: PyTree,
    data: PyTree,
    memory: PyTree = (),
) -> tuple[Array, Array, PyTree, PyTree]:
    """A part of U that is cheap to have, U, G, and what to remember.

    What is not used of them is not computed. G has leaves of :class:`sundman.split.Split` where
    the native kernels are used.
    """
    if isinstance(gradient, RemembersGradients):
        value, grads, memory = gradient.recall(stream, position, data, memory)
        return value, value, grads, memory
    if has_parts(gradient):
        assert isinstance(gradient, (Minibatch, Streamed))
        found = _of_posterior(gradient.posterior, position, gradient.batch(stream, data))
        return *found, memory
    value, grads = gradient(stream, position, data)
    return value, value, grads, memory


def _of_posterior(
    posterior: Posterior, position: PyTree, batch: Batch
) -> tuple[Array, Array, PyTree]:
    """The likelihood's part of U, U and G on a batch; G in two parts where the kernels are used."""
    part, grads = jax.value_and_grad(posterior.scaled_loss)(position, batch)
    hyper = position.hyper if isinstance(position, Position) else {}
    hyper_grads = dict(grads.hyper) if hyper else {}
    log_prior, found = jnp.asarray(posterior.likelihood.log_hyper(hyper.get("likelihood"))), []
    if "likelihood" in hyper:
        pull = jax.grad(posterior.likelihood.log_hyper)(hyper["likelihood"])
        hyper_grads["likelihood"] = jax.tree.map(jnp.subtract, grads.hyper["likelihood"], pull)
    params, structure = jax.tree.flatten(model_params(position))
    rules = priors.assign(posterior.prior, model_params(position))
    for (path, prior), theta, grad in zip(
        rules, params, jax.tree.leaves(model_params(grads)), strict=True
    ):
        own = hyper.get(f"prior/{path}")
        log_density, grad, pull = _with_prior(prior, theta, grad, own)
        log_prior = log_prior + log_density
        found.append(grad)
        if own is not None:
            hyper_grads[f"prior/{path}"] = jax.tree.map(jnp.negative, pull)
    whole = jax.tree.unflatten(structure, found)
    return part, part - log_prior, Position(whole, hyper_grads) if hyper else whole


def _with_prior(
    prior: Prior, theta: Array, grad: Array, hyper: PyTree
) -> tuple[Array, Array | Split, PyTree]:
    """The log density of one array, its gradient with the prior's, and d log density / d hyper."""
    if prior.of_squares is None or not native.fits(theta):
        density, (pull, slope) = jax.value_and_grad(prior.log_density, (0, 1))(theta, hyper)
        return density, grad - pull, slope

    def log_density(squares: Array, hyper: PyTree) -> Array:
        assert prior.of_squares is not None
        return prior.of_squares(squares, theta.shape, hyper)

    split = Split(grad, theta, -2.0 * jax.grad(log_density)(jnp.float32(0.0), hyper))
    density, slope = jax.value_and_grad(log_density, 1)(split.products[2], hyper)
    return density, split, slope
