"""Training loops in PyTorch for the 784-w-w-10 network: SGD, and Langevin of the published kind.

What makes the latter the published kind: an eager loop over batches, ``backward``, then a Python
loop over the tensors of the model that draws ``randn_like`` and adds drift and noise out of place;
the adaptive one has a zeta and a step for each tensor, from its gradient's norm, read as a number:

    zeta <- rho zeta + (1 - rho)/alpha |G|^2,    rho = exp(-alpha dtau / N)
    dt = psi(zeta) dtau,                         psi(z) = m (z^r + M)/(z^r + m)

in learning-rate units, G the gradient of U/N. With its prior: a horseshoe with one learnt scale per
tensor, sigma = softplus(p) s, half-Cauchy, made with ``torch.distributions`` and differentiated
with the loss, which is read back and kept at each step. Batches are slices of tensors in memory: a
DataLoader would be slower.

OpenMP's threads wait for each other by spinning, by default for so long that a step takes ten times
longer if another process wants a core. They are told to sleep sooner, before torch is loaded. This
may cost them something on free cores: SGD, SGLD, prior, posteriors took 13, 28, 55, 43 ms at this
count, 12, 30, 66, 49 ms at 100,000, and the last three 29, 47, 38 ms at the default of 300,000 in
a run on a partly busy machine. GOMP_SPINCOUNT=300000 in the environment restores the default.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator

import numpy as np

os.environ.setdefault("GOMP_SPINCOUNT", "10000")
import torch
from torch import Tensor, nn
from torch.distributions import HalfCauchy, Normal

ALPHA, LEAST, MOST, POWER = 1000.0, 0.5, 2.0, 0.25
Loop = Callable[[int], None]


class Problem:
    """The network, its data and how they are cut into batches."""

    def __init__(self, x: np.ndarray, y: np.ndarray, width: int, batch: int) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Linear(784, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )
        self.x, self.y, self.batch = torch.from_numpy(x), torch.from_numpy(y).long(), batch
        self.size = len(y)

    def batches(self, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
        """So many batches, in order."""
        for n in range(steps):
            begin = (n * self.batch) % (self.size - self.batch)
            yield self.x[begin : begin + self.batch], self.y[begin : begin + self.batch]

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Mean cross-entropy of a batch."""
        return nn.functional.cross_entropy(self.model(x), y)


def sgd(problem: Problem, h: float) -> Loop:
    """``torch.optim.SGD``: no noise, no prior."""
    optimizer = torch.optim.SGD(problem.model.parameters(), lr=h)

    def run(steps: int) -> None:
        for x, y in problem.batches(steps):
            optimizer.zero_grad()
            problem.loss(x, y).backward()
            optimizer.step()

    return run


def _moved(tensor: nn.Parameter, h: float, size: int) -> None:
    noise = torch.randn_like(tensor) * math.sqrt(2.0 * h / size)
    tensor.data = tensor.data - h * tensor.grad + noise


def sgld(problem: Problem, h: float) -> Loop:
    """SGLD with the Gaussian prior N(0, 1) added to the gradients."""

    def run(steps: int) -> None:
        for x, y in problem.batches(steps):
            problem.model.zero_grad()
            problem.loss(x, y).backward()
            for tensor in problem.model.parameters():
                tensor.grad.add_(tensor.data, alpha=1.0 / problem.size)
                _moved(tensor, h, problem.size)

    return run


def _adapt(tensors: list[nn.Parameter], zetas: list[float], dtau: float, size: int) -> None:
    """One adaptive step of every tensor."""
    rho = math.exp(-ALPHA * dtau / size)
    for i, tensor in enumerate(tensors):
        monitor = tensor.grad.norm().item() ** 2
        zetas[i] = rho * zetas[i] + (1.0 - rho) / ALPHA * monitor
        power = zetas[i] ** POWER
        _moved(tensor, dtau * LEAST * (power + MOST) / (power + LEAST), size)


def sa_sgld(problem: Problem, dtau: float) -> Loop:
    """SA-SGLD, a zeta for each tensor, with the Gaussian prior N(0, 1) added to the gradients."""
    tensors = list(problem.model.parameters())
    zetas = [0.0] * len(tensors)

    def run(steps: int) -> None:
        for x, y in problem.batches(steps):
            problem.model.zero_grad()
            problem.loss(x, y).backward()
            for tensor in tensors:
                tensor.grad.add_(tensor.data, alpha=1.0 / problem.size)
            _adapt(tensors, zetas, dtau, problem.size)

    return run


def _horseshoe(weights: list[nn.Parameter], scales: list[nn.Parameter]) -> Tensor:
    """log p of the weights and of their learnt scales."""
    total = torch.zeros(())
    for weight, raw in zip(weights, scales, strict=True):
        multiplier = 1.41 / math.sqrt(weight.shape[1]) if weight.dim() > 1 else 1.0
        sigma = nn.functional.softplus(raw)
        total = total + HalfCauchy(1.0).log_prob(sigma)
        total = total + Normal(0.0, sigma * multiplier).log_prob(weight).sum()
    return total


def sa_sgld_with_prior(problem: Problem, dtau: float) -> Loop:
    """SA-SGLD with the horseshoe in the loss, and the loss kept at each step."""
    weights = list(problem.model.parameters())
    scales = [nn.Parameter(torch.tensor(math.log(math.e - 1.0))) for _ in weights]
    tensors = weights + scales
    zetas = [0.0] * len(tensors)

    def run(steps: int) -> None:
        log: list[tuple[float, float]] = []
        for x, y in problem.batches(steps):
            for tensor in tensors:
                tensor.grad = None
            likelihood = problem.loss(x, y)
            loss = likelihood - _horseshoe(weights, scales) / problem.size
            loss.backward()
            _adapt(tensors, zetas, dtau, problem.size)
            log.append((likelihood.item(), loss.item()))

    return run
