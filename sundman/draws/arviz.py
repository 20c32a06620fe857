"""Draws for ArviZ: posterior and sample_stats, weights included."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING

import jax
import numpy as np
from jax import Array

from sundman import check
from sundman._optional import needs_extra
from sundman._trees import leaf_paths
from sundman._types import Settings

if TYPE_CHECKING:
    from arviz import InferenceData

    from sundman.draws.draws import Draws

_WEIGHTED = (
    "These draws are weighted: averages are sum(w x) / sum(w) with w = sample_stats.weight. "
    "ArviZ counts every draw the same; export with resample=True for draws of equal weight."
)
_RESAMPLED = (
    "These draws were resampled to equal weights, so that ArviZ, which counts every draw the same, "
    "gives the averages of the run; repeated draws are not independent. resample=False exports the "
    "weighted ones."
)
_EQUAL = "These draws have equal weights."


def _attributes(settings: Settings) -> Settings:
    """Settings as numbers and strings, which every file format can hold."""
    kept: Settings = {}
    for name, value in settings.items():
        if value is None:
            continue
        if isinstance(value, bool | np.bool_):
            kept[name] = int(value)
        elif isinstance(value, int | float | str):
            kept[name] = value
        elif np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number):
            kept[name] = np.asarray(value).item()
        else:
            kept[name] = json.dumps(value, default=str)
    return kept


def inference_data(
    draws: Draws, *, resample: int | bool | None = None, key: Array | None = None
) -> InferenceData:
    """The draws as ``arviz.InferenceData``, in memory. Needs arviz.

    Group ``posterior`` has one variable per leaf of the values, named by its path, with the
    dimensions chain, draw and its own. ``sample_stats`` has the weight, every recorded statistic,
    and ``diverging``, true where a chain had diverged. The attributes are the sampler's settings,
    the version, ``weighted``: 1 if the draws are to be used with their weights, and a ``note``.

    Args:
      draws: what to export.
      resample: how many draws of equal weight per chain; ``True`` as many as there are, ``False``
        the weighted ones. By default they are resampled if their weights differ.
      key: a JAX random key for the resampling; a fixed one if not given.

    Returns:
      The draws without the chains that diverged, unless ``resample=False``: then these are there
      with weight 0 from where they diverged.
    """
    with needs_extra("arviz", "to_arviz"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # its notice of the next version
        import arviz
    from sundman import __version__

    weight = np.asarray(draws.weight)
    counts = weight[~draws.lost]
    weighted = counts.size == 0 or not (counts == counts[0, 0]).all()
    if resample is None:
        resample = weighted or bool(draws.lost.any())
    note = _WEIGHTED if weighted else _EQUAL
    if resample is not False:
        number = len(draws) if resample is True else resample
        check.count("resample", number, least=1)
        key = jax.random.key(0) if key is None else key
        note = _RESAMPLED if weighted else _EQUAL
        if draws.lost.any():
            gone = ", ".join(map(str, np.flatnonzero(draws.lost)))
            note += f" Chains that diverged are left out: {gone}."
        draws, weighted = draws.resample(key, number, per_chain=True), False
        weight = np.asarray(draws.weight)
    lost = draws.diverged[:, None] & (weight == 0)
    stats = {name: np.asarray(value) for name, value in draws.stats.items()}
    attributes = {
        **_attributes(draws.settings),
        "inference_library": "sundman",
        "inference_library_version": __version__,
        "weighted": int(weighted),
        "note": note,
    }
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(draws.values)]
    return arviz.from_dict(
        posterior=dict(zip(leaf_paths(draws.values), leaves, strict=True)),
        sample_stats={**stats, "weight": weight, "diverging": lost},
        attrs=attributes,
        posterior_attrs=attributes,
        sample_stats_attrs=attributes,
    )
