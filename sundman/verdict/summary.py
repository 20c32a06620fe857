"""What the checks of a run look at: recorded statistics, and a few components of the draws.

A run may have a billion numbers and the verdict has milliseconds, so statistics are averaged over
stretches of draws, and components are taken at evenly spaced draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from jax import Array

from sundman import _chunks, estimate
from sundman._trees import leaf_paths, some_of_each
from sundman._types import DrawsArray, PyTree
from sundman.draws import Draws
from sundman.estimate.moments import moments
from sundman.posterior import Posterior

_NUMBERS = 60_000  # looked at, of all that was kept
_AT_A_TIME = 4 * 2**20  # numbers of a column in memory
_COMPONENTS = 20  # of leaves on disk, each of which takes a pass over them
_MOST_COMPONENTS = 2000  # of leaves in memory or small enough to be read at once: .3 s
_AVERAGED = ("potential", "virial", "kinetic_temperature")


class RunSummary(NamedTuple):
    """The numbers of a run that the checks look at.

    Attributes:
      temperature: T of the law.
      size: d, the number of coordinates; None if it is not known.
      values: U and some components at evenly spaced draws, (chain, draw, 1 + k).
      labels: their names.
      weight: of these draws.
      rhat: split R-hat of each of them.
      blocks: the averages of each recorded statistic over stretches of draws, (chain, stretch).
      share: the weight of each stretch.
    """

    temperature: float
    size: int | None
    values: np.ndarray
    labels: list[str]
    weight: np.ndarray
    rhat: np.ndarray
    blocks: dict[str, np.ndarray]
    share: np.ndarray


def summarise(draws: Draws, *, kept_values: bool) -> RunSummary:
    """Summarise a run; ``kept_values``: whether to look at them, or at U alone."""
    chains, n = draws.chains, len(draws)
    chosen = _coordinates(draws.values) if kept_values else []
    looked_at = min(len(chosen), _COMPONENTS)  # of more there are as many draws, and more numbers
    stride = max(1, -(-chains * n * (1 + looked_at) // _NUMBERS))
    some = slice(None, None, stride)
    columns = [draws.column("potential")[:, some], *_columns(chosen, some)]
    length = max(1, -(-chains * n * len(_AVERAGED) // _NUMBERS))
    values = np.stack([np.asarray(column, np.float64) for column in columns], axis=2)
    weights = draws.column("weight")
    weight = np.asarray(weights[:, some], np.float64)
    share = _sums(None, weights, length)
    last = jax.tree.leaves(draws.last)
    temperature = draws.facts.temperature
    return RunSummary(
        temperature=1.0 if temperature is None else float(temperature),
        size=sum(leaf[0].size for leaf in last) if last else None,
        values=values,
        labels=["U", *(each.label for each in chosen)],
        weight=weight,
        rhat=split_rhat_of(values, weight),
        blocks={
            name: _sums(draws.column(name), weights, length) / np.where(share > 0, share, 1.0)
            for name in _AVERAGED
            if name in draws.stats
        },
        share=share,
    )


def losses_of_rows(
    draws: Draws, posterior: Posterior, rows: int, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """-log p(y | x, position) of some training rows at some draws, evenly spaced.

    Args:
      draws: that kept their positions.
      posterior: with its data in memory.
      rows: how many.
      most: draws of a chain.

    Returns:
      The losses, (chain, draw, row), and the weight of these draws.
    """
    part = slice(None, None, max(1, len(draws) // most))
    positions = jax.tree.map(lambda leaf: np.asarray(leaf[:, part]), draws.position)
    chains, count = jax.tree.leaves(positions)[0].shape[:2]
    flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), positions)
    losses = losses_at(of_some_rows(posterior, rows), flat)
    return losses.reshape(chains, count, -1), np.asarray(
        draws.column("weight")[:, part], np.float64
    )


def of_some_rows(posterior: Posterior, rows: int) -> Posterior:
    """The posterior of ``rows`` of its rows, evenly spaced; its data are in memory."""
    x, y, _ = posterior.data  # type: ignore[misc]  # in memory
    chosen = np.linspace(0, posterior.size - 1, min(rows, posterior.size)).astype(int)
    return posterior.replace(data=jax.tree.map(lambda leaf: leaf[chosen], (x, y)))


def losses_at(posterior: Posterior, positions: PyTree) -> np.ndarray:
    """-log p(y | x, position) of every row at every position, (position, row)."""
    return -np.asarray(_log_prob_of_rows(posterior, positions), np.float64)


@jax.jit
def _log_prob_of_rows(posterior: Posterior, positions: PyTree) -> Array:
    """log p(y | x, position) of every row at every position."""
    x, y, _ = posterior.data  # type: ignore[misc]  # in memory
    return jax.lax.map(lambda at: posterior.log_likelihood_of_rows(at, x, y), positions)


def split_rhat_of(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Split R-hat of each component; 1 of one that is constant, or of too few draws."""
    if values.shape[1] < 4 or not (weight > 0).any():
        return np.ones(values.shape[2])
    part = Draws(values, weight, {}, np.full(len(values), -1), None)
    return np.nan_to_num(np.atleast_1d(estimate.split_rhat(part)), nan=1.0, posinf=np.inf)


def effective_draws(values: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """The effective sample size of each component; infinite for one that is constant."""
    _, error, variance = moments(values, weight)
    known = (variance > 0) & np.isfinite(error)
    return np.where(known, variance / np.where(known, error, 1.0) ** 2, np.inf)


def number_of(values: PyTree) -> int:
    """How many numbers a draw has, of values with the axes (chain, draw, ...)."""
    return sum(math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(values))


def _coordinates(values: PyTree) -> list[Component]:
    """All components of kept values if they are not too many, else evenly spaced ones."""
    in_memory = all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(values))
    near = in_memory or number_of(values) <= _MOST_COMPONENTS
    return list(components(values, _MOST_COMPONENTS if near else _COMPONENTS))


def _columns(chosen: list[Component], some: slice) -> Iterator[np.ndarray]:
    """The numbers of some components at some draws; leaves on disk are read once if small."""
    whole: dict[int, np.ndarray] = {}
    for each in chosen:
        leaf, place = each.leaf, each.place
        if not isinstance(leaf, np.ndarray) and math.prod(leaf.shape[2:]) <= _MOST_COMPONENTS:
            if id(leaf) not in whole:
                whole[id(leaf)] = np.asarray(leaf[:, some])
            yield whole[id(leaf)][(slice(None), slice(None), *place)]
        else:
            yield each.at(some)


class Component(NamedTuple):
    """One component of the kept values."""

    leaf: DrawsArray
    place: tuple[int, ...]
    label: str

    def at(self, some: slice) -> np.ndarray:
        """Its numbers at some draws, (chain, draw)."""
        if isinstance(self.leaf, np.ndarray):
            return self.leaf[(slice(None), some, *self.place)]
        part = self.leaf[(slice(None), some, *(slice(i, i + 1) for i in self.place))]
        return np.asarray(part).reshape(part.shape[:2])


def components(values: PyTree, most: int = _COMPONENTS) -> Iterator[Component]:
    """A few components of kept values, of every leaf at least one."""
    paths, leaves = leaf_paths(values), jax.tree.leaves(values)
    real = [(p, leaf) for p, leaf in zip(paths, leaves, strict=True) if _is_real(leaf.dtype)]
    sizes = [math.prod(leaf.shape[2:]) for _, leaf in real]
    ends = np.cumsum([0, *sizes])
    for number in some_of_each(sizes, most).tolist():
        which = int(np.searchsorted(ends, number, side="right")) - 1
        path, leaf = real[which]
        shape = leaf.shape[2:]
        index = (
            tuple(int(i) for i in np.unravel_index(number - ends[which], shape)) if shape else ()
        )
        label = f"{path}[{', '.join(map(str, index))}]" if index else path
        yield Component(leaf, index, label)


def _is_real(dtype: np.dtype) -> bool:
    return np.issubdtype(dtype, np.integer) or np.issubdtype(dtype, np.floating)


def _sums(column: DrawsArray | None, weight: DrawsArray, length: int) -> np.ndarray:
    """sum(w f) over stretches of ``length`` draws, (chain, stretch); what is over is left out.

    Without a column f is 1. Of a run on disk no more than a bounded part is in memory.
    """
    chains, draws = weight.shape
    whole, step = draws // length * length, max(1, _AT_A_TIME // (chains * length)) * length

    def of_part(part: slice) -> np.ndarray:
        w = weight[:, part]
        if length == 1:
            w = np.asarray(w, np.float64)
            return w if column is None else w * column[:, part]
        w = w.reshape(chains, -1, length)
        if column is None:
            return w.sum(axis=2, dtype=np.float64)
        return np.einsum("csl,csl->cs", w, column[:, part].reshape(w.shape)).astype(np.float64)

    parts = [of_part(part) for part in _chunks.draw_slices(whole, step)]
    return np.concatenate(parts, axis=1) if parts else np.zeros((chains, 0))
