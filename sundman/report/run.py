"""The report of one run: what ran, whether to trust it, its steps, its draws."""

from __future__ import annotations

import math
import os
import platform
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import jax
import numpy as np

import sundman
from sundman import citations
from sundman._optional import needs_extra
from sundman.diagnosis import Diagnosis, diagnose
from sundman.diagnosis.mixing import some_components
from sundman.draws import Draws
from sundman.gradients import GradientEstimator, Potential
from sundman.posterior import Posterior
from sundman.report import run_tables
from sundman.report.model import Report, Section, duration
from sundman.report.run_tables import Average
from sundman.store import StoreError
from sundman.targets import Target
from sundman.tune import Tuning
from sundman.value import code

_COMPONENTS = 4
_SIGMAS = 3.0
_LOW = 10  # components up to which pairs are drawn
_LONGEST_CODE = 1000  # characters of a sampler that are shown


def of_run(
    path_or_draws: str | os.PathLike[str] | Draws,
    *,
    target: Target | Posterior | GradientEstimator | Potential | None = None,
    command: str | None = None,
) -> Report:
    """The report of a run. Needs matplotlib.

    Args:
      path_or_draws: the directory of a stored run, finished or going on, or draws.
      target: what was sampled, for the diagnosis as in :func:`sundman.diagnose`. A stored run on
        one of :mod:`sundman.targets` knows its target.
      command: the command that makes the report again; by default, for a stored run, one that
        makes it from the stored draws.

    Returns:
      The report, for :func:`sundman.report.write` or :func:`sundman.report.render`.
    """
    _need_matplotlib()
    draws = path_or_draws if isinstance(path_or_draws, Draws) else Draws.open(path_or_draws)
    facts, origin = draws.facts, Origin.of(draws)
    if target is None:
        target = _stored_target(origin)
    diagnosis = diagnose(draws, target, show=False)
    averages = run_tables.averages(draws, target)
    name = _target_name(target)
    return Report(
        title=f"{facts.sampler or 'A run'}{f' on {name}' if name else ''}",
        summary="\n\n".join(
            (
                *([] if draws.verdict is None else [str(draws.verdict)]),
                " ".join((_what_ran(draws), _how_it_went(draws, diagnosis), *_biased(averages))),
            )
        ),
        command=_command(origin) if command is None else command,
        settings=dict(sorted(draws.settings.items())),
        made=_provenance(draws, origin),
        sections=tuple(_sections(draws, target, diagnosis, averages)),
        # Of a sampler that is not known, this library alone.
        citations=citations.entries(draws if facts.references is not None else "sundman"),
    )


def _need_matplotlib() -> None:
    with needs_extra("report", "a report"):
        import matplotlib  # noqa: F401


@dataclass(frozen=True)
class Origin:
    """What the store of a run says of where it comes from; empty for draws in memory.

    Attributes:
      path: where it is stored.
      target: the name of what was sampled.
      begun: when.
      made_by: the versions that made it.
      device: where it ran.
      key: its random key.
    """

    path: str = ""
    target: str = ""
    begun: str = ""
    made_by: str = ""
    device: str = ""
    key: str = ""

    @classmethod
    def of(cls, draws: Draws) -> Origin:
        """That of the run behind the draws."""
        path = draws.facts.path
        if path is None:
            return cls()
        from sundman.store.directory import open_run

        about = open_run(path).about
        return cls(
            path=path,
            target=about["identity"].get("target", ""),
            begun=about.get("created", "")[:19].replace("T", " "),
            made_by=f"sundman {about.get('sundman', '?')}, jax {about.get('jax', '?')}",
            device=about.get("device", ""),
            key=about["identity"].get("key", ""),
        )


def _what_ran(draws: Draws) -> str:
    facts = draws.facts
    chains = "One chain" if draws.chains == 1 else f"{draws.chains} chains"
    text = f"{chains} of {len(draws):,} draw{'' if len(draws) == 1 else 's'}"
    if facts.burn_in:
        text += f" after a burn-in of {facts.burn_in:,} steps"
    if facts.seconds:
        text += f", in {duration(facts.seconds)}"
    lost = int(np.sum(draws.diverged))
    if lost:
        text += f"; {lost} of {draws.chains} ran away, and what came after has no weight"
    ending = "" if facts.finished else " The run is not finished."
    return f"{text}.{ending}"


def _how_it_went(draws: Draws, diagnosis: Diagnosis) -> str:
    def listed(verdict: str) -> list[str]:
        return [row.name for row in diagnosis if row.verdict == verdict]

    bad, look = listed("bad"), listed("look")
    if not bad and not (draws.weight > 0).any():
        return "There are no draws to judge."
    if not bad and not look:
        return "Every check of the diagnosis is good."
    parts = [f"bad: {', '.join(bad)}"] if bad else []
    parts += [f"to look into: {', '.join(look)}"] if look else []
    lead = "Not to be trusted as it is" if bad else "No check is bad"
    return f"{lead}; {'; '.join(parts)}."


def _biased(averages: Sequence[Average]) -> Iterator[str]:
    """A sentence on the averages that are off by more than chance, if the exact ones are known."""
    if not averages:
        return
    off = [f"{each.name} by {each.off:+.1f}" for each in averages if abs(each.off) > _SIGMAS]
    if off:
        known = f"{len(off)} of {len(averages)} averages with known exact values"
        yield f"Off by more than {_SIGMAS:g} standard errors: {known} ({', '.join(off)})."
    else:
        yield f"All {len(averages)} averages are within {_SIGMAS:g} errors of their exact values."


def _sections(
    draws: Draws, target: object, diagnosis: Diagnosis, averages: Sequence[Average]
) -> Iterator[Section]:
    yield Section(
        "Can it be trusted?",
        "Each check says good, look (look into it) or bad, and what to do about it.",
        tables=[run_tables.of_diagnosis(diagnosis)],
    )
    if draws.tuning is not None and draws.tuning.windows:
        yield _tuning(draws, draws.tuning)
    yield Section("The chains", tables=[run_tables.of_chains(draws)])
    if not (draws.weight > 0).any():
        yield Section("The draws", "No draw counts, so there is nothing to show.")
        return
    from sundman.report import figures

    shown = []
    if _varies(draws, "dt"):
        shown += [figures.along(draws, "dt", title="The step", label="dt", log=True)]
    if "potential" in draws.stats:
        shown += [figures.along(draws, "potential", title="The potential", label="U")]
    if shown:
        text = "Level and rough is right; a slope means that the burn-in was too short."
        yield Section("Along the run", text, figures=shown)
    yield _weights(draws)
    if jax.tree.leaves(draws.values):
        yield _values(draws, target, averages)


def _tuning(draws: Draws, tuning: Tuning) -> Section:
    from sundman.report import figures

    text = str(tuning)
    if len(tuning.code) <= _LONGEST_CODE:
        text += f" The same sampler with its settings frozen: {code(tuning.sampler)}"
    tables = [run_tables.of_tuning(tuning)]
    return Section("How the sampler tuned itself", text, tables, [figures.tuning(draws)])


def _varies(draws: Draws, name: str) -> bool:
    if name not in draws.stats:
        return False
    column = np.asarray(draws.stats[name])[draws.weight > 0]
    return bool(column.max() > column.min() * (1 + 1e-6))


def _weights(draws: Draws) -> Section:
    from sundman.report import figures

    shown, text = [], []
    if "dt" in draws.stats:
        dt = np.asarray(draws.stats["dt"], np.float64)[draws.weight > 0]
        if _varies(draws, "dt"):
            shown += [figures.stepsizes(draws)]
            text += [f"The step is {dt.mean():.4g} on average, {dt.min():.3g} to {dt.max():.3g}."]
        else:
            text += [f"The step is {dt.mean():.4g} at every draw."]
    weight = draws.weight[draws.weight > 0]
    if weight.max() > weight.min() * (1 + 1e-6):
        shown += [figures.weights(draws)]
        text += ["A draw weighs as much as the time that the chain spends there, its step."]
    else:
        text += ["Every draw weighs the same."]
    return Section("The step and the weights", " ".join(text), figures=shown)


def _values(draws: Draws, target: object, averages: Sequence[Average]) -> Section:
    from sundman.report import figures

    total = sum(math.prod(leaf.shape[2:]) for leaf in jax.tree.leaves(draws.values))
    values, labels = some_components(draws, _COMPONENTS)
    tables = [run_tables.against_exact(averages)] if averages else []
    shown = []
    placed = draws.has_position and "dt" in draws.stats
    if placed and isinstance(target, Target) and target.window is not None and target.dim == 2:
        shown += [figures.over_contours(draws, target)]
    shown += [figures.traces(draws, values, labels, total)]
    finite = np.isfinite(values).all(axis=2) & (draws.weight > 0)
    if total <= _LOW and finite.any() and not (shown[1:] and total == 2):
        shown += [figures.pairs(draws, values, labels)]
    what = "positions" if draws.has_position else "values of `collect`"
    text = f"The {what} have {total:,} component{'s' if total > 1 else ''}."
    return Section("The draws", text, tables, shown)


def _stored_target(origin: Origin) -> Target | None:
    """The target of a stored run on one of the known targets."""
    if not origin.path or origin.target not in sundman.targets.names():
        return None
    from sundman.store.directory import open_run

    try:
        target = open_run(origin.path).call(ours=True)["target"]
    except (StoreError, KeyError):
        return None
    return target if isinstance(target, Target) else None


def _target_name(target: object) -> str:
    """The name of a target that has one; an empty text else."""
    name = getattr(target, "name", None)
    return name if isinstance(name, str) else ""


def _command(origin: Origin) -> str:
    """A command that makes the report again from the stored draws; empty for draws in memory."""
    return f"sundman report {shlex.quote(origin.path)} --output report.html" if origin.path else ""


def _provenance(draws: Draws, origin: Origin) -> dict[str, object]:
    """Versions, dates, key and wall time, as far as they are known."""
    known = {
        "run begun": origin.begun,
        "run by": origin.made_by,
        "device": origin.device,
        "key": origin.key,
        "wall time": duration(draws.facts.seconds) if draws.facts.seconds else "",
        "stored at": origin.path,
        "report written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "report by": f"sundman {sundman.__version__}, jax {jax.__version__}, "
        f"Python {platform.python_version()}",
    }
    return {name: fact for name, fact in known.items() if fact}
