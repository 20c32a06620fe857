"""``auto``: ask for a sampler that tunes itself."""

from __future__ import annotations

from typing import Self

from sundman import check
from sundman.value import Number, Value, static

METHODS = ("baoab", "low_rank_baoab")
_AIM = 6e-4  # energy error of a step, dE^2 / (d T^2), at a bias of _BIAS
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
