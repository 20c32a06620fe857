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
    "ArviZ counts every draw the same; export with resample=n for draws of equal weight."
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
    draws: Draws, *, resample: int | None = None, key: Array | None = None
) -> InferenceData:
    """The draws as ``arviz.InferenceData``, in memory. Needs arviz.

    Group ``posterior`` has one variable per leaf of the values, named by its path, with the
    dimensions chain, draw and its own. ``sample_stats`` has the weight, every recorded statistic,
    and ``diverging``, true from where the chain diverged. The attributes are the sampler's
    settings, the version, and ``weighted``: 1 if the draws are to be used with their weights.

    Args:
      draws: what to export.
      resample: give this many draws of equal weight per chain instead of weighted ones.
      key: a JAX random key, for ``resample``.
    """
    with needs_extra("arviz", "to_arviz"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # its notice of the next version
        import arviz
    from sundman import __version__

    if resample is not None:
        check.count("resample", resample, least=1)
        if key is None:
            raise ValueError(f"resample={resample} draws at random: give key=jax.random.key(...)")
        draws = draws.resample(key, resample, per_chain=True)
    weight = np.asarray(draws.weight)
    lost = draws.diverged[:, None] & (np.arange(len(draws)) >= draws.diverged_at[:, None])
    stats = {name: np.asarray(value) for name, value in draws.stats.items()}
    used = weight[~lost]
    weighted = used.size == 0 or not (used == used[0]).all()
    attributes = {
        **_attributes(draws.settings),
        "inference_library": "sundman",
        "inference_library_version": __version__,
        "weighted": int(weighted),
        "note": _WEIGHTED if weighted else _EQUAL,
    }
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(draws.values)]
    return arviz.from_dict(
        posterior=dict(zip(leaf_paths(draws.values), leaves, strict=True)),
        sample_stats={**stats, "weight": weight, "diverging": lost},
        attrs=attributes,
        posterior_attrs=attributes,
        sample_stats_attrs=attributes,
    )
