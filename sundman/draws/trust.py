"""What speaks against draws: chains that ran away, and the verdict on a whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from sundman._types import Settings
from sundman.draws.facts import RunFacts
from sundman.watch.events import Look

FALLS = "U falls without bound: did you pass log p instead of -log p? Use sample(log_density=...)."
MARK = -0.0
"""The weight of the first draw after a chain ran away, if it is to go on: nothing, but marked."""
BIASED = "biased by design"
NO_DRAW = "every chain diverged in the burn-in: there is no draw to return"


class TrustWarning(UserWarning):
    """The draws of a run should not be trusted; the message says why and what to do.

    Silence it with ``warnings.filterwarnings("ignore", category=sundman.TrustWarning)``.
    """


class Reason(NamedTuple):
    """One reason not to trust a run.

    Attributes:
      check: what was looked at, in a word or two, such as ``"temperature"``.
      text: a sentence with the number seen, and what to do.
    """

    check: str
    text: str

    def __str__(self) -> str:
        """The sentence."""
        return self.text


class Ended(NamedTuple):
    """What ended a run that had a rule; ``str`` says it in a sentence.

    Attributes:
      by: ``"rule"``: it was met. ``"seconds"``: the time was up. ``"steps"``: they were used up.
        ``"divergence"``: every chain was lost.
      rule: as it was given, such as ``"ess=400, rhat=1.01"``.
      draws: per chain.
      most: as many draws as there could have been.
      seconds: of the run.
      look: the numbers that the rule saw at the end; None if there were too few draws.
    """

    by: Literal["rule", "seconds", "steps", "divergence"]
    rule: str
    draws: int
    most: int
    seconds: float
    look: Look | None

    def __str__(self) -> str:
        """A sentence."""
        draws = f"{self.draws:,} of at most {self.most:,} draws per chain"
        says = {
            "rule": f"Its rule, {self.rule}, was met after {draws}",
            "seconds": f"Its time was up after {draws} (rule: {self.rule})",
            "steps": f"Its {self.draws:,} draws per chain were used up before its rule, "
            f"{self.rule}, was met",
            "divergence": f"All chains were lost after {draws} (rule: {self.rule})",
        }[self.by]
        return f"{says}." if self.look is None else f"{says}: {self.look}."

    def as_json(self) -> dict[str, Any]:
        """The fields, for a file."""
        return {**self._asdict(), "look": None if self.look is None else self.look._asdict()}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Ended:
        """What :meth:`as_json` wrote; raises ValueError if it is not that."""
        try:
            look = None if stored["look"] is None else Look(**stored["look"])
            rest: dict[str, Any] = {n: v for n, v in stored.items() if n != "look"}
            ended = cls(look=look, **rest)
            str(ended)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"how it ended makes no sense ({error})") from None
        return ended


@dataclass(frozen=True)
class Verdict:
    """Whether the draws of a run can be trusted; ``str`` says it in plain sentences.

    Attributes:
      status: ``"good"``: no reason against it was found. ``"bad"``: there are reasons.
        ``"unknown"``: there is too little to tell.
      reasons: why not, if it is bad.
      note: what could not be judged, if anything.
      ended: a sentence on what ended the run, if it had a rule.
      measured: numbers that the draws alone do not have, by check and name: ``"slopes"``, U and its
        gradient along lines, as :class:`sundman.gradients.slopes.Slopes` has them.
      judged: what a verdict is about that found no reason, such as ``"U and 250 kept values"``.
    """

    status: Literal["good", "bad", "unknown"]
    reasons: tuple[Reason, ...] = ()
    note: str = ""
    ended: str = ""
    measured: Mapping[str, Mapping[str, list[float]]] = field(
        default_factory=dict, repr=False, hash=False
    )
    judged: str = ""

    @property
    def ok(self) -> bool:
        """Whether the run was judged and no reason against it was found."""
        return self.status == "good"

    @property
    def short(self) -> str:
        """A few words: the status, and what it is about."""
        checks = ", ".join(dict.fromkeys(reason.check for reason in self.reasons))
        return ": ".join(filter(None, (self.status, checks or self.note)))

    @property
    def _yet(self) -> str:
        """Whether it may be trusted one day; a longer run of a biased sampler may not."""
        return "" if any(reason.check == BIASED for reason in self.reasons) else " yet"

    def __str__(self) -> str:
        """The verdict in sentences."""
        says = {
            "good": [
                "No reason was found to distrust this run.",
                f"Judged: {self.judged}." if self.judged else "",
            ],
            "unknown": [f"Unknown: {self.note}."],
            "bad": [f"This run should not be trusted{self._yet}.", *(r.text for r in self.reasons)],
        }[self.status]
        return " ".join(filter(None, (*says, self.ended)))

    def as_json(self) -> dict[str, Any]:
        """The verdict as numbers, texts and lists, for a file."""
        reasons = [list(reason) for reason in self.reasons]
        told = {"status": self.status, "reasons": reasons, "note": self.note}
        rest = {"ended": self.ended, "judged": self.judged, "measured": self.measured}
        return told | {name: value for name, value in rest.items() if value}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Verdict:
        """The verdict that :meth:`as_json` wrote."""
        reasons = tuple(Reason(*reason) for reason in stored["reasons"])
        more = {name: stored.get(name, "") for name in ("ended", "judged")}
        measured = stored.get("measured", {})
        return cls(stored["status"], reasons, stored["note"], measured=measured, **more)


def settings_of_chain(settings: Settings, chain: int) -> Settings:
    """Those settings of a run that hold for one chain."""
    facts = RunFacts.of(settings)
    own = {name: settings[name][chain] for name in facts.per_chain}
    if facts.chains is not None:
        own["chains"] = 1
    if facts.diverged_step is not None:
        own["diverged_step"] = facts.diverged_step[chain : chain + 1]
    return {**{name: value for name, value in settings.items() if name != "per_chain"}, **own}


class DivergenceWarning(UserWarning):
    """Some chains left the region where the potential and its gradient are finite."""


class DivergenceError(RuntimeError):
    """A chain ran away, and ``on_divergence="raise"`` asked to stop there."""


class AllDivergedError(ValueError):
    """Every chain ran away in the burn-in: there is no draw to return."""


Failure: TypeAlias = DivergenceError | AllDivergedError
"""How a run may fail, and fail again when it is resumed."""


class Divergence(NamedTuple):
    """One chain that ran away.

    Attributes:
      chain: its number.
      step: the step at which it ran away.
      draw: its first draw that counts for nothing.
      last: the statistics of its last good draw; empty in the burn-in.
    """

    chain: int
    step: int
    draw: int
    last: dict[str, float]


class Divergences(NamedTuple):
    """What is known of every chain, as arrays over the chains; part of a run's state.

    Attributes:
      low: the lowest potential so far.
      frozen: chains that no longer move.
      step: the step at which the chain first ran away, or -1.
      draw: the first draw of weight 0, or -1.
      times: how often it ran away.
    """

    low: np.ndarray
    frozen: np.ndarray
    step: np.ndarray
    draw: np.ndarray
    times: np.ndarray

    @classmethod
    def none(cls, chains: int) -> Divergences:
        """At the beginning of a run."""
        never = np.full(chains, -1, np.int64)
        low = np.full(chains, np.inf, np.float32)
        return cls(low, np.zeros(chains, bool), never, never.copy(), np.zeros(chains, np.int64))

    def adding(self, events: Sequence[Divergence], *, freeze: bool) -> Divergences:
        """With these events; ``freeze``: whether the chains stay where they were put back."""
        frozen, step, draw, times = (np.array(column) for column in self[1:])
        for event in events:
            if step[event.chain] < 0:
                step[event.chain], draw[event.chain] = event.step, event.draw
            times[event.chain] += 1
            frozen[event.chain] = freeze
        return Divergences(self.low, frozen, step, draw, times)

    def first(self) -> Divergence:
        """The chain that ran away first, as far as it is known; one of them must have."""
        chains = np.flatnonzero(self.times > 0)
        chain = int(chains[np.argmin(self.step[chains])])
        return Divergence(chain, int(self.step[chain]), int(self.draw[chain]), {})


def _advice(facts: RunFacts) -> str:
    if facts.clock != "sundman" or facts.dtau is None or facts.m is None:
        now = "" if facts.h is None else f", now h={facts.h:g}"
        return f"Use a smaller step (h{now}), or an adaptive clock such as that of sa_sgld."
    advice = (
        f"Use a smaller step (dtau, now {facts.dtau:g}), or a smaller lower bound m of psi "
        f"(now {facts.m:g})"
    )
    if facts.lag == "full":
        return f'{advice}, or lag="guarded", which reacts at once when the gradient jumps.'
    return f"{advice}."


def describe_divergence(event: Divergence, settings: Settings) -> str:
    """Which chain, which step, what it was like there, and what to change."""
    own = ", ".join(
        f"{name}={settings[name][event.chain]:g}" for name in RunFacts.of(settings).per_chain
    )
    facts = RunFacts.of(settings_of_chain(settings, event.chain))
    where = f"chain {event.chain}{f' ({own})' if own else ''} ran away at step {event.step:,}"
    if not event.last:
        return f"{where}, in the burn-in. {_advice(facts)}"
    names = {"dt": "dt", "grad_norm": "|grad U|", "potential": "U"}
    last = ", ".join(f"{text}={event.last[k]:.3g}" for k, text in names.items() if k in event.last)
    return f"{where} (from draw {event.draw:,} on; last good draw: {last}). {_advice(facts)}"


def divergence_summary(
    divergences: Divergences, events: Sequence[Divergence], settings: Settings
) -> str | None:
    """What to warn of when a run ends; None if no chain ran away.

    Args:
      divergences: what is known of every chain.
      events: those seen by this process.
      settings: of the run.
    """
    chains = np.flatnonzero(divergences.times > 0)
    if not len(chains):
        return None
    known = divergences.first()  # which may have run away before this process took over
    first = next((event for event in events if event.chain == known.chain), known)
    if RunFacts.of(settings).on_divergence == "restart":
        times = int(divergences.times.sum())
        now = (
            f"They were put back to where they were last good and went on, {times} "
            f"time{'s' if times > 1 else ''} in all; from each divergence to the end of its block "
            "the draws have weight 0."
        )
    else:
        now = "They stay there; their draws from there on have weight 0."
    return (
        f"{len(chains)} of {len(divergences.times)} chains diverged: the potential or its "
        "gradient is not finite or out of proportion; first "
        f"{describe_divergence(first, settings)} {now}"
    )
