"""A centre of the posterior of many rows, and whether a control variate at it pays.

Near the mode rows' gradients move together, so that a minibatch asked only for what has changed
since a centre is hardly noisy, and the cost of a draw does not depend on the number of rows:

    noise of a minibatch of B rows, in coordinates of unit size     N / B for a plain one,
                                                                    some d / N of it with a centre

The centre is found by Newton steps on some rows, then on more, then by a few gradients on all of
them. Scales that a prior samples stay where they are meanwhile but for a step on their own, since
the joint mode of weights and their scales may be the degenerate one where both vanish.

What is measured then is the noise of single rows' gradients at typical positions, with the centre
and without, and what an effective draw costs either way, or with all rows at each step.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

from sundman._types import PyTree
from sundman.gradients import ControlVariate, minibatch
from sundman.gradients.control_variates import Anchor, is_sum_over_rows
from sundman.gradients.full_data import Curvature, RowNoise, curvature, full_pass, row_noise
from sundman.gradients.minibatch import Minibatch
from sundman.noise import Purpose, fold
from sundman.posterior import Batch, Position, Posterior
from sundman.posterior.evaluation import LIKELIHOOD
from sundman.posterior.linear import has_linear_outputs
from sundman.tune.wide_centre import Surroundings

MANY_ROWS = 5_000  # with fewer, all rows at each step cost no more than a minibatch
DENSE = 500  # up to so many coordinates there is a Hessian
_ROWS_PER_COORDINATE = 5  # with fewer rows the posterior is wide, as that of a network is
_FIRST_ROWS, _FIRST_PER_COORDINATE = 2_048, 20
_LAST_ROWS, _LAST_PER_COORDINATE = 16_384, 200  # whose Hessian is known to 7%
_MOST_ROWS = 2**17
_NEWTON_STEPS, _FULL_PASSES, _HALVINGS = 40, 8, 8
_NEAR = 0.05  # of a squared distance of d: the centre is a quarter of a sd from the mode
_NEAR_WIDE = 0.2  # in many dimensions, where minibatches are noisier anyway
_SAME = 25.0  # times the squared distance that chance makes: modes further apart are two
DRAWS_OF_NOISE, ROWS_OF_NOISE = 64, 128  # positions, and rows of each
_USUAL_STEP, _USUAL_FRICTION = 0.5, 0.6  # in coordinates of unit size, without noise
_HEAT = 0.1  # that noise may bring in, before it is taken out
_FEWEST, _OVERHEAD = 64, 300  # rows of a batch; what a step costs besides, in rows
_NOISE_SHARE = 0.5  # as in tune.state, of a step that noise limits
_FEWEST_DRAWS = 4  # by which noise is measured in many dimensions
_KICK = 0.1  # as in tune.rounds
FLOOR = 1e-7  # of the largest curvature: below it there is only rounding


class Centre(NamedTuple):
    """Where the gradient over all rows is known; vectors, as the position is ravelled.

    Attributes:
      position: (d,).
      grads: the likelihood's part of the gradient there, over all rows, (d,).
      scale: L with L L' = H^-1 there, (d, d); in many dimensions (d,), with H's diagonal alone.
      potential: the likelihood's part of U there.
      batch_size: rows of a minibatch.
      noise: largest eigenvalue of the covariance of its noise with the centre, at typical positions
        and in coordinates of unit size.
      plain: without the centre.
      passes: over all rows that it took to find, about.
      draws: positions that the chains may begin at, (chain, d), in many dimensions.
    """

    position: np.ndarray
    grads: np.ndarray
    scale: np.ndarray
    potential: float
    batch_size: int
    noise: float
    plain: float
    passes: float
    draws: np.ndarray


class NoCentre(Exception):
    """There is none, or it does not pay; the message says why, to follow "no control variate: "."""


def anchor_at(example: PyTree, centre: Centre) -> Anchor:
    """The centre as an anchor of control variates."""
    flat, unravel = ravel_pytree(example)
    at, slope = (unravel(jnp.asarray(each, flat.dtype)) for each in (centre.position, centre.grads))
    return Anchor(at, jnp.asarray(centre.potential, flat.dtype), slope)


def estimator_at(
    posterior: Posterior, example: PyTree, position: ArrayLike, grads: ArrayLike, batch_size: int
) -> ControlVariate:
    """The minibatch gradient with a control variate at a centre, its rows drawn independently."""
    flat, unravel = ravel_pytree(example)
    at, slope = (unravel(jnp.asarray(each, flat.dtype)) for each in (position, grads))
    batches = minibatch(posterior, batch_size, order="with_replacement")
    assert isinstance(batches, Minibatch)  # the data are in memory
    return ControlVariate(batches, Anchor(at, jnp.zeros((), flat.dtype), slope))


def refusal(
    posterior: Posterior,
    example: PyTree,
    batch_size: int | None,
    *,
    method: str | None = None,
    forced: bool = False,
) -> str | None:
    """Why no centre is looked for, without looking at the data; None if one is.

    Args:
      posterior: what was given to be sampled.
      example: a position.
      batch_size: rows a step, if they were given.
      method: of the sampler that tunes itself, if it was given.
      forced: whether one is wanted all the same.
    """
    if not isinstance(posterior.data, Batch):
        return "its data are streamed"
    rows, size = posterior.size, ravel_pytree(example)[0].size
    if not is_sum_over_rows(posterior):
        return "U is not a sum over rows"
    if method == ("low_rank_baoab" if size <= DENSE else "baoab"):
        return f"{method} does not go with it in {size:,} coordinates"
    if size > DENSE and _scales_of_priors(example).any():
        return f"the prior's scales are sampled, with {size:,} coordinates"
    if size > DENSE and not has_linear_outputs(posterior, example):
        return f"the model bends in its {size:,} parameters"
    if forced:
        return None
    if rows < MANY_ROWS:
        return f"{rows:,} rows are few"
    if rows < _ROWS_PER_COORDINATE * size:
        return f"with {rows:,} rows for {size:,} coordinates the posterior is wide"
    if batch_size is not None and 2 * batch_size >= rows:
        return f"batch_size={batch_size} is half of the rows"
    return None


def find(
    posterior: Posterior,
    example: PyTree,
    starts: np.ndarray,
    temperature: float,
    key: Array,
    batch_size: int | None = None,
    *,
    chains: int = 1,
    forced: bool = False,
) -> Centre:
    """The centre, if there is one that pays.

    Args:
      posterior: for which :func:`refusal` gives none.
      example: a position, for its structure.
      starts: the first positions of the chains, (chain, d).
      temperature: T.
      key: of the run.
      batch_size: rows of a minibatch; chosen if it is None.
      chains: how many there are.
      forced: whether a centre is taken that does not pay.

    Returns:
      The centre.

    Raises:
      NoCentre: if there is none.
    """
    key, starts = fold(key, 0, Purpose.CENTRE), np.unique(np.asarray(starts, np.float64), axis=0)
    if starts.shape[1] > DENSE:
        with np.errstate(all="ignore"):
            return _find_wide(
                posterior, example, starts[0], temperature, key, batch_size, chains, forced=forced
            )
    search = _Search(posterior, example, key)
    with np.errstate(all="ignore"):
        position, passes = search.mode(starts)
        return search.measured(position, temperature, batch_size, passes, forced=forced)


def rows_of_hessian(size: int, rows: int) -> int:
    """How many of the rows a Hessian of d coordinates is computed on."""
    return min(rows, int(np.clip(_LAST_PER_COORDINATE * size, _LAST_ROWS, _MOST_ROWS)))


class _Search:
    """The search for a mode, and what is measured there."""

    def __init__(self, posterior: Posterior, example: PyTree, key: Array) -> None:
        self.posterior, self.example, self.key = posterior, example, key
        self.size = ravel_pytree(example)[0].size
        self.held = _scales_of_priors(example)
        self.last = rows_of_hessian(self.size, posterior.size)
        first = max(_FIRST_ROWS, _FIRST_PER_COORDINATE * self.size)
        self.first = min(self.last, first)

    def mode(self, starts: np.ndarray) -> tuple[np.ndarray, float]:
        """A position near the mode, and how many passes over all rows it took."""
        found = [self._descended(start, self.first, _NEWTON_STEPS) for start in starts]
        theta, hessian = found[0]
        for other, _ in found[1:]:
            apart = (other - theta)[~self.held]
            chance = self.size * self.posterior.size / self.first
            block = hessian[np.ix_(~self.held, ~self.held)]
            if apart @ block @ apart > _SAME * chance:
                raise NoCentre("the chains' first positions lead to different modes")
        if self.held.any():
            theta, hessian = self._with_scales(theta)
        if self.last > self.first:
            theta, hessian = self._descended(theta, self.last, _NEWTON_STEPS)
        for number in range(_FULL_PASSES):
            grads = full_pass(self.posterior, self.example, theta[None], theta).grads[0]
            step = _newton(hessian, grads, ~self.held)
            away = -float(step @ grads)
            theta = theta + step
            if not math.isfinite(away):
                raise NoCentre("U or its gradient is not finite near its mode")
            if away < _NEAR * self.size:
                return theta, number + 1 + 4.0 * self.last / self.posterior.size
        raise NoCentre(
            "no mode was found: the gradient over all rows does not vanish where Newton's steps "
            "lead, as with separable classes under a flat prior"
        )

    def _with_scales(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """With the sampled scales of priors at their mode given the rest, then the rest again."""
        for block in (self.held, ~self.held):
            theta, hessian = self._descended(theta, self.first, _NEWTON_STEPS, block)
        return theta, hessian

    def _curvature(self, theta: np.ndarray, before: np.ndarray, rows: int) -> Curvature:
        return curvature(self.posterior, self.example, theta, before, self.key, rows)

    def _descended(
        self, theta: np.ndarray, rows: int, most: int, free: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Where guarded Newton steps on some rows lead, and the Hessian there."""
        free = ~self.held if free is None else free
        near = 0.1 * self.size * max(0.1, self.posterior.size / rows - 1.0)
        here = self._curvature(theta, theta, rows)
        for _ in range(most):
            step = _newton(here.hessian, here.grads, free)
            away = -float(step @ here.grads)
            if not math.isfinite(away):
                raise NoCentre("U or its gradient is not finite on the way to its mode")
            if away < near:
                return theta, here.hessian
            for _ in range(_HALVINGS):
                there = self._curvature(theta + step, theta, rows)
                if there.value < -1e-4 * away:
                    break
                step = 0.25 * step
            else:
                raise NoCentre("U does not fall along its gradient on the way to a mode")
            theta, here = theta + step, there
        raise NoCentre(f"no mode was found in {most} Newton steps")

    def measured(
        self,
        position: np.ndarray,
        temperature: float,
        batch_size: int | None,
        passes: float,
        *,
        forced: bool = False,
    ) -> Centre:
        """The centre there with its scale, batch and noise, if it pays."""
        posterior, example = self.posterior, self.example
        there = full_pass(posterior, example, position[None], position)
        scale = inverse_root(self._curvature(position, position, self.last).hessian)
        draws = position + math.sqrt(temperature) * self._normals() @ scale.T
        noise = row_noise(posterior, example, draws, position, scale, self.key, rows=ROWS_OF_NOISE)
        plain, change = loudest(noise)
        chosen = batch_size or _batch_size(change, temperature, posterior.size)
        if not forced:
            _check_pays(plain, change, chosen, temperature, posterior.size, batch_size)
        return Centre(
            position,
            there.losses[0],
            scale,
            there.reference,
            chosen,
            change / chosen,
            plain / chosen,
            passes + 1,
            np.zeros((0, self.size)),
        )

    def _normals(self) -> np.ndarray:
        words = np.asarray(self.key, np.uint32)
        return np.random.default_rng(words.tolist()).normal(size=(DRAWS_OF_NOISE, self.size))


def _find_wide(
    posterior: Posterior,
    example: PyTree,
    start: np.ndarray,
    temperature: float,
    key: Array,
    asked: int | None,
    chains: int,
    *,
    forced: bool,
) -> Centre:
    """The centre in many dimensions; one mode is all that a model of linear outputs has."""
    around = Surroundings(posterior, example, key)
    found = around.mode(start, _NEAR_WIDE)
    if found is None:
        raise NoCentre("no mode was found by Newton's method on all rows")
    position, diagonal, passes = found
    number = max(chains, _FEWEST_DRAWS)
    away = around.typical(position, diagonal, number)
    draws, unit = position + math.sqrt(temperature) * away, 1.0 / np.sqrt(diagonal)
    plain, change = around.loudest(draws, position, unit)
    longest = _USUAL_STEP / math.sqrt(max(around.stiffness(position, diagonal), 1.0))

    def cost(noise: float, rows: float) -> float:
        """Rows for a unit of time of a step that the loudest or the stiffest direction limits."""
        allowed = 2.0 * math.sqrt(_KICK * temperature / max(noise, 1e-12))
        return (rows + _OVERHEAD) / min(longest, allowed)

    sizes = [2**k for k in range(6, 1 + int(math.log2(posterior.size)))]
    batch = asked or min(sizes, key=lambda b: cost(change / b, 2.0 * b))
    with_it = cost(change / batch, 2.0 * batch)
    without = cost(0.0, posterior.size) if asked is None else cost(plain / asked, asked)
    if with_it > without and not forced:
        raise _wide(without / with_it, asked)
    there = full_pass(posterior, example, position[None], position)
    return Centre(
        position,
        there.losses[0],
        unit,
        there.reference,
        batch,
        change / batch,
        plain / batch,
        passes + 1,
        draws[:chains],
    )


def _wide(ratio: float, asked: int | None) -> NoCentre:
    other = "all rows at each step" if asked is None else "plain minibatches"
    return NoCentre(
        f"the posterior is wide against its curvature: {other} would cost {ratio:.2g} times as "
        "much for an effective draw"
    )


def loudest(noise: RowNoise) -> tuple[float, float]:
    """The largest eigenvalues of the noise of a row, without and with the centre."""
    values = (float(np.linalg.eigvalsh(each)[-1]) for each in (noise.plain, noise.change))
    plain, change = (value if math.isfinite(value) else math.inf for value in values)
    return plain, change


def _batch_size(change: float, temperature: float, rows: int) -> int:
    """Rows of a batch whose noise brings in little heat: a power of two, so that few compile."""
    allowed = 2.0 * _HEAT * _USUAL_FRICTION * temperature / _USUAL_STEP
    wanted = min(max(change / allowed, 1.0), float(rows))
    return int(min(max(_FEWEST, 2 ** math.ceil(math.log2(wanted))), rows))


def _cost(noise: float, rows: float, temperature: float) -> float:
    """Rows for a unit of whitened time, of steps of so many rows and so much noise."""
    noise = max(noise, 1e-12)
    longest = 2.0 * _NOISE_SHARE * _USUAL_FRICTION * temperature / noise
    return (rows + _OVERHEAD) / min(_USUAL_STEP, longest)


def _check_pays(
    plain: float, change: float, batch: int, temperature: float, rows: int, asked: int | None
) -> None:
    """Raise unless the control variate costs less than what would be done without it."""
    if not math.isfinite(change):
        raise NoCentre("rows' gradients are not finite at typical distances from the mode")
    with_it = _cost(change / batch, 2.0 * batch, temperature)
    without = _cost(0.0, rows, temperature)
    if asked is not None:
        without = _cost(plain / asked, asked, temperature)
    if with_it > without:
        raise _wide(without / with_it, asked)


def inverse_root(hessian: np.ndarray) -> np.ndarray:
    """L with L L' = H^-1; directions without curvature as wide as rounding lets one know."""
    size = np.sqrt(np.maximum(np.abs(np.diag(hessian)), 1e-30))
    values, vectors = np.linalg.eigh(hessian / np.outer(size, size))
    values = np.maximum(np.abs(values), FLOOR * np.abs(values).max())
    half = vectors / np.sqrt(values) / size[:, None]
    return np.linalg.cholesky(half @ half.T)


def _newton(hessian: np.ndarray, grads: np.ndarray, free: np.ndarray) -> np.ndarray:
    """-|H|^-1 g of the free coordinates, 0 of the others."""
    step = np.zeros_like(grads)
    if not (np.isfinite(hessian).all() and np.isfinite(grads).all()):
        return np.full_like(grads, np.nan)
    root = inverse_root(hessian[np.ix_(free, free)])
    step[free] = -root @ (root.T @ grads[free])
    return step


def _scales_of_priors(example: PyTree) -> np.ndarray:
    """Which coordinates are scales that a prior samples."""
    if not isinstance(example, Position):
        return np.zeros(ravel_pytree(example)[0].size, bool)
    marked = example._replace(
        params=jax.tree.map(np.zeros_like, example.params),
        hyper={
            name: jax.tree.map(np.zeros_like if name == LIKELIHOOD else np.ones_like, part)
            for name, part in example.hyper.items()
        },
    )
    return np.asarray(ravel_pytree(marked)[0]) > 0
