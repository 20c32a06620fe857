"""Draws: positions, the weights that make them a sample of the target, and their statistics.

Those of a run on disk are the same class: what is large is read when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, runtime_checkable

import jax
import numpy as np
from jax import Array

from sundman import _chunks, check, estimate
from sundman._types import DrawsArray, PyTree, Settings
from sundman.draws import exports
from sundman.draws.facts import RunFacts
from sundman.draws.online import Average
from sundman.draws.trust import Ended, Verdict, settings_of_chain
from sundman.estimate import Estimate
from sundman.tune import Tuning

if TYPE_CHECKING:
    from arviz import InferenceData

Function: TypeAlias = Callable[[PyTree], PyTree]


@runtime_checkable
class _OnDisk(Protocol):
    """Statistics of a run on disk."""

    def column(self, name: str) -> DrawsArray:
        """One of them, or ``"weight"``, of which only what is asked for is read."""
        ...


class Restart(NamedTuple):
    """A chain that ran away and went on: its draws from ``draw`` to before ``until`` weigh nothing.

    Attributes:
      chain: its number.
      draw: the first draw of weight 0.
      until: the first draw after them; it counts again, unless the chain ran away at once.
    """

    chain: int
    draw: int
    until: int


@dataclass(frozen=True)
class Draws:
    """Weighted draws; every array has the axes (chain, draw, ...).

    ``draws[a:b]`` are the draws a to b of every chain.

    Attributes:
      values: what was kept of each position: the position itself, or what ``collect`` made of it.
        Its leaves are numpy arrays, or read from disk when indexed.
      weight: dt of the step that leaves the position; 0 from where a chain diverged.
      stats: per draw ``dt``, ``time``, ``potential``, ``grad_norm`` and, with an adaptive
        clock, ``zeta``.
      diverged_at: for each chain the index of the draw from where it ran away to a non-finite
        potential or gradient, or -1; ``diverged`` says for each chain whether it did.
      last: the final position of each chain.
      settings: the sampler's settings and those of the run.
      has_position: whether ``values`` are positions.
      online: averages of the function given as ``online=``, one per chain: ``weighted`` by
        time, ``equal`` with equal weights, and their ``weight`` and ``number``.
      verdict: whether the run can be trusted, see :func:`sundman.judge`; None for a part of a run,
        and while it goes on.
      tuning: what the sampler found out in its warm-up, if it tuned itself.
      ended: what ended the run, if it had a rule: see :func:`sundman.until`; None for a part of it.
    """

    values: PyTree
    weight: np.ndarray
    stats: Mapping[str, np.ndarray]
    diverged_at: np.ndarray
    last: PyTree
    settings: Settings = field(default_factory=dict)
    has_position: bool = True
    online: Average | None = field(default_factory=lambda: None)
    verdict: Verdict | None = None
    tuning: Tuning | None = field(default_factory=lambda: None)
    ended: Ended | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Draws:
        """The draws of a run at ``store=path``, finished or going on, read when they are used.

        Those written by now: open it again to see more. No code of the run is run and nothing is
        imported for it, so that a run from anyone can be opened. Where its positions are of a
        class of your own, import the class before; else they have its names, in its order.

            draws = sundman.Draws.open("runs/mnist")
            draws.mean(), draws.verdict
        """
        return open_draws(path)

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> object:
            """A field of draws on disk, read when it is first asked for."""
            read = self.__dict__.get("_deferred", {}).get(name)
            if read is None:
                return object.__getattribute__(self, name)  # which says what is wrong
            object.__setattr__(self, name, read())
            return self.__dict__[name]

    @property
    def facts(self) -> RunFacts:
        """What the settings say of the run, by name and type."""
        return RunFacts.of(self.settings)

    def column(self, name: str) -> DrawsArray:
        """A recorded statistic, or ``"weight"``, (chain, draw); of a run on disk read when indexed.

        ``stats[name]`` and ``weight`` read all of it, and keep it.
        """
        if name == "weight" and "weight" in self.__dict__:
            return self.weight
        return self.stats.column(name) if isinstance(self.stats, _OnDisk) else self.stats[name]

    @property
    def position(self) -> PyTree:
        """The positions, if they were kept."""
        if not self.has_position:
            raise AttributeError(
                "the positions of this run were not kept, because collect= was given; "
                "what it returned is in draws.values"
            )
        return self.values

    @property
    def diverged(self) -> np.ndarray:
        """For each chain, whether it ran away: ``draws.diverged.any()``."""
        return self.diverged_at >= 0

    @property
    def lost(self) -> np.ndarray:
        """For each chain, whether it ran away and did not go on: not with ``"restart"``."""
        return self.diverged & (self.facts.on_divergence != "restart")

    @property
    def restarts(self) -> list[Restart]:
        """Where chains that ran away were put back and went on, of a run with ``"restart"``."""
        restarts: list[Restart] = []
        for chain in np.flatnonzero(self.diverged & ~self.lost).tolist():
            weight = self.weight[chain]
            empty = np.concatenate([[False], weight == 0, [False]])
            marked = np.concatenate([np.signbit(weight), [False]])  # it ran away again at once
            begins = np.flatnonzero((empty[1:] > empty[:-1]) | marked)
            ends = np.flatnonzero((empty[1:] < empty[:-1]) | (marked & empty[:-1]))
            restarts += [Restart(chain, int(a), int(b)) for a, b in zip(begins, ends, strict=True)]
        return restarts

    @property
    def chains(self) -> int:
        """Number of chains."""
        return len(self.diverged_at)

    def __len__(self) -> int:
        """Number of draws per chain."""
        leaves = jax.tree.leaves(self.values)
        return (leaves[0] if leaves else self.weight).shape[1]

    def __repr__(self) -> str:
        """Sizes, not contents; and the verdict in a few words."""
        shapes = jax.tree.map(lambda leaf: leaf.shape, self.values)
        lost = int(np.sum(self.diverged))
        verdict = "" if self.verdict is None else f", verdict='{self.verdict.short}'"
        sizes = f"chains={self.chains}, draws={len(self)}, values={shapes}"
        return f"Draws({sizes}, diverged={lost}{verdict})"

    def __getitem__(self, index: slice) -> Draws:
        """A slice of the draws of every chain, with their weights."""
        if not isinstance(index, slice):
            raise TypeError(f"draws are indexed by a slice, draws[a:b]; got draws[{index!r}]")
        rows = range(*index.indices(len(self)))
        if rows.step < 0 or not rows:
            raise ValueError(f"no draw, or backwards: draws[{index}] of {len(self)} draws")
        # a divergence after the slice is not in it
        before = np.array([_below(rows, d) for d in self.diverged_at], int)
        inside = self.diverged & ((self.diverged_at <= rows[-1]) | (rows.stop == len(self)))
        settings = {**self.settings, "draws": len(rows)}
        if (thin := self.facts.thin) is not None:
            settings["thin"] = thin * rows.step
        return Draws(
            values=jax.tree.map(lambda leaf: _chunks.window(leaf, rows), self.values),
            weight=self.column("weight")[:, index],
            stats={name: self.column(name)[:, index] for name in self.stats},
            diverged_at=np.where(inside, before, -1),
            last=self.last,
            settings=settings,
            has_position=self.has_position,
            online=self.online,
            tuning=self.tuning,
        )

    def settings_of(self, chain: int) -> Settings:
        """The settings of one chain, of a run whose chains have settings of their own."""
        return settings_of_chain(self.settings, chain)

    def chain(self, index: int) -> Draws:
        """The draws of one chain alone, with its own settings."""
        check.count("index", index, least=0)
        if index >= self.chains:
            raise IndexError(f"there are {self.chains} chains, 0 to {self.chains - 1}; got {index}")
        one = slice(index, index + 1)
        settings = self.settings_of(index)
        return Draws(
            values=jax.tree.map(lambda leaf: leaf[one], self.values),
            weight=self.weight[one],
            stats={name: leaf[one] for name, leaf in self.stats.items()},
            diverged_at=self.diverged_at[one],
            last=jax.tree.map(lambda leaf: leaf[one], self.last),
            settings=settings,
            has_position=self.has_position,
            online=jax.tree.map(lambda leaf: leaf[one], self.online),
            tuning=self.tuning,
        )

    def thin(self, k: int) -> Draws:
        """Every k-th draw of every chain, with its weight."""
        check.count("k", k, least=1)
        return self[::k]

    def blocks(self, size: int | None = None) -> Iterator[tuple[slice, PyTree]]:
        """Consecutive draws of all chains: where they are, and their values as numpy arrays.

        ``size`` draws at a time; by default as many as fit into 64 MB.
        """
        if size is None:
            size = _chunks.draws_per_block(self.values)
        check.count("size", size, least=1)
        for part in _chunks.draw_slices(len(self), size):
            yield part, jax.tree.map(lambda leaf, part=part: np.asarray(leaf[:, part]), self.values)

    def expectation(self, f: Function) -> Estimate:
        """sum(w f) / sum(w) with its Monte Carlo standard error; f may return a pytree."""
        return estimate.mean(self, f)

    def mean(self) -> Estimate:
        """The weighted mean of the kept values and its standard error, in their structure."""
        return estimate.mean(self)

    def variance(self, f: Function | None = None) -> PyTree:
        """The weighted variance of the kept values, or of f of them, in their structure."""
        return estimate.variance(self, f)

    def quantile(self, q: float | Sequence[float], f: Function | None = None) -> PyTree:
        """The weighted quantiles: see :func:`sundman.estimate.quantile`."""
        return estimate.quantile(self, q, f)

    def ess(self, f: Function | None = None) -> PyTree:
        """The effective sample size of each kept value, or of f of them."""
        return estimate.ess(self, f)

    def resample(self, key: Array, n: int, *, per_chain: bool = False) -> Draws:
        """Draws of equal weight, in proportion to the weights, by systematic resampling.

        Args:
          key: a JAX random key.
          n: how many draws, of each chain with ``per_chain`` and of all of them without.
          per_chain: keep the chains apart, without those that diverged; otherwise all are joined
            into one.

        Returns:
          The draws, which have weight 1.
        """
        pick = exports.rows_per_chain if per_chain else exports.pooled_rows
        rows, chains = pick(self.weight, self.lost, key, n)

        def take(leaf: DrawsArray) -> np.ndarray:
            flat = _chunks.gather(leaf, rows.ravel())
            return flat.reshape(*rows.shape, *leaf.shape[2:])

        last = None
        if chains is not None:
            last = jax.tree.map(lambda leaf: np.asarray(leaf)[chains], self.last)
        return Draws(
            values=jax.tree.map(take, self.values),
            weight=np.ones(rows.shape, np.float32),
            stats={name: take(leaf) for name, leaf in self.stats.items()},
            diverged_at=np.full(len(rows), -1),
            last=last,
            settings={**self.settings, "resampled": rows.shape[1]},
            has_position=self.has_position,
        )

    def to_arviz(
        self, resample: int | bool | None = None, key: Array | None = None
    ) -> InferenceData:
        """An ``arviz.InferenceData``, which counts every draw the same. Needs arviz.

        Draws of unequal weights are resampled to as many of equal weight, chains that diverged are
        left out; the attribute ``note`` says so.

            arviz.summary(draws.to_arviz())

        Args:
          resample: how many draws of equal weight per chain; ``False`` for the weighted ones with
            ``sample_stats.weight``.
          key: a JAX random key for the resampling; a fixed one if not given.

        Returns:
          The draws with their statistics, see :func:`sundman.draws.exports.inference_data`.
        """
        return exports.inference_data(self, resample=resample, key=key)


def open_draws(path: str | os.PathLike[str], like: Mapping[str, PyTree] | None = None) -> Draws:
    """The draws of a run on disk.

    Args:
      path: of the run.
      like: pytrees of the classes of its ``values``, ``position`` and ``averages``, if known.

    Returns:
      The draws; what is large is read when it is asked for.
    """
    from sundman.draws import stored  # needs the packages of the extra "store"

    parts = stored.read(path, like)
    draws = object.__new__(Draws)
    for name, part in parts.fields.items():
        object.__setattr__(draws, name, part)
    object.__setattr__(draws, "_deferred", parts.deferred)
    return draws


def _below(rows: range, draw: int) -> int:
    """How many of ``rows`` are less than ``draw``."""
    return len(range(rows.start, min(rows.stop, max(int(draw), rows.start)), rows.step))
