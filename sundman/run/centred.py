"""How a run estimates its gradient: plainly, or with a control variate at a centre it looks for."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from sundman._types import PyTree
from sundman.gradients import ControlVariate, GradientEstimator
from sundman.gradients.minibatch import in_memory
from sundman.noise import key_words
from sundman.posterior import Posterior
from sundman.run import hosts, inputs
from sundman.run.spec import RunSpec
from sundman.tune.centre import Centre, NoCentre, anchor_at, estimator_at, find, refusal
from sundman.tune.saved import from_bytes, to_bytes

_ARRAYS = ("position", "grads", "scale", "draws")


class Found(NamedTuple):
    """The centre of a control variate; or None, and why there is none, if one was looked for.

    ``example`` is a position, for its structure.
    """

    centre: Centre | None = None
    reason: str = ""
    example: PyTree = None


def gradient_of_run(spec: RunSpec) -> GradientEstimator:
    """The gradient estimator of a run, whose warm-up is over if it has one."""
    anchor = None if spec.tuning is None else spec.tuning.control_variate
    if anchor is None:
        return inputs.as_gradient(spec.target, spec.batch_size, spec.replace)
    assert isinstance(spec.target, Posterior)
    flat = ravel_pytree(anchor.position)[0], ravel_pytree(anchor.grads)[0]
    return estimator_at(spec.target, anchor.position, *flat, anchor.batch_size)


def settled(spec: RunSpec) -> tuple[RunSpec, Found]:
    """What was asked with how the gradient is estimated, if its sampler tunes itself."""
    auto = spec.auto
    if auto is None or spec.gradient == "minibatch":
        return spec, Found()
    forced = spec.gradient == "control_variate"
    if not forced and not isinstance(spec.target, Posterior):
        return spec, Found()
    found = _looked_for(spec, inputs.tuning_temperature(spec.target, auto.temperature))
    if found.centre is not None:
        return with_centre(spec, found), found
    if forced:
        raise _no_centre(found)
    return (replace(spec, gradient="minibatch") if found.reason else spec), found


def with_centre(spec: RunSpec, found: Found) -> RunSpec:
    """The run with minibatches that suit its centre."""
    assert found.centre is not None
    return replace(spec, gradient="control_variate", batch_size=found.centre.batch_size)


def with_control_variate(spec: RunSpec) -> RunSpec:
    """The run of a hand-made sampler with a control variate as its target; looks for its centre."""
    found = _looked_for(spec, float(inputs.temperature_of(spec.target, None)) or 1.0)
    if found.centre is None:
        raise _no_centre(found)
    assert isinstance(spec.target, Posterior)
    order = "with_replacement" if spec.replace else "shuffled"
    batches = in_memory("control_variate", spec.target, found.centre.batch_size, order)
    target = ControlVariate(batches, anchor_at(found.example, found.centre))
    return replace(spec, target=target, batch_size=None, replace=False)


def _no_centre(found: Found) -> ValueError:
    return ValueError(
        f'gradient="control_variate": {found.reason}. Leave it out, or give '
        "gradients.control_variate(posterior, batch_size, at=...) as the target"
    )


def _looked_for(spec: RunSpec, temperature: float) -> Found:
    """The centre, if there is one that pays or that was asked for.

    Where several processes run together they take what the first has found.
    """
    forced = spec.gradient == "control_variate"
    posterior = spec.target
    if not isinstance(posterior, Posterior):
        return Found(reason=f"it needs a sundman.Posterior, which has data; got {posterior!r}")
    positions = inputs.first_positions(posterior, spec.init, spec.chains, spec.per_chain)
    example = inputs.first_of(positions)
    starts = np.asarray(jax.vmap(lambda at: ravel_pytree(at)[0])(positions))
    method = None if spec.auto is None else spec.auto.method
    reason = refusal(posterior, example, spec.batch_size, method=method, forced=forced)
    if reason is not None:
        return Found(reason=reason if forced else "")
    found, key = Found(), key_words(spec.key)
    if hosts.is_first():
        try:
            found = Found(
                find(
                    posterior,
                    example,
                    starts,
                    temperature,
                    key,
                    spec.batch_size,
                    chains=spec.chains,
                    forced=forced,
                )
            )
        except (NoCentre, np.linalg.LinAlgError) as error:
            found = Found(reason=str(error))
    if hosts.several():
        found = unpack(hosts.from_first(pack(found)))
    return found._replace(example=example)


def pack(found: Found, run: str | None = None) -> bytes:
    """What was found as one file, of the run with the id ``run``."""
    numbers: dict[str, object] = {"reason": found.reason}
    if run is not None:
        numbers["run"] = run
    if found.centre is None:
        return to_bytes(numbers, {})
    plain = found.centre._asdict()
    arrays = {name: np.asarray(plain.pop(name)) for name in _ARRAYS}
    return to_bytes({**numbers, "centre": plain}, arrays)


def unpack(content: bytes) -> Found:
    """What :func:`pack` made a file of."""
    numbers, arrays = from_bytes(content)
    if "centre" not in numbers:
        return Found(reason=str(numbers["reason"]))
    return Found(Centre(**{name: arrays[name] for name in _ARRAYS}, **numbers["centre"]))
