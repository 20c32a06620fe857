"""The fingerprint of a run: what must be the same for it to go on, and the layout of its arrays."""

from __future__ import annotations

import zlib
from dataclasses import fields, is_dataclass
from functools import lru_cache

import jax
import numpy as np
from jax import Array

import sundman
from sundman._trees import PyTreeDef, Shapes, leaf_names, shapes_of, skeleton, structure_of
from sundman._types import PyTree, Settings
from sundman.gradients import GradientEstimator
from sundman.noise import Stream
from sundman.posterior import Posterior
from sundman.run.chain_mapping import each_chain
from sundman.run.disk_sink import columns
from sundman.run.inputs import NegativeLogDensity, TargetLike
from sundman.run.setup import RunSetup
from sundman.run.spec import RunSpec
from sundman.run.state import Chain, RunState
from sundman.run.step import Plan, step
from sundman.targets import Target


def _describe_estimator(estimator: object) -> Settings:
    """Which gradient estimator, its numbers, and a checksum of each of its arrays."""
    kind = type(estimator).__name__
    description: Settings = {f"target.{kind.lower()}": True}
    for field in fields(estimator) if is_dataclass(estimator) else ():
        value = getattr(estimator, field.name)
        if value is None or isinstance(value, (bool, int, float, str)):
            description[f"target.{field.name}"] = value
        elif isinstance(value, Posterior):
            continue
        elif is_dataclass(value):
            description |= _describe_estimator(value)
        else:
            description[f"target.{field.name}"] = _checksum(value)
    return description


def _checksum(tree: PyTree) -> str:
    total = 0
    for leaf in jax.tree.leaves(tree):
        total = zlib.crc32(np.ascontiguousarray(leaf).reshape(-1).view(np.uint8).data, total)
    return f"crc32 {total:08x}"


def _describe_target(target: TargetLike) -> Settings:
    """What a target is, as far as one can tell without running it."""
    posterior = target if isinstance(target, Posterior) else getattr(target, "posterior", None)
    if isinstance(posterior, Posterior):
        return {
            **({} if target is posterior else _describe_estimator(target)),
            "target": "posterior",
            "target.rows": posterior.size,
            "target.data": _checksum(posterior.data),
            "target.likelihood": posterior.likelihood.name,
            "target.temperature": posterior.temperature,
        }
    if isinstance(target, Target):
        return {"target": target.name, "target.temperature": target.temperature}
    if isinstance(target, NegativeLogDensity):
        return {"target": repr(target)}
    return {"target": getattr(target, "__qualname__", type(target).__qualname__)}


def _describe_leaves(tree: PyTree) -> dict[str, str]:
    leaves = jax.tree.leaves(tree)
    return {
        name: f"{leaf.dtype.name}{list(leaf.shape)}"
        for name, leaf in zip(leaf_names(tree), leaves, strict=True)
    }


def identify(spec: RunSpec, setup: RunSetup, state: RunState) -> dict[str, str]:
    """What must be the same for a run to go on, as one flat mapping of texts."""
    chain = state.now
    position = _describe_leaves(chain.position)
    values = _describe_leaves(jax.eval_shape(jax.vmap(setup.plan.collect), chain.position))
    key = np.asarray(chain.state.key[0]).tolist()
    settings = {name: value for name, value in spec.settings.items() if name != "references"}
    identity = {
        **settings,
        **_describe_target(spec.target),
        "key": key,
        "stats": list(spec.stats),
        "online": spec.online is not None,
        "native": spec.native,
        **{f"position.{name}": text for name, text in position.items()},
        **{f"values.{name}": text for name, text in values.items()},
    }
    return {name: str(value) for name, value in identity.items()}


@jax.jit
def _potential(
    gradient: GradientEstimator, stream: Stream, position: PyTree, batch: PyTree
) -> Array:
    return gradient(stream, position, batch)[0]


def first_potential(setup: RunSetup, state: RunState) -> float:
    """The potential where chain 0 begins: it tells targets apart that are called the same."""
    position, sampler, _ = jax.tree.map(lambda leaf: leaf[0], state.now)
    stream = Stream(sampler.key, sampler.clock.step)
    return float(np.sum(_potential(setup.plan.gradient, stream, position, setup.example)))


def describe(spec: RunSpec, setup: RunSetup, state: RunState) -> Settings:
    """What run.json says about a run."""
    return {
        "sundman": sundman.__version__,
        "jax": jax.__version__,
        "device": jax.devices()[0].device_kind,
        "chains": spec.chains,
        "draws": spec.draws,
        "has_position": spec.collect is None,
        "weighting": spec.settings["weighting"],
        "size": setup.size._asdict(),
        "settings": spec.settings,
        "identity": identify(spec, setup, state),
        "first_potential": first_potential(setup, state),
    }


@lru_cache(maxsize=256)
def _record(
    structure: PyTreeDef, shapes: Shapes
) -> tuple[PyTree, jax.ShapeDtypeStruct, dict[str, jax.ShapeDtypeStruct]]:
    """The shapes of what is kept of a draw: values, weight and statistics, with axes (chain, ...).

    Runs of one structure share what is found: tracing a network's step takes most of a second.
    """
    plan, chain, batch = shapes_of(structure, shapes)

    def all_chains(plan: Plan, chains: Chain, batch: PyTree) -> PyTree:
        return each_chain(lambda one, c: step(one, c, batch)[2:], plan, chains)

    values = jax.eval_shape(jax.vmap(plan.collect), chain.position)
    return values, *jax.eval_shape(all_chains, plan, chain, batch)


def layout(
    spec: RunSpec, setup: RunSetup, state: RunState
) -> tuple[dict[str, PyTree], dict[str, tuple[tuple[int, ...], np.dtype]]]:
    """The skeletons of the pytrees of a run, and name -> (shape, dtype) of its arrays."""
    chain = state.now
    values, weight, stats = _record(*structure_of((setup.plan, chain, setup.example)))
    shapes = {
        name: ((leaf.shape[0], spec.draws, *leaf.shape[1:]), leaf.dtype)
        for name, leaf in columns(values, weight, stats).items()
    }
    structure = {
        "values": skeleton(values),
        "position": skeleton(state.position(setup.replicas)),
        "averages": None if state.averages is None else skeleton(state.averages),
    }
    return structure, shapes
