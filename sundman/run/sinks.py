"""Where the draws of a run go; and the sink that keeps them in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

import jax
import numpy as np

from sundman._trees import leaf_names
from sundman._types import PyTree
from sundman.draws import Draws
from sundman.draws.online import averaged
from sundman.draws.trust import Ended, Failure
from sundman.run.devices import Layout
from sundman.run.spec import RunSpec
from sundman.run.state import RunState
from sundman.run.step import Record

Column = TypeVar("Column", np.ndarray, jax.ShapeDtypeStruct)


class DrawSink(Protocol):
    """Where the draws of a run go."""

    def add(self, record: Record) -> None:
        """Take the draws of a block, axes (draw, chain); values of this process's chains."""
        ...

    def asked_to_stop(self) -> bool:
        """Whether the run is to stop; the same in all processes, which ask together."""
        ...

    def after_piece(
        self,
        state: RunState,
        *,
        over: bool,
        save: bool,
        failure: Failure | None = None,
        ended: Ended | None = None,
    ) -> None:
        """A piece is done and its draws are added.

        Args:
          state: of the run after it.
          over: whether that was the last one.
          save: whether all there is must be saved now.
          failure: what is going to be raised, if the run fails here.
          ended: what ended it, if it had a rule and is over.
        """
        ...


def joined(records: list[Record]) -> tuple[PyTree, np.ndarray, dict[str, np.ndarray]]:
    """Values, weight and statistics of all blocks: axes (chain, draw, ...)."""

    def join(*parts: np.ndarray) -> np.ndarray:
        return np.swapaxes(parts[0] if len(parts) == 1 else np.concatenate(parts), 0, 1)

    values, weight, stats, _ = jax.tree.map(join, *[r._replace(broke=None) for r in records])
    return values, weight, stats


def columns(values: PyTree, weight: Column, stats: Mapping[str, Column]) -> dict[str, Column]:
    """What a record holds, by the names of the arrays on disk."""
    leaves = zip(leaf_names(values), jax.tree.leaves(values), strict=True)
    return {
        **{f"values/{name}": leaf for name, leaf in leaves},
        "weight": weight,
        **{f"stats/{name}": leaf for name, leaf in stats.items()},
    }


class MemorySink:
    """Keeps the blocks of a run in memory."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._ended: Ended | None = None

    def add(self, record: Record) -> None:
        """Take the draws of a block."""
        self._records.append(record)

    def asked_to_stop(self) -> bool:
        """Never: a signal is an exception here, and acts at once."""
        return False

    def after_piece(
        self,
        state: RunState,
        *,
        over: bool,
        save: bool,
        failure: Failure | None = None,
        ended: Ended | None = None,
    ) -> None:
        """Remember how it ended; memory does not outlive the process."""
        self._ended = ended

    def draws(self, spec: RunSpec, state: RunState, layout: Layout) -> Draws:
        """All blocks joined, and how the run ended."""
        values, weight, stats = joined(self._records)
        values = layout.gather_local(values, 0)
        self._records.clear()
        outcome = {
            "steps": state.progress.steps,
            "seconds": state.progress.seconds,
            "diverged_step": state.divergences.step.tolist(),
            "diverged_times": state.divergences.times.tolist(),
        }
        last = state.position(spec.sampler.integrator.replicas)
        return Draws(
            values=values,
            weight=weight,
            stats={"dt": weight, **stats},
            diverged_at=state.divergences.draw,
            last=layout.gather(last),
            settings={**spec.settings, **outcome, **layout.settings},
            has_position=spec.collect is None,
            online=averaged(layout.gather(state.averages)),
            tuning=spec.tuning,
            ended=self._ended,
        )
