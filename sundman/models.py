"""A multilayer perceptron and its initialisation, as in the paper's experiments."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree


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
