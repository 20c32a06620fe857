"""The fingerprint of a run: what must be the same for it to go on, and the layout of its arrays.

Settings, shapes, data and the fields of the target are compared as they are. Functions have no
such thing: a model that was edited has the same name. So a probe is kept, too. At a few points
around the first position, on a fixed batch and with fixed noise, it has U and its gradient, the
step that the sampler makes (its dt at the first and at far later steps), and what ``collect`` and
``online`` give, each as a few numbers; and dt at some dozens of steps over the length of the run,
which a schedule may change late.
"""

from __future__ import annotations

import json
import platform
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax
from jaxlib import version as jaxlib_version

import sundman
from sundman import native
from sundman._trees import leaf_names, skeleton
from sundman._types import PyTree, Settings
from sundman.data.streaming import HostBatches
from sundman.native.split_gradient import dense
from sundman.noise import Stream
from sundman.posterior import Posterior
from sundman.run import hosts
from sundman.run.inputs import TargetLike, first_of
from sundman.run.setup import RunSetup
from sundman.run.sinks import columns
from sundman.run.spec import RunSpec
from sundman.run.state import Chain, RunState
from sundman.run.step import Plan, traced_step
from sundman.samplers import SamplerState
from sundman.store.structure import structure_to_json
from sundman.targets import Target
from sundman.value import Value, describe_value

_STEPS = (0, 1, 1_000, 1_000_000)  # at which the sampler makes a step
_LATER_STEPS = 64  # at which the clock is asked for dt
_LAST_STEP = 2**31
_FLAGS = {
    "double precision": "jax_enable_x64",
    "precision of matrix products": "jax_default_matmul_precision",
}
_EXACT, _ROUGH = 1e-4, 1e-2  # relative differences: on the same system, and on another one


def _describe_value(value: object, name: str) -> Settings:
    """The fields of a value by their paths: numbers as they are, a checksum of each array."""
    if isinstance(value, HostBatches):
        return {f"{name}.rows": value.size, f"{name}.first batch": _checksum(value.peek())}
    if isinstance(value, (Value, Target)) and is_dataclass(value):
        description: Settings = {name: type(value).__name__}
        for field in fields(value):
            if isinstance(value, Target) and field.name not in ("potential", "temperature", "name"):
                continue
            description |= _describe_value(getattr(value, field.name), f"{name}.{field.name}")
        return description
    if value is None or isinstance(value, (bool, int, float, str)):
        return {name: value}
    if callable(value):
        return {name: describe_value(value)}
    leaves = jax.tree.leaves(value)
    if leaves and all(isinstance(leaf, (jax.Array, np.ndarray, np.generic)) for leaf in leaves):
        return {name: _checksum(value)}
    return {name: describe_value(value)}


def _checksum(tree: PyTree) -> str:
    """A checksum of the arrays of a pytree, with their names, shapes and types."""
    total = 0
    for name, leaf in zip(leaf_names(tree), jax.tree.leaves(tree), strict=True):
        array = np.ascontiguousarray(leaf)
        label = f"{name} {array.dtype.name}{list(np.shape(leaf))}"
        total = zlib.crc32(array.reshape(-1).view(np.uint8).data, zlib.crc32(label.encode(), total))
    return f"crc32 {total:08x}"


def _describe_target(target: TargetLike) -> Settings:
    """What a target is, as far as one can tell without running it."""
    described = _describe_value(target, "target")
    posterior = target if isinstance(target, Posterior) else getattr(target, "posterior", None)
    if isinstance(posterior, Posterior):
        described["target.rows"] = posterior.size
    if isinstance(target, Posterior):
        described["target"] = "posterior"
    elif isinstance(target, Target):
        described["target"] = target.name
    elif isinstance(target, Value) and not isinstance(posterior, Posterior):
        described["target"] = repr(target)
    return described


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
    about_sampler = ("references", "biased")  # which follow from what it is
    settings = {name: value for name, value in spec.settings.items() if name not in about_sampler}
    identity = {
        **settings,
        **_describe_target(spec.target),
        **({} if spec.auto is not None else {"first position": _checksum(chain.position)}),
        "key": np.asarray(chain.state.key[0]).tolist(),
        "stats": list(spec.stats),
        "collect": spec.collect is not None,
        "online": spec.online is not None,
        "native": spec.native,
        **{name: getattr(jax.config, flag) for name, flag in _FLAGS.items()},
        **{f"position.{name}": text for name, text in position.items()},
        **{f"values.{name}": text for name, text in values.items()},
    }
    return {name: str(value) for name, value in identity.items()}


def _pattern(leaf: Array, number: int, function: Callable[[Array], Array]) -> Array:
    """Numbers between -1 and 1 that differ from element to element and from leaf to leaf."""
    size = leaf.size
    phase = 0.37 * (lax.iota(jnp.uint32, size) % 1009).astype(jnp.float32) + 1.1 * number + 0.5
    return function(phase).reshape(leaf.shape)


def _displaced(position: PyTree, by: Array) -> PyTree:
    """Another position, not far from this one."""
    leaves, structure = jax.tree.flatten(position)
    moved = [
        (leaf + by * (1 + jnp.abs(leaf)) * _pattern(leaf, i, jnp.sin)).astype(leaf.dtype)
        for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(structure, moved)


def _projected(tree: PyTree) -> Array:
    """A pytree as two numbers: a sum over its elements, each with a factor of its own; its norm."""
    leaves = [
        jnp.abs(leaf) if jnp.issubdtype(leaf.dtype, jnp.complexfloating) else leaf
        for leaf in map(jnp.asarray, jax.tree.leaves(tree))
    ]
    wide = [leaf.astype(jnp.result_type(jnp.float32, leaf.dtype)) for leaf in leaves]
    sums = [jnp.sum(leaf * _pattern(leaf, i, jnp.cos)) for i, leaf in enumerate(wide)]
    return jnp.stack([jnp.asarray(sum(sums), jnp.float32), jnp.float32(optax.tree.norm(wide))])


# It runs once: it is compiled as fast as can be, not to run fast.
@partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
def _probe(plan: Plan, chain: Chain, batch: PyTree, later: Array) -> dict[str, Array]:
    """What U, the sampler and the user's functions give at points around the first position.

    ``later`` are the steps at which the clock is asked for dt, some at each of the points.
    """
    first, clock = chain.position, plan.sampler.clock

    def at(state: SamplerState, place: tuple[Array, Array, Array]) -> tuple[SamplerState, Settings]:
        by, number, steps = place
        position = _displaced(first, by)
        state = state._replace(clock=state.clock._replace(step=number))
        value, grads = plan.gradient(Stream(state.key, number), position, batch)
        with native.using(False):
            moved, after = plan.sampler.step(grads, state, position, value)
        probed = {
            "U": jnp.atleast_1d(value).astype(jnp.float32),
            "the gradient of U": _projected(grads),
            "dt": jnp.stack([after.clock.dt, plan.sampler.weight(after)]),
            "the step": _projected(jax.tree.map(jnp.subtract, moved, position)),
            "collect": _projected(plan.collect(position)),
        }
        if len(steps):
            own = grads if clock.takes_split_gradients else dense(grads)

            def dt_of(step: Array) -> Array:
                return clock.tick(state.clock._replace(step=step), own, position)[1].dt

            probed["dt of later steps"] = lax.map(dt_of, steps)
        if plan.online is not None:
            probed["online"] = _projected(plan.online(position))
        return after, probed

    by = 0.1 * jnp.arange(len(_STEPS), dtype=jnp.float32)
    numbers = jnp.array(_STEPS, jnp.uint32)
    return lax.scan(at, chain.state, (by, numbers, later.reshape(len(_STEPS), -1)))[1]


def schedule_steps(spec: RunSpec) -> list[int]:
    """Steps at which the clock is asked for dt: evenly over the run, and beyond it in octaves."""
    end, half = spec.burn_in + spec.draws * spec.thin, _LATER_STEPS // 2
    evenly = np.linspace(0, min(end, _LAST_STEP), half)
    octaves = np.geomspace(1, _LAST_STEP, half)
    return sorted(round(step) for step in (*evenly, *octaves))


def probe(setup: RunSetup, state: RunState, later: Sequence[int]) -> dict[str, list[float]]:
    """The probe of a run, at its first state: numbers by what they are of.

    Args:
      setup: of the run.
      state: its first one.
      later: what :func:`schedule_steps` gives; none for a run that was begun without.
    """
    plan = setup.plan
    if plan.stacked:
        plan = plan.replace(sampler=first_of(plan.sampler), stacked=False)
    chain = first_of(state.now)
    probed = _probe(plan, chain, setup.example, jnp.array(later, jnp.uint32))
    return {name: np.asarray(part, np.float64).ravel().tolist() for name, part in probed.items()}


def differences(
    about: Mapping[str, Settings],
    identity: Settings,
    probed: Mapping[str, list[float]] | None = None,
    other: str = "the stored run",
) -> list[str]:
    """What differs between another run and this one, in words.

    Args:
      about: what ``run.json`` says of the other one.
      identity: of this one, as :func:`identify` gives it.
      probed: the probe of this one; not compared if not given.
      other: what to call the other one.
    """
    stored = about["identity"]
    differing = [
        f"{name}: {other} has {stored.get(name, 'nothing')}, this one "
        f"{identity.get(name, 'nothing')}"
        for name in sorted({*stored, *identity})
        if stored.get(name) != identity.get(name)
    ]
    if differing or probed is None:
        return differing
    tolerance = _EXACT if about["versions"] == versions() else _ROUGH
    for name in sorted({*about["probe"], *probed}):
        before, now = about["probe"].get(name, []), probed.get(name, [])
        if not _close(before, now, tolerance):
            few = _where_they_differ(before, now, tolerance)
            differing.append(
                f"{name} near the first position: {other} has {_few(before[few])}, this one "
                f"{_few(now[few])}"
            )
    return differing


def _close(one: list[float], other: list[float], tolerance: float) -> bool:
    if len(one) != len(other):
        return False
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    scale = np.nanmax(np.abs(np.concatenate([a, b, [0.0]])))
    slack = 1e-6 * scale if np.isfinite(scale) else 0.0
    return bool(np.allclose(a, b, rtol=tolerance, atol=slack, equal_nan=True))


def _where_they_differ(one: list[float], other: list[float], tolerance: float) -> slice:
    """A few numbers from the first that differs on."""
    pairs = enumerate(zip(one, other, strict=False))
    first = next((i for i, (a, b) in pairs if not _close([a], [b], tolerance)), 0)
    return slice(first, first + 4)


def _few(numbers: list[float]) -> str:
    return ", ".join(f"{number:.6g}" for number in numbers) or "nothing"


def versions() -> dict[str, str]:
    """What may change the last digits of a run: programs and the machine."""
    return {
        "sundman": sundman.__version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib_version.__version__,
        "numpy": np.__version__,
        "optax": optax.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": jax.devices()[0].device_kind,
    }


def check_hosts(spec: RunSpec, setup: RunSetup, state: RunState) -> None:
    """Raise, in every process of a run, if one of them is about to do another one."""
    if not hosts.several():
        return
    identity, own = identify(spec, setup, state), versions()
    probed = probe(setup, state, schedule_steps(spec))

    def differing(text: str) -> list[str]:
        first = json.loads(text)
        if {**first["versions"], "machine": ""} != {**own, "machine": ""}:
            return [f"its versions are {own}, those of process 0 are {first['versions']}"]
        return differences(first, identity, probed, "process 0")

    about = {"identity": identity, "probe": probed, "versions": own}
    hosts.check_alike(differing, json.dumps(about))


def describe(spec: RunSpec, setup: RunSetup, state: RunState, like: PyTree) -> Settings:
    """What run.json says about a run; ``like`` are the pytrees of :func:`layout`."""
    own, later = versions(), schedule_steps(spec)
    return {
        "sundman": own["sundman"],
        "jax": own["jax"],
        "device": own["device"],
        "versions": own,
        "chains": spec.chains,
        "draws": spec.draws,
        "has_position": spec.collect is None,
        "weighting": spec.settings["weighting"],
        "size": setup.size._asdict(),
        **({} if spec.until is None else {"until": asdict(spec.until)}),
        "settings": spec.settings,
        "identity": identify(spec, setup, state),
        "probe": probe(setup, state, later),
        "schedule_steps": later,
        "structure": {name: structure_to_json(tree) for name, tree in like.items()},
    }


def _record(
    setup: RunSetup, chains: Chain
) -> tuple[PyTree, jax.ShapeDtypeStruct, dict[str, jax.ShapeDtypeStruct]]:
    """The shapes of what is kept of a draw, with axes (chain, ...): values, weight, statistics."""
    number = len(chains.state.key)
    *_, weight, stats = traced_step(setup.plan, chains, setup.example).out_info

    def of_all(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((number, *leaf.shape), leaf.dtype)

    values = jax.eval_shape(jax.vmap(setup.plan.collect), chains.position)
    return values, *jax.tree.map(of_all, (weight, stats))


def layout(
    spec: RunSpec, setup: RunSetup, state: RunState
) -> tuple[dict[str, PyTree], dict[str, tuple[tuple[int, ...], np.dtype]]]:
    """The pytrees of a run without their numbers, and name -> (shape, dtype) of its arrays."""
    values, weight, stats = _record(setup, state.now)
    shapes = {
        name: ((leaf.shape[0], spec.draws, *leaf.shape[1:]), leaf.dtype)
        for name, leaf in columns(values, weight, stats).items()
    }
    like = {
        "values": skeleton(values),
        "position": skeleton(state.position(setup.replicas)),
        "averages": None if state.averages is None else skeleton(state.averages),
    }
    return like, shapes
