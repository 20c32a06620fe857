"""A multilayer perceptron as in the paper's experiments, and networks in non-centred coordinates.

A prior that samples the scale sigma of an array w holds both to each other: given w, sigma is known
to one part in sqrt(2n), so that a sampler moves neither far. In non-centred coordinates

    w = base e^v z,    z ~ N(0, 1),    sigma = base e^v

z and v are independent under the prior, and what the data say of sigma is felt as a force on v.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check, priors
from sundman._types import PyTree
from sundman.value import Number, Value, static


def mlp_init(key: Array, sizes: Sequence[int]) -> dict[str, dict[str, Array]]:
    """He-normal kernels, N(0, 2 / fan_in), and biases uniform on +-1/sqrt(fan_out).

    ``sizes`` are the widths, input to output; layers are named ``layer_0``, ``layer_1``, ...
    """
    if len(sizes) < 2:
        raise ValueError(f"sizes needs an input and an output width, got {list(sizes)}")
    for size in sizes:
        check.count("sizes", size, least=1)
    params = {}
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        key, kernel_key, bias_key = jax.random.split(key, 3)
        kernel = math.sqrt(2.0 / inputs) * jax.random.normal(kernel_key, (inputs, outputs))
        bound = 1.0 / math.sqrt(outputs)
        bias = jax.random.uniform(bias_key, (outputs,), minval=-bound, maxval=bound)
        params[f"layer_{i}"] = {"kernel": kernel, "bias": bias}
    return params


def mlp_apply(
    params: PyTree, x: Array, activation: Callable[[Array], Array] = jax.nn.relu
) -> Array:
    """The network's outputs: dense layers with an activation between them.

    Args:
      params: as :func:`mlp_init` makes them.
      x: inputs, one row per example.
      activation: what comes between the layers.

    Returns:
      Outputs, one row per example.
    """
    layers = [params[f"layer_{i}"] for i in range(len(params))]
    for layer in layers[:-1]:
        x = activation(x @ layer["kernel"] + layer["bias"])
    return jnp.asarray(x @ layers[-1]["kernel"] + layers[-1]["bias"])


class NonCentred(Value):
    """A model whose parameters are z and v, w = base e^v z, with the prior that belongs to it.

    The horseshoe with one scale per array, as :func:`sundman.priors.horseshoe` has it in its forms
    ``"relative"`` and ``"tensor"``, but in coordinates that a sampler can follow:

        model = models.non_centred(models.mlp_apply)
        posterior = sundman.Posterior(model, prior=model.prior(params), data=(x, y))
        draws = sundman.sample(posterior, sampler, init=model.init(params), key=key, steps=10_000)

    Args:
      apply: the model, (weights, x) -> outputs.
      kernel_scale: the base scale of arrays of two axes or more, divided by sqrt(fan_in), where
        all axes but the last are inputs.
      bias_scale: the base scale of vectors.
    """

    apply: Callable[[PyTree, PyTree], PyTree] = static()
    kernel_scale: Number = 1.41
    bias_scale: Number = 1.0

    def __post_init__(self) -> None:
        if not callable(self.apply):
            raise TypeError(f"apply must be a function (params, x) -> outputs, got {self.apply!r}")
        self._settle(kernel_scale=check.positive, bias_scale=check.positive)

    def _base(self, shape: tuple[int, ...]) -> Number:
        if len(shape) < 2:
            return self.bias_scale
        return self.kernel_scale / math.sqrt(max(1, math.prod(shape[:-1])))

    def weights(self, params: PyTree) -> PyTree:
        """The weights of the model, w = base e^v z, from ``{"z": ..., "log_scale": ...}``."""
        return jax.tree.map(
            lambda z, v: self._base(z.shape) * jnp.exp(v) * z, params["z"], params["log_scale"]
        )

    def __call__(self, params: PyTree, x: PyTree) -> PyTree:
        """The outputs of the model."""
        return self.apply(self.weights(params), x)

    def init(self, weights: PyTree) -> dict[str, PyTree]:
        """The parameters that have these weights, every scale at its base, v = 0."""
        return {
            "z": jax.tree.map(lambda w: w / self._base(w.shape), weights),
            "log_scale": jax.tree.map(lambda w: jnp.zeros((), w.dtype), weights),
        }

    def prior(self, weights: PyTree, *, relative: bool = True) -> dict[str, priors.Prior]:
        """The prior of z and v.

        Args:
          weights: like those of the model.
          relative: half-Cauchy(1) on sigma / base, the relative form; else on sigma, the tensor
            form, as published.

        Returns:
          Rules for :class:`sundman.Posterior`.
        """
        rules: dict[str, priors.Prior] = {"z": priors.gaussian(1.0)}
        for path, leaf in priors.paths(weights):
            unit = 1.0 if relative else 1.0 / self._base(leaf.shape)
            rules[f"log_scale/{path}"] = priors.log_half_cauchy(unit)
        return rules


non_centred = NonCentred
