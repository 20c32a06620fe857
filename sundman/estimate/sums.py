"""Weighted sums over stretches of draws, read in bounded memory.

For a leaf f (chain, draw, ...) and a shift a, near the values so that nothing cancels,

    S_j = sum of w (f - a)^j over the draws of one stretch of one chain,   j = 0, 1, 2.

Every moment, error and R-hat is made of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sundman import _chunks


class Sums(NamedTuple):
    """Sums of some components: shift (k,), weight (chain, stretch), others with k last.

    ``second`` may have a single stretch, of all draws.
    """

    shift: np.ndarray
    weight: np.ndarray
    first: np.ndarray
    second: np.ndarray


def stretch_sums(
    leaf: Any, weight: np.ndarray, stretch: np.ndarray, *, squares: bool
) -> Iterator[tuple[tuple[slice, ...], Sums]]:
    """The sums for some components at a time: where these are, and their sums.

    ``stretch`` numbers the stretch of each draw, rising from 0. Draws of weight 0 count for
    nothing, finite or not. ``squares`` asks for S_2 of each stretch, instead of all draws.
    """
    weight = weight.astype(np.float64)
    chains, draws = weight.shape
    count = int(stretch[-1]) + 1
    c, d = np.unravel_index(np.argmax(weight > 0), weight.shape)
    for where in _chunks.component_slices(
        leaf.shape[2:], max(1, _chunks.elements_per_pass(leaf) // (chains * count))
    ):
        k = math.prod(part.stop - part.start for part in where)
        shift = np.asarray(leaf[(slice(c, c + 1), slice(d, d + 1), *where)], np.float64).reshape(k)
        total = np.zeros((chains, count))
        first = np.zeros((chains, count, k))
        second = np.zeros((chains, count if squares else 1, k))
        for part in _chunks.draw_slices(draws, max(1, _chunks.IN_MEMORY // (chains * k))):
            w, number = weight[:, part], stretch[part]
            starts = np.flatnonzero(np.diff(number, prepend=-1))
            values = np.asarray(leaf[(slice(None), part, *where)], np.float64)
            centred = np.where(w[..., None] > 0, values.reshape(*w.shape, k) - shift, 0.0)
            moment = w[..., None] * centred
            total[:, number[starts]] += np.add.reduceat(w, starts, axis=1)
            first[:, number[starts]] += np.add.reduceat(moment, starts, axis=1)
            moment *= centred
            if squares:
                second[:, number[starts]] += np.add.reduceat(moment, starts, axis=1)
            else:
                second[:, 0] += moment.sum(axis=1)
        yield where, Sums(shift, total, first, second)
