"""What a run begins with: the gradient estimator and the first position of each chain."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.gradients import Exact, GradientEstimator, Potential
from sundman.noise import fold, key_words
from sundman.runner.loop import Chain
from sundman.samplers import Sampler
from sundman.targets import Target

PyTree = Any
_CHAIN = 2


def as_gradient(target: Any) -> GradientEstimator:
    """The gradient estimator of a potential, a target, or an estimator itself."""
    if isinstance(target, Target):
        return Exact(target.potential)
    if hasattr(target, "potential") and callable(target):
        return target
    if callable(target):
        return Exact(target)
    raise TypeError(
        "the first argument of sample must be a potential U(position) -> scalar, one of "
        f"sundman.targets or a gradient estimator; got {target!r}"
    )


def _is_potential_of(potential: Potential, position: PyTree) -> bool:
    try:
        return jax.eval_shape(potential, position).shape == ()
    except Exception:  # noqa: BLE001 - a user's function may fail in any way on a wrong shape
        return False


def check_scalar(potential: Potential, position: PyTree) -> None:
    """The potential must return one real number for one position."""
    out = jax.eval_shape(potential, position)
    if not hasattr(out, "shape"):
        raise TypeError(f"the potential must return one number, got the pytree {out!r}")
    if out.shape != ():
        raise ValueError(
            f"the potential must return a scalar for one position, got shape {out.shape}; "
            "sum over the components of the position"
        )
    if not jnp.issubdtype(out.dtype, jnp.floating):
        raise TypeError(f"the potential must return a real float, got dtype {out.dtype.name}")


def _one_per_chain(
    init: PyTree, chains: int, potential: Potential, per_chain: bool | None
) -> bool:
    leaves = jax.tree.leaves(init)
    stacked = all(leaf.ndim > 0 and leaf.shape[0] == chains for leaf in leaves)
    if per_chain is not None:
        if per_chain and not stacked:
            raise ValueError(
                f"per_chain=True: every array of init needs a leading axis of length "
                f"chains={chains}; got shapes {[leaf.shape for leaf in leaves]}"
            )
        return per_chain
    if not stacked:
        return False
    whole = _is_potential_of(potential, init)
    sliced = _is_potential_of(potential, jax.tree.map(lambda leaf: leaf[0], init))
    if whole and sliced:
        return any(leaf.ndim > 1 for leaf in leaves)
    return sliced


def first_positions(
    init: PyTree, chains: int, potential: Potential, per_chain: bool | None
) -> PyTree:
    """The position of every chain, stacked: ``init`` repeated, or ``init`` itself."""
    check.params(init, "init")
    init = jax.tree.map(jnp.asarray, init)
    if _one_per_chain(init, chains, potential, per_chain):
        check_scalar(potential, jax.tree.map(lambda leaf: leaf[0], init))
        return jax.tree.map(jnp.array, init)
    check_scalar(potential, init)
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[None], chains, axis=0), init)


@partial(jax.jit, static_argnames=("sampler", "chains"))
def start_chains(positions: PyTree, sampler: Sampler, key: Array, chains: int) -> Chain:
    """Chains at their first positions; chain i has the key fold(key, i) however many there are."""
    words = key_words(key)
    keys = jax.vmap(lambda i: fold(words, i, _CHAIN))(jnp.arange(chains, dtype=jnp.uint32))
    return Chain(positions, jax.vmap(sampler.init)(positions, keys))
