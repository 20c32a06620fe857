"""What a run tells those who watch it: started before it, told of each block, closed at its end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from sundman._types import Json, Settings

_SUBSAMPLE = 2048
_CHAINS, _STRETCHES = 16, 64  # chains and stretches at most, so that a line of the log stays short
_STRETCHES_PER_CHAIN = 16
_NAMES = {
    "dt": "dt",
    "zeta": "zeta",
    "potential": "potential",
    "grad_norm": "grad_norm",
    "virial": "temperature",
    "kinetic_temperature": "kinetic_temperature",
}
_PER_STEP = ("dt", "zeta")


class Summary(NamedTuple):
    """Mean and range of one statistic over a block, all living chains together."""

    mean: float
    low: float
    high: float


class Stretches(NamedTuple):
    """The draws of a block in stretches, chain by chain: what R-hat and ESS of U are made of.

    All but ``chain`` have axes (chain, stretch); a stretch without a living draw has weight 0.

    Attributes:
      chain: the numbers of the chains, at most 16, evenly spread.
      draws: how many draws were looked at in each stretch.
      weight: the sum of their weights.
      potential: their weighted mean of U.
      variance: their weighted variance of U.
      temperature: their weighted mean of the virial; empty where it is not recorded.
    """

    chain: list[int]
    draws: list[list[int]]
    weight: list[list[float]]
    potential: list[list[float]]
    variance: list[list[float]]
    temperature: list[list[float]]


class Look(NamedTuple):
    """What a rule that may end a run saw when it last looked.

    Attributes:
      rule: such as ``"ess=400, rhat=1.01"``.
      draws: per chain, by then.
      ess: the fewest effective draws, of what has them.
      ess_of: what that is, such as ``"U"``.
      rhat: the largest split R-hat.
      rhat_of: what that is of.
    """

    rule: str
    draws: int
    ess: float
    ess_of: str
    rhat: float
    rhat_of: str

    def __str__(self) -> str:
        """The numbers."""
        return (
            f"{self.ess:,.0f} effective draws of {self.ess_of}, split R-hat {self.rhat:.4g} of "
            f"{self.rhat_of}"
        )


class BlockReport(NamedTuple):
    """Where a run stands after a block.

    ``draws`` and ``steps`` are per chain; ``steps`` includes burn-in. ``total_steps`` is None when
    nobody knows, as for draws at equal intervals of time. ``seconds`` is the wall time since this
    process began the run. ``stats`` is empty during burn-in. ``by_chain`` has U and the temperature
    of each chain; None in burn-in. ``look`` is what a rule saw that may end the run; None if it has
    none, or before it has looked.
    """

    stage: str
    block: int
    draws: int
    total_draws: int
    steps: int
    total_steps: int | None
    chains: int
    diverged: int
    seconds: float
    stats: dict[str, Summary]
    by_chain: Stretches | None = None
    look: Look | None = None


@runtime_checkable
class Watcher(Protocol):
    """Whoever is told how a run goes: ``start``, then blocks and events, and always ``close``."""

    def start(self, about: Settings) -> None:
        """The run begins.

        Args:
          about: its settings by name.
        """
        ...

    def block(self, report: BlockReport) -> None:
        """A block is done.

        Args:
          report: how far the run is, how fast, and how its statistics look.
        """
        ...

    def event(self, name: str, message: str, **fields: Json) -> None:
        """Something out of the ordinary has happened.

        Args:
          name: "devices", "divergence", "checkpoint", "resumed", "interrupted" or "until".
          message: what happened, as a sentence.
          **fields: the facts of it, such as the step.
        """
        ...

    def close(self, ok: bool) -> None:
        """The run is over.

        Args:
          ok: whether it came to its end; False if it was broken off.
        """
        ...


class ScalarLogger(Protocol):
    """Whoever takes numbers by name, as the runs of wandb and trackio do."""

    def log(self, values: dict[str, float], step: int, /) -> object:
        """Take the numbers of a block.

        Args:
          values: by names such as ``potential/mean``.
          step: steps of each chain so far, burn-in included.
        """
        ...


@contextmanager
def watched(
    watchers: Sequence[Watcher], about: Settings, note: str | None = None
) -> Iterator[None]:
    """Start the watchers, and close them however the run ends."""
    ok = False
    with ExitStack() as started:
        for watcher in watchers:
            watcher.start(about)
            started.callback(lambda watcher=watcher: watcher.close(ok))
            if note is not None:
                watcher.event("resumed", note)
        yield
        ok = True


_METHODS = ("start", "block", "event", "close")


def check_watchers(watchers: object) -> None:
    """Raise unless it is a sequence of watchers, or of objects with ``log(dict, step)``."""
    if isinstance(watchers, (str, Mapping)) or not isinstance(watchers, Sequence):
        raise TypeError(f"watchers is a sequence of watchers, such as [log]; got {watchers!r}")
    for watcher in watchers:
        lacks = [name for name in _METHODS if not hasattr(watcher, name)]
        if lacks and not callable(getattr(watcher, "log", None)):
            raise TypeError(
                f"a watcher has start, block, event and close, such as sundman.JsonLines(path), or "
                f"log(dict, step), such as a run of wandb; {watcher!r} has no {lacks[0]} and no log"
            )


def _spread(shape: tuple[int, int]) -> tuple[slice, slice]:
    """Slices that take at most ``_SUBSAMPLE`` entries, evenly spread, the latest draws included."""
    chains, draws = shape
    chain_stride = max(1, math.ceil(chains / _SUBSAMPLE))
    chains_seen = max(1, math.ceil(chains / chain_stride))
    draw_stride = max(1, math.ceil(draws / (_SUBSAMPLE // chains_seen)))
    return slice(None, None, chain_stride), slice(None, None, -draw_stride)


def _summary(values: np.ndarray, weight: np.ndarray | None) -> Summary:
    if values.size == 0:
        return Summary(math.nan, math.nan, math.nan)
    mean = values.mean() if weight is None else values @ weight / weight.sum()
    return Summary(float(mean), float(values.min()), float(values.max()))


def summarise(stats: Mapping[str, np.ndarray], weight: np.ndarray) -> dict[str, Summary]:
    """Mean and range of a block's statistics, from at most 2048 evenly spread draws.

    Looking at every draw would cost more than a hundredth of a fast run, so the extremes are those
    of the subsample. ``stats`` have axes (chain, draw); ``weight`` has axes (chain,) or (chain,
    draw) and is 0 where a chain is lost. The means of U, its gradient and the temperatures are
    weighted, those of the law; dt and zeta are averaged over the steps. Values that are not finite
    are left out; a statistic with none left is NaN. "virial" is reported as "temperature", since
    its mean is one.
    """
    summaries: dict[str, Summary] = {}
    for recorded, name in _NAMES.items():
        if recorded not in stats:
            continue
        values = stats[recorded]
        if values.ndim != 2 or weight.shape not in (values.shape, values.shape[:1]):
            raise ValueError(
                f"stats[{recorded!r}] must have axes (chain, draw) and weight (chain,) or (chain, "
                f"draw); got shapes {values.shape} and {weight.shape}"
            )
        chains, draws = _spread((values.shape[0], values.shape[1]))
        few = np.asarray(values[chains, draws], np.float64)
        own = weight[chains, draws] if weight.ndim == 2 else weight[chains, None]
        counted = np.isfinite(few) & (own > 0)
        if name not in _PER_STEP and own.dtype != bool:
            own = np.broadcast_to(own, few.shape)[counted].astype(np.float64)
            summaries[name] = _summary(few[counted], own)
        else:
            summaries[name] = _summary(few[counted], None)
    return summaries


def stretches(stats: Mapping[str, np.ndarray], weight: np.ndarray) -> Stretches | None:
    """U and the temperature of each chain in a block, from the draws that ``summarise`` looks at.

    ``stats`` and ``weight`` have axes (chain, draw); None if U is not recorded. A draw counts if
    its weight is above 0 and its U is finite.
    """
    if "potential" not in stats:
        return None
    chains = slice(None, None, max(1, math.ceil(len(weight) / _CHAINS)))
    seen = len(weight[chains])
    draws = slice(None, None, -max(1, math.ceil(weight.shape[1] / (_SUBSAMPLE // seen))))
    w, U = (
        np.asarray(part[chains, draws], np.float64)[:, ::-1]
        for part in (weight, stats["potential"])
    )
    parts = max(1, min(w.shape[1], _STRETCHES // seen, _STRETCHES_PER_CHAIN))
    begins = np.linspace(0, w.shape[1], parts, endpoint=False, dtype=int)

    def total(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, begins, axis=1)

    good = (w > 0) & np.isfinite(U)
    w, U = np.where(good, w, 0.0), np.where(good, U, 0.0)
    weights = total(w)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total(w * U) / weights
        length = np.diff([*begins, w.shape[1]])
        variance = total(w * (U - np.repeat(mean, length, axis=1)) ** 2) / weights
        temperature = np.zeros((seen, 0))
        if "virial" in stats:
            T = np.asarray(stats["virial"][chains, draws], np.float64)[:, ::-1]
            temperature = total(w * np.where(good, T, 0.0)) / weights
    numbers = [_rounded(part) for part in (weights, mean, variance, temperature)]
    number = np.arange(len(weight))[chains].tolist()
    return Stretches(number, total(good).tolist(), *numbers)


def _rounded(values: np.ndarray) -> list[list[float]]:
    """To nine digits, more than the single precision of the draws, so that the log is short."""
    with np.errstate(divide="ignore", invalid="ignore"):
        places = 8 - np.floor(np.log10(np.abs(values)))
    unit = 10.0 ** np.where(np.abs(places) < 300, places, 0.0)
    return (np.round(values * unit) / unit).tolist()
