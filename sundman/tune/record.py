"""What the warm-up saw and chose: ``draws.tuning``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

from sundman.samplers import Sampler

__all__ = ["Tuning", "WarmUpWindow"]


class WarmUpWindow(NamedTuple):
    """One window of the warm-up.

    Attributes:
      stage: ``"descent"``, ``"window"`` or ``"last"``.
      steps: of every chain.
      h: the step at its end.
      v: the mean of dE^2 / (d T^2) of a step, its energy error.
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


@dataclass(frozen=True)
class Tuning:
    """What the warm-up saw and chose.

    ``sundman.sample(target, draws.tuning.sampler, ...)`` repeats the run with everything frozen.

    Attributes:
      sampler: the sampler it made; its ``repr`` is code that makes it again.
      windows: what each window saw.
      gradients: gradient evaluations of every chain.
      converged: whether U had stopped falling.
      noise_limited: the step over the one that the energy error alone would allow; 1 if gradients
        are exact.
      bias: the scale of the relative bias that the step leaves, from its energy error.
      why: what was chosen and why, in words.
    """

    sampler: Sampler
    windows: tuple[WarmUpWindow, ...]
    gradients: int
    converged: bool
    noise_limited: float
    bias: float
    why: str

    def __str__(self) -> str:
        """What was chosen and why."""
        return self.why

    def to_json(self) -> dict[str, Any]:
        """Everything but the sampler, for a file."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        del fields["sampler"]
        return {**fields, "windows": [window._asdict() for window in self.windows]}
