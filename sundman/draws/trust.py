"""The verdict on a run: whether its draws can be trusted, and if not, why and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple


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


@dataclass(frozen=True)
class Verdict:
    """Whether the draws of a run can be trusted; ``str`` says it in plain sentences.

    Attributes:
      status: ``"good"``: no reason against it was found. ``"bad"``: there are reasons.
        ``"unknown"``: there is too little to tell.
      reasons: why not, if it is bad.
      note: what could not be judged, if anything.
    """

    status: Literal["good", "bad", "unknown"]
    reasons: tuple[Reason, ...] = ()
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the run was judged and no reason against it was found."""
        return self.status == "good"

    @property
    def short(self) -> str:
        """A few words: the status, and what it is about."""
        checks = ", ".join(dict.fromkeys(reason.check for reason in self.reasons))
        return ": ".join(filter(None, (self.status, checks or self.note)))

    def __str__(self) -> str:
        """The verdict in sentences."""
        if self.status == "good":
            return "No reason was found to distrust this run."
        if self.status == "unknown":
            return f"Unknown: {self.note}."
        reasons = " ".join(reason.text for reason in self.reasons)
        return f"This run should not be trusted yet. {reasons}"

    def as_json(self) -> dict[str, Any]:
        """The verdict as numbers, texts and lists, for a file."""
        reasons = [list(reason) for reason in self.reasons]
        return {"status": self.status, "reasons": reasons, "note": self.note}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Verdict:
        """The verdict that :meth:`as_json` wrote."""
        reasons = tuple(Reason(*reason) for reason in stored["reasons"])
        return cls(stored["status"], reasons, stored["note"])
