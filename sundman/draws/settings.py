"""The settings of a run, and those of one of its chains."""

from __future__ import annotations

from sundman._types import Settings


def settings_of_chain(settings: Settings, chain: int) -> Settings:
    """Those settings of a run that hold for one chain."""
    own = {name: settings[name][chain] for name in settings.get("per_chain", ())}
    if "chains" in settings:
        own["chains"] = 1
    if "diverged_step" in settings:
        own["diverged_step"] = settings["diverged_step"][chain : chain + 1]
    return {**{name: value for name, value in settings.items() if name != "per_chain"}, **own}
