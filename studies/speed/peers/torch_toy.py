"""SA-SGLD on the star in eager PyTorch with autograd, every draw kept: as people write it first."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from studies.speed.peers.numba_loops import ALPHA, DELTA, DTAU, LEAST, MOST, OMEGA, POWER


def star(position: Tensor) -> Tensor:
    """U = x^2 + 1000 x^2 y^2 + y^2."""
    x, y = position
    return x**2 + 1000.0 * x**2 * y**2 + y**2


def sa_sgld(steps: int) -> tuple[Tensor, Tensor]:
    """Histories of the position and of dt."""
    rho, zeta = math.exp(-ALPHA * DTAU), torch.zeros(())
    position = torch.zeros(2, requires_grad=True)
    positions, times = [], []
    for _ in range(steps):
        (grads,) = torch.autograd.grad(star(position), position)
        zeta = rho * zeta + (1.0 - rho) / ALPHA * (grads.square().sum() / OMEGA + DELTA)
        power = zeta**POWER
        dt = DTAU * LEAST * (power + MOST) / (power + LEAST)
        positions.append(position.detach())
        times.append(dt)
        moved = position - dt * grads + torch.sqrt(2.0 * dt) * torch.randn(2)
        position = moved.detach().requires_grad_()
    return torch.stack(positions), torch.stack(times)
