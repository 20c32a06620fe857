"""A warm-up between two windows as one file: numbers as JSON, arrays by name, no code."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sundman._trees import first_difference, named_leaves, with_named_leaves
from sundman._types import PyTree
from sundman.store.files import StoreError, plain_json, with_numbers
from sundman.tune import rounds
from sundman.tune.auto import WarmUpWindow
from sundman.tune.state import Movers, Problem, WarmUp

_ARRAYS = ("scale", "steps", "noise", "hessian", "anchor")
_TREES = ("walk", "movers")


def to_bytes(numbers: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Numbers and named arrays as one file."""
    file = io.BytesIO()
    plain = json.dumps(plain_json(numbers), allow_nan=False)
    text = np.frombuffer(plain.encode(), np.uint8)
    np.savez(file, allow_pickle=False, **{"json": text, **arrays})
    return file.getvalue()


def from_bytes(content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Back again."""
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return with_numbers(json.loads(arrays.pop("json").tobytes().decode())), arrays


def owner_of(content: bytes) -> str | None:
    """The id of the run that a file is of, if it says."""
    return from_bytes(content)[0].get("run")


def pack(warm: WarmUp, run: str | None = None) -> bytes:
    """A warm-up as one file, of the run with the id ``run``."""
    arrays = {name: getattr(warm, name) for name in _ARRAYS}
    for tree in _TREES:
        if getattr(warm, tree) is not None:
            named = named_leaves(getattr(warm, tree))
            arrays |= {f"{tree}/{name}": np.asarray(leaf) for name, leaf in named.items()}
    numbers = {
        each.name: getattr(warm, each.name)
        for each in dataclasses.fields(warm)
        if each.name not in (*_ARRAYS, *_TREES)
    }
    return to_bytes(numbers if run is None else {**numbers, "run": run}, arrays)


def unpack(content: bytes, problem: Problem, first: WarmUp) -> WarmUp:
    """The warm-up from its file; ``first`` is the one before the first window.

    Raises:
      StoreError: if its arrays are not those of this version.
    """
    numbers, arrays = from_bytes(content)
    numbers.pop("run", None)

    def tree(part: str, like: PyTree) -> PyTree:
        named = {
            name.removeprefix(f"{part}/"): leaf
            for name, leaf in arrays.items()
            if name.startswith(f"{part}/")
        }
        read = with_named_leaves(like, named)
        if differs := first_difference(like, read):
            raise StoreError(
                f"the stored warm-up does not fit this sampler's state: {differs}. Another "
                "version of sundman made it: the run has to be started again"
            )
        return jax.tree.map(jnp.asarray, read)

    numbers["left"], numbers["level"] = tuple(numbers["left"]), tuple(numbers["level"])
    numbers["records"] = tuple(WarmUpWindow(*record) for record in numbers["records"])
    warm = dataclasses.replace(
        first, **numbers, **{name: arrays[name] for name in _ARRAYS}, walk=tree("walk", first.walk)
    )
    if not any(name.startswith("movers/") for name in arrays):
        return warm
    movers: Movers = tree("movers", rounds.at_rest(problem, warm))
    return dataclasses.replace(warm, movers=movers)
