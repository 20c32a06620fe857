"""What to say about chains that ran away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sundman.draws import settings_of_chain
from sundman.runner.guard import Loss, Losses


class DivergenceWarning(UserWarning):
    """Some chains left the region where the potential and its gradient are finite."""


class DivergenceError(RuntimeError):
    """A chain ran away, and ``on_divergence="raise"`` asked to stop there."""


class AllDivergedError(ValueError):
    """Every chain ran away in the burn-in: there is no draw to return."""


def _advice(settings: Mapping[str, Any]) -> str:
    if settings.get("clock") != "sundman":
        now = f", now h={settings['h']:g}" if isinstance(settings.get("h"), float | int) else ""
        return f"Use a smaller step (h{now}), or an adaptive clock such as that of sa_sgld."
    advice = (
        f"Use a smaller step (dtau, now {settings['dtau']:g}), or a smaller lower bound m of psi "
        f"(now {settings['m']:g})"
    )
    if settings.get("lag") == "full":
        return f'{advice}, or lag="guarded", which reacts at once when the gradient jumps.'
    return f"{advice}."


def describe(loss: Loss, settings: Mapping[str, Any]) -> str:
    """Which chain, which step, what it was like there, and what to change."""
    own = ", ".join(
        f"{name}={settings[name][loss.chain]:g}" for name in settings.get("per_chain", ())
    )
    settings = settings_of_chain(settings, loss.chain)
    where = f"chain {loss.chain}{f' ({own})' if own else ''} ran away at step {loss.step:,}"
    if not loss.last:
        return f"{where}, in the burn-in. {_advice(settings)}"
    names = {"dt": "dt", "grad_norm": "|grad U|", "potential": "U"}
    seen = ", ".join(f"{text}={loss.last[k]:.3g}" for k, text in names.items() if k in loss.last)
    return f"{where} (from draw {loss.draw:,} on; last good draw: {seen}). {_advice(settings)}"


def summary(losses: Losses, first: Sequence[Loss], settings: Mapping[str, Any]) -> str | None:
    """What to warn of when a run ends; None if no chain was lost."""
    lost = np.flatnonzero(losses.times > 0)
    if not len(lost):
        return None
    earliest = lost[np.argmin(losses.step[lost])]
    told = next((loss for loss in first if loss.chain == earliest), None)
    if told is None:  # lost before this process took over
        told = Loss(int(earliest), int(losses.step[earliest]), int(losses.draw[earliest]), {})
    kept = "They were put back and went on" if not losses.frozen.any() else "They stay there"
    return (
        f"{len(lost)} of {len(losses.times)} chains diverged: the potential or its gradient is "
        f"not finite or out of proportion; first {describe(told, settings)} {kept}; their draws "
        "from there on have weight 0."
    )
