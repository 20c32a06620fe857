"""Draws in other forms: of equal weight, as one file that numpy opens, and for ArviZ.

Systematic resampling, Kitagawa (1996), makes draws of equal weight. With u uniform on [0, 1) and W
the running sum of the weights, divided by its last value,

    draw i of n is the first one with W > (u + i) / n

so a draw of share w comes floor(n w) or ceil(n w) times, n w on average. Draws keep their order.
Repeated draws carry no new information: for averages, the weights are better.
"""

from __future__ import annotations

import json
import os
import warnings
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

import jax
import numpy as np
from jax import Array
from numpy.typing import DTypeLike

from sundman import _chunks, check
from sundman._files import write_with
from sundman._optional import needs_extra
from sundman._trees import leaf_names, leaf_paths
from sundman._types import DrawsArray, Settings
from sundman.draws.trust import DivergenceWarning
from sundman.store.files import plain_json

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


def systematic(weight: np.ndarray, u: float, n: int) -> np.ndarray:
    """The indices of n draws, in rising order."""
    running = np.cumsum(weight.astype(np.float64))
    picked = np.searchsorted(running, (u + np.arange(n)) / n * running[-1], side="right")
    return np.minimum(picked, np.flatnonzero(weight > 0)[-1])


def pooled_rows(
    weight: np.ndarray, lost: np.ndarray, key: Array, n: int
) -> tuple[np.ndarray, None]:
    """The numbers of n draws of all chains together, as one chain, each in its order.

    Args:
      weight: axes (chain, draw).
      lost: not looked at: what was lost has weight 0.
      key: a JAX random key.
      n: how many.

    Returns:
      The numbers, axes (1, n), counted chain after chain; and no chains of their own.
    """
    del lost
    check.count("n", n, least=1)
    if not weight.sum() > 0:
        raise ValueError("every weight is 0: all chains diverged, there is nothing to resample")
    return systematic(weight.ravel(), float(jax.random.uniform(key)), n)[None], None


def rows_per_chain(
    weight: np.ndarray, lost: np.ndarray, key: Array, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of n draws of each chain that did not diverge; every chain counts the same.

    Args:
      weight: axes (chain, draw).
      lost: for each chain, whether it diverged and did not go on.
      key: a JAX random key.
      n: how many of each chain.

    Returns:
      The numbers, axes (chain, n), counted chain after chain; and which chains these are.
    """
    check.count("n", n, least=1)
    chains, draws = weight.shape
    good = np.flatnonzero(~lost & (weight.sum(axis=1) > 0))
    if len(good) == 0:
        raise ValueError("all chains diverged, there is none to resample")
    if len(good) < chains:
        gone = sorted(set(range(chains)) - set(good.tolist()))
        warnings.warn(
            f"chains {gone} diverged and are left out of the resampled draws",
            DivergenceWarning,
            stacklevel=4,
        )
    u = np.asarray(jax.random.uniform(key, (chains,)), np.float64)
    rows = [chain * draws + systematic(weight[chain], u[chain], n) for chain in good]
    return np.stack(rows), good


def export(
    draws: Draws,
    path: str | os.PathLike[str],
    *,
    thin: int = 1,
    dtype: DTypeLike | None = None,
) -> Path:
    """Write draws as one file that ``numpy.load`` opens, for another machine or another tool.

    It has ``values/<leaf>``, ``weight`` and ``stats/<name>`` with axes (chain, draw, ...), and
    ``settings`` and ``verdict`` as JSON in bytes, which has ``{"number": "inf"}`` for a number that
    JSON does not know. Draws on disk are read a piece at a time.

        sundman.export(sundman.Draws.open("runs/mnist"), "mnist.npz", thin=10, dtype="float16")

    Args:
      draws: in memory or on disk.
      path: the file, which is replaced.
      thin: keep every thin-th draw.
      dtype: that of the values, such as ``"float16"``; as they are if not given.

    Returns:
      The path of the file.

    Raises:
      ValueError: if a value is beyond the range of ``dtype``; nothing is written then.
    """
    part = draws.thin(thin)
    names, leaves = leaf_names(part.values), jax.tree.leaves(part.values)
    columns: dict[str, tuple[DrawsArray, np.dtype]] = {
        f"values/{name}": (leaf, np.dtype(leaf.dtype if dtype is None else dtype))
        for name, leaf in zip(names, leaves, strict=True)
    }
    plain = {"weight": part.weight, **{f"stats/{k}": v for k, v in part.stats.items()}}
    columns |= {name: (column, column.dtype) for name, column in plain.items()}
    verdict = None if draws.verdict is None else draws.verdict.as_json()
    texts = {"settings": part.settings, "verdict": verdict}
    where = Path(path).expanduser().absolute()

    def write(file: BinaryIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, (leaf, kind) in columns.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    _write_leaf(member, leaf, kind)
            for name, content in texts.items():
                text = json.dumps(plain_json(content), default=repr, allow_nan=False).encode()
                with archive.open(f"{name}.npy", "w") as member:
                    np.save(member, np.frombuffer(text, np.uint8), allow_pickle=False)

    write_with(where, write)
    return where


def _write_leaf(file: IO[bytes], leaf: DrawsArray, dtype: np.dtype) -> None:
    """An array in the format of numpy, a piece at a time; types it does not know as float32."""
    stored = np.dtype(np.float32) if dtype.kind == "V" else dtype
    header = {"descr": stored.str, "fortran_order": False, "shape": leaf.shape}
    np.lib.format.write_array_header_2_0(file, header)
    size = _chunks.draws_per_block(leaf)
    for chain in range(leaf.shape[0]):
        for some in _chunks.draw_slices(leaf.shape[1], size):
            values = np.ascontiguousarray(leaf[chain, some])
            with np.errstate(over="ignore"):
                written = values.astype(stored)
            if stored.kind == "f" and (np.isinf(written) & ~np.isinf(values)).any():
                raise ValueError(
                    f"values up to {np.max(np.abs(values)):.4g} are beyond the range of {stored}, "
                    f"{np.finfo(stored).max:.6g}: use a larger dtype"
                )
            file.write(written.tobytes())


def _attributes(settings: Settings) -> Settings:
    """Settings as numbers and strings, which every file format can hold."""
    attributes: Settings = {}
    for name, value in settings.items():
        if value is None:
            continue
        if isinstance(value, bool | np.bool_):
            attributes[name] = int(value)
        elif isinstance(value, int | float | str):
            attributes[name] = value
        elif np.ndim(value) == 0 and np.issubdtype(np.asarray(value).dtype, np.number):
            attributes[name] = np.asarray(value).item()
        else:
            attributes[name] = json.dumps(plain_json(value), default=str, allow_nan=False)
    return attributes


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
