"""What was asked of a run: the arguments of ``sample``, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jax import Array

from sundman import check
from sundman._types import PyTree, Settings
from sundman.clocks import Stages
from sundman.recipes.registry import label_of
from sundman.run.inputs import TargetLike
from sundman.run.schedule import check_stages, draw_schedule, draws_within
from sundman.run.step import STATS
from sundman.samplers import Sampler, check_stacked
from sundman.tune import Auto, Tuning
from sundman.value import settings_of

ON_DIVERGENCE = ("freeze", "raise", "restart")
WEIGHTINGS = ("leaving", "arriving", "symmetric", "equal")
_MOST_STEPS = 2**32 - 1


@dataclass(frozen=True)
class RunSpec:
    """What was asked: the arguments of :func:`sundman.sample` that make a run what it is.

    Where the sampler was to tune itself, ``auto`` is what was asked of it, ``tuning`` what it found
    and ``sampler`` the one it made; ``chooses_rows``: it may decide about ``replace``.
    """

    target: TargetLike
    sampler: Sampler
    key: Array
    init: PyTree
    chains: int
    burn_in: int
    draws: int
    thin: int
    thin_time: float | None
    batch_size: int | None
    replace: bool
    collect: Callable[[PyTree], PyTree] | None
    online: Callable[[PyTree], PyTree] | None
    weighting: str
    stats: tuple[str, ...]
    per_chain: bool | None
    on_divergence: str
    native: bool = False
    auto: Auto | None = None
    chooses_rows: bool = False
    tuning: Tuning | None = None

    @property
    def settings(self) -> Settings:
        """Every setting of the sampler and of the run, by name."""
        names = ("draws", "burn_in", "thin", "thin_time", "batch_size", "replace", "chains")
        run = {name: getattr(self, name) for name in names}
        run["weighting"] = "equal" if self.thin_time is not None else self.weighting
        facts = {"sampler": label_of(self.sampler), "references": list(self.sampler.references)}
        run["on_divergence"] = self.on_divergence
        if self.auto is not None and self.tuning is None:
            return {"sampler": "auto", "references": [], **settings_of(self.auto), **run}
        if self.sampler.stacked is None:
            return {**facts, **self.sampler.settings, **run}
        shared, per_chain = {}, []
        for name, value in self.sampler.settings.items():
            stacked = isinstance(value, list) and len(value) == self.chains
            alike = stacked and all(each == value[0] for each in value)
            shared[name] = value[0] if alike else value
            if stacked and not alike:
                per_chain.append(name)
        return {**facts, **shared, "per_chain": per_chain, **run}


def count_draws(
    steps: int | None,
    thin: int,
    thin_time: float | None,
    draws: int | None,
    burn_in: int,
    stages: Stages | None,
) -> int:
    """How many draws to keep, from the arguments that may say so."""
    check.count("thin", thin, least=1)
    check.count("burn_in", burn_in, least=0)
    if stages is not None:
        check_stages(stages, burn_in, steps, thin, thin_time)
    if thin_time is not None:
        check.positive(thin_time=thin_time)
        if draws is None or steps is not None or thin != 1:
            raise ValueError(
                "thin_time keeps draws= positions a physical time apart, however many steps that "
                f"takes: give draws and not steps or thin; got draws={draws}, steps={steps}"
            )
        check.count("draws", draws, least=1)
        return draws
    if (steps is None) == (draws is None):
        raise ValueError(f"give one of steps= and draws=; got steps={steps}, draws={draws}")
    if draws is not None:
        check.count("draws", draws, least=1)
        return draws
    assert steps is not None
    check.count("steps", steps, least=1)
    if steps < thin:
        raise ValueError(f"no draw would be kept: steps={steps} is less than thin={thin}")
    return steps // thin if stages is None else draws_within(stages, burn_in, steps, thin)


def check_spec(spec: RunSpec) -> None:
    """Raise if an argument makes no sense, before anything is traced."""
    check.count("chains", spec.chains, least=1)
    check.choice("weighting", spec.weighting, WEIGHTINGS)
    check.choice("on_divergence", spec.on_divergence, ON_DIVERGENCE)
    for name in spec.stats:
        check.choice("stats", name, STATS)
    for name, function in (("collect", spec.collect), ("online", spec.online)):
        if function is not None:
            check.function(**{name: function})
    if not isinstance(spec.sampler, Sampler):
        called = getattr(spec.sampler, "__name__", None) if callable(spec.sampler) else None
        raise TypeError(
            "sampler must be a sundman sampler, such as sundman.sgld(1e-3); got "
            + (f"the function {called}: call it with a step" if called else repr(spec.sampler))
        )
    stacked = spec.sampler.stacked
    if stacked is not None:
        if stacked != spec.chains:
            raise ValueError(
                f"the sampler has settings for {stacked} chains, and chains={spec.chains}: a "
                "stacked sampler needs one row of settings for each chain"
            )
        check_stacked(spec.sampler)
    if spec.thin_time is not None and spec.sampler.integrator.has_weights:
        raise ValueError(
            f"thin_time gives draws of equal weight, and {spec.settings['integrator']} has weights "
            "besides dt: use thin"
        )
    stages, total = spec.sampler.clock.stages, spec.burn_in + spec.draws * spec.thin
    if stages is not None:
        parts = draw_schedule(stages, spec.burn_in, spec.draws, spec.thin)
        total = sum(without + count * spec.thin for without, count in parts)
    if total > _MOST_STEPS:
        raise ValueError(
            f"burn_in + steps must be below 2**32, the range of the noise counter; got {total}"
        )
