"""What a run on disk says of itself: who it is, what is in it, and the layout of its arrays."""

from __future__ import annotations

import zlib
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

import sundman
from sundman._trees import leaf_names, skeleton
from sundman._types import PyTree
from sundman.noise import Stream
from sundman.posterior import Posterior
from sundman.runner import blocks, loop
from sundman.runner.call import Call, Parts
from sundman.runner.chain_mapping import each_chain
from sundman.runner.session import last_chain, last_position
from sundman.targets import Target


def _estimator_in_words(estimator: Any) -> dict[str, Any]:
    """Which gradient estimator, its numbers, and a checksum of each of its arrays."""
    kind = type(estimator).__name__
    found: dict[str, Any] = {f"target.{kind.lower()}": True}
    for field in fields(estimator) if is_dataclass(estimator) else ():
        value = getattr(estimator, field.name)
        if value is None or isinstance(value, (bool, int, float, str)):
            found[f"target.{field.name}"] = value
        elif isinstance(value, Posterior):
            continue
        elif is_dataclass(value):
            found |= _estimator_in_words(value)
        else:
            found[f"target.{field.name}"] = _checksum(value)
    return found


def _checksum(tree: PyTree) -> str:
    total = 0
    for leaf in jax.tree.leaves(tree):
        total = zlib.crc32(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8), total)
    return f"crc32 {total:08x}"


def _target_in_words(target: Any) -> dict[str, Any]:
    """What a target is, as far as one can tell without running it."""
    posterior = target if isinstance(target, Posterior) else getattr(target, "posterior", None)
    if isinstance(posterior, Posterior):
        return {
            **({} if target is posterior else _estimator_in_words(target)),
            "target": "posterior",
            "target.rows": posterior.size,
            "target.data": _checksum(posterior.data),
            "target.likelihood": posterior.likelihood.name,
            "target.temperature": posterior.temperature,
        }
    if isinstance(target, Target):
        return {"target": target.name, "target.temperature": target.temperature}
    return {"target": getattr(target, "__qualname__", type(target).__qualname__)}


def _in_words(tree: PyTree) -> dict[str, str]:
    leaves = jax.tree.leaves(tree)
    return {
        name: f"{leaf.dtype.name}{list(leaf.shape)}"
        for name, leaf in zip(leaf_names(tree), leaves, strict=True)
    }


def identify(call: Call, parts: Parts) -> dict[str, str]:
    """What must be the same for a run to go on, as one flat mapping of texts."""
    chain = last_chain(parts.work)
    position = _in_words(chain.position)
    values = _in_words(jax.eval_shape(jax.vmap(parts.plan.collect), chain.position))
    key = np.asarray(chain.state.key[0]).tolist()
    settings = {name: value for name, value in call.settings.items() if name != "references"}
    found = {
        **settings,
        **_target_in_words(call.target),
        "key": key,
        "stats": list(call.stats),
        "online": call.online is not None,
        "native": call.native,
        **{f"position.{name}": text for name, text in position.items()},
        **{f"values.{name}": text for name, text in values.items()},
    }
    return {name: str(value) for name, value in found.items()}


@jax.jit
def _potential(gradient: Any, stream: Stream, position: PyTree, batch: PyTree) -> Any:
    return gradient(stream, position, batch)[0]


def first_potential(parts: Parts) -> float:
    """The potential where chain 0 begins: it tells targets apart that are called the same."""
    position, state, _ = jax.tree.map(lambda leaf: leaf[0], last_chain(parts.work))
    stream = Stream(state.key, state.clock.step)
    return float(np.sum(_potential(parts.plan.gradient, stream, position, parts.example)))


def describe(call: Call, parts: Parts) -> dict[str, Any]:
    """What run.json says about a run."""
    return {
        "sundman": sundman.__version__,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "chains": call.chains,
        "draws": call.draws,
        "has_position": call.collect is None,
        "weighting": call.settings["weighting"],
        "size": parts.size._asdict(),
        "settings": call.settings,
        "identity": identify(call, parts),
        "first_potential": first_potential(parts),
    }


def columns(values: PyTree, weight: Any, stats: dict[str, Any]) -> dict[str, Any]:
    """What a record holds, by the names of the arrays on disk."""
    leaves = zip(leaf_names(values), jax.tree.leaves(values), strict=True)
    return {
        **{f"values/{name}": leaf for name, leaf in leaves},
        "weight": weight,
        **{f"stats/{name}": leaf for name, leaf in stats.items()},
    }


@lru_cache(maxsize=256)
def _record(structure: Any, shapes: tuple) -> tuple[PyTree, Any, dict[str, Any]]:
    """The shapes of what is kept of a draw: values, weight and statistics, with axes (chain, ...).

    Runs of one structure share what is found: tracing a network's step takes most of a second.
    """
    plan, chain, batch = blocks.skeleton_of(structure, shapes)

    def step(plan: loop.Plan, chains: loop.Chain, batch: PyTree) -> Any:
        return each_chain(lambda one, c: loop.step(one, c, batch)[2:], plan, chains)

    values = jax.eval_shape(jax.vmap(plan.collect), chain.position)
    return values, *jax.eval_shape(step, plan, chain, batch)


def layout(call: Call, parts: Parts) -> tuple[dict[str, PyTree], dict[str, tuple]]:
    """The skeletons of the pytrees of a run, and name -> (shape, dtype) of its arrays."""
    chain = last_chain(parts.work)
    values, weight, stats = _record(*blocks.structure_of((parts.plan, chain, parts.example)))
    shapes = {
        name: ((leaf.shape[0], call.draws, *leaf.shape[1:]), leaf.dtype)
        for name, leaf in columns(values, weight, stats).items()
    }
    structure = {
        "values": skeleton(values),
        "position": skeleton(last_position(parts.work, parts.replicas)),
        "online": None if parts.work.averages is None else skeleton(parts.work.averages),
    }
    return structure, shapes
