"""What a run tells those who watch it: started before it, told of each block, closed at its end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from sundman._types import Json, Settings

_SUBSAMPLE = 2048
_NAMES = {
    "dt": "dt",
    "zeta": "zeta",
    "potential": "potential",
    "grad_norm": "grad_norm",
    "virial": "temperature",
    "kinetic_temperature": "kinetic_temperature",
}


class Summary(NamedTuple):
    """Mean and range of one statistic over a block, all living chains together."""

    mean: float
    low: float
    high: float


class BlockReport(NamedTuple):
    """Where a run stands after a block.

    ``draws`` and ``steps`` are per chain; ``steps`` includes burn-in. ``total_steps`` is None when
    nobody knows, as for draws at equal intervals of time. ``seconds`` is the wall time since this
    process began the run. ``stats`` is empty during burn-in.
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
          name: "divergence", "checkpoint", "resumed" or "interrupted".
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


def check_watchers(watchers: object) -> None:
    """Raise unless it is a sequence of watchers."""
    if isinstance(watchers, (str, Mapping)) or not isinstance(watchers, Sequence):
        raise TypeError(f"watchers is a sequence of watchers, such as [log]; got {watchers!r}")
    for watcher in watchers:
        lacks = [
            name for name in ("start", "block", "event", "close") if not hasattr(watcher, name)
        ]
        if lacks:
            raise TypeError(
                f"a watcher has start, block, event and close, such as sundman.JsonLines(path); "
                f"{watcher!r} has no {lacks[0]}"
            )


def _spread(shape: tuple[int, int]) -> tuple[slice, slice]:
    """Slices that take at most ``_SUBSAMPLE`` entries, evenly spread, the latest draws included."""
    chains, draws = shape
    chain_stride = max(1, math.ceil(chains / _SUBSAMPLE))
    chains_seen = max(1, math.ceil(chains / chain_stride))
    draw_stride = max(1, math.ceil(draws / (_SUBSAMPLE // chains_seen)))
    return slice(None, None, chain_stride), slice(None, None, -draw_stride)


def _summary(values: np.ndarray) -> Summary:
    if values.size == 0:
        return Summary(math.nan, math.nan, math.nan)
    return Summary(float(values.mean()), float(values.min()), float(values.max()))


def summarise(stats: Mapping[str, np.ndarray], alive: np.ndarray) -> dict[str, Summary]:
    """Mean and range of a block's statistics, from at most 2048 evenly spread draws.

    Looking at every draw would cost more than a hundredth of a fast run, so the extremes are those
    of the subsample. ``stats`` have axes (chain, draw); ``alive`` has axes (chain,) or (chain,
    draw) and is False where a chain is lost. Values that are not finite are left out; a statistic
    with none left is NaN. "virial" is reported as "temperature", since its mean is one.
    """
    summaries: dict[str, Summary] = {}
    for recorded, name in _NAMES.items():
        if recorded not in stats:
            continue
        values = stats[recorded]
        if values.ndim != 2 or alive.shape not in (values.shape, values.shape[:1]):
            raise ValueError(
                f"stats[{recorded!r}] must have axes (chain, draw) and alive (chain,) or (chain, "
                f"draw); got shapes {values.shape} and {alive.shape}"
            )
        chains, draws = _spread((values.shape[0], values.shape[1]))
        few = np.asarray(values[chains, draws], np.float64)
        mask = alive[chains, draws] if alive.ndim == 2 else alive[chains, None]
        summaries[name] = _summary(few[np.isfinite(few) & mask])
    return summaries
