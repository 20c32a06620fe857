"""Draws kept in memory while a run goes on."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sundman.draws import Draws
from sundman.runner.call import Call
from sundman.runner.guard import Losses, Work
from sundman.runner.loop import Record
from sundman.runner.online import known
from sundman.runner.session import Done, Outcome, last_position


class Memory:
    """Keeps the blocks of a run."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, record: Record) -> None:
        """Take the draws of a block."""
        self._records.append(record)

    def after_piece(self, done: Done, work: Work, losses: Losses, over: bool, save: bool) -> None:
        """Nothing to do: memory does not outlive the process."""
        del done, work, losses, over, save

    def draws(self, call: Call, outcome: Outcome) -> Draws:
        """All blocks joined along the draws: axes (chain, draw, ...)."""

        def join(*parts: np.ndarray) -> np.ndarray:
            whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
            return np.swapaxes(whole, 0, 1)

        records = [record._replace(broke=None) for record in self._records]
        self._records.clear()
        values, weight, stats, _ = jax.tree.map(join, *records)
        last = last_position(outcome.work, call.sampler.integrator.replicas)
        return Draws(
            values=values,
            weight=weight,
            stats={"dt": weight, **stats},
            diverged=outcome.losses.draw,
            last=jax.tree.map(np.asarray, last),
            settings=settings_of(call, outcome),
            has_position=call.collect is None,
            online=known(outcome.work.averages),
        )


def settings_of(call: Call, outcome: Outcome) -> dict[str, Any]:
    """The settings, and what became of the run."""
    made = {"steps": outcome.done.steps, "seconds": outcome.done.seconds}
    return {**call.settings, **made, "diverged_step": outcome.losses.step.tolist()}
