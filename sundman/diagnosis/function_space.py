"""Mixing in function space: how well the chains agree on what the model says about data.

The weights of a network move slowly, and permuting its units changes them but not its function.
What one wants are predictions, so their convergence is looked at by itself: R-hat and effective
size of log p(y_i | x_i, theta) on some rows of the data.
"""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
from jax import Array

from sundman import estimate
from sundman._types import PyTree
from sundman.diagnosis.table import Row, graded
from sundman.draws import Draws
from sundman.posterior import Batch, Posterior

_ROWS = 50  # of the data, evenly spaced
_DRAWS = 2000  # over all chains, evenly spaced


def function_rows(draws: Draws, posterior: Posterior) -> Iterator[Row]:
    """Smallest effective size and largest split R-hat of the log likelihood of single rows."""
    data = posterior.data
    if not isinstance(data, Batch):
        return
    some = draws.thin(-(-draws.chains * len(draws) // _DRAWS))
    if len(some) < 4:
        return
    number = np.linspace(0, posterior.size - 1, min(_ROWS, posterior.size)).astype(int)
    x, y = jax.tree.map(lambda leaf: leaf[number], (data.x, data.y))

    def log_likelihood(position: PyTree) -> Array:
        return posterior.log_likelihood_of_rows(position, x, y)

    values = estimate.evaluate(some, log_likelihood)
    part = Draws(values, some.weight, {}, some.diverged_at, None)
    size = np.nan_to_num(np.asarray(estimate.ess(part)), nan=np.inf)
    ratio = np.nan_to_num(np.asarray(estimate.split_rhat(part)), nan=1.0)
    least, worst = int(np.argmin(size)), int(np.argmax(ratio))
    of = f"of {len(number)} rows of the data"
    if np.isfinite(size[least]):
        verdict = graded(-float(size[least]), look=-400, bad=-100)
        note = f"log likelihood of row {number[least]}, {of}; 400 or more is good"
        yield Row("smallest ESS, predictions", float(size[least]), None, verdict, note)
    verdict = graded(float(ratio[worst]), look=1.01, bad=1.05)
    says = {"good": "the chains agree", "look": "run longer", "bad": "the chains disagree"}
    note = f"log likelihood of row {number[worst]}, {of}; {says[verdict]}"
    yield Row("largest split R-hat, predictions", float(ratio[worst]), None, verdict, note)


def of_weights(row: Row) -> Row:
    """A row on the weights of a network, which move slowly: it does not decide on its own."""
    if row.name not in ("smallest ESS", "largest split R-hat", "largest error / sd"):
        return row
    note = f"{row.note}; of the weights, which may still move when predictions have settled"
    return row._replace(verdict="look" if row.verdict == "bad" else row.verdict, note=note)
