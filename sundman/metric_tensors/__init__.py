"""Metric tensors G(theta): what Riemannian samplers measure distance with.

``diagonal`` and ``dense`` take a function from the position to G; ``fisher`` and
``posterior_fisher`` are diagonals made of per-example gradients; ``monge`` is the identity plus
the square of the gradient. G is checked to be positive definite at the first position wherever
values are known there. Under ``jit`` they are not: a G that is not positive definite then gives
positions that are not finite, which the guard of a run records as a divergence.
"""

from sundman.metric_tensors.base import Metric
from sundman.metric_tensors.dense import dense
from sundman.metric_tensors.diagonal import diagonal, fisher, posterior_fisher
from sundman.metric_tensors.monge import monge

__all__ = ["Metric", "dense", "diagonal", "fisher", "monge", "posterior_fisher"]
