"""A sampler that tunes itself: ``auto`` asks for it, ``draws.tuning`` says what it chose."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from sundman import check, clocks, integrators, scaling
from sundman._trees import named_leaves, with_named_leaves
from sundman._types import PyTree
from sundman.samplers import Sampler, compose
from sundman.value import Number, Value, code, static

CLOCK_M, CLOCK_R, CLOCK_A = 10.0, 0.25, 0.03
_SHORT = 0.02  # a step that no smooth law of unit size needs without noise
METHODS = ("baoab", "low_rank_baoab")
_AIM = 6e-4  # energy error of a step, dE^2 / (d T^2), at a bias of _BIAS
_AIM_OF_A_DIRECTION = 0.02  # h sqrt(k) is then about 0.8 at the curvature k; BAOAB is exact to 2
_BIAS = 0.02
_FEW_CHAINS = 16  # with fewer, tails are seen late: half the energy error


class Auto(Value):
    """What :func:`auto` was asked for; :func:`sundman.sample` takes it in place of a sampler."""

    bias: float = static(default=_BIAS)
    method: str | None = static(default=None)
    temperature: Number | None = None
    dense_up_to: int = static(default=64)
    warm_up: int | None = static(default=None)
    first_step: float = static(default=1.0)

    def __post_init__(self) -> None:
        check.choices_are_static(bias=self.bias, first_step=self.first_step)
        check.positive(bias=self.bias, first_step=self.first_step)
        if self.bias > 0.5:
            raise ValueError(
                f"bias is a share, such as 0.02: it must be below 0.5, got {self.bias}"
            )
        if self.method is not None:
            check.choice("method", self.method, METHODS)
        check.count("dense_up_to", self.dense_up_to, least=0)
        if self.warm_up is not None:
            check.count("warm_up", self.warm_up, least=200)
        if self.temperature is not None:
            self._settle(temperature=check.positive)

    def aim(self, chains: int) -> float:
        """The energy error of a step to aim at; the bias grows like its root."""
        return _AIM * (self.bias / _BIAS) ** 2 * (0.5 if chains < _FEW_CHAINS else 1.0)

    def aim_of_a_direction(self, chains: int) -> float:
        """The same of one direction, where few are far stiffer than all others."""
        return self.aim(chains) * _AIM_OF_A_DIRECTION / _AIM

    def with_temperature(self, temperature: Number | None) -> Self:
        """The same at another temperature."""
        return self.replace(temperature=temperature)


def auto(
    bias: float = _BIAS,
    method: str | None = None,
    *,
    temperature: float | None = None,
    dense_up_to: int = 64,
    warm_up: int | None = None,
    first_step: float = 1.0,
) -> Auto:
    """A sampler that finds its own settings in a warm-up; what ``sample`` uses if it is given none.

        draws = sundman.sample(target, sundman.auto(bias=0.01), key=key, chains=4, steps=20_000)
        print(draws.tuning)

    The warm-up finds coordinates in which the law has unit size in every direction, a friction, and
    the longest step whose energy error keeps the bias of averages near ``bias``; with minibatches
    also the covariance of their noise. What it finds is frozen then: the draws are those of an
    ordinary sampler, ``draws.tuning.sampler``.

    Args:
      bias: the relative bias of averages to aim at, about; the cost grows like its inverse cube
        root.
      method: ``"baoab"``, or ``"low_rank_baoab"`` for noisy gradients; None takes the second one
        where gradients are noisy and there are more than ``dense_up_to`` coordinates.
      temperature: T; None is that of the target, or 1.
      dense_up_to: up to so many coordinates L is a matrix, with more a number for each.
      warm_up: steps of the windows, 2,000 if not given; a descent comes before them.
      first_step: where the search for the step begins, in units of the position; it hardly matters.

    Returns:
      What to give to :func:`sundman.sample` as its sampler.
    """
    return Auto(bias, method, temperature, dense_up_to, warm_up, first_step)


class WarmUpWindow(NamedTuple):
    """One window of the warm-up.

    Attributes:
      stage: ``"descent"``, ``"window"``, ``"last"``, or ``"round"``.
      steps: of every chain.
      h: the step at its end.
      v: the mean of dE^2 / (d T^2) of a step, its energy error; 0 in a round.
      gamma: the friction.
      width: the largest eigenvalue of the covariance in whitened coordinates, about; 0: not known.
      noise: the largest eigenvalue of the covariance of the gradient noise there, about.
      potential: the mean of U at its end.
      rejected: steps that were not taken.
    """

    stage: str
    steps: int
    h: float
    v: float
    gamma: float
    width: float
    noise: float
    potential: float
    rejected: int


class Chosen(NamedTuple):
    """The numbers of a tuned sampler.

    Attributes:
      method: ``"baoab"`` or ``"low_rank_baoab"``.
      temperature: T.
      h: the step.
      gamma: the friction.
      reference: the usual |L' G|^2 of the adaptive clock; 0 for a constant step.
      rank: how many noisy directions are followed.
      share: how much they may be heated.
      scale: L: a matrix, or a pytree like the position.
      sigma: standard deviations of the noise in whitened coordinates that is taken out, or None.
      dense: whether L is a matrix.
      exact: whether gradients have no noise.
    """

    method: str
    temperature: float
    h: float
    gamma: float
    reference: float
    rank: int
    share: float
    scale: PyTree
    sigma: PyTree | None
    dense: bool
    exact: bool = False

    @property
    def kinetic_temperature(self) -> float:
        """The temperature of the momenta where a step ends, between two kicks of the noise.

        What a kick is going to bring, h^2 sigma^2, is missing there by the share c / (1 + c), with
        c the momentum that friction leaves.
        """
        if self.sigma is None:
            return self.temperature
        leaves = [np.ravel(np.asarray(leaf, np.float64)) for leaf in jax.tree.leaves(self.sigma)]
        kick = self.h**2 * float(np.mean(np.square(np.concatenate(leaves))))
        kept = math.exp(-self.gamma * self.h)
        return self.temperature - kick * kept / (1.0 + kept)

    def sampler(self) -> Sampler:
        """The sampler that these numbers make."""
        L = (scaling.dense if self.dense else scaling.diagonal)(self.scale)
        if self.method == "low_rank_baoab":
            # the rule for the step needs s as it comes out of that many differences: with fewer
            # it is larger, and so is its scatter
            inside: integrators.Integrator = integrators.low_rank_baoab(
                self.temperature,
                gamma=self.gamma,
                rank=self.rank,
                share=self.share,
                learn_after=self.rank,
            )
        else:
            sigma = 0.0 if self.sigma is None else self.sigma
            inside = integrators.baoab(
                self.temperature, gamma=self.gamma, sigma=sigma, work=self.exact
            )
        clock: clocks.Clock = clocks.constant(self.h)
        if self.reference > 0:
            clock = clocks.scale_free(
                self.h,
                g_ref=self.reference,
                a=CLOCK_A,
                M=CLOCK_M,
                r=CLOCK_R,
                monitor=clocks.monitors.whitened(L),
            )
        return compose(integrators.whitened(inside, L), clock)


class ControlVariateAt(NamedTuple):
    """The control variate of a tuned run.

    Attributes:
      position: the centre.
      grads: the likelihood's part of grad U there, over all rows.
      batch_size: rows of a minibatch.
      potential: the likelihood's part of U at the first centre, which a run leaves away.
      noise: the largest eigenvalue of the covariance of a minibatch's noise at typical positions,
        in coordinates of unit size.
      plain: without the control variate.
      passes: over all rows that the centre took, about.
    """

    position: PyTree
    grads: PyTree
    batch_size: int
    potential: float
    noise: float
    plain: float
    passes: float


@dataclass(frozen=True)
class Tuning:
    """What the warm-up saw and chose.

    ``sundman.sample(target, draws.tuning.sampler, ...)`` repeats the run with everything frozen;
    ``print(draws.tuning.code)`` is that sampler as code to paste.

    Attributes:
      chosen: the numbers of the sampler.
      windows: what each window saw.
      gradients: gradient evaluations of every chain.
      converged: whether U had stopped falling.
      noise_limited: the step over the one that the energy error alone would allow; 1 if gradients
        are exact.
      bias: the scale of the bias that the step leaves, in units of an observable's standard
        deviation, from its energy error; 0 if it is not known.
      why: what was chosen and why, in words.
      control_variate: where it is, if the run has one.
    """

    chosen: Chosen
    windows: tuple[WarmUpWindow, ...]
    gradients: int
    converged: bool
    noise_limited: float
    bias: float
    why: str
    control_variate: ControlVariateAt | None = None

    @property
    def sampler(self) -> Sampler:
        """The sampler that was found, an ordinary one."""
        return self.chosen.sampler()

    @property
    def code(self) -> str:
        """The sampler as code to paste, with all its numbers."""
        imports = (
            "import jax.numpy as jnp\nimport sundman\n"
            "from sundman import clocks, integrators, scaling\n"
        )
        return f"{imports}\nsampler = {code(self.sampler)}"

    @property
    def jumps(self) -> bool:
        """Whether the step is so short that U seems not to be smooth.

        Only a matrix L makes all directions alike; without one a smooth law may need such a step.
        """
        exact = not any(window.noise for window in self.windows)
        return exact and self.chosen.dense and self.chosen.h < _SHORT

    def __str__(self) -> str:
        """What was chosen and why."""
        return self.why

    def to_parts(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything as plain numbers for JSON, and arrays by name."""
        scale, sigma = self.chosen.scale, self.chosen.sigma
        arrays = {f"scale/{name}": leaf for name, leaf in named_leaves(scale).items()}
        if sigma is not None:
            arrays |= {f"sigma/{name}": leaf for name, leaf in named_leaves(sigma).items()}
        numbers = self.chosen._replace(scale=None, sigma=None)._asdict()
        plain = {name: getattr(self, name) for name in _PLAIN}
        if (anchor := self.control_variate) is not None:
            for part in _ANCHOR:
                named = named_leaves(getattr(anchor, part))
                arrays |= {f"{part}/{name}": np.asarray(leaf) for name, leaf in named.items()}
            plain["control_variate"] = anchor._replace(position=None, grads=None)._asdict()
        windows = [window._asdict() for window in self.windows]
        return {**plain, "windows": windows, "chosen": numbers}, arrays

    @classmethod
    def from_parts(
        cls, plain: Mapping[str, Any], arrays: Mapping[str, np.ndarray], position: PyTree
    ) -> Self:
        """The record from what :meth:`to_parts` made of it.

        Args:
          plain: its numbers and texts.
          arrays: its arrays by name.
          position: a pytree with the structure of a position.

        Returns:
          The record.
        """
        chosen = dict(plain["chosen"])

        def tree(part: str, like: PyTree) -> PyTree:
            named = {
                name.removeprefix(f"{part}/"): leaf
                for name, leaf in arrays.items()
                if name.startswith(f"{part}/")
            }
            return jax.tree.map(jnp.asarray, with_named_leaves(like, named)) if named else None

        chosen["scale"] = tree("scale", 0 if chosen["dense"] else position)
        chosen["sigma"] = tree("sigma", position)
        anchor = plain.get("control_variate")
        if anchor is not None:
            parts = {part: tree(part, position) for part in _ANCHOR}
            anchor = ControlVariateAt(**{**anchor, **parts})
        return cls(
            chosen=Chosen(**chosen),
            windows=tuple(WarmUpWindow(**window) for window in plain["windows"]),
            **{name: plain[name] for name in _PLAIN},
            control_variate=anchor,
        )


_ANCHOR = ("position", "grads")
_PLAIN = ("gradients", "converged", "noise_limited", "bias", "why")
