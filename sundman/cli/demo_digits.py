"""The demo's network: the SA-SGLD ensemble beside the single best fit, on scikit-learn's digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from sundman import models
from sundman.cli import bnn_plan, bnn_run
from sundman.cli.bnn_plan import Plan
from sundman.report import Table

_BATCH, _FIT_STEPS = 32, 3_000


@dataclass(frozen=True)
class Network:
    """Class probabilities on the test rows by name, and the chain behind the ensemble."""

    plan: Plan
    found: Mapping[str, np.ndarray]
    draws: sundman.Draws

    @cached_property
    def scores(self) -> dict[str, Mapping[str, float]]:
        """The scores of each on the test rows."""
        return {name: bnn_run.scores(self.plan, each) for name, each in self.found.items()}

    def table(self) -> Table:
        """The scores of both."""
        rows = self.scores
        layers = "-".join(str(size) for size in self.plan.sizes)
        return Table(
            f"Digits, network {layers}, horseshoe prior: scores on {len(self.plan.data.test.y)} "
            "test images",
            ["", *next(iter(rows.values()))],
            [[name, *(f"{value:.4g}" for value in row.values())] for name, row in rows.items()],
        )


def compare(steps: int, seed: int) -> Network:
    """The network by maximum a posteriori and by SA-SGLD, from the same start."""
    plan = bnn_plan.plan({}, {"name": "digits", "batch": _BATCH}, {})
    first, fit, noise = jax.random.split(jax.random.key(seed), 3)
    init = models.mlp_init(first, plan.sizes)
    fit_steps = min(_FIT_STEPS, steps)
    best = sundman.map_estimate(plan.posterior, init, key=fit, steps=fit_steps, batch_size=_BATCH)
    draws = sundman.sample(
        plan.posterior,
        plan.sampler,
        init=init,
        key=noise,
        burn_in=steps // 2,
        steps=steps - steps // 2,
        thin=max(1, steps // 200),
        batch_size=_BATCH,
        **bnn_run.kept(plan),
    )
    single = plan.posterior.predict(best, jnp.asarray(plan.data.test.x))
    found = {
        "best fit (MAP)": np.asarray(single),
        "SA-SGLD ensemble": bnn_run.predictive(plan, draws),
    }
    return Network(plan, found, draws)
