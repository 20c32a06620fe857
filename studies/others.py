"""How busy other programs kept the machine during a benchmark, from the kernel's own count."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")


def _busy() -> float:
    """Seconds of processor time spent by everybody since the machine started."""
    user, nice, system, _, _, irq, softirq = map(int, _STAT.read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Others:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._began = self._now() if _STAT.exists() else None

    def _now(self) -> tuple[float, float]:
        own = os.times()
        return time.perf_counter(), _busy() - own.user - own.system

    def cores(self) -> float | None:
        """How many cores others used on average since then; None where there is no count."""
        if self._began is None:
            return None
        (began, before), (now, after) = self._began, self._now()
        return round(max(0.0, (after - before) / (now - began)), 2)
