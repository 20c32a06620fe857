"""Temperatures: is the law that was sampled exp(-U/T) with the T asked for?

Integration by parts gives, for any fixed centre c and any U that confines,

    E[(theta - c) . grad U(theta)] = d T        (configurational)

and momenta of unit mass have E|p|^2 = d T (kinetic). The same holds along any fixed unit vector v:

    E[(v . (theta - c)) (v . grad U(theta))] = T

so a single direction can be asked for its temperature. A step that is too large, or the noise of
minibatches, heats the stiffest directions first, and the mean over thousands of others hides it.

Where U is smooth there is a third one, which needs no centre and gives stiff directions their
weight by itself,

    E|grad U|^2 = T E[Laplacian of U]        (curvature)

over all coordinates or some.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import _chunks, check
from sundman._trees import leaf_paths
from sundman._types import DrawsArray, PyTree
from sundman.estimate.moments import Estimate, evaluate, moments, weights
from sundman.gradients import Exact, GradientEstimator, Noisy, Potential, minibatch
from sundman.native.split_gradient import dense
from sundman.noise import Stream, two_point
from sundman.posterior import Posterior
from sundman.targets import Target

if TYPE_CHECKING:
    from sundman.draws import Draws

TargetLike: TypeAlias = Potential | Target | Posterior | GradientEstimator
_DRAWS, _DRAWS_OF_POSTERIOR = 1000, 200  # at which the gradient is computed
_ELEMENTS = 16 * 2**20  # numbers of positions, and of gradients, held at a time
_FEWEST = 4  # draws of a chain: two halves of two


def virial_of(draws: Draws, potential: Potential | None) -> np.ndarray:
    """(theta - c) . grad U / d at every draw, c the weighted mean; as recorded, c is 0."""
    if potential is None:
        return _recorded(draws, "virial", "or give the potential")
    weight = weights(draws)
    leaves, structure = jax.tree.flatten(draws.position)

    def dtype(leaf: DrawsArray) -> np.dtype:
        return jax.dtypes.canonicalize_dtype(leaf.dtype)

    centre = structure.unflatten(
        [jnp.asarray(moments(leaf, weight, error=False).mean, dtype(leaf)) for leaf in leaves]
    )
    dimension = sum(int(np.prod(leaf.shape[2:])) for leaf in leaves)

    def virial(position: PyTree) -> Array:
        gradient = jax.grad(potential)(position)
        parts = jax.tree.map(lambda x, c, g: jnp.sum((x - c) * g), position, centre, gradient)
        return jnp.asarray(sum(jax.tree.leaves(parts)) / dimension)

    return evaluate(draws, virial)


def _recorded(draws: Draws, name: str, otherwise: str) -> np.ndarray:
    if name not in draws.stats:
        raise ValueError(
            f"the draws have no statistic {name!r}, only {sorted(draws.stats)}: "
            f"ask sample for it with stats=(..., {name!r}), {otherwise}"
        )
    return np.asarray(draws.stats[name])


def _average(values: np.ndarray, weight: np.ndarray) -> Estimate:
    value, error, _ = moments(values, weight)
    return Estimate(float(value), float(error))


def configurational_temperature(draws: Draws, potential: Potential | None = None) -> Estimate:
    """(theta - c) . grad U / d averaged over the draws.

    With a potential c is the weighted mean of the draws. Without one the recorded statistic
    ``"virial"`` is averaged, which has c = 0 and the gradients that the sampler used.
    """
    check.draws(draws)
    return _average(virial_of(draws, potential), weights(draws))


def kinetic_temperature(draws: Draws) -> Estimate:
    """|p|^2 / d averaged over the draws, from the statistic ``"kinetic_temperature"``."""
    check.draws(draws)
    recorded = _recorded(draws, "kinetic_temperature", "of a sampler that has momenta")
    return _average(recorded, weights(draws))


def temperature_by_block(
    draws: Draws, blocks: int = 10, potential: Potential | None = None
) -> Estimate:
    """The configurational temperature of consecutive blocks of draws: one entry per block.

    A block in which every chain has diverged is not a number.

    Args:
      draws: the weighted draws.
      blocks: how many of them.
      potential: U; None takes the recorded statistic ``"virial"``.

    Returns:
      The temperatures and their standard errors, one for each block.
    """
    check.draws(draws)
    check.count("blocks", blocks, least=1)
    if len(draws) < blocks:
        raise ValueError(f"blocks={blocks} is more than the {len(draws)} draws per chain")
    virial, weight = virial_of(draws, potential), weights(draws)
    edges = np.linspace(0, len(draws), blocks + 1).astype(int)
    averages = [
        _average(virial[:, a:b], weight[:, a:b])
        if weight[:, a:b].any()
        else Estimate(np.nan, np.nan)
        for a, b in itertools.pairwise(edges)
    ]
    return Estimate(
        np.array([each.value for each in averages]), np.array([e.error for e in averages])
    )


class Temperatures(NamedTuple):
    """Temperatures from gradients computed anew: the mean one, and along the stiffest directions.

    Attributes:
      mean: over all directions, (theta - c) . grad U / d.
      stiff: along each of the stiffest directions, the stiffest first.
    """

    mean: Estimate
    stiff: Estimate


def stiff_temperature(
    draws: Draws,
    target: TargetLike,
    *,
    directions: int = 4,
    most: int | None = None,
    rows: int | None = None,
) -> Estimate:
    """The temperature along the stiffest directions: T for each of them if the law is right.

    For a fixed unit vector v the mean of (v . (theta - c)) (v . grad U) is T. The directions are
    the leading eigenvectors of the covariance of the gradient, which is largest where U is
    steepest. Directions and centres c, one for each chain, are taken from one half of the draws
    and the mean from the other, and the other way round, so that they are fixed as far as the mean
    is concerned.

    On a Gaussian of stiffness lambda, SGLD with step h reads 1 / (1 - h lambda / 2) here:

        target = sundman.targets.gaussian(50, condition=1e4)
        draws = sundman.sample(target, sundman.sgld(1e-4), key=key, steps=50_000, thin=50)
        sundman.estimate.stiff_temperature(draws, target, directions=1)  # about 2
        sundman.estimate.configurational_temperature(draws)              # 1.08, the mean

    Args:
      draws: that kept their positions.
      target: what was sampled: a potential, one of :mod:`sundman.targets`, a posterior with its
        data in memory, or a gradient estimator.
      directions: how many directions; no more than there are coordinates.
      most: compute no more than so many gradients; 1000 by default, 200 of a posterior.
      rows: compute the gradients of a posterior on so many rows each, drawn afresh, instead of on
        all of them. The result is right on average all the same, with a larger error.

    Returns:
      Value and standard error for each direction, the stiffest first.
    """
    check.draws(draws)
    check.count("directions", directions, least=1)
    if most is not None:
        check.count("most", most, least=_FEWEST)
    if rows is not None:
        check.count("rows", rows, least=1)
    return recomputed_temperatures(draws, target, directions=directions, most=most, rows=rows).stiff


def curvature_temperature(
    draws: Draws,
    target: TargetLike,
    *,
    part: str | None = None,
    probes: int = 4,
    most: int = 100,
    rows: int | None = None,
) -> Estimate:
    """E|grad U|^2 / E[Laplacian of U]: T if the law is right, mostly by its stiffest directions.

    It needs no centre, so it is sharp where a chain has hardly moved along its soft directions, as
    in a network. U must be smooth in the coordinates that are looked at: the kinks of a network of
    rectified units have curvature that no Laplacian sees, except in its last layer, in which the
    outputs are linear.

        posterior = sundman.Posterior(models.mlp_apply, data=(x, y))      # layer_0, layer_1
        draws = sundman.sample(posterior, init=params, key=key, batch_size=32, steps=10_000)
        sundman.estimate.curvature_temperature(draws, posterior, part="layer_1")

    Args:
      draws: that kept their positions.
      target: what was sampled, as for :func:`stiff_temperature`.
      part: look only at arrays of the position whose path has this in it; at all if None.
      probes: random vectors by which the Laplacian is estimated at each draw.
      most: look at no more than so many draws.
      rows: compute the gradients of a posterior on so many rows each, drawn afresh, instead of on
        all of them.

    Returns:
      The temperature and its standard error.
    """
    check.draws(draws)
    check.count("probes", probes, least=1)
    check.count("most", most, least=_FEWEST)
    if rows is not None:
        check.count("rows", rows, least=1)
    gradient = _estimator(target, rows, order="with_replacement")
    sampled = rows is not None and getattr(gradient, "batch_size", None) is not None
    paths = leaf_paths(draws.position)
    among = tuple(part is None or part in path for path in paths)
    if not any(among):
        raise ValueError(f"no array of the position has {part!r} in its path: {', '.join(paths)}")
    chosen, weight = _spread_draws(draws, most)
    positions = jax.tree.map(lambda leaf: _chunks.gather(leaf, chosen.ravel()), draws.position)
    slope, trace = (
        np.where(weight > 0, np.asarray(column, np.float64).reshape(weight.shape), 0.0)
        for column in _squares_and_traces(
            gradient, positions, among=among, probes=probes, twice=sampled
        )
    )
    bottom = _average(trace, weight).value
    value = _average(slope, weight).value / bottom
    return Estimate(value, _average(slope - value * trace, weight).error / abs(bottom))


@partial(jax.jit, static_argnames=("among", "probes", "twice"))
def _squares_and_traces(
    gradient: GradientEstimator,
    positions: PyTree,
    *,
    among: tuple[bool, ...],
    probes: int,
    twice: bool,
) -> tuple[Array, Array]:
    """|grad U|^2 and the trace of the Hessian over some leaves, at each position.

    Args:
      gradient: of U.
      positions: along a leading axis.
      among: for each leaf, whether it counts.
      probes: of the trace.
      twice: whether the square is the product of two minibatches, so that their noise is not in it.
    """

    def some(tree: PyTree) -> list[Array]:
        return [leaf for leaf, is_in in zip(jax.tree.leaves(tree), among, strict=True) if is_in]

    def product(one: PyTree, other: PyTree) -> Array:
        pairs = zip(some(one), some(other), strict=True)
        return jnp.asarray(sum(jnp.sum(a * b) for a, b in pairs))

    def at(item: tuple[Array, PyTree]) -> tuple[Array, Array]:
        number, position = item
        stream = Stream(jnp.array([0x5EED, 0xC0DE], jnp.uint32), 2 * number)
        structure = jax.tree.structure(position)

        def slope(position: PyTree, stream: Stream = stream) -> PyTree:
            return dense(gradient(stream, position)[1])

        def probe(total: Array, trial: Array) -> tuple[Array, None]:
            signs = two_point(
                Stream(stream.key, stream.step * jnp.uint32(probes) + trial), position
            )
            leaves = [
                leaf if is_in else jnp.zeros_like(leaf)
                for leaf, is_in in zip(jax.tree.leaves(signs), among, strict=True)
            ]
            signs = structure.unflatten(leaves)
            return total + product(signs, jax.jvp(slope, (position,), (signs,))[1]), None

        here = slope(position)
        other = slope(position, stream._replace(step=stream.step + jnp.uint32(1)))
        trials = jnp.arange(probes, dtype=jnp.uint32)
        trace, _ = jax.lax.scan(probe, jnp.zeros((), jnp.float32), trials)
        return product(here, other if twice else here), trace / probes

    numbers = jnp.arange(len(jax.tree.leaves(positions)[0]), dtype=jnp.uint32)
    return jax.lax.map(at, (numbers, positions))


def recomputed_temperatures(
    draws: Draws,
    target: TargetLike,
    *,
    directions: int,
    most: int | None = None,
    rows: int | None = None,
) -> Temperatures:
    """The mean temperature and the stiff ones, as :func:`stiff_temperature` has them.

    Args:
      draws: that kept their positions.
      target: what was sampled.
      directions: how many stiff ones.
      most: compute no more than so many gradients.
      rows: of a posterior, the rows of each gradient; all if it is None.

    Returns:
      Both, with their errors.
    """
    gradient = _estimator(target, rows)
    data = getattr(gradient, "posterior", None) is not None
    most = most or (_DRAWS_OF_POSTERIOR if data else _DRAWS)
    chosen, weight = _spread_draws(draws, most)
    positions = jax.tree.map(lambda leaf: _chunks.gather(leaf, chosen.ravel()), draws.position)
    slopes = np.asarray(_gradients(gradient, positions, one_by_one=data))
    leaves = [leaf.reshape(chosen.size, -1) for leaf in jax.tree.leaves(positions)]
    x = (leaves[0] if len(leaves) == 1 else np.concatenate(leaves, axis=1)).astype(slopes.dtype)
    dimension = x.shape[1]
    # a draw of weight 0 counts for nothing, finite or not
    x, slopes = (
        np.where(weight[..., None] > 0, part.reshape(*chosen.shape, dimension), 0.0)
        for part in (x, slopes)
    )
    count = min(directions, dimension)
    mean, along = np.empty(chosen.shape), np.empty((*chosen.shape, count))
    half = chosen.shape[1] // 2
    halves = slice(None, half), slice(half, None)
    for here, other in (halves, halves[::-1]):
        w = weight[:, other] + 1e-30  # a chain that was lost early has no weight here
        centre = np.einsum("cn,cnd->cd", w / w.sum(axis=1, keepdims=True), x[:, other])[:, None]
        v = _leading(slopes[:, other], weight[:, other], count)
        away = x[:, here] - centre.astype(x.dtype)
        mean[:, here] = np.einsum("cnd,cnd->cn", away, slopes[:, here]) / dimension
        along[:, here] = (away @ v) * (slopes[:, here] @ v)
    value, error, _ = moments(along, weight)
    return Temperatures(_average(mean, weight), Estimate(value, error))


def _estimator(
    target: TargetLike, rows: int | None, *, order: str = "shuffled"
) -> GradientEstimator:
    """What computes the gradient of U: exact, or on ``rows`` rows of a posterior's data.

    Args:
      target: what was sampled.
      rows: of each gradient; all if it is None.
      order: of the rows.
    """
    posterior = target if isinstance(target, Posterior) else getattr(target, "posterior", None)
    if isinstance(posterior, Posterior):
        if posterior.host is not None:
            raise ValueError("the data of this posterior are streamed: gradients cannot be redone")
        if rows is None or rows >= posterior.size:
            return minibatch(posterior, None)
        return minibatch(posterior, rows, order=order)
    potential = target.potential if isinstance(target, Target | Exact | Noisy) else target
    if isinstance(potential, GradientEstimator):
        return potential
    if not callable(potential):
        raise TypeError(
            "target must be a potential U(position) -> scalar, one of sundman.targets, a "
            f"sundman.Posterior or a gradient estimator; got {target!r}"
        )
    return Exact(potential)


def _spread_draws(draws: Draws, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of evenly spaced draws, (chain, draw), counted chain after chain; and weights."""
    size = sum(int(np.prod(leaf.shape[2:])) for leaf in jax.tree.leaves(draws.position))
    most = max(_FEWEST, min(most, _ELEMENTS // max(size, 1)))
    weights = draws.column("weight")
    ends = _chunks.ends_of_weight(weights)
    alive = np.flatnonzero(ends > 0)
    if not len(alive):
        raise ValueError("every weight is 0: all chains diverged, there is nothing to average")
    if len(draws) < _FEWEST:
        raise ValueError(f"the stiff temperature needs {_FEWEST} draws per chain or more")
    number = min(len(alive), most // _FEWEST)
    chains = alive[np.linspace(0, len(alive) - 1, number).astype(int)]
    steps = np.linspace(0, ends.max() - 1, min(len(draws), most // number)).astype(int)
    weight = np.asarray(weights[:, steps][chains], np.float64)
    return chains[:, None] * len(draws) + steps, weight


@partial(jax.jit, static_argnames=("one_by_one",))
def _gradients(gradient: GradientEstimator, positions: PyTree, *, one_by_one: bool) -> Array:
    """grad U at every position, (n, d); the rows of a minibatch are drawn by a key of their own."""

    def at(item: tuple[Array, PyTree]) -> Array:
        number, position = item
        stream = Stream(jnp.array([0x5EED, 0x5EED], jnp.uint32), number)
        _, grads = gradient(stream, position)
        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(grads)])

    numbers = jnp.arange(len(jax.tree.leaves(positions)[0]), dtype=jnp.uint32)
    return (
        jax.lax.map(at, (numbers, positions)) if one_by_one else jax.vmap(at)((numbers, positions))
    )


def _leading(slopes: np.ndarray, weight: np.ndarray, count: int) -> np.ndarray:
    """The leading eigenvectors of the weighted covariance of the gradients, (d, count)."""
    flat, share = slopes.reshape(-1, slopes.shape[-1]), weight.ravel() / max(weight.sum(), 1e-300)
    centred = (flat - share @ flat) * np.sqrt(share)[:, None]
    centred = (centred / max(np.abs(centred).max(), 1e-300)).astype(slopes.dtype)
    if centred.shape[1] <= centred.shape[0]:
        return np.linalg.eigh((centred.T @ centred).astype(np.float64))[1][:, : -count - 1 : -1]
    _, vectors = np.linalg.eigh((centred @ centred.T).astype(np.float64))
    v = centred.T @ vectors[:, : -count - 1 : -1]
    return v / np.maximum(np.linalg.norm(v, axis=0), 1e-30)
