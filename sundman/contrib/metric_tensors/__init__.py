"""Metric tensors G(theta): what Riemannian samplers measure distance with.

``diagonal`` and ``dense`` take a function from the position to G; ``fisher`` and
``posterior_fisher`` are diagonals made of per-example gradients; ``monge`` is the identity plus
the square of the gradient. All are values, subclasses of :class:`Metric`; one of your own needs
the method ``root_times``. G is checked to be positive definite at the first position wherever
values are known there. Under ``jit`` they are not: a G that is not positive definite then gives
positions that are not finite, which the guard of a run records as a divergence.
"""

from sundman.contrib.metric_tensors.base import Metric
from sundman.contrib.metric_tensors.matrices import Dense as dense
from sundman.contrib.metric_tensors.matrices import Diagonal as diagonal
from sundman.contrib.metric_tensors.matrices import DiagonalMetric
from sundman.contrib.metric_tensors.matrices import Fisher as fisher
from sundman.contrib.metric_tensors.matrices import PosteriorFisher as posterior_fisher
from sundman.contrib.metric_tensors.monge import Monge as monge

__all__ = [
    "DiagonalMetric",
    "Metric",
    "dense",
    "diagonal",
    "fisher",
    "monge",
    "posterior_fisher",
]
