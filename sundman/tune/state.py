"""The warm-up between two windows, and what it is for."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np

from sundman._types import PyTree
from sundman.gradients import GradientEstimator
from sundman.posterior import Posterior
from sundman.samplers import SamplerState
from sundman.tune import scales
from sundman.tune.auto import CLOCK_A, CLOCK_R, Auto, WarmUpWindow
from sundman.tune.centre import Centre, estimator_at
from sundman.tune.loops import Dynamics, Walk

NOISE_SHARE = 0.5  # of the momentum's fluctuation that the gradient noise may supply
STILL_FALLING = 0.3  # in units of sqrt(d/2) T, the spread of U: a fall that matters


class TuningError(ValueError):
    """The target cannot be tuned for; the message says what was seen."""


class Problem(NamedTuple):
    """What is tuned for.

    Attributes:
      auto: what was asked.
      gradient: U and its gradient, the noise of each step independent of the one before.
      of_run: the same as the run will have it, where minibatches may depend on each other.
      example: a position.
      temperature: T.
      exact: whether the gradient has no noise.
      matrix: whether L is a matrix.
      independent: whether the noise will be independent in the run as well.
      most_burn_in: steps of burn-in at most, where there are rounds.
      by_gradient: whether the energy error is that of the gradient's work: where U has no noise
        although the gradient has, or is rounded more than the gradient.
      native: whether rounds use the native kernels, as the run does.
      posterior: whose rows the gradient is of, where all of them can be looked at.
      spot_rows: rows that may be looked at to see whether the warm-up has arrived.
      centre: where the first control variate is; None: there is none.
      no_centre: why not, if one was looked for.
    """

    auto: Auto
    gradient: GradientEstimator
    of_run: GradientEstimator
    example: PyTree
    temperature: float
    exact: bool
    matrix: bool
    independent: bool
    most_burn_in: int
    by_gradient: bool = False
    native: bool = False
    posterior: Posterior | None = None
    spot_rows: float = 0.0
    centre: Centre | None = None
    no_centre: str = ""

    @property
    def by_rounds(self) -> bool:
        """Whether there are rounds with the sampler itself in place of windows."""
        return not self.exact and not self.matrix and self.auto.method != "baoab"

    @property
    def noise_taken_out(self) -> bool:
        """Whether the noise of the gradient is taken out of the noise of the sampler."""
        return self.matrix and self.independent and not self.exact

    @property
    def cost(self) -> int:
        """Gradients of a step of the warm-up."""
        return 1 if self.exact else 2


class Movers(NamedTuple):
    """Chains that are moved by a sampler, axes (chain, ...)."""

    position: PyTree
    state: SamplerState
    memory: PyTree


@dataclass(frozen=True)
class WarmUp:
    """The warm-up between two windows.

    Attributes:
      walk: where the chains are.
      h: the step.
      gamma: the friction.
      scale: L.
      steps: the step of every chain, where each has its own.
      moved: chains that the descent left so far up that they were put where others are.
      reference: the usual |L' G|^2.
      bound: M of the clock; 1 while it is off.
      longest: h is at most this, because of the noise.
      share: of the usual energy error that is aimed at.
      stiff: the share of the directions that the energy error is of, where L is no matrix.
      lowest: the mean of U after the last block of the descent.
      descending: whether the descent is not over.
      left: the lengths of the windows or rounds to come.
      repeats: how often the last windows were repeated because U still fell.
      gradients: evaluated so far, of every chain.
      records: what each window saw.
      noise: the covariance of the gradient noise, where L is a matrix.
      hessian: the sum of the mean Hessians so far, where there is noise and L is a matrix.
      hessians: how many.
      anchor: where the control variate is, and the likelihood's part of the gradient there, (2, d),
        if there is one.
      movers: the chains, where there are rounds.
      made: steps of the rounds.
      level: U and the likelihood's part of it at the end of the round before.
      converged: whether U has stopped falling.
    """

    walk: Walk
    h: float
    gamma: float
    scale: np.ndarray
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0))
    moved: int = 0
    reference: float = 1.0
    bound: float = 1.0
    longest: float = math.inf
    share: float = 1.0
    stiff: float = 1.0
    lowest: float = math.inf
    descending: bool = True
    left: tuple[int, ...] = ()
    repeats: int = 0
    gradients: int = 0
    records: tuple[WarmUpWindow, ...] = ()
    noise: np.ndarray = field(default_factory=lambda: np.zeros(0))
    hessian: np.ndarray = field(default_factory=lambda: np.zeros(0))
    hessians: int = 0
    anchor: np.ndarray = field(default_factory=lambda: np.zeros(0))
    movers: Movers | None = None
    made: int = 0
    level: tuple[float, ...] = ()
    converged: bool = True

    @property
    def over(self) -> bool:
        """Whether there is no window left."""
        return not self.descending and not self.left

    @property
    def chains(self) -> int:
        """How many chains there are."""
        return self.walk.position.shape[0]

    @property
    def coordinates(self) -> int:
        """How many coordinates a position has."""
        return self.walk.position.shape[1]

    def number_of(self, stage: str) -> int:
        """How many windows of this stage there were."""
        return sum(record.stage == stage for record in self.records)


def _energy_error(problem: Problem, warm: WarmUp) -> float:
    """What the mean of dE^2 / (d T^2) is to be: the usual one, or less where few directions err."""
    auto, chains = problem.auto, warm.chains
    return warm.share * min(auto.aim(chains), auto.aim_of_a_direction(chains) * warm.stiff)


def gradient_of(problem: Problem, warm: WarmUp) -> GradientEstimator:
    """U and its gradient, with the control variate where it is by now."""
    if problem.centre is None or problem.posterior is None:
        return problem.gradient
    where, slope = warm.anchor
    return estimator_at(problem.posterior, problem.example, where, slope, problem.centre.batch_size)


def rows_of_step(problem: Problem) -> int:
    """Rows that a gradient of the warm-up looks at."""
    if problem.centre is not None:
        return 2 * problem.centre.batch_size
    return getattr(problem.gradient, "batch_size", None) or 1


def dynamics(problem: Problem, warm: WarmUp, *, gain: float = 1.0) -> Dynamics:
    """How the chains move in the next window."""
    return Dynamics(
        gradient_of(problem, warm),
        problem.example,
        jax.device_put(warm.scale.astype(warm.walk.position.dtype)),
        problem.temperature,
        warm.gamma,
        _energy_error(problem, warm),
        gain,
        warm.longest,
        0.0 if warm.descending else 1.0,
        warm.reference,
        warm.bound,
        CLOCK_A,
        CLOCK_R,
        exact=problem.exact,
        by_gradient=problem.by_gradient,
    )


def rescaled(warm: WarmUp, scale: np.ndarray) -> WarmUp:
    """With another scale, and h so that h |L' G| stays."""
    if not np.isfinite(scale).all():
        return warm
    grads = np.asarray(warm.walk.grads, np.float64)
    before = np.mean(scales.inward(warm.scale, grads) ** 2, axis=1)
    after = np.mean(scales.inward(scale, grads) ** 2, axis=1)
    with np.errstate(all="ignore"):
        ratio = np.where(after > 0, before / after, 1.0)
    factor = np.sqrt(np.clip(np.where(np.isfinite(ratio), ratio, 1.0), 1e-12, 1e12))
    steps = warm.steps * factor if warm.steps.size else warm.steps
    return dataclasses.replace(warm, scale=scale, h=warm.h * float(np.median(factor)), steps=steps)


def matters(problem: Problem, warm: WarmUp) -> float:
    """How much U must fall for it to matter."""
    return STILL_FALLING * math.sqrt(warm.coordinates / 2) * problem.temperature


def number_of_rows(chains: int, coordinates: int, numbers: int, most: int) -> int:
    """How many rows of every chain's coordinates fit into so many numbers."""
    return int(np.clip(numbers // (chains * coordinates), 8, most))
