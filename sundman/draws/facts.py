"""What is known of the run behind some draws, by name and type.

Settings of a run are a dict that is shown and stored; whoever computes with one of them asks here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sundman._types import Settings

_TEXTS = ("sampler", "clock", "lag", "on_divergence", "path")
_NUMBERS = ("temperature", "h", "dtau", "m", "M", "alpha", "a", "thin_time", "seconds")
_COUNTS = ("chains", "steps", "burn_in", "draws", "thin", "batch_size")
_LISTS = ("references", "per_chain", "diverged_step")
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(_TEXTS, (str,)),
    **dict.fromkeys(_NUMBERS, (float, int)),
    **dict.fromkeys(_COUNTS, (int,)),
    **dict.fromkeys(_LISTS, (list, tuple)),
    "finished": (bool,),
    "biased": (bool,),
}


@dataclass(frozen=True)
class RunFacts:
    """The settings of a run that others compute with; None where it does not say.

    A setting that each chain has of its own, whose name is in ``per_chain``, is None, too.

    Attributes:
      sampler: its name.
      references: what to cite.
      biased: whether the sampler's law is not that of the target, however small the step.
      temperature: T of the law.
      clock: the kind of its clock.
      h: the step of a constant clock.
      dtau: that of one that adapts, whose dt is from m dtau to M dtau.
      m: the lower bound of psi.
      M: the upper one.
      alpha: how fast zeta forgets.
      a: alpha dtau, for clocks that have it.
      lag: which gradients the clock has seen.
      chains: how many there were.
      steps: of each, burn-in included.
      burn_in: steps before the first draw.
      draws: of each chain.
      thin: steps from draw to draw.
      thin_time: time from draw to draw.
      batch_size: rows of a step.
      seconds: wall time.
      per_chain: the settings that each chain has of its own.
      on_divergence: what happens to chains that run away.
      diverged_step: for each chain when it did; -1 for never.
      finished: whether the run came to its end.
      path: where it is stored.
      resampled: whether the draws are resampled ones.
    """

    sampler: str | None = None
    references: Sequence[str] | None = None
    biased: bool = False
    temperature: float | None = None
    clock: str | None = None
    h: float | None = None
    dtau: float | None = None
    m: float | None = None
    M: float | None = None
    alpha: float | None = None
    a: float | None = None
    lag: str | None = None
    chains: int | None = None
    steps: int | None = None
    burn_in: int = 0
    draws: int | None = None
    thin: int | None = None
    thin_time: float | None = None
    batch_size: int | None = None
    seconds: float | None = None
    per_chain: Sequence[str] = ()
    on_divergence: str | None = None
    diverged_step: Sequence[int] | None = None
    finished: bool = True
    path: str | None = None
    resampled: bool = False

    @classmethod
    def of(cls, settings: Settings) -> RunFacts:
        """Those of a run with these settings; what is not of its type is not known."""
        own = settings.get("per_chain", ())
        known: Settings = {
            name: settings[name]
            for name, types in _TYPES.items()
            if name not in own and isinstance(settings.get(name), types)
        }
        return cls(**known, resampled="resampled" in settings)

    @property
    def gradient_evaluations(self) -> int | None:
        """Steps times chains, burn-in included."""
        steps = self.steps
        if steps is None and self.thin_time is None and self.draws is not None:
            steps = self.burn_in + self.draws * (self.thin or 1)
        return None if steps is None or self.chains is None else int(steps * self.chains)
