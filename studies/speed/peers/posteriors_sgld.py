"""SGLD of posteriors (PyTorch), used as its documentation does: a log posterior per datum.

log posterior / N = mean log likelihood of the batch + log prior / N,   T = 1 / N
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from studies.speed.peers.torch_loops import Problem

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)  # of tensordict, about how it is used there
    import posteriors.sgmcmc


def sgld(problem: Problem, h: float) -> Callable[[int], None]:
    """So many steps of ``posteriors.sgmcmc.sgld`` with the prior N(0, 1)."""
    size = problem.size

    def log_posterior(params: dict[str, Tensor], batch: Any) -> tuple[Tensor, Tensor]:
        x, y = batch
        scores = torch.func.functional_call(problem.model, params, (x,))
        likelihood = -torch.nn.functional.cross_entropy(scores, y)
        prior = posteriors.diag_normal_log_prob(params)
        return likelihood + prior / size, scores

    transform = posteriors.sgmcmc.sgld.build(log_posterior, lr=h, temperature=1.0 / size)
    state = transform.init(dict(problem.model.named_parameters()))

    def run(steps: int) -> None:
        nonlocal state
        for batch in problem.batches(steps):
            state, _ = transform.update(state, batch)

    return run
