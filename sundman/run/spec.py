"""What was asked of a run: the arguments of ``sample``, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import jax
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
GRADIENTS = ("minibatch", "control_variate")
WEIGHTINGS = ("leaving", "arriving", "symmetric", "equal")
_MOST_STEPS = 2**32 - 1


@dataclass(frozen=True)
class Until:
    """A rule that ends a run before its steps are used up; :func:`until` makes one.

    Attributes:
      ess: effective draws, of all chains together, or None.
      rhat: split R-hat, or None.
      seconds: of the run, or None.
    """

    ess: float | None = None
    rhat: float | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, field.name) is None for field in fields(self)):
            raise ValueError(
                "until needs one of ess, rhat and seconds, such as sundman.until(ess=400)"
            )
        check.optional(check.positive)(ess=self.ess, rhat=self.rhat, seconds=self.seconds)
        if self.rhat is not None and not self.rhat > 1:
            raise ValueError(f"rhat must be above 1, such as 1.01, got rhat={self.rhat!r}")

    @property
    def looks(self) -> bool:
        """Whether it looks at the draws, and not at the time alone."""
        return self.ess is not None or self.rhat is not None

    def check_reachable(self, chains: int, draws: float) -> None:
        """Raise if so many chains of so many draws cannot have as many effective draws."""
        if self.ess is not None and self.ess > chains * draws:
            raise ValueError(
                f"ess={self.ess:g} cannot be reached: {chains} chains of at most {draws:,} draws "
                f"have {chains * draws:,} in all; allow more steps, keep more of them or ask for "
                "less"
            )

    def __str__(self) -> str:
        """As its arguments are written."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(f"{name}={value:g}" for name, value in given.items() if value is not None)


def until(
    *, ess: float | None = None, rhat: float | None = None, seconds: float | None = None
) -> Until:
    """When a run is done before its steps are: ``sample(..., until=sundman.until(ess=400))``.

        done = sundman.until(ess=400, rhat=1.01, seconds=600)
        draws = sundman.sample(target, key=key, chains=4, steps=1_000_000, until=done)
        print(draws.ended)

    The run ends when both ``ess`` and ``rhat``, of those that are given, are met by U and by every
    component that is looked at, up to 20 of the kept values; of a network by U and the loss on some
    training rows. It is looked at after 100 draws per chain and then whenever there are a tenth
    more, so it has up to a tenth more draws than it needs; of a target whose steps take about a
    microsecond, after some thousands and then whenever there are twice as many, because looking
    takes longer than the steps do. It ends in any case after ``seconds``, or when its steps are
    used up. Which it was is in ``draws.ended``, the verdict and the report.

    The numbers that end a run are those of the look at which they were good enough: the true number
    of effective draws is within some 20% of what was asked. Stated errors stay right: see "Stop
    when done" in the documentation.

    Args:
      ess: effective draws of all chains together, as :func:`sundman.estimate.ess` has them.
      rhat: the largest split R-hat, above 1; with several chains 1.01 is usual.
      seconds: wall time of the run in all, with a warm-up and with what it took before it was
        resumed. It is looked at after each block, of about a second, once there are draws.

    Returns:
      What to give to :func:`sundman.sample` or :func:`sundman.extend` as ``until``.
    """
    return Until(ess, rhat, seconds)


@dataclass(frozen=True)
class RunSpec:
    """What was asked: the arguments of :func:`sundman.sample` that make a run what it is.

    Where the sampler was to tune itself, ``auto`` is what was asked of it, ``tuning`` what it found
    and ``sampler`` the one it made; ``chooses_rows``: it may decide about ``replace``. ``gradient``
    is how minibatches estimate the gradient; None while that is open, or where nothing was asked.
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
    until: Until | None = None
    gradient: str | None = None

    @property
    def settings(self) -> Settings:
        """Every setting of the sampler and of the run, by name."""
        names = ("draws", "burn_in", "thin", "thin_time", "batch_size", "replace", "chains")
        run = {name: getattr(self, name) for name in names}
        if run["batch_size"] is None:  # that of an estimator's own minibatches
            batches = getattr(self.target, "batches", self.target)
            run["batch_size"] = getattr(batches, "batch_size", None)
        run["weighting"] = "equal" if self.thin_time is not None else self.weighting
        facts: Settings = {
            "sampler": label_of(self.sampler),
            "references": list(self.sampler.references),
        }
        if self._is_biased:
            facts["biased"] = True
        run["on_divergence"] = self.on_divergence
        if self.gradient is not None:
            run["gradient"] = self.gradient
        if self.until is not None:
            run["until"] = str(self.until)
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

    @property
    def _is_biased(self) -> bool:
        """Whether the law of the run is another one by design.

        At temperature 0 there is none. A clock that is biased has one zeta for each array, and of a
        single array that is one for all.
        """
        integrator, clock = self.sampler.integrator, self.sampler.clock
        arrays = len(jax.tree.leaves(self.init))
        return not integrator.cold and (integrator.biased or (clock.biased and arrays > 1))


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
    if spec.gradient is not None:
        check.choice("gradient", spec.gradient, GRADIENTS)
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
    if spec.until is not None:
        _check_until(spec, spec.until)
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


def _check_until(spec: RunSpec, rule: Until) -> None:
    """Raise if a rule makes no sense for this run."""
    if not isinstance(rule, Until):
        raise TypeError(f"until must be a rule, such as sundman.until(ess=400); got {rule!r}")
    if rule.looks and spec.sampler.stacked is not None:
        raise ValueError(
            f"until=({rule}) compares chains, and these have settings of their own: use "
            "until=sundman.until(seconds=...), or run them one by one"
        )
    rule.check_reachable(spec.chains, spec.draws)
