"""Traps: laws and gradients that tempt a sampler into a wrong answer that looks like a right one.

Each trap says beforehand what it is, and what is true of it:

- ``sound``: U is a proper law, and its gradient belongs to it. The answer must be right, or the
  verdict bad.
- ``broken``: something is wrong with U, with its gradient, with the law (it has no mean, say) or
  with where the chains are, and U can tell. No verdict may be good unless the answer is right all
  the same, and none that is bad is a false alarm.
- ``hidden``: wrong in a way that nothing computed from U can tell; listed in docs/diagnostics.md.

An answer is wrong if the mean of a feature is off by more than 0.3 standard deviations, or its
variance by more than 30%, and either by more than four of its Monte Carlo standard errors. Features
are the coordinates, unless a trap has others. Of a law that cannot be normalised every answer is
wrong. An answer that is right is short if a mean has an error of more than a tenth of a standard
deviation: a bad verdict is no false alarm then.

    python -m tests.verdict.traps                      # the table
    python -m tests.verdict.traps --seeds 3 funnel     # traps with "funnel" in the name
"""

from __future__ import annotations

import argparse
import functools
import time
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy

import sundman
from sundman.estimate.moments import moments
from sundman.tune.state import TuningError

MEAN, VARIANCE, ERRORS, SHORT = 0.3, 0.3, 4.0, 0.1
SILENT, FALSE_ALARM = "silent failure", "false alarm"
REFUSALS = (TuningError, ValueError, TypeError)
STEPS, THIN = 20_000, 4


class Truth(NamedTuple):
    """What is true of a law: means and variances of features of its positions.

    Attributes:
      mean: (feature,).
      variance: (feature,).
      features: of positions, (chain, draw, d) -> (chain, draw, feature).
    """

    mean: np.ndarray
    variance: np.ndarray
    features: Callable[[np.ndarray], np.ndarray] = lambda x: x


class Trap(NamedTuple):
    """A run that may go wrong.

    Attributes:
      name: what it is.
      kind: ``sound``, ``broken`` or ``hidden``.
      truth: None if no answer is right.
      target: what is sampled.
      options: of :func:`sundman.sample`.
    """

    name: str
    kind: str
    truth: Truth | None
    target: object
    options: dict

    @property
    def can_be_known(self) -> bool:
        """Whether something computed from U can tell that an answer is wrong."""
        return self.kind != "hidden"

    def run(self, seed: int = 0) -> Outcome:
        """The outcome of the run with a seed."""
        options = {"chains": 4, "steps": STEPS, "thin": THIN, **self.options}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                draws = sundman.sample(self.target, key=jax.random.key(seed), **options)
        except REFUSALS as error:
            of = FALSE_ALARM if self.kind == "sound" else "refused"
            return Outcome(self, seed, of, 0.0, str(error))
        off, error = furthest(draws, self.truth)
        good = draws.verdict.status == "good"
        if off > 1.0:
            of = SILENT if good else "wrong, bad"
        elif good:
            of = "right, good"
        elif error > SHORT:
            of = "short, bad"
        else:
            of = FALSE_ALARM if self.kind == "sound" else "right, bad"
        return Outcome(self, seed, of, off, str(draws.verdict))


class Outcome(NamedTuple):
    """What came of a trap.

    Attributes:
      trap: which.
      seed: of the run.
      outcome: right, good; right, bad (of what is broken); short, bad; wrong, bad; refused; false
        alarm; or silent failure.
      off: how far the worst feature is off, in units of what makes an answer wrong.
      said: the verdict, or the message of the error.
    """

    trap: Trap
    seed: int
    outcome: str
    off: float
    said: str

    @property
    def fails(self) -> bool:
        """Whether it is a silent failure that can be known."""
        return self.outcome == SILENT and self.trap.can_be_known


def furthest(draws: sundman.Draws, truth: Truth | None) -> tuple[float, float]:
    """How far the worst mean or variance is off, and the largest error of a mean.

    The first in units of what makes an answer wrong, the second in standard deviations, of a
    feature, a coordinate or U.
    """
    if truth is None or not (draws.column("weight") > 0).any():
        return np.inf, np.inf
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(draws.position)]
    flat = np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)
    weight = np.asarray(draws.column("weight"), np.float64)
    f = truth.features(flat) - truth.mean
    f = np.where((weight > 0)[..., None], f, 0.0)
    mean, error, _ = moments(f, weight)
    square, error_of_square, _ = moments(np.square(f - mean), weight)
    sd = np.sqrt(truth.variance)
    off_mean = np.minimum(abs(mean) / (MEAN * sd), abs(mean) / np.maximum(ERRORS * error, 1e-300))
    change = abs(square - truth.variance)
    off_variance = np.minimum(
        change / (VARIANCE * truth.variance),
        change / np.maximum(ERRORS * error_of_square, 1e-300),
    )
    off = np.nan_to_num(np.maximum(off_mean, off_variance), nan=np.inf)
    U = np.asarray(draws.column("potential"), np.float64)[..., None]
    seen = np.where((weight > 0)[..., None], np.concatenate([U, flat], axis=2), 0.0)
    _, of_seen, variance = moments(seen, weight)
    errors = np.concatenate([error / sd, of_seen / np.sqrt(variance)])
    return float(off.max()), float(np.nan_to_num(errors, nan=np.inf).max())


def standard(d: int) -> Truth:
    """Of a standard Gaussian."""
    return Truth(np.zeros(d), np.ones(d))


def gaussian_truth(mean: np.ndarray, covariance: np.ndarray) -> Truth:
    """Of a Gaussian, along its coordinates and its principal axes."""
    values, axes = np.linalg.eigh(covariance)
    return Truth(
        np.concatenate([mean, axes.T @ mean]),
        np.concatenate([np.diag(covariance), np.maximum(values, 1e-300)]),
        lambda x: np.concatenate([x, x @ axes], axis=2),
    )


@functools.cache
def _moments_of(U: Callable[[np.ndarray], np.ndarray], low: float, high: float) -> tuple:
    """Mean and variance of exp(-U) on an interval."""
    x = np.linspace(low, high, 100_001)
    energy = U(x)
    p = np.exp(-(energy - np.nanmin(energy)))
    p = np.nan_to_num(p) / np.nansum(p)
    mean = float(p @ x)
    return mean, float(p @ np.square(x - mean))


def product(*laws: tuple[Callable[[np.ndarray], np.ndarray], float, float]) -> Truth:
    """Of coordinates that are independent, each with its U on an interval, by quadrature."""
    found = [_moments_of(*law) for law in laws]
    mean, variance = np.transpose(found)
    return Truth(mean, variance)


def uniform_after(*cdfs: Callable[[np.ndarray], np.ndarray]) -> Truth:
    """Of coordinates whose distribution functions are known: they make them uniform."""
    number = len(cdfs)

    def features(x: np.ndarray) -> np.ndarray:
        return np.stack([cdf(x[..., i]) for i, cdf in enumerate(cdfs)], axis=2)

    return Truth(np.full(number, 0.5), np.full(number, 1 / 12), features)


def bowl(x):
    """U of a standard Gaussian."""
    return 0.5 * jnp.sum(jnp.square(x))


def _half(x):
    return 0.5 * np.square(x)


_LINE = (_half, -10.0, 10.0)


# What is not a number, and walls


def not_a_number() -> Iterator[Trap]:
    """Regions where U, or its gradient alone, is NaN."""

    def half_space(x):
        return bowl(x) + jnp.where(x[0] > 0.5, jnp.nan, 0.0)

    def shell(x):
        return bowl(x) + jnp.where(jnp.sum(x**2) > 4.0, jnp.nan, 0.0)

    def gradient_alone(x):
        return bowl(x) + jnp.where(x[0] > -1.0, 0.0 * jnp.sqrt(x[0] + 1.0), 0.0)

    def cut(x):
        return np.where(x > 0.5, np.inf, _half(x))

    start = {"init": jnp.full(3, -0.5)}
    yield Trap(
        "U is NaN at x > 0.5",
        "broken",
        product((cut, -10.0, 10.0), _LINE, _LINE),
        half_space,
        start,
    )
    hand_made = {"sampler": sundman.baoab(0.3), "burn_in": 500}
    for of in ("freeze", "restart"):
        yield Trap(
            f"U is NaN at x > 0.5, baoab, {of}",
            "broken",
            product((cut, -10.0, 10.0), _LINE, _LINE),
            half_space,
            {**start, **hand_made, "on_divergence": of},
        )
    radius = (lambda r: np.where(r > 2.0, np.inf, _half(r) - np.log(r + 1e-300)), 0.0, 3.0)
    within = product(radius)
    of_one = (within.variance + within.mean**2) / 2.0
    truth = Truth(np.zeros(2), np.repeat(of_one, 2))
    yield Trap("U is NaN beyond a radius", "broken", truth, shell, {"init": jnp.zeros(2)})
    yield Trap(
        "the gradient is NaN at x < -1",
        "broken",
        standard(3),
        gradient_alone,
        {"init": jnp.ones(3)},
    )


def walls() -> Iterator[Trap]:
    """Hard constraints by an infinite, or not defined, U."""

    def half(x):
        return bowl(x) + jnp.where(x[0] < 0.0, jnp.inf, 0.0)

    def box(x):
        return bowl(x) + jnp.where(jnp.max(jnp.abs(x)) > 1.0, jnp.inf, 0.0)

    def exponential(x):
        return jnp.where(x[0] < 0.0, jnp.inf, x[0]) + 0.5 * x[1] ** 2

    def gamma(x):
        return 4.0 * x[0] - 4.0 * jnp.log(x[0]) + 0.5 * x[1] ** 2

    def jump(x):
        return bowl(x) + jnp.where(x[0] > 1.0, 50.0, 0.0)

    def log_normal(x):
        return 0.5 * jnp.sum(jnp.square(jnp.log(x))) + jnp.sum(jnp.log(x))

    def pole(x):
        return x[0] + 0.7 * jnp.log(x[0]) + 0.5 * x[1] ** 2

    inside = (lambda x: np.where(abs(x) > 1.0, np.inf, _half(x)), -2.0, 2.0)
    positive = (lambda x: np.where(x < 0.0, np.inf, _half(x)), -1.0, 10.0)
    below = (lambda x: np.where(x > 1.0, 50.0 + _half(x), _half(x)), -10.0, 10.0)
    one = {"init": jnp.full(2, 0.5)}
    three = {"init": jnp.full(3, 0.5)}
    yield Trap("a wall at x = 0", "broken", product(positive, _LINE, _LINE), half, three)
    yield Trap("a box of walls", "broken", product(inside, inside, inside), box, three)
    yield Trap(
        "an exponential law by a wall",
        "broken",
        product((lambda x: x, 0.0, 40.0), _LINE),
        exponential,
        one,
    )
    yield Trap("a wall of 50", "broken", product(below, _LINE, _LINE), jump, three)
    yield Trap(
        "a log-normal law",
        "broken",
        uniform_after(*[scipy.stats.lognorm(1.0).cdf] * 2),
        log_normal,
        {"init": jnp.ones(2)},
    )
    yield Trap(
        "a gamma law with a pole at its wall",
        "broken",
        uniform_after(scipy.stats.gamma(0.3).cdf, scipy.stats.norm.cdf),
        pole,
        one,
    )
    yield Trap(
        "a gamma law with log x",
        "broken",
        product((lambda x: 4.0 * x - 4.0 * np.log(x + 1e-300), 0.0, 20.0), _LINE),
        gamma,
        one,
    )


# U that jumps, or does not belong to its gradient


def jumps() -> Iterator[Trap]:
    """Steps in U that its gradient does not know."""

    def with_jump(size):
        def U(x):
            return bowl(x) + jnp.where(x[0] > 1.0, size, 0.0)

        law = (lambda x: _half(x) + np.where(x > 1.0, size, 0.0), -10.0, 10.0)
        return Trap(
            f"U jumps by {size:g}", "broken", product(law, _LINE, _LINE), U, {"init": jnp.zeros(3)}
        )

    yield from map(with_jump, (1.0, 2.0, 3.0, 5.0, -2.0, -5.0))

    def of_fifty(x):
        return bowl(x) + jnp.where(x[7] > 0.5, 3.0, 0.0)

    law = (lambda x: _half(x) + np.where(x > 0.5, 3.0, 0.0), -10.0, 10.0)
    many = product(*[_LINE] * 7, law, *[_LINE] * 42)
    hand_made = {"sampler": sundman.baoab(0.3), "burn_in": 500}
    for name, options in (("", {}), (", baoab", hand_made)):
        start = {"init": jnp.zeros(50), **options}
        yield Trap(f"U jumps by 3 in 1 of 50 coordinates{name}", "broken", many, of_fifty, start)
        yield with_jump(3.0)._replace(
            name=f"U jumps by 3 at x = 1{name}", options={"init": jnp.zeros(3), **options}
        )

    def staircase(x):
        return 0.1 * bowl(x) + 0.5 * jnp.sum(jnp.floor(jnp.abs(x)))

    steps = (lambda x: 0.1 * _half(x) + 0.5 * np.floor(abs(x)), -20.0, 20.0)
    yield Trap(
        "U rises in steps of 0.5", "broken", product(steps, steps), staircase, {"init": jnp.ones(2)}
    )

    def rounded(x):
        return 0.5 * jnp.sum(jnp.square(jnp.round(4.0 * x) / 4.0))

    def partly_rounded(x):
        return 0.5 * x[0] ** 2 + 0.5 * (jnp.round(2.0 * x[1]) / 2.0) ** 2 + 0.01 * x[1] ** 2

    levels = (lambda x: _half(np.round(4.0 * x) / 4.0), -10.0, 10.0)
    some = (lambda x: _half(np.round(2.0 * x) / 2.0) + 0.01 * x**2, -10.0, 10.0)
    yield Trap(
        "a position rounded in U", "broken", product(levels, levels), rounded, {"init": jnp.ones(2)}
    )
    yield Trap(
        "one coordinate rounded in U",
        "broken",
        product(_LINE, some),
        partly_rounded,
        {"init": jnp.ones(2)},
    )


def scaled_gradient(U, share):
    """U with its gradient times a share, by a custom derivative."""

    @jax.custom_jvp
    def of_share(x):
        return U(x)

    @of_share.defjvp
    def _(primals, tangents):
        value, change = jax.jvp(U, primals, tangents)
        return value, share * change

    return of_share


def clipped_gradient(U, limit):
    """U with a gradient that is no longer than a limit."""

    @jax.custom_vjp
    def clipped(x):
        return U(x)

    def forward(x):
        return U(x), x

    def backward(x, change):
        grads = jax.grad(U)(x)
        return (change * grads * jnp.minimum(1.0, limit / jnp.linalg.norm(grads)),)

    clipped.defvjp(forward, backward)
    return clipped


def wrong_gradients() -> Iterator[Trap]:
    """Gradients of another U."""

    def stopped(x):
        return 0.5 * bowl(x) + 0.5 * jax.lax.stop_gradient(bowl(x))

    def one_of_thirty(x):
        square = 0.5 * jnp.square(x[0])
        return 0.5 * jnp.sum(jnp.square(x[1:])) + 0.5 * (square + jax.lax.stop_gradient(square))

    def no_prior(x):
        likelihood = 0.5 * jnp.sum(jnp.square(x - 1.0))
        return likelihood + jax.lax.stop_gradient(bowl(x))

    hand_made = {"sampler": sundman.baoab(0.3), "burn_in": 500}
    start = {"init": jnp.ones(3)}
    gradients = {
        "half the gradient, by stop_gradient": stopped,
        "half the gradient, by custom_jvp": scaled_gradient(bowl, 0.5),
        "1.6 times the gradient": scaled_gradient(bowl, 1.6),
        "a clipped gradient": clipped_gradient(bowl, 0.7),
    }
    for name, U in gradients.items():
        yield Trap(name, "broken", standard(3), U, start)
        yield Trap(f"{name}, baoab", "broken", standard(3), U, {**start, **hand_made})

    def on_one_side(x):
        beyond = 2.0 * jnp.sum(jnp.square(jnp.maximum(x, 0.0)))
        return bowl(x) + jax.lax.stop_gradient(beyond)

    side = (lambda x: _half(x) + 2.0 * np.square(np.maximum(x, 0.0)), -10.0, 10.0)
    for name, options in (("", {}), (", baoab", hand_made)):
        yield Trap(
            f"a gradient that is wrong at x > 0{name}",
            "broken",
            product(side, side, side),
            on_one_side,
            {"init": -jnp.ones(3), **options},
        )
    of_both = Truth(np.full(3, 0.5), np.full(3, 0.5))
    yield Trap("a prior without gradient", "broken", of_both, no_prior, start)
    yield Trap(
        "half the gradient of 1 of 30 coordinates",
        "broken",
        standard(30),
        one_of_thirty,
        {"init": jnp.ones(30)},
    )
    yield Trap(
        "half the gradient of 1 of 30 coordinates, baoab",
        "broken",
        standard(30),
        one_of_thirty,
        {"init": jnp.ones(30), **hand_made},
    )


# Modes


def _two_modes(distance, weight=0.5, d=2):
    def U(x):
        rest = 0.5 * jnp.sum(jnp.square(x[1:]))
        one, other = ((x[0] - sign * distance) ** 2 for sign in (-1.0, 1.0))
        return rest - jnp.logaddexp(
            jnp.log(1.0 - weight) - 0.5 * one, jnp.log(weight) - 0.5 * other
        )

    mean = np.zeros(d)
    mean[0] = (2.0 * weight - 1.0) * distance
    variance = np.ones(d)
    variance[0] += distance**2 - mean[0] ** 2
    return U, Truth(mean, variance)


def _at(first, d):
    return jnp.zeros((4, d)).at[:, 0].set(jnp.asarray(first))


def modes() -> Iterator[Trap]:
    """Modes between which chains do not move, or hardly."""
    far, truth = _two_modes(10.0)
    both = {"init": _at([-10.0, -10.0, 10.0, 10.0], 2), "per_chain": True}
    yield Trap("two modes, chains in one", "hidden", truth, far, {"init": _at(-10.0, 2)[0]})
    yield Trap("two modes, chains in both", "broken", truth, far, both)
    three_to_one = {**both, "init": _at([-10.0, 10.0, 10.0, 10.0], 2)}
    uneven, uneven_truth = _two_modes(10.0, weight=0.1)
    yield Trap("modes of 0.9 and 0.1", "broken", uneven_truth, uneven, both)
    yield Trap("modes with one and three chains", "broken", truth, far, three_to_one)
    near, near_truth = _two_modes(2.0)
    yield Trap("two modes that are near", "sound", near_truth, near, {"init": _at(-2.0, 2)[0]})
    rarely, rarely_truth = _two_modes(3.3)
    yield Trap("modes that chains seldom change", "sound", rarely_truth, rarely, both)
    wide, wide_truth = _two_modes(5.0, d=250)
    in_both = {"init": _at([-5.0, -5.0, 5.0, 5.0], 250), "per_chain": True}
    yield Trap("two modes in 1 of 250 coordinates", "broken", wide_truth, wide, in_both)

    d, narrow = 5, 0.02

    def spike(x):
        wide_part, narrow_part = -bowl(x), -bowl(x / narrow) - d * jnp.log(narrow)
        return -jnp.logaddexp(wide_part, narrow_part)

    variance = np.full(d, 0.5 * (1.0 + narrow**2))
    between = Truth(np.zeros(d), variance)
    starts = jnp.zeros((4, d)).at[2:].set(1.0)
    yield Trap("a spike, chains beside it", "hidden", between, spike, {"init": jnp.ones(d)})
    yield Trap("a spike, chains in it", "hidden", between, spike, {"init": jnp.zeros(d)})
    yield Trap(
        "a spike, chains in it and beside it, which the step of all is too long for",
        "hidden",
        between,
        spike,
        {"init": starts, "per_chain": True},
    )


# Tails and shapes


def tails() -> Iterator[Trap]:
    """Laws with heavy tails, or with kinks."""

    def student(freedom, d):
        def U(x):
            return 0.5 * (freedom + 1.0) * jnp.sum(jnp.log1p(jnp.square(x) / freedom))

        cdf = scipy.stats.t(freedom).cdf
        return U, uniform_after(*[cdf] * d)

    for freedom, d in ((1.0, 1), (1.0, 3), (2.0, 3), (4.0, 5)):
        U, truth = student(freedom, d)
        name = "Cauchy" if freedom == 1 else f"Student-t with {freedom:g} degrees of freedom"
        kind = "broken" if freedom == 1 else "sound"  # it has no mean
        yield Trap(f"{name}, {d} coordinates", kind, truth, U, {"init": jnp.ones(d)})

    def multivariate_cauchy(x):
        return 0.5 * (1.0 + x.size) * jnp.log1p(jnp.sum(jnp.square(x)))

    cauchy = uniform_after(*[scipy.stats.cauchy.cdf] * 2)
    yield Trap("a round Cauchy law", "broken", cauchy, multivariate_cauchy, {"init": jnp.ones(2)})

    def laplace(x):
        return jnp.sum(jnp.abs(x))

    def stretched(x):
        return 2.0 * jnp.sum((1.0 + jnp.square(x)) ** 0.25)

    def lopsided(x):
        return jnp.sum(jnp.maximum(-20.0 * x, x))

    double = Truth(np.zeros(5), np.full(5, 2.0))
    yield Trap("a Laplace law", "sound", double, laplace, {"init": jnp.ones(5)})
    law = (lambda x: 2.0 * (1.0 + x**2) ** 0.25, -600.0, 600.0)
    yield Trap(
        "a sub-exponential law", "sound", product(law, law), stretched, {"init": jnp.ones(2)}
    )
    kink = (lambda x: np.maximum(-20.0 * x, x), -5.0, 50.0)
    yield Trap("a lopsided kink", "sound", product(kink, kink), lopsided, {"init": jnp.ones(2)})

    def steep(x):
        return jnp.sum(jnp.exp(jnp.abs(x)))

    def quartic(x):
        return jnp.sum(x**4)

    def cusp(x):
        return 2.0 * jnp.sum(jnp.sqrt(jnp.abs(x)))

    def of_two_scales(x):
        narrow = jnp.log(0.9) - 0.5 * jnp.square(x)
        wide = jnp.log(0.1 / 30.0) - 0.5 * jnp.square(x / 30.0)
        return -jnp.sum(jnp.logaddexp(narrow, wide))

    others = {
        "U grows like exp |x|": (steep, lambda x: np.exp(abs(x)), 6.0),
        "a quartic": (quartic, lambda x: x**4, 5.0),
        "a cusp": (cusp, lambda x: 2.0 * np.sqrt(abs(x)), 400.0),
    }
    for name, (U, of_one, far) in others.items():
        truth = product(*[(of_one, -far, far)] * 2)
        yield Trap(name, "sound", truth, U, {"init": jnp.ones(2)})
    mixed = Truth(np.zeros(2), np.full(2, 0.9 + 0.1 * 900.0))
    yield Trap("two scales in one law", "sound", mixed, of_two_scales, {"init": jnp.ones(2)})

    def sparse(x):
        return 0.5 * jnp.sum(jnp.square(x - 0.5)) + 3.0 * jnp.sum(jnp.abs(x))

    shrunk = (lambda x: 0.5 * (x - 0.5) ** 2 + 3.0 * abs(x), -8.0, 8.0)
    yield Trap("a Laplace prior", "sound", product(*[shrunk] * 6), sparse, {"init": jnp.ones(6)})


def funnels() -> Iterator[Trap]:
    """Laws whose width depends on the place."""

    def funnel(width, arms):
        def U(x):
            v, rest = x[0], x[1:]
            inside = jnp.sum(jnp.square(rest)) * jnp.exp(-v)
            return 0.5 * (v / width) ** 2 + 0.5 * inside + 0.5 * arms * v

        def features(x):
            v = x[..., :1]
            return np.concatenate([v / width, x[..., 1:] * np.exp(-v / 2.0)], axis=2)

        truth = Truth(np.zeros(arms + 1), np.ones(arms + 1), features)
        name = f"a funnel of width {width:g} with {arms} arms"
        return Trap(name, "sound", truth, U, {"init": jnp.zeros(arms + 1)})

    for width, arms in ((0.5, 3), (1.0, 3), (2.0, 3), (3.0, 1), (3.0, 9)):
        yield funnel(width, arms)


def shapes() -> Iterator[Trap]:
    """Rings, bananas, ripples."""

    def ring(width):
        def U(x):
            return 0.5 * jnp.square((jnp.sqrt(jnp.sum(jnp.square(x)) + 1e-12) - 5.0) / width)

        radius = product((lambda r: _half((r - 5.0) / width) - np.log(r + 1e-300), 1e-6, 12.0))
        of_one = (radius.variance + radius.mean**2) / 2.0
        truth = Truth(np.zeros(2), np.repeat(of_one, 2))
        start = {"init": jnp.array([5.0, 0.0])}
        return Trap(f"a ring of width {width:g}", "sound", truth, U, start)

    yield ring(1.0)
    yield ring(0.1)

    def banana(bend):
        def U(x):
            return 0.5 * x[0] ** 2 + 0.5 * jnp.square((x[1] - bend * x[0] ** 2) / 0.3)

        truth = Truth(np.array([0.0, bend]), np.array([1.0, 0.09 + 2.0 * bend**2]))
        return Trap(f"a banana bent by {bend:g}", "sound", truth, U, {"init": jnp.zeros(2)})

    yield banana(1.0)
    yield banana(5.0)

    def ripples(x):
        return bowl(x) + 0.5 * jnp.sum(jnp.sin(40.0 * x))

    law = (lambda x: _half(x) + 0.5 * np.sin(40.0 * x), -10.0, 10.0)
    yield Trap("ripples", "sound", product(law, law), ripples, {"init": jnp.zeros(2)})

    def well(x):
        return 3.0 * jnp.square(jnp.square(x[0]) - 1.0) + 0.5 * x[1] ** 2

    double = (lambda x: 3.0 * np.square(x**2 - 1.0), -4.0, 4.0)
    yield Trap("a double well", "sound", product(double, _LINE), well, {"init": jnp.ones(2)})


# Laws that cannot be normalised


def improper() -> Iterator[Trap]:
    """Of these no answer is right."""

    def flat(x):
        return 0.0 * jnp.sum(x)

    def half_flat(x):
        return 0.5 * x[0] ** 2 + 0.0 * x[1]

    def one_side(x):
        return 0.5 * x[0] ** 2 + jax.nn.softplus(x[1])

    def bounded(x):
        square = jnp.sum(jnp.square(x))
        return 5.0 * square / (1.0 + square)

    def slowly(x):
        return jnp.log1p(jnp.sum(jnp.square(x)))

    def periodic(x):
        return jnp.sum(1.0 - jnp.cos(x))

    def log_density(x):
        return -bowl(x)

    def linear(x):
        return jnp.sum(x)

    def ridge(x):
        return 0.5 * jnp.square(x[0] + x[1] - 1.0) + 0.5 * jnp.square(x[2])

    def clipped(x):
        return bowl(jnp.clip(x, -1.5, 1.5))

    laws = {
        "a flat U": (flat, 2),
        "U of a clipped position": (clipped, 2),
        "one coordinate without a law": (half_flat, 2),
        "U flat on one side": (one_side, 2),
        "a bounded U": (bounded, 3),
        "tails that cannot be normalised": (slowly, 2),
        "a periodic U": (periodic, 2),
        "log p for U": (log_density, 3),
        "a linear U": (linear, 2),
        "a ridge that is flat along it": (ridge, 3),
    }
    for name, (U, d) in laws.items():
        yield Trap(name, "broken", None, U, {"init": jnp.full(d, 0.3)})


# Scales, offsets and rounding


def _rotated(d, condition):
    """A Gaussian with random axes: W with |W x|^2 / 2 = U, and its covariance."""
    axes = np.linalg.qr(np.random.default_rng(7).normal(size=(d, d)))[0]
    sds = np.geomspace(1.0, condition**-0.5, d)
    return (axes / sds).T.astype(np.float32), (axes * sds**2) @ axes.T


def scales() -> Iterator[Trap]:
    """Laws that are narrow, wide, uneven or far from 0, and what float32 makes of them."""

    def of_sds(name, sds, mean=0.0, kind="sound", **options):
        sds = np.asarray(sds, np.float32)

        def U(x):
            return 0.5 * jnp.sum(jnp.square((x - mean) / sds))

        truth = Truth(np.full(len(sds), float(mean)), np.square(sds, dtype=np.float64))
        return Trap(name, kind, truth, U, {"init": jnp.full(len(sds), mean) + sds, **options})

    yield of_sds("condition 1e6 in 100 dimensions", np.geomspace(1.0, 1e-3, 100))
    yield of_sds("condition 1e4 in 1000 dimensions", np.geomspace(1.0, 1e-2, 1000))
    yield of_sds("a scale of 1e-12", [1e-12, 1e-12, 2e-12])
    yield of_sds("a scale of 1e12", [1e12, 1e12, 2e12])
    yield of_sds("scales from 1e-8 to 1e8", np.geomspace(1e-8, 1e8, 5))
    yield of_sds("a law of width 1 at 1e5", np.ones(3), mean=1e5)
    yield of_sds("a law of width 1 at 1e6", np.ones(3), mean=1e6)
    yield of_sds("a law of width 1 at 1e7", np.ones(3), mean=1e7, kind="broken")
    yield of_sds("a law of width 1 at 1e9", np.ones(3), mean=1e9, kind="broken")
    for d in (30, 100):
        W, covariance = _rotated(d, 1e6)

        def U(x, W=W):
            return 0.5 * jnp.sum(jnp.square(W @ x))

        truth = gaussian_truth(np.zeros(d), covariance)
        name = f"condition 1e6 along random axes, {d} dimensions"
        yield Trap(name, "sound", truth, U, {"init": jnp.zeros(d)})

    def offset(by):
        def U(x):
            return bowl(x) + by

        return Trap(f"U + {by:g}", "sound", standard(3), U, {"init": jnp.ones(3)})

    yield offset(1e5)
    yield offset(1e8)

    def rounded_value(x):
        exact = bowl(x)
        return exact + jax.lax.stop_gradient(2e-3 * jnp.sin(3e5 * jnp.sum(x)))

    yield Trap("noise in U of 0.002", "sound", standard(3), rounded_value, {"init": jnp.ones(3)})


# Posteriors


def _regression(rows, columns, *, noise=1.0, seed=0, change=lambda x: x):
    """A linear regression, its posterior and what is true of it."""
    rng = np.random.default_rng(seed)
    x = change(rng.normal(size=(rows, columns))).astype(np.float32)
    weights = rng.normal(size=columns)
    y = (x @ weights + noise * rng.normal(size=rows)).astype(np.float32)
    posterior = sundman.Posterior(
        lambda w, x: x @ w,
        data=(x, y),
        likelihood=sundman.likelihoods.gaussian(noise),
        prior=sundman.priors.gaussian(10.0),
    )
    wide = np.asarray(x, np.float64)
    covariance = np.linalg.inv(wide.T @ wide / noise**2 + np.eye(columns) / 100.0)
    mean = covariance @ (wide.T @ np.asarray(y, np.float64)) / noise**2
    return posterior, gaussian_truth(mean, covariance)


def _correlated(x):
    return x + 2.0 * x.mean(axis=1, keepdims=True) * np.sqrt(x.shape[1])


def _soft(x):
    """Two columns that are all but the same."""
    x[:, 1] = x[:, 0] + 1e-3 * x[:, 1]
    return x


def _outliers(x):
    x[:3] *= 60.0
    return x


def _products(rows):
    """Two weights of which only the product is seen, so that there are two modes alike."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, 1)).astype(np.float32)
    y = (2.0 * x[:, 0] + rng.normal(size=rows)).astype(np.float32)
    posterior = sundman.Posterior(
        lambda w, x: x[:, 0] * w[0] * w[1],
        data=(x, y),
        likelihood=sundman.likelihoods.gaussian(1.0),
        prior=sundman.priors.gaussian(1.0),
    )
    square, cross = float(np.sum(np.square(x, dtype=np.float64))), float(np.sum(x[:, 0] * y))
    log_w = np.linspace(-2.0, 2.0, 2001)[:, None]  # of one weight; the product is given
    product = cross / square + np.linspace(-8.0, 8.0, 401) / np.sqrt(square)
    one, other = np.exp(log_w), product / np.exp(log_w)
    log_p = -0.5 * (one**2 + other**2) - 0.5 * square * (product - cross / square) ** 2
    p = np.exp(log_p - log_p.max())  # d log w d product is the area
    variances = np.array([np.sum(p * one**2), np.sum(p * other**2)]) / p.sum()
    truth = Truth(np.zeros(2), variances)
    starts = jnp.array([[1.4, 1.4]] * 2 + [[-1.4, -1.4]] * 2)
    for name, kind, init in (("one", "hidden", starts[0]), ("both", "broken", starts)):
        options = {"init": init, "per_chain": init.ndim == 2}
        yield Trap(
            f"a product of two weights, {rows:,} rows, chains in {name}",
            kind,
            truth,
            posterior,
            options,
        )


def posteriors() -> Iterator[Trap]:
    """Regressions, on all rows and on minibatches."""

    def regression(name, posterior, truth, kind="sound", **options):
        size = posterior.data.x.shape[1]
        return Trap(name, kind, truth, posterior, {"init": jnp.zeros(size), **options})

    usual, truth = _regression(500, 5)
    yield regression("batches of 2", usual, truth, batch_size=2)
    yield regression("batches of 20 of 500", usual, truth, batch_size=20)
    outliers, outliers_truth = _regression(1000, 4, change=_outliers)
    yield regression("batches with rare large rows", outliers, outliers_truth, batch_size=10)
    yield regression("250 columns with a soft direction", *_regression(1000, 250, change=_soft))
    many, many_truth = _regression(20_000, 20, change=_correlated)
    plain = {"gradient": "minibatch"}
    yield regression("20,000 rows, batches of 200", many, many_truth, batch_size=200, **plain)
    yield regression("20,000 rows, batches of 20", many, many_truth, batch_size=20, **plain)
    yield regression("20,000 rows, nothing else said", many, many_truth)

    def half(w, x):
        outputs = x @ w
        return 0.5 * outputs + 0.5 * jax.lax.stop_gradient(outputs)

    wrong = usual.replace(apply=half)
    yield regression("a model with half its gradient", wrong, truth, "broken")
    yield regression(
        "a model with half its gradient, minibatches", wrong, truth, "broken", batch_size=50
    )
    yield regression(
        "a model with half its gradient, sgld",
        wrong,
        truth,
        "broken",
        sampler=sundman.sgld(2e-5),
        batch_size=50,
        burn_in=4000,
    )
    wrong_of_many = many.replace(apply=half)
    yield regression("20,000 rows, half their gradient", wrong_of_many, many_truth, "broken")
    for rows in (200, 20_000):
        yield from _products(rows)

    weaker = sundman.likelihoods.gaussian(np.sqrt(10.0))
    yield regression(
        "a likelihood divided by 10", usual.replace(likelihood=weaker), truth, "hidden"
    )
    tiled = jax.tree.map(lambda leaf: np.tile(leaf, (10,) + (1,) * (leaf.ndim - 1)), usual.data[:2])
    yield regression("rows tiled 10 times", usual.replace(data=tiled), truth, "hidden")


FAMILIES = (
    not_a_number, walls, jumps, wrong_gradients, modes, tails, funnels, shapes, improper, scales,
    posteriors,
)  # fmt: skip


def all_traps() -> list[Trap]:
    """All of them."""
    return [trap for family in FAMILIES for trap in family()]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names; all traps without one")
    parser.add_argument("--seeds", type=int, default=1)
    chosen = parser.parse_args()
    found = []
    for trap in all_traps():
        if chosen.names and not any(part in trap.name for part in chosen.names):
            continue
        for seed in range(chosen.seeds):
            began = time.perf_counter()
            outcome = trap.run(seed)
            seconds = time.perf_counter() - began
            found.append(outcome)
            print(
                f"{trap.name:50} {trap.kind:6} {seed:2} {outcome.outcome:14} "
                f"off {outcome.off:8.3g} {seconds:5.1f} s  {outcome.said[:200]}",
                flush=True,
            )
    for name in sorted({each.outcome for each in found}):
        print(f"{sum(each.outcome == name for each in found):4} {name}")
    print(f"{sum(each.fails for each in found):4} silent failures that can be known")


if __name__ == "__main__":
    main()
