"""The verdict on a run, made at its end by itself: can its draws be trusted?"""

from sundman.draws.trust import Reason, TrustWarning, Verdict
from sundman.verdict.judging import judge

__all__ = ["Reason", "TrustWarning", "Verdict", "judge"]
