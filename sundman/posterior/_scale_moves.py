"""Exact moves of the scales of a network's layers, between the steps of any sampler.

Let f multiply an array of weights and, where its prior samples one, the array's scale. Two moves
are made of such factors, with log c ~ N(0, width^2):

    exchange   the kernel and the bias of a hidden layer are multiplied by c, the next kernel is
               divided by it. With rectified units, relu(c a) = c relu(a), every output stays as it
               is, so only the prior has a say
    rescale    one array is multiplied by c. The outputs change, so that the likelihood of all data
               is computed at both ends

Each is accepted with probability min(1, A),

    log A = (log p(x') - log p(x)) / T + log |dx'/dx|,    p likelihood times prior

The proposal is symmetric in log c and the moves are a group, so that detailed balance holds
(Liu, Sabatti 2000, generalised Gibbs moves along the orbits of a group).

In non-centred coordinates (:func:`sundman.models.non_centred`) log c is added to the log scales and
nothing else moves. That is where these moves belong: with the weights themselves as coordinates an
exchange makes one layer steep and the other flat, and a step that was right becomes too long.

Why: the scale of an array of n weights is known to 1/sqrt(2n) given the weights, and the weights
given the scale are held to it, so that step by step both together hardly move. Here they move
together. In an exchange the gradient is known without the data, too: that of the likelihood is
divided by the factor of its array.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check, priors
from sundman._types import PyTree
from sundman.integrators import interleaved
from sundman.models import NonCentred
from sundman.native.split_gradient import dense
from sundman.noise import Purpose, Stream, substream
from sundman.posterior._posterior import Posterior
from sundman.posterior.evaluation import (
    Position,
    hyper_params,
    model_params,
    prior_name,
)
from sundman.samplers import Sampler
from sundman.value import Number, Value, array, static

Pairs: TypeAlias = Sequence[tuple[Sequence[str], Sequence[str]]]
"""For each hidden layer the paths that are multiplied and those that are divided."""

_TOLERANCE = 1e-3
_Exponents: TypeAlias = tuple[tuple[int, ...], ...]


class ScaleMoves(Value):
    """The moves as a kernel: from a position and its gradient to the next.

    Args:
      posterior: whose prior, and for ``rescale`` whose data, are used.
      exchanges: for each exchange the power of c that multiplies each array, in the order of the
        flattened parameters.
      width: the standard deviation of log c in an exchange.
      rescale: that of log c in a rescaling; 0 leaves these out.
    """

    posterior: Posterior = array()
    exchanges: _Exponents = static(default=())
    width: Number = 1.0
    rescale: Number = 0.3
    rescales: bool = static(default=True, init=False)

    def __post_init__(self) -> None:
        self._settle(width=check.positive, rescale=check.not_negative)
        self._set(rescales=not (check.known(self.rescale) and self.rescale == 0))

    def __call__(
        self, stream: Stream, position: PyTree, grads: PyTree, temperature: Number
    ) -> tuple[PyTree, PyTree]:
        """Every exchange once, then one array, taken at random, rescaled.

        Args:
          stream: of the proposals and tests.
          position: of the posterior.
          grads: the gradient of U there, of a minibatch or of all data.
          temperature: T.

        Returns:
          The position after the moves and the gradient there: of the same rows, or of all data if
          an array was rescaled.
        """
        own_stream = substream(stream, Purpose.SCALE_MOVES)
        words = jax.random.wrap_key_data(own_stream.key, impl="threefry2x32")
        key = jax.random.fold_in(words, own_stream.step)
        likelihood = jax.tree.map(
            jnp.add, dense(grads), jax.grad(self.posterior.log_prior)(position)
        )
        for powers in self.exchanges:
            key, own = jax.random.split(key)
            position, likelihood = self._exchange(
                own, position, likelihood, jnp.asarray(powers), temperature
            )
        prior = jax.grad(self.posterior.log_prior)(position)
        grads = jax.tree.map(lambda g, slope: (g - slope).astype(g.dtype), likelihood, prior)
        if not self.rescales:
            return position, grads
        return self._rescale(key, position, grads, temperature)

    @property
    def _adds(self) -> bool:
        """Whether scales are coordinates of their own."""
        return isinstance(self.posterior.apply, NonCentred)

    def _multiply(
        self, position: PyTree, factors: Array, temperature: Number
    ) -> tuple[PyTree, Array]:
        """Each array times its factor.

        Args:
          position: before.
          factors: one for each array of the parameters.
          temperature: T.

        Returns:
          The position after it; the prior's part of log A, with the volume.
        """
        if self._adds:
            return self._shift(position, jnp.log(factors), temperature)
        params, hyper = model_params(position), dict(hyper_params(position))
        leaves, structure = jax.tree.flatten(params)
        rules = priors.assign(self.posterior.prior, params)
        log_a, moved = jnp.zeros(()), []
        for i, ((path, prior), leaf) in enumerate(zip(rules, leaves, strict=True)):
            name = prior_name(path)
            after = prior.rescale(leaf, hyper.get(name), factors[i])
            # at T = 1 the powers of a sampled scale and of its array cancel before they are large
            powers = leaf.size - after.powers / temperature
            log_a += after.change / temperature + after.log_jacobian + powers * jnp.log(factors[i])
            moved.append((factors[i] * leaf).astype(leaf.dtype))
            if name in hyper:
                hyper[name] = jax.tree.map(lambda new, old: new.astype(old.dtype), after.hyper,
                                           hyper[name])  # fmt: skip
        after = jax.tree.unflatten(structure, moved)
        return Position(after, hyper) if isinstance(position, Position) else after, log_a

    def _shift(self, position: PyTree, logs: Array, temperature: Number) -> tuple[PyTree, Array]:
        """Each log scale plus the log of its factor, as :meth:`_multiply` has it."""
        params = model_params(position)
        scales = params["log_scale"]
        leaves, structure = jax.tree.flatten(scales)
        moved = [(v + log).astype(v.dtype) for v, log in zip(leaves, logs, strict=True)]
        there = {**params, "log_scale": jax.tree.unflatten(structure, moved)}
        gain = jnp.zeros(())
        rules = dict(priors.assign(self.posterior.prior, params))
        for (path, before), after in zip(priors.paths(scales), moved, strict=True):
            prior = rules[f"log_scale/{path}"]
            gain += prior.log_density(after, None) - prior.log_density(before, None)
        after = position._replace(params=there) if isinstance(position, Position) else there
        return after, gain / temperature

    def _exchange(
        self,
        key: Array,
        position: PyTree,
        likelihood: PyTree,
        powers: Array,
        temperature: Number,
    ) -> tuple[PyTree, PyTree]:
        """One exchange; ``likelihood`` is the gradient of the likelihood's part of U."""
        key_c, key_test = jax.random.split(key)
        log_c = self.width * jax.random.normal(key_c)
        factors = jnp.exp(log_c * powers)
        there, log_a = self._multiply(position, factors, temperature)
        taken = jnp.log(jax.random.uniform(key_test)) < log_a
        if self._adds:  # the likelihood does not see it
            return _where(taken, there, position), likelihood
        leaves, structure = jax.tree.flatten(model_params(likelihood))
        divided = jax.tree.unflatten(
            structure, [g / f for g, f in zip(leaves, factors, strict=True)]
        )
        slopes = (
            likelihood._replace(params=divided) if isinstance(likelihood, Position) else divided
        )
        return _where(taken, (there, slopes), (position, likelihood))

    def _rescale(
        self, key: Array, position: PyTree, grads: PyTree, temperature: Number
    ) -> tuple[PyTree, PyTree]:
        """One array rescaled, tested on all data; if it is taken the gradient is theirs."""
        arrays = model_params(position)
        count = len(jax.tree.leaves(arrays["log_scale"] if self._adds else arrays))
        key_c, key_which, key_test = jax.random.split(key, 3)
        which = jax.nn.one_hot(jax.random.randint(key_which, (), 0, count), count)
        log_c = self.rescale * jax.random.normal(key_c)
        there, log_a = self._multiply(position, jnp.exp(log_c * which), temperature)
        gain = self.posterior.log_likelihood(there) - self.posterior.log_likelihood(position)
        taken = jnp.log(jax.random.uniform(key_test)) < log_a + gain / temperature
        return jax.lax.cond(
            taken,
            lambda: (there, _cast(self.posterior.gradient(there), grads)),
            lambda: (position, grads),
        )


def _where(taken: Array, one: PyTree, other: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(taken, a, b).astype(b.dtype), one, other)


def _cast(tree: PyTree, like: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf, to: leaf.astype(to.dtype), tree, like)


def scale_exchange(
    sampler: Sampler,
    posterior: Posterior,
    params: PyTree,
    *,
    every: int = 100,
    width: Number = 1.0,
    rescale: Number = 0.3,
    pairs: Pairs | None = None,
) -> Sampler:
    """``sampler`` with exact moves of the scales of the layers between its steps.

    For a network of rectified units under a prior that samples the scale of each array, such as
    the per-tensor horseshoe, best in non-centred coordinates:

        model = models.non_centred(models.mlp_apply)
        posterior = sundman.Posterior(model, prior=model.prior(params), data=(x, y))
        start = model.init(params)
        sampler = sundman.compose(integrators.low_rank_baoab(), clocks.constant(1e-3))
        sampler = sundman.scale_exchange(sampler, posterior, start, every=100)
        draws = sundman.sample(posterior, sampler, init=start, key=key, steps=20_000)

    The moves are exact, the sampler between them is not. With the weights themselves as coordinates
    they lead to where one layer is much steeper than before, and a fixed step that was right is too
    long there: on the digits network low-rank BAOAB lost four chains of four.

    An exchange costs about as much as the gradient of the prior, a rescaling three evaluations of
    the loss of all data. Many chains side by side, more than 31, pay for both at every step: use
    fewer, or ``rescale=0``.

    Args:
      sampler: any sampler of one copy of the position that takes no value of U.
      posterior: what it samples; with its data in memory unless ``rescale`` is 0.
      params: of the network, such as the first ones.
      every: steps from one round of moves to the next.
      width: the standard deviation of log c in an exchange of scales between layers.
      rescale: that of log c where one array is rescaled and the likelihood decides; 0: never.
      pairs: for each hidden layer the paths of the arrays that are multiplied and of those that are
        divided; None finds them where each layer has a ``kernel`` and perhaps a ``bias``, and the
        names of the layers have their numbers.

    Returns:
      A sampler of the same posterior.
    """
    replaced = posterior.overrides("log_prior", "potential")
    if replaced is not None:
        raise TypeError(
            f"scale exchange takes the prior apart, array by array, and {type(posterior).__name__} "
            f"replaces {replaced}"
        )
    if posterior.host is not None and not (check.known(rescale) and rescale == 0):
        raise ValueError(
            "the data of this posterior are streamed, and a rescaling is tested on all of them: "
            "use rescale=0"
        )
    params = model_params(params)
    if isinstance(posterior.apply, NonCentred):
        params = params["z"]
    chosen = layer_pairs(params) if pairs is None else pairs
    exchanges = _exponents(params, chosen)
    _check_homogeneous(posterior, params, chosen, exchanges)
    kernel = ScaleMoves(posterior, exchanges, width, rescale)
    integrator = interleaved(sampler.integrator, kernel, every=every)
    return Sampler(integrator, sampler.clock, sampler.key, sampler.rows)


def layer_pairs(params: PyTree) -> list[tuple[list[str], list[str]]]:
    """What each hidden layer multiplies and divides, where layers are numbered by name."""
    layers: dict[str, list[str]] = {}
    for path, _ in priors.paths(params):
        layer, _, kind = path.rpartition("/")
        if kind not in ("kernel", "bias"):
            raise ValueError(
                f"the layers of a network are found by arrays called kernel and bias, and there is "
                f"{path}: give pairs"
            )
        layers.setdefault(layer, []).append(path)

    def number(layer: str) -> list[int]:
        return [int(digits) for digits in re.findall(r"\d+", layer)]

    ordered = sorted(layers, key=number)
    return [
        (layers[one], [path for path in layers[other] if path.endswith("kernel")])
        for one, other in pairwise(ordered)
    ]


def _exponents(params: PyTree, pairs: Pairs) -> _Exponents:
    """The power of c of each array, for each pair."""
    paths = [path for path, _ in priors.paths(params)]
    for path in (path for pair in pairs for side in pair for path in side):
        if path not in paths:
            raise ValueError(f"there is no array {path!r} in the parameters: {', '.join(paths)}")
    return tuple(tuple((path in up) - (path in down) for path in paths) for up, down in pairs)


def _check_homogeneous(
    posterior: Posterior, params: PyTree, pairs: Pairs, exchanges: _Exponents
) -> None:
    """Raise unless every exchange leaves the outputs as they are."""
    leaves, structure = jax.tree.flatten(params)
    # at weights of the usual size, whatever those given are: zeros would hide everything
    keys = jax.random.split(jax.random.key(0), len(leaves))
    leaves = [
        jax.random.normal(key, leaf.shape, leaf.dtype) / np.sqrt(max(1, np.prod(leaf.shape[:-1])))
        for key, leaf in zip(keys, leaves, strict=True)
    ]
    x, apply = posterior.example().x, posterior.apply
    apply = apply.apply if isinstance(apply, NonCentred) else apply

    def outputs(factors: Sequence[float]) -> list[Array]:
        moved = [f * leaf for f, leaf in zip(factors, leaves, strict=True)]
        return jax.tree.leaves(apply(jax.tree.unflatten(structure, moved), x))

    here = outputs([1.0] * len(leaves))
    size = max(float(jnp.abs(each).max()) for each in here)
    for (up, down), powers in zip(pairs, exchanges, strict=True):
        there = outputs([4.0**power for power in powers])
        off = max(float(jnp.abs(a - b).max()) for a, b in zip(here, there, strict=True))
        if not off <= _TOLERANCE * size:
            raise ValueError(
                f"scale exchange needs a network whose outputs stay as they are if "
                f"{', '.join(up)} are multiplied by 4 and {', '.join(down)} divided by it, as with "
                f"rectified units; those of this one change by {off / size:.1%}"
            )
