"""The weighted mean along a path whose steps decrease: does its error vanish?

    m_n = sum_k<n dt_k f(theta_k) / sum_k<n dt_k,   dt_k = psi dtau (1 + k/offset)^(-1/3)

The error of many independent paths falls as (physical time)^(-1/2).
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from sundman import targets
from sundman.paper import quiet
from sundman.paper.decreasing import decreasing_sa_sgld
from sundman.paper.measured import Measured, over_seeds
from sundman.paper.run import Task
from sundman.paper.units import Numbers

POWER, OFFSET, GROUPS = 1.0 / 3.0, 1000.0, 8


def convergence(task: Task, clock: dict[str, Any]) -> Numbers:
    """Root mean square error of the running weighted mean over independent paths.

    ``clock`` are the settings of the adaptive clock whose steps decrease.
    """
    settings = {"dtau": 0.04, "power": POWER, "offset": OFFSET, **clock}
    length, chains = task.scale.path, task.scale.toy.chains
    thin = max(1, length // 20_000)

    def work() -> Numbers:
        target = targets.quartic()
        draws = quiet.sample(
            target,
            decreasing_sa_sgld(**settings),
            key=jax.random.key(task.seed + 50),
            chains=chains,
            steps=length,
            thin=thin,
            stats=("time",),
            progress=False,
        )
        x2 = np.asarray(draws.position, np.float64)[..., 0] ** 2
        weight = np.asarray(draws.weight, np.float64)
        running = np.cumsum(weight * x2, axis=1) / np.cumsum(weight, axis=1)
        at = np.unique(np.geomspace(len(draws) // 64, len(draws) - 1, 12).astype(int))
        squares = (running[:, at] - target.truth["x2"]) ** 2
        rms = np.sqrt(squares.mean(axis=0))
        return {
            "steps": (thin * (at + 1)).tolist(),
            "time": np.asarray(draws.stats["time"], np.float64)[:, at].mean(axis=0).tolist(),
            "rms": rms.tolist(),
            "one path": np.abs(running[0, at] - target.truth["x2"]).tolist(),
            "groups": np.sqrt([g.mean(axis=0) for g in np.array_split(squares, GROUPS)]).tolist(),
        }

    about = {**settings, "steps": length, "chains": chains, "thin": thin, "seed": task.seed}
    numbers = task.bench.unit("theory/convergence", about, work)
    assert numbers is not None
    return numbers


def rate_of(path: Numbers) -> Measured:
    """The exponent of the error against physical time: mean and error over groups of paths."""
    time = np.log(path["time"])
    return over_seeds([float(np.polyfit(time, np.log(rms), 1)[0]) for rms in path["groups"]])
