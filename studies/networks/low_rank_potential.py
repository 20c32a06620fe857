"""Why is U of a network a little too low on minibatches? The digits network, one change at a time.

    python -m studies.networks.low_rank_potential

The Gaussian prior, h .003 in units of the prior, eight chains. U of all rows and its two parts, the
loss and the prior's, at every 20th step, with standard errors over the chains; the exact values are
those of full-batch HMC, ``sa_sgld/digits_posterior.py``. The rows differ in the friction, in the
size of the minibatches, in their order, and in when the chains are looked at.

Every run is kept in ``results/low_rank_potential.json`` and is not run again.
"""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

import sundman
from studies.report import settings
from studies.sa_sgld import digits_posterior, posterior_accuracy
from studies.sa_sgld.digits_posterior import SIZES
from sundman import gradients, integrators, models

RESULT = Path(__file__).parent / "results" / "low_rank_potential.json"
CHAINS, STEP, THIN = 8, 0.003, 20


@dataclass(frozen=True)
class Row:
    """One setting; ``share`` None is BAOAB with one friction, 5, for all directions."""

    batch: int | None = 32
    order: str = "shuffled"
    share: float | None = 0.2
    burn_in: int = 5000
    steps: int = 20_000
    seed: int = 11


ROWS = {
    "as it is": Row(),
    "with replacement": Row(order="with_replacement"),
    "360 rows, friction as with 32": Row(batch=360, share=0.2 * 32 / 360),
    "360 rows, one friction for all": Row(batch=360, share=None),
    "as it is, later": Row(burn_in=25_000, steps=25_000, seed=12),
}


def run(row: Row) -> dict[str, Any]:
    """The chains of a row: U, loss and prior's part, each a mean and its standard error."""
    target = digits_posterior.posterior("gaussian")
    moving: integrators.Integrator = integrators.baoab(gamma=5.0)
    if row.share is not None:
        moving = integrators.low_rank_baoab(
            gamma=0.5, rank=20, share=row.share, memory=0.9, learn_after=20
        )
    starts = jax.random.split(jax.random.key(100 + row.seed), CHAINS)
    began = time.perf_counter()
    draws = sundman.sample(
        gradients.minibatch(target, row.batch, order=row.order),
        posterior_accuracy.whitened(moving, STEP)(target),
        init=jax.vmap(lambda key: models.mlp_init(key, SIZES))(starts),
        per_chain=True,
        chains=CHAINS,
        key=jax.random.key(row.seed),
        burn_in=row.burn_in,
        steps=row.steps,
        thin=THIN,
        collect=lambda x: {"U": target.potential(x), "prior": -target.log_prior(x)},
        progress=False,
    )
    U, prior = (np.asarray(draws.values[name], np.float64) for name in ("U", "prior"))
    parts = {"U": U, "loss": U - prior, "prior": prior}
    halves = np.split(U[:, : U.shape[1] // 2 * 2], 2, axis=1)
    return {
        **{name: _mean(part.mean(axis=1)) for name, part in parts.items()},
        "halves": [_mean(half.mean(axis=1)) for half in halves],
        "seconds": round(time.perf_counter() - began, 1),
    }


def _mean(by_chain: np.ndarray) -> list[float]:
    return [float(by_chain.mean()), float(by_chain.std(ddof=1) / np.sqrt(len(by_chain)))]


def main() -> None:
    """All rows that are not there yet."""
    warnings.simplefilter("ignore", sundman.TrustWarning)
    rows = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else {}
    exact = digits_posterior.reference("gaussian")
    for name, row in ROWS.items():
        if name in rows:
            continue
        rows[name] = run(row)
        print(name, rows[name], flush=True)
        result = {
            "command": "python -m studies.networks.low_rank_potential",
            "settings": settings(),
            "exact": {"U": exact.potential, "loss": exact.train_nll},
            "rows": rows,
        }
        RESULT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
