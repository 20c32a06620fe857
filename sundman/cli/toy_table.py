"""What samplers found on a target, beside the exact values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

import sundman
from sundman import estimate
from sundman.report import Table
from sundman.targets import Target

_AT_ONCE = 4  # samplers in one table


@dataclass(frozen=True)
class Found:
    """The target and the runs on it, by the sampler's name."""

    target: Target
    runs: Mapping[str, sundman.Draws]

    def lost(self, name: str) -> int:
        """How many chains of a run diverged."""
        return int(np.count_nonzero(self.runs[name].diverged >= 0))

    def all_lost(self) -> bool:
        """Whether every chain of every run diverged."""
        return all(self.lost(name) == draws.chains for name, draws in self.runs.items())

    @cached_property
    def _estimates(self) -> dict[str, dict[str, tuple[float, float]]]:
        observables = self.target.observables
        found = {}
        for name, draws in self.runs.items():
            if not (draws.weight > 0).any():
                found[name] = dict.fromkeys(observables, (np.nan, np.nan))
                continue
            both = estimate.mean(draws, lambda x: jnp.stack([f(x) for f in observables.values()]))
            pairs = zip(observables, *both, strict=True)
            found[name] = {key: (float(value), float(error)) for key, value, error in pairs}
        return found

    def numbers(self) -> dict[str, Any]:
        """All numbers, for a file."""
        return {
            "target": self.target.name,
            "temperature": self.target.temperature,
            "exact": dict(self.target.truth),
            "samplers": self._numbers,
        }

    @cached_property
    def _numbers(self) -> dict[str, dict[str, Any]]:
        return {name: self._numbers_of(name) for name in self.runs}

    def _numbers_of(self, name: str) -> dict[str, Any]:
        draws = self.runs[name]
        alive = draws.weight > 0
        size = np.nan
        if alive.any():
            size = float(estimate.ess(draws, self.target.potential))
        return {
            "estimate": {key: value for key, (value, _) in self._estimates[name].items()},
            "error": {key: error for key, (_, error) in self._estimates[name].items()},
            "mean_step": float(draws.stats["dt"][alive].mean()) if alive.any() else np.nan,
            "ess_of_potential": size,
            "seconds": float(draws.settings.get("seconds", np.nan)),
            "chains_lost": self.lost(name),
        }

    def tables(self) -> list[Table]:
        """One table for every few samplers: observables down, samplers across."""
        names = list(self.runs)
        firsts = range(0, len(names), _AT_ONCE)
        return [self._table(names[first : first + _AT_ONCE]) for first in firsts]

    def _table(self, names: list[str]) -> Table:
        truth = self.target.truth
        rows = [
            [key, f"{truth[key]:.5g}", *(self._cell(name, key) for name in names)]
            for key in self.target.observables
        ]
        numbers = [self._numbers[name] for name in names]
        facts = {
            "mean step dt": [f"{n['mean_step']:.3g}" for n in numbers],
            "ESS of U": [f"{n['ess_of_potential']:,.0f}" for n in numbers],
            "wall time": [f"{n['seconds']:.2f} s" for n in numbers],
            "chains lost": [f"{n['chains_lost']}" for n in numbers],
        }
        rows += [[key, "", *cells] for key, cells in facts.items()]
        return Table(
            title=f"{self.target.name}, T = {self.target.temperature:g}: estimate ± standard error",
            columns=["E[...]", "exact", *names],
            rows=rows,
            caption="In brackets: how far the estimate is from the exact value, in percent of it. "
            "The wall time has the compilation in it.",
        )

    def _cell(self, name: str, key: str) -> str:
        (value, error), exact = self._estimates[name][key], self.target.truth[key]
        if not np.isfinite(value):
            return "lost"
        off = f" ({100 * (value - exact) / abs(exact):+.1f})" if abs(exact) > 1e-12 else ""
        return f"{value:.4g} ± {error:.1g}{off}"
