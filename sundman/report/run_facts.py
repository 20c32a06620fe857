"""Facts about a run: its sampler's name, its target, where it is stored, how it was made."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import jax

import sundman
from sundman import citations
from sundman.draws import Draws
from sundman.report.values import duration
from sundman.store import StoreError
from sundman.targets import Target


def about(draws: Draws) -> Mapping[str, Any]:
    """What the store says about the run; nothing for draws in memory."""
    if "path" not in draws.settings:
        return {}
    from sundman.store.directory import open_run

    return open_run(draws.settings["path"]).about


def stored_target(draws: Draws, stored: Mapping[str, Any]) -> Target | None:
    """The target of a stored run on one of the known targets."""
    if stored.get("identity", {}).get("target") not in sundman.targets.names():
        return None
    from sundman.store.directory import open_run

    try:
        kept = open_run(draws.settings["path"]).call().target
    except StoreError:
        return None
    return kept if isinstance(kept, Target) else None


def target_name(target: Any) -> str:
    """The name of a target that has one; an empty text else."""
    name = getattr(target, "name", None)
    return name if isinstance(name, str) else ""


def sampler(settings: Mapping[str, Any]) -> str:
    """The name of the sampler that people know."""
    return settings.get("sampler", "A run")


def cited(draws: Draws) -> Sequence[str]:
    """What to cite, as BibTeX: this library alone if the sampler is not known."""
    return citations.entries(draws if "references" in draws.settings else "sundman")


def command(draws: Draws) -> str:
    """A command that makes the report again from the stored draws; empty for draws in memory."""
    if "path" not in draws.settings:
        return ""
    return f"sundman report {shlex.quote(str(draws.settings['path']))} --output report.html"


def made(draws: Draws, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Versions, dates, key and wall time, as far as they are known."""
    facts = {
        "run begun": stored.get("created", "")[:19].replace("T", " "),
        "run by": f"sundman {stored['sundman']}, jax {stored['jax']}" if stored else "",
        "device": stored.get("device", ""),
        "key": stored.get("identity", {}).get("key", ""),
        "wall time": duration(draws.settings["seconds"]) if draws.settings.get("seconds") else "",
        "stored at": draws.settings.get("path", ""),
        "report written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "report by": f"sundman {sundman.__version__}, jax {jax.__version__}, "
        f"Python {platform.python_version()}",
    }
    return {name: fact for name, fact in facts.items() if fact}
