"""What a window of the warm-up teaches: the scale, the friction, the clock, the longest step."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from sundman._trees import leaf_paths
from sundman._types import PyTree
from sundman.gradients.full_data import curvature, full_pass, row_noise, spots
from sundman.noise import Purpose, Stream, fold, gaussian, substream
from sundman.tune import scales
from sundman.tune.auto import CLOCK_M, Auto, WarmUpWindow
from sundman.tune.centre import DRAWS_OF_NOISE, FLOOR, ROWS_OF_NOISE, rows_of_hessian
from sundman.tune.loops import (
    MOST_SUB_WINDOWS,
    SUB,
    Sums,
    Traces,
    Walk,
    levels,
    mean_hessian,
    window,
)
from sundman.tune.state import (
    NOISE_SHARE,
    Problem,
    TuningError,
    WarmUp,
    dynamics,
    matters,
    number_of_rows,
    rescaled,
    rows_of_step,
)

_DESCENT_STEPS, _MOST_DESCENTS = 60, 30
_GRADIENTS = 3000  # of the whole warm-up, if half of the usual windows are left: 15% of a usual run
_WINDOWS = (60, 60, 120, 240, 480, 1040)
_WINDOWS_NOISY = (60, 60, 120, 160, 240, 520)  # of two gradients a step
_REPEATS, _REPEATED = 1, 0.4  # of the steps of all windows, if U still falls after them
_HOPELESS = 100.0  # in units of U's spread: so far above the others a chain has no weight
_TRAVELLED = 1e3  # times where it began: so far no law's width takes a coordinate
_UNBOUNDED = 1e12  # in units of T: no law has a potential below minus this
_FRICTION_SHARE = 0.5  # of the critical friction: means gain a factor of two, squares lose little
_FRICTION = (0.05, 2.0)
_STEADY = 0.14  # dt may vary by so much, in units of its mean, at the usual energy error
_JUMPS, _LEAST_SHARE = 5e-5, 0.03  # steps at which the energy may jump; the price for fewer
_HESSIANS = 16  # minibatches that a mean Hessian is of, all chains together
_FEWEST_ROWS = 16  # of gradients that say how many directions are stiff
_MOST_ROWS = 4000  # of positions, all chains together, that say how wide the law is
_MOST_PRODUCTS = 1000  # rows that are multiplied with each other
_FIXED_BATCHES = 16  # on which U is compared from block to block of the descent
_SPOTS_OF_CHAIN = 4  # positions of the last window at which all rows are looked at
_SURE, _MOVES = 5.0, 3  # errors beyond which chains are beside the mode; how often they are moved
_RECENTRED = 3  # windows before the one after which the control variate moves
_POSITIONS = 256  # by which the noise of a control variate is known to 2%
_ROW_NUMBERS = 2**24  # kept of positions, of gradients and of their changes


def lengths(auto: Auto, *, exact: bool) -> tuple[int, ...]:
    """The lengths of the windows."""
    usual = _WINDOWS if exact else _WINDOWS_NOISY
    if auto.warm_up is None:
        return usual
    scale = auto.warm_up / sum(usual)
    return tuple(min(MOST_SUB_WINDOWS, max(2, round(n * scale / SUB))) * SUB for n in usual)


def advance(problem: Problem, warm: WarmUp) -> WarmUp:
    """The warm-up after its next block of descent, or window."""
    last = not warm.descending and len(warm.left) == 1
    steps = _DESCENT_STEPS if warm.descending else warm.left[0]
    rows = number_of_rows(warm.chains, warm.coordinates, _ROW_NUMBERS, MOST_SUB_WINDOWS)
    number = steps // SUB
    walk, h, lost, sums, traces = window(
        dynamics(problem, warm, gain=0.5 if last else 1.0),
        warm.walk,
        np.asarray(_steps_of(warm), np.float32),
        np.int32(number),
        rows=rows,
    )
    result = _WindowResult(scales.host(sums), traces, number, rows, int(lost))
    _check_bounded(problem, result.line("U"), walk)
    cost = warm.gradients + problem.cost * steps
    own = np.asarray(h, np.float64)
    middle = float(np.exp(np.median(np.log(np.maximum(own, 1e-300)))))
    warm = dataclasses.replace(warm, walk=walk, h=middle, steps=own, gradients=cost)
    if not warm.descending and len(warm.left) <= 2:
        _check_moved(problem, warm, result)
    with np.errstate(all="ignore"):  # a law that cannot be normalised goes as far as numbers do
        if warm.descending:
            return _after_descent(problem, warm, result)
        return _after_last(problem, warm, result) if last else _after_window(problem, warm, result)


def _check_bounded(problem: Problem, U: np.ndarray, walk: Walk) -> None:
    """Raise if U falls without bound."""
    if np.all(np.isfinite(U)) and U[-1] > -_UNBOUNDED * problem.temperature:
        return
    size = float(np.max(np.abs(np.asarray(walk.position))))
    raise TuningError(
        f"U falls without bound: it is {U[-1]:.3g} at positions as large as {size:.3g}. Did you "
        "pass log p instead of -log p? Use sample(log_density=...); or the law is improper"
    )


def _check_moved(problem: Problem, warm: WarmUp, result: _WindowResult) -> None:
    """Raise if no step moves the chains, so that nothing can be learnt of the law."""
    kept = result.kept("x")
    still = (kept == kept[0]).all(axis=(0, 1))
    if not (still.any() if problem.exact else still.all()):  # noise may allow only tiny steps
        return
    number = int(np.argmax(np.where(still, abs(kept[-1, 0]), -1.0)))
    began = float(ravel_pytree(problem.example)[0][number])
    value = float(kept[-1, 0, number])
    spacing = float(np.spacing(np.asarray(abs(value), warm.walk.position.dtype)))
    improper = (
        "the law cannot be normalised, as where a flat prior meets classes that the columns "
        "separate or a column of zeros, or where log p was given for -log p"
    )
    narrow = (
        "it is narrower than what these numbers resolve: subtract a constant where the position "
        "enters U (of a regression, centre the columns), or sample in float64, "
        "jax.config.update('jax_enable_x64', True)"
    )
    rough = "U or its gradient is not continuous, or they do not belong together"
    causes = [narrow, improper, rough]
    if result.rejected >= result.number * SUB * warm.chains:
        causes = [rough, narrow, improper]
    if not problem.exact:
        rough = (
            f"the noise of the minibatches allows only steps of {warm.h:.2g}: take larger batches, "
            "and look for single rows that are far larger than the others"
        )
        causes = [rough, narrow, improper]
    if abs(value - began) > _TRAVELLED * max(abs(began), 1.0):
        causes = [improper, *(cause for cause in causes if cause is not improper)]
    raise TuningError(
        f"no step moves the chains: {_name_of(problem.example, number)} began at {began:.6g} and "
        f"stands at {value:.6g}, where neighbouring numbers of its dtype are {spacing:.2g} apart. "
        f"Most likely {causes[0]}. Or {causes[1]}. Or {causes[2]}"
    )


def _name_of(example: PyTree, number: int) -> str:
    """What a coordinate of the ravelled position is called."""
    sizes = [np.size(leaf) for leaf in jax.tree.leaves(example)]
    leaf = int(np.searchsorted(np.cumsum(sizes), number, side="right"))
    return f"{leaf_paths(example)[leaf]}[{number - sum(sizes[:leaf])}]"


@dataclass(frozen=True)
class _WindowResult:
    """What a window left behind."""

    sums: Sums
    traces: Traces
    number: int
    rows: int
    rejected: int

    def line(self, name: str) -> np.ndarray:
        """One of the traces that are numbers."""
        return np.asarray(getattr(self.traces, name), np.float64)[: self.number]

    def kept(self, name: str) -> np.ndarray:
        """One of the traces that are vectors, axes (row, chain, coordinate)."""
        return np.asarray(getattr(self.traces, name), np.float64)[: min(self.number, self.rows)]


def _step_to_the_mode(
    problem: Problem, warm: WarmUp, result: _WindowResult
) -> tuple[np.ndarray, int]:
    """Newton's step of the mean of the chains by the gradient on all rows; 0 if they are there.

    The noise of minibatches hides where chains are for longer than a window is. Also returned is
    what it took, in gradients of a chain.
    """
    nothing = np.zeros(warm.coordinates)
    if problem.spot_rows <= 0 or problem.posterior is None:
        return nothing, 0
    kept = result.kept("x")
    kept = kept[np.linspace(len(kept) // 2, len(kept) - 1, _SPOTS_OF_CHAIN).astype(int)]
    at = kept.reshape(-1, warm.coordinates)
    known = None if problem.centre is None else (warm.anchor[0], warm.anchor[1])
    seen = spots(problem.posterior, problem.example, at, problem.spot_rows, known)
    if seen is None or not np.isfinite(seen.grads).all():
        return nothing, 0
    slope = scales.inward(warm.scale, seen.grads.mean(axis=0))
    chance = (warm.coordinates + _SURE * math.sqrt(2.0 * warm.coordinates)) / warm.chains
    rows = 2.0 * seen.rows * len(at) / warm.chains
    cost = math.ceil(rows / rows_of_step(problem))
    if slope @ slope <= 2.0 * chance * problem.temperature**2:
        return nothing, cost
    return -(warm.scale * slope if warm.scale.ndim == 1 else warm.scale @ slope), cost


def _record(warm: WarmUp, result: _WindowResult, stage: str, width: float, noise: float) -> WarmUp:
    """With one more record."""
    record = WarmUpWindow(
        stage,
        result.number * SUB,
        warm.h,
        float(result.line("v").mean()),
        warm.gamma,
        width,
        noise,
        float(result.line("U")[-1]),
        result.rejected,
    )
    return dataclasses.replace(warm, records=(*warm.records, record))


def _after_descent(problem: Problem, warm: WarmUp, result: _WindowResult) -> WarmUp:
    d = warm.coordinates
    now, own = float(np.median(result.line("U")[-3:])), np.asarray(warm.walk.value, np.float64)
    if not problem.exact:
        own = levels(dynamics(problem, warm), warm.walk, number=_FIXED_BATCHES)
        own = np.asarray(own, np.float64)
        now = float(np.median(own))
        warm = dataclasses.replace(warm, gradients=warm.gradients + _FIXED_BATCHES)
    warm = _record(warm, result, "descent", 0.0, 0.0)
    falls = now < warm.lowest - 2.0 * math.sqrt(d / 2) * problem.temperature
    if not falls or len(warm.records) >= _MOST_DESCENTS:
        warm = _without_stragglers(problem, warm, own)
        left = warm.left if problem.by_rounds else _affordable(problem, warm, warm.left)
        return dataclasses.replace(warm, descending=False, gamma=1.0, left=left)
    diagonal = scales.diagonal(result.sums, problem.temperature)
    if np.isfinite(diagonal).all() and (diagonal > 0).all():
        warm = rescaled(warm, np.diag(diagonal) if warm.scale.ndim == 2 else diagonal)
        walk = warm.walk._replace(momentum=jnp.zeros_like(warm.walk.momentum))
        warm = dataclasses.replace(warm, walk=walk)
    return dataclasses.replace(warm, lowest=now, gamma=1.0)


def _without_stragglers(problem: Problem, warm: WarmUp, U: np.ndarray) -> WarmUp:
    """With chains that are hopelessly far up when the descent ends put where others are.

    Args:
      problem: what is tuned for.
      warm: when the descent ends.
      U: of every chain, on the same rows.
    """
    T = problem.temperature
    spread = max(1.0, math.sqrt(warm.coordinates / 2)) * T
    far = ~(np.median(U) + _HOPELESS * spread > U)
    if not far.any() or far.all():
        return warm
    here = np.arange(warm.chains)
    here[far] = np.resize(np.flatnonzero(~far), int(far.sum()))
    walk = warm.walk._replace(
        position=warm.walk.position[here],
        momentum=jnp.zeros_like(warm.walk.momentum),
        value=warm.walk.value[here],
        grads=warm.walk.grads[here],
        memory=jax.tree.map(lambda leaf: leaf[here], warm.walk.memory),
    )
    return dataclasses.replace(warm, walk=walk, moved=int(far.sum()))


def _steps_of(warm: WarmUp) -> np.ndarray:
    """h of every chain: its own in the descent, then one for all."""
    own = warm.descending and warm.steps.size
    return warm.steps if own else np.full(warm.chains, warm.h)


def _after_window(problem: Problem, warm: WarmUp, result: _WindowResult) -> WarmUp:
    """A new scale, friction, clock and longest step; momenta anew."""
    chains, d = warm.walk.position.shape
    T = problem.temperature
    done = warm.number_of("window")
    if problem.centre is not None:
        warm = _recentred(problem, warm, result) if done == _RECENTRED else warm
    elif not problem.exact and warm.scale.ndim == 2 and done % 2 == 0:
        warm = _with_hessian(problem, warm)
    warm = rescaled(warm, _new_scale(problem, warm, result))
    inside = scales.inward(warm.scale, result.kept("g").reshape(-1, d))
    width, gamma, share, stiff = 1.0, 1.0, warm.share, warm.stiff
    noise, loudest, longest = np.zeros(0), 0.0, math.inf
    if not problem.exact:
        noise = scales.moments(result.sums)[2]
        loudest = _loudest(warm.scale, noise, result.kept("change").reshape(-1, d))
    if problem.exact or warm.scale.ndim == 2:
        width = _width(warm.scale, result.kept("x")) / T
        if len(warm.left) == 2:
            gamma = _friction(problem, result, warm.h, width, loudest, chains)
            share = _share(result)
    if problem.exact and warm.scale.ndim == 1:
        stiff = _share_of_stiff_directions(warm.scale, result.kept("g"))
    if loudest > 0:
        longest = 2.0 * NOISE_SHARE * gamma * T / loudest
    clock = problem.exact and done >= 1 and d > 1
    warm = dataclasses.replace(
        warm,
        walk=_with_fresh_momenta(warm.walk, T),
        h=min(warm.h, longest),
        gamma=gamma,
        longest=longest,
        share=share,
        stiff=stiff,
        noise=noise,
        reference=float(np.median(np.sum(inside**2, -1))),
        bound=CLOCK_M if clock else 1.0,
        left=warm.left[1:],
    )
    return _record(warm, result, "window", width, loudest)


def _recentred(problem: Problem, warm: WarmUp, result: _WindowResult) -> WarmUp:
    """With the control variate, and the Hessian, at the mean of the chains."""
    assert problem.posterior is not None
    posterior, example = problem.posterior, problem.example
    sums = result.sums
    mean = (np.asarray(sums.origin) + np.asarray(sums.x) / float(sums.n)).mean(axis=0)
    if not np.isfinite(mean).all():
        return warm
    slope = full_pass(posterior, example, mean[None], mean).losses[0]
    rows = rows_of_hessian(warm.coordinates, posterior.size)
    hessian = curvature(posterior, example, mean, mean, _words(warm), rows).hessian
    anchor = np.stack([mean, slope])
    return dataclasses.replace(warm, anchor=anchor, hessian=hessian, hessians=1)


def _words(warm: WarmUp) -> Array:
    """A key for rows that are looked at between two windows."""
    return fold(warm.walk.key[0], len(warm.records), Purpose.CENTRE)


def _noise_at(problem: Problem, warm: WarmUp, positions: np.ndarray) -> np.ndarray:
    """The covariance of the noise of a minibatch, averaged over positions (row, chain, d)."""
    assert problem.posterior is not None
    assert problem.centre is not None
    every = positions.reshape(-1, warm.coordinates)
    some = every[:: max(1, len(every) // _POSITIONS)][:_POSITIONS]
    change = np.zeros_like(warm.scale)
    ends = range(DRAWS_OF_NOISE, len(some) + 1, DRAWS_OF_NOISE)  # of a size compiled before
    parts = [some[end - DRAWS_OF_NOISE : end] for end in ends] or [some]
    for number, part in enumerate(parts):
        noise = row_noise(
            problem.posterior,
            problem.example,
            part,
            warm.anchor[0],
            warm.scale,
            fold(_words(warm), number, Purpose.ROWS),
            rows=ROWS_OF_NOISE,
        )
        change += noise.change / len(parts)
    back = np.linalg.inv(warm.scale)
    return back.T @ change @ back / problem.centre.batch_size


def _with_hessian(problem: Problem, warm: WarmUp) -> WarmUp:
    """With one more mean Hessian, at the price of two gradients for each coordinate."""
    d, number = warm.coordinates, max(1, _HESSIANS // warm.chains)
    here = dynamics(problem, warm)
    mean = np.asarray(mean_hessian(here, warm.walk, number=number), np.float64)
    return dataclasses.replace(
        warm,
        hessian=mean if warm.hessians == 0 else warm.hessian + mean,
        hessians=warm.hessians + 1,
        gradients=warm.gradients + 2 * d * number,
    )


def _new_scale(problem: Problem, warm: WarmUp, result: _WindowResult) -> np.ndarray:
    T = problem.temperature
    if warm.scale.ndim == 1:
        return scales.diagonal(result.sums, T)
    if warm.hessians:
        floor = scales.NOISY_FLOOR if problem.centre is None else FLOOR
        return scales.from_hessian(result.sums, warm.hessian / warm.hessians, T, floor)
    return scales.dense(result.sums, T)


def _friction(
    problem: Problem, result: _WindowResult, h: float, width: float, loudest: float, chains: int
) -> float:
    """The friction: a share of the critical one, more where the noise limits the step.

    With noise, the longest step grows with the friction; up to the critical one squares then gain
    and means lose nothing, until the energy error limits the step.
    """
    usual = _FRICTION_SHARE / math.sqrt(width)
    if loudest > 0:
        v = float(result.line("v").mean())
        allowed = h * (problem.auto.aim(chains) / max(v, 1e-12)) ** (1 / 6)
        balanced = allowed * loudest / (2.0 * NOISE_SHARE * problem.temperature)
        usual = float(np.clip(balanced, usual, 2.0 / math.sqrt(width)))
    return float(np.clip(usual, *_FRICTION))


def _share(result: _WindowResult) -> float:
    """The share of the usual energy error to aim at: less where the clock has much to do, or jumps.

    The energy error is then mostly that of usual places, and the bias of those where dt is short,
    or where the law is narrower than the step and the energy jumps.
    """
    mean, square = result.line("dt").mean(), result.line("dt2").mean()
    varies = math.sqrt(max(square / mean**2 - 1.0, 1e-12))
    return min((_STEADY / varies) ** 2, _share_for_jumps(result))


def _share_for_jumps(result: _WindowResult) -> float:
    """The share of the energy error at which the energy jumps as rarely as it may.

    The share of steps at which it does grows like the energy error, with the sixth power of h.
    """
    jumps = max(float(result.line("jumps").mean()), 1e-12)
    return min(1.0, max(_JUMPS / jumps, _LEAST_SHARE))


def _width(scale: np.ndarray, positions: np.ndarray) -> float:
    """The largest eigenvalue of the covariance in z, about; positions are (row, chain, d)."""
    rows = positions - positions.mean(axis=0)
    if scale.ndim == 1:
        rows = rows[:, :_MOST_PRODUCTS]
        rows = rows[-max(1, _MOST_PRODUCTS // rows.shape[1]) :]
        return scales.widest_of_chains(rows / scale)
    return scales.widest(scales.whiten(scale, rows.reshape(-1, rows.shape[2])[-_MOST_ROWS:]))


def _share_of_stiff_directions(scale: np.ndarray, grads: np.ndarray) -> float:
    """The share of all directions that the energy error of a step is of.

    Where L is one number for each coordinate a few directions can be far stiffer than the others,
    as in the last layer of a network. Spread over all d, their error would seem small.
    """
    d = grads.shape[2]
    rows = (grads - grads.mean(axis=0)).reshape(-1, d)
    rows = scales.inward(scale, rows[:: -(-len(rows) // _MOST_PRODUCTS)])
    return scales.stiff_directions(rows) / d if len(rows) > _FEWEST_ROWS else 1.0


def _affordable(problem: Problem, warm: WarmUp, left: tuple[int, ...]) -> tuple[int, ...]:
    """Shorter windows after a long descent, unless the length of the warm-up was asked for."""
    if problem.auto.warm_up is not None:
        return left
    share = (_GRADIENTS - warm.gradients) / (problem.cost * sum(left))
    return tuple(max(2, round(n * float(np.clip(share, 0.5, 1.0)) / SUB)) * SUB for n in left)


def _repeated(usual: tuple[int, ...]) -> tuple[int, ...]:
    """A window for a new scale and one for the step, in the ratio of the last two."""
    scale = _REPEATED * sum(usual) / sum(usual[-2:])
    return tuple(max(2, round(n * scale / SUB)) * SUB for n in usual[-2:])


def _loudest(scale: np.ndarray, noise: np.ndarray, changes: np.ndarray) -> float:
    """The largest eigenvalue of the covariance of the noise in z; about, where L is diagonal."""
    if scale.ndim == 2:
        return float(np.linalg.eigvalsh(scale.T @ noise @ scale)[-1])
    return scales.widest(scales.inward(scale, changes[-1000:]) / math.sqrt(2))


@jax.jit
def _with_fresh_momenta(walk: Walk, temperature: float) -> Walk:
    def fresh(key: Array, step: Array, like: Array) -> Array:
        return gaussian(substream(Stream(key, step), Purpose.FRESH_MOMENTUM), like)

    momentum = jnp.sqrt(temperature) * jax.vmap(fresh)(walk.key, walk.step, walk.momentum)
    return walk._replace(momentum=momentum, zeta=jnp.full_like(walk.zeta, -1.0))


def _after_last(problem: Problem, warm: WarmUp, result: _WindowResult) -> WarmUp:
    """The step is settled, or the last two windows come again because U still falls."""
    U, quarter = result.line("U"), max(result.number // 4, 1)
    first, final = U[:quarter], U[-quarter:]
    fall = float(first.mean() - final.mean())
    error = math.sqrt((first.var() + final.var()) / quarter)
    beside, seen = _step_to_the_mode(problem, warm, result)
    falling = beside.any()
    if problem.centre is None or not seen:  # where all rows have told nothing
        falling |= fall > max(matters(problem, warm), 4.0 * error)
    again = falling and warm.repeats < (_MOVES if beside.any() else _REPEATS)
    if again and beside.any():  # by all chains alike: how they are spread stays
        there = warm.walk.position + beside.astype(warm.walk.position.dtype)
        warm = dataclasses.replace(warm, walk=warm.walk._replace(position=there))
    warm = dataclasses.replace(warm, gradients=warm.gradients + seen)
    settled = np.exp(np.mean(np.log(result.line("h")[result.number // 4 :])))
    if problem.exact:
        settled *= _share_for_jumps(result) ** (1 / 6)
    width, loudest = warm.records[-1].width, warm.records[-1].noise
    if problem.centre is not None:
        noise = _noise_at(problem, warm, result.kept("x"))
        loudest = float(np.linalg.eigvalsh(warm.scale.T @ noise @ warm.scale)[-1])
        longest = 2.0 * NOISE_SHARE * warm.gamma * problem.temperature / max(loudest, 1e-12)
        warm = dataclasses.replace(warm, noise=noise, longest=longest)
    if not again:
        warm = dataclasses.replace(warm, h=float(min(settled, warm.longest)))
    warm = _record(warm, result, "last", width, loudest)
    usual = lengths(problem.auto, exact=problem.exact)
    return dataclasses.replace(
        warm,
        left=_affordable(problem, warm, _repeated(usual)) if again else (),
        repeats=warm.repeats + int(again),
        converged=not falling,
    )
